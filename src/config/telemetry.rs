//! `telemetry`: `log`, `level`, `access_log`, `audit`, `otlp` and `histograms`, with the defaults of these keys.

use std::path::PathBuf;

use http::Uri;
use serde_json::json;

use super::keys::{Keys, Section};
use super::kind::{
    Scalar, choice, collector, context_name, file_to_write, flag, list, maybe, string_schema,
};

/// `telemetry`: the settings of logs and traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telemetry {
    /// The format of log records.
    pub log: LogFormat,
    /// The level of the least important records that are written.
    pub level: LogLevel,
    /// True if one record is written for each request.
    pub access_log: bool,
    /// True if these records name tables, namespaces and transactions.
    pub log_names: bool,
    /// The context keys (lower case) that appear in these records.
    pub access_log_context: Vec<String>,
    /// The destination of the audit log; `None` for no audit log.
    pub audit: Option<AuditTarget>,
    /// True if changes are refused while the audit log cannot be written.
    pub audit_required: bool,
    /// The base address of the collector that traces go to (OTLP over HTTP, cargo feature `otlp`); `None` for no
    /// traces.
    pub otlp: Option<Uri>,
    /// The labels of the histograms of catalogs; `None` for those that the number of backends allows.
    pub histograms: Option<Histograms>,
}

/// `telemetry.audit`: the destination of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditTarget {
    /// Standard error, between the lines of the log.
    Stderr,
    /// A file, which is created if it does not exist.
    File(PathBuf),
}

/// `telemetry.histograms`: the labels of `nsgate_upstream_duration_seconds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Histograms {
    /// One histogram for each operation.
    Operation,
    /// One histogram for each backend.
    Backend,
    /// One histogram for each operation of each backend.
    Both,
}

/// The most backends with which [`Histograms::Both`] is the default. A histogram has 20 series: with 50 backends and 10
/// operations these are 10,000.
const MOST_WITH_BOTH: usize = 50;

/// `telemetry.log`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One JSON object a line.
    #[default]
    Json,
    /// Text for human readers.
    Text,
}

/// `telemetry.level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the usual five")]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            log: LogFormat::default(),
            level: LogLevel::default(),
            access_log: true,
            log_names: true,
            access_log_context: Vec::new(),
            audit: None,
            audit_required: false,
            otlp: None,
            histograms: None,
        }
    }
}

impl Telemetry {
    /// Returns the labels of the histograms of catalogs, for this number of backends.
    pub fn histograms(&self, backends: usize) -> Histograms {
        let default = if backends <= MOST_WITH_BOTH {
            Histograms::Both
        } else {
            Histograms::Operation
        };
        self.histograms.unwrap_or(default)
    }
}

const FORMATS: [(&str, LogFormat); 2] = [("json", LogFormat::Json), ("text", LogFormat::Text)];
const LEVELS: [(&str, LogLevel); 5] = [
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

const HISTOGRAMS: [(&str, Histograms); 3] = [
    ("operation", Histograms::Operation),
    ("backend", Histograms::Backend),
    ("both", Histograms::Both),
];

fn audit_target() -> Scalar<AuditTarget> {
    Scalar::new(
        "the path of a file, or stderr",
        string_schema(),
        |text| match &*text.value {
            "stderr" => Ok(AuditTarget::Stderr),
            _ => file_to_write().parse(text).map(AuditTarget::File),
        },
        |target| match target {
            AuditTarget::Stderr => json!("stderr"),
            AuditTarget::File(path) => json!(path),
        },
    )
}

impl Section for Telemetry {
    fn blank() -> Self {
        Self::default()
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        keys.key(
            "log",
            &mut self.log,
            choice(&FORMATS),
            "One JSON object a line, or text for people.",
        );
        keys.key(
            "level",
            &mut self.level,
            choice(&LEVELS),
            "The least important records that are written.",
        );
        keys.key(
            "access_log",
            &mut self.access_log,
            flag(),
            "One record for each request.",
        );
        keys.key(
            "log_names",
            &mut self.log_names,
            flag(),
            "The names of tables, namespaces and transactions in it.",
        );
        keys.key(
            "access_log_context",
            &mut self.access_log_context,
            list(0, "context keys, such as [team]", context_name()),
            "Context keys that appear in it.",
        );
        keys.key(
            "audit",
            &mut self.audit,
            maybe(audit_target()),
            "The file of the audit log, or stderr: a line of JSON for each change, refusal and decision of an operator.",
        );
        keys.key(
            "audit_required",
            &mut self.audit_required,
            flag(),
            "True refuses changes while the audit log cannot be written, and acknowledges each only after its line was written.",
        );
        keys.key(
            "otlp",
            &mut self.otlp,
            maybe(collector()),
            "The collector that traces go to (OTLP over HTTP, cargo feature `otlp`).",
        );
        keys.key(
            "histograms",
            &mut self.histograms,
            maybe(choice(&HISTOGRAMS)),
            "The labels of nsgate_upstream_duration_seconds. Default: both, or operation with more than 50 backends.",
        );
    }
}
