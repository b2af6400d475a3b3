//! `telemetry`: logs and traces.

use http::Uri;

/// `telemetry`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telemetry {
    /// How a log record looks.
    pub log: LogFormat,
    /// The least important records that are written.
    pub level: LogLevel,
    /// One record for each request.
    pub access_log: bool,
    /// Context keys (lower case) that appear in it.
    pub access_log_context: Vec<String>,
    /// Where traces go (OTLP over HTTP); `None`: nowhere.
    pub otlp: Option<Uri>,
}

/// `telemetry.log`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One JSON object a line.
    #[default]
    Json,
    /// For people.
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
