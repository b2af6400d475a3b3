//! One line for each request, written when it is over.

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::body::End;
use crate::config::LogFormat;
use crate::exchange::{Exchange, Watcher};
use crate::telemetry::{Log, timestamp};

/// The access log.
pub(super) struct AccessLog(Log);

/// A line. Times are in milliseconds, lengths in bytes.
#[derive(Serialize)]
struct Line<'a> {
    timestamp: String,
    level: &'static str,
    message: &'static str,
    id: &'a str,
    operation: &'a str,
    backend: &'a str,
    /// 499 where the client left before there was an answer.
    status: u16,
    /// Whether the client has the whole answer.
    complete: bool,
    duration_ms: f64,
    /// The gateway's own part of it.
    gateway_ms: f64,
    /// How long catalogs were waited for.
    catalog_ms: f64,
    request_bytes: u64,
    response_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    #[serde(serialize_with = "as_object", skip_serializing_if = "<[_]>::is_empty")]
    context: Vec<(String, String)>,
}

impl AccessLog {
    pub(super) fn new(log: Log) -> Self {
        Self(log)
    }
}

impl Watcher for AccessLog {
    fn over(&self, exchange: &Exchange, how: End) {
        let line = Line::of(exchange, how);
        self.0.line(match self.0.format() {
            LogFormat::Json => line.json(),
            LogFormat::Text => line.text(),
        });
    }
}

impl<'a> Line<'a> {
    fn of(exchange: &'a Exchange, how: End) -> Self {
        let (whole, upstream) = (exchange.age(), exchange.upstream());
        Self {
            timestamp: timestamp(),
            level: "INFO",
            message: "request",
            id: exchange.id().and_then(|id| id.to_str().ok()).unwrap_or(""),
            operation: exchange
                .operation()
                .map_or("unrecognized", |operation| operation.name()),
            backend: exchange.backend().map_or("none", |backend| backend),
            status: exchange.status().map_or(499, |status| status.as_u16()),
            complete: how == End::Complete,
            duration_ms: millis(whole),
            // Catalogs that are asked side by side are waited for longer than the request takes.
            gateway_ms: millis(whole.saturating_sub(upstream)),
            catalog_ms: millis(upstream),
            request_bytes: exchange.request_bytes(),
            response_bytes: exchange.response_bytes(),
            subject: exchange.subject().map(|subject| &**subject),
            context: exchange.context(),
        }
    }

    fn json(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("strings and numbers are always JSON");
        line.push(b'\n');
        line
    }

    fn text(&self) -> Vec<u8> {
        let mut line = format!(
            "{} {:>5} {} id={} operation={} backend={} status={} duration={}ms gateway={}ms catalog={}ms request_bytes={} response_bytes={}",
            self.timestamp,
            self.level,
            self.message,
            self.id,
            self.operation,
            self.backend,
            self.status,
            self.duration_ms,
            self.gateway_ms,
            self.catalog_ms,
            self.request_bytes,
            self.response_bytes,
        );
        if !self.complete {
            line.push_str(" complete=false");
        }
        // Writing to a string does not fail. Values are quoted, so that none can end the line or look like a field.
        if let Some(subject) = self.subject {
            let _ = write!(line, " subject={subject:?}");
        }
        for (key, value) in &self.context {
            let _ = write!(line, " context.{key}={value:?}");
        }
        line.push('\n');
        line.into_bytes()
    }
}

/// To the microsecond.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn as_object<S: Serializer>(entries: &[(String, String)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(entries.iter().map(|(key, value)| (key, value)))
}
