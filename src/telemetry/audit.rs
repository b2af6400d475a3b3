//! The audit log: one line of JSON for each change, each refusal and each decision of an operator, in a file of its own.
//!
//! A request's line is made from its record when the record ends, so there is exactly one, whatever became of the
//! client. With `telemetry.audit_required`, the line of a change is written before the change is acknowledged
//! ([`Audit::acknowledge`]), and changes are refused while lines cannot be written.

mod counted;
mod output;
mod record;
mod told;
mod waiting;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::writer::{Queue, Record as _};
use crate::body::End;
use crate::config::{AuditTarget, LogFormat};
use crate::error::Error;
use crate::error::code::Code;
use crate::error::retry_after::RetryAfter;
use crate::metrics;
use crate::protocol::operation::Access;
use crate::request::{CompletionObserver, RequestRecord};
use counted::{Counted, Omitted, Spared};
use output::{Health, Output};
use record::Event;
pub use record::{AuditRecord, BatchFacts, Who};
use told::Told;
use waiting::Waiting;

/// The longest time that an acknowledgement waits for its line.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);

/// The audit log. Cheap to clone.
#[derive(Clone)]
pub struct Audit(Arc<Shared>);

struct Shared {
    queue: Queue,
    /// The file, or `stderr`.
    target: String,
    health: Arc<Health>,
    metrics: metrics::Audit,
    waiting: Arc<Waiting>,
    counted: Counted,
    /// The lines about batches that the file had when it was opened.
    told: Told,
}

impl Audit {
    /// Opens the log. A file is created if it does not exist, and lines are appended.
    ///
    /// # Errors
    /// The file cannot be opened; says what to do.
    pub fn open(target: &AuditTarget, metrics: metrics::Audit) -> Result<Self, String> {
        let health = Arc::new(Health::default());
        let path = match target {
            AuditTarget::Stderr => None,
            AuditTarget::File(path) => Some(&**path),
        };
        let told = path.map(Told::read).unwrap_or_default();
        let output = Output::open(path, Arc::clone(&health));
        let output = output.map_err(|error| unopened(path, &error))?;
        let waiting = Arc::new(Waiting::default());
        let (writer, lines) = (Arc::clone(&health), Arc::clone(&waiting));
        metrics.watch(move || writer.is_writable() && !lines.is_crowded());
        Ok(Self(Arc::new(Shared {
            target: output.target(),
            queue: Queue::to("audit", output, LogFormat::Json),
            health,
            metrics,
            waiting,
            counted: Counted::default(),
            told,
        })))
    }

    /// The file, or `stderr`.
    pub fn target(&self) -> String {
        self.0.target.clone()
    }

    /// True if lines can be written: the last write succeeded, the running one has not taken long, and not too many
    /// lines wait.
    pub fn is_writable(&self) -> bool {
        self.0.health.is_writable() && !self.0.waiting.is_crowded()
    }

    /// The reason why lines cannot be written; `None` if they can.
    pub fn error(&self) -> Option<String> {
        if self.is_writable() {
            return None;
        }
        let error = self.0.health.error();
        Some(error.unwrap_or_else(|| "its reader or its disk is too slow, or stuck".to_owned()))
    }

    /// The number of lines that were lost.
    pub fn lost(&self) -> u64 {
        self.0.metrics.all_lost()
    }

    /// The lines about a batch that the file had when the gateway started: its decision, and the end of its rollback.
    pub fn had(&self, transaction: &str) -> (bool, bool) {
        let told = &self.0.told;
        (
            told.is_decided(transaction),
            told.is_rolled_back(transaction),
        )
    }

    /// Opens the file again by its name, after another program has renamed it.
    pub fn reopen(&self) {
        self.0.health.reopen();
        self.0.queue.wake();
    }

    /// Waits, two seconds at most, until the lines so far are written.
    pub fn flush(&self) {
        self.0.queue.flush();
    }

    /// Writes the last lines before the process ends, and reports those that cannot be written.
    pub fn end(&self) {
        self.tell(self.0.counted.end());
        self.flush();
        let lines = self.0.waiting.lines();
        if lines > 0 {
            let cause = self.error().unwrap_or_else(|| "it is too slow".to_owned());
            tracing::error!(
                path = self.target(),
                lines,
                cause,
                "the process ends, and lines of the audit log that waited are lost. Make room on the disk before the next stop"
            );
        }
    }

