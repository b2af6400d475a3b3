//! `telemetry`: logs and traces.

use http::Uri;

use super::keys::{Keys, Section};
use super::kind::{choice, collector, context_name, flag, list, maybe};

/// `telemetry`: the settings of logs and traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telemetry {
    /// The format of log records.
    pub log: LogFormat,
    /// The level of the least important records that are written.
    pub level: LogLevel,
    /// True if one record is written for each request.
    pub access_log: bool,
    /// The context keys (lower case) that appear in these records.
    pub access_log_context: Vec<String>,
    /// The base address of the collector that traces go to (OTLP over HTTP, cargo feature `otlp`); `None` for no
    /// traces.
    pub otlp: Option<Uri>,
}

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
            access_log_context: Vec::new(),
            otlp: None,
        }
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
            "access_log_context",
            &mut self.access_log_context,
            list(0, "context keys, such as [team]", context_name()),
            "Context keys that appear in it.",
        );
        keys.key(
            "otlp",
            &mut self.otlp,
            maybe(collector()),
            "The collector that traces go to (OTLP over HTTP, cargo feature `otlp`).",
        );
    }
}