    /// Queues a record, or counts it as lost. One of many about requests that change nothing is only counted.
    pub fn write(&self, mut record: AuditRecord) {
        if record.is_spared() {
            let (who, bytes) = (record.who(), record.bytes());
            let (spared, over) = self.0.counted.admit(who, bytes, Instant::now());
            self.tell(over);
            if let Spared::First(left) = spared {
                self.tell_after(left);
            }
            if spared != Spared::No {
                if let Some(written) = record.written() {
                    let _ = written.send(());
                }
                return;
            }
        }
        self.queue(record);
    }

    /// Queues the lines about those that were left out.
    fn tell(&self, omitted: Vec<Omitted>) {
        for omitted in omitted {
            self.queue(AuditRecord::omitted(omitted));
        }
    }

    /// Queues them later, because no further request may come. Without a runtime, the end of the process does it.
    fn tell_after(&self, wait: Duration) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let audit = self.clone();
        runtime.spawn(async move {
            sleep(wait).await;
            audit.tell(audit.0.counted.end());
        });
    }

    fn queue(&self, mut record: AuditRecord) {
        let shared = &*self.0;
        let Some(place) = shared.waiting.place(record.is_refusal(), record.bytes()) else {
            shared.queue.lose();
            shared.metrics.lost();
            return;
        };
        record.takes(place);
        if !shared.queue.record(Box::new(record)) {
            shared.metrics.lost();
        }
    }

    /// Checks that lines can be written, before a change is sent.
    ///
    /// # Errors
    /// 503, code 17: they cannot, the writer waits for a reader, or too many lines wait.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_writable() {
            return Ok(());
        }
        let message = "the audit log cannot be written, and `telemetry.audit_required` is true: no change is made until it can";
        Err(Error::unavailable(message)
            .because("audit")
            .already_logged()
            .with_retry_after(RetryAfter::SOON))
    }

    /// Writes the line of a change that has succeeded, and waits until it is written.
    ///
    /// # Errors
    /// 503, code 17: the line was not written in time. The change has been made, and the line stays queued.
    pub async fn acknowledge(
        &self,
        exchange: &RequestRecord,
        status: StatusCode,
    ) -> Result<(), Error> {
        if !exchange.audited() {
            return Ok(());
        }
        let (written, line) = oneshot::channel();
        let Some(record) = AuditRecord::of(exchange, Event::Change, Some(status)) else {
            return Ok(());
        };
        self.write(record.acknowledging(written));
        if matches!(timeout(WRITTEN_WITHIN, line).await, Ok(Ok(()))) {
            return Ok(());
        }
        let message = "the change was made, but its line in the audit log could not be written; check the table before you repeat the request";
        Err(Error::new(Code::ServiceUnavailable, message)
            .because("audit")
            .already_logged())
    }
}

impl CompletionObserver for Audit {
    fn over(&self, exchange: &RequestRecord, _: End) {
        let Some(event) = event_of(exchange) else {
            return;
        };
        if !exchange.audited() {
            return;
        }
        if let Some(record) = AuditRecord::of(exchange, event, exchange.status()) {
            self.write(record);
        }
    }
}

/// Returns the event that a request is; `None` if it is none: a read, or a request that another gateway has answered.
fn event_of(exchange: &RequestRecord) -> Option<Event> {
    let operation = exchange.operation()?;
    let code = exchange.code();
    let is_answered = exchange.status().is_some() && code.is_none();
    if is_answered && exchange.passed_on_to().is_some() {
        return None;
    }
    let is_denied = matches!(code, Some(Code::Unauthenticated | Code::PermissionDenied));
    let is_denied = is_denied && !exchange.is_refused_by_catalog();
    if is_denied {
        Some(Event::Refusal)
    } else {
        match operation.access() {
            Access::Write => Some(Event::Change),
            Access::Read => {
                let is_done = exchange.status().is_some_and(|status| status.is_success());
                (is_done && exchange.gives_credentials()).then_some(Event::Credentials)
            }
        }
    }
}

fn unopened(path: Option<&Path>, error: &std::io::Error) -> String {
    let path = path.unwrap_or(Path::new("stderr")).display();
    let hint = match error.kind() {
        std::io::ErrorKind::NotFound => "create its folder",
        std::io::ErrorKind::PermissionDenied => {
            "let the user of the gateway write to the file and its folder"
        }
        std::io::ErrorKind::InvalidData => "give the audit log a file of its own",
        std::io::ErrorKind::IsADirectory => "write the path of a file, not of a folder",
        _ => "correct the path, or write `stderr`",
    };
    format!("the audit log {path} cannot be opened: {error}; {hint}")
}

#[cfg(test)]
mod tests;
