//! The durable batch log, as a trait: `disk` implements it in a file, and `postgres` in a database.
//!
//! It has the intent of each batch, its one decision, its settled entries, and its end.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use uuid::Uuid;

use crate::batch::step::{Decision, Settled};
pub use intent::{Action, CatalogRef, Intent, IntentEntry, VersionRange};
use record::{Line, cause_of_unread, replay};
pub use record::{Record, reread};
pub use verdict::{AbortAnswer, Proof, Resolution, Verdict};

pub mod disk;
mod intent;
mod move_note;
pub mod postgres;
mod record;
pub mod transfer;
mod verdict;

/// The id of a batch: a UUID of version 7, so that ids sort by time. Clients see it as `transaction_id`.
pub type BatchId = Uuid;

/// The error for a log that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The log cannot be opened or read, or its content is invalid.
    #[error("the batch log {path} cannot be used: {cause}")]
    Unusable {
        /// The path of the log.
        path: String,
        /// The cause.
        cause: String,
    },
    /// A write failed. It is unknown whether its data is on the disk.
    #[error(
        "the batch log cannot be written: {0}. Nothing was acknowledged that is not on the disk. Check the disk (`df -h`: space; limits, errors), then start the gateway again: it continues from what is on the disk"
    )]
    Write(String),
    /// The server of the log does not answer. Nothing was written, and it can be tried again.
    #[error("the batch log {path} does not answer: {cause}")]
    Away {
        /// The address of the log.
        path: String,
        /// The cause.
        cause: String,
    },
    /// A batch that was acknowledged is not in the log any more.
    #[error(
        "the batch log {path} has lost batch {id}, which it had acknowledged. Was an old backup of its database restored, or a standby promoted that was not synchronous?"
    )]
    Lost {
        /// The address of the log.
        path: String,
        /// The batch.
        id: BatchId,
    },
    /// Another process has taken the log over.
    #[error(
        "{} has taken the batch log {path} over, so this one must not go on: it was silent for longer than `batch.lease`, or PostgreSQL failed over to a server that lacks its last commits. Nothing that it did not write is acknowledged. Start it again: with `batch.gateways` it goes on as one of the gateways that share the log, and without it waits until the other one ends",
        taker(by)
    )]
    TakenOver {
        /// The address of the log.
        path: String,
        /// The name of the other process; empty if it is not known.
        by: String,
    },
}

/// Names the gateway that has taken a log over.
fn taker(name: &str) -> String {
    match name {
        "" => "another gateway".to_owned(),
        name => format!("gateway `{name}`"),
    }
}

/// A future that a log operation returns.
pub type Logged<'a, T> = BoxFuture<'a, Result<T, LogError>>;

/// The log. A write that returned `Ok` survives a crash.
pub trait Log: Send + Sync + 'static {
    /// Writes INTENT. After [`LogError::Away`] it may be in the log until [`Log::withdrawn`] returns.
    fn intend(&self, id: BatchId, intent: Arc<Intent>) -> Logged<'_, ()>;
    /// Returns once the INTENT of a batch that was refused is not in the log, and cannot come there any more. Until
    /// then, another process could recover the batch and take versions that were made meanwhile for its own.
    fn withdrawn(&self, id: BatchId) -> Logged<'_, ()> {
        let _ = id;
        Box::pin(async { Ok(()) })
    }
    /// Writes the decision, unless there is one. Returns the one that is in the log. After [`LogError::Lost`] its INTENT
    /// must be written again.
    fn decide(&self, id: BatchId, verdict: Verdict) -> Logged<'_, Decision>;
    /// Writes an operator's decision, before it is carried out.
    fn resolve(&self, id: BatchId, resolution: Resolution) -> Logged<'_, ()>;
    /// Writes the final state of one entry.
    fn note(&self, id: BatchId, entry: usize, settled: Settled) -> Logged<'_, ()>;
    /// Records that a delete or deregister for this entry may leave from now on. A process that does not own the log
    /// any more gets an error, and must not send it. A log that only one process can have open records nothing.
    fn sending(&self, id: BatchId, entry: usize) -> Logged<'_, ()> {
        let _ = (id, entry);
        Box::pin(async { Ok(()) })
    }
    /// Writes the end, at `now` in milliseconds since the epoch.
    fn end(&self, id: BatchId, now: u64) -> Logged<'_, ()>;
    /// The reason why the log cannot be written now; `None` if it can.
    fn trouble(&self) -> Option<String> {
        None
    }
    /// Forgets batches that ended before `before`, in milliseconds since the epoch.
    fn forget(&self, before: u64) -> Logged<'_, ()>;
    /// True if the log was created by this process, so that no earlier process can have sent requests.
    fn is_new(&self) -> bool;
    /// Finds one batch by its id.
    fn find(&self, id: BatchId) -> Logged<'_, Option<Record>>;
    /// Finds the last batch that began with this [`Intent::idempotency`].
    fn find_by_key<'a>(&'a self, key: &'a str) -> Logged<'a, Option<Record>>;
    /// Calls `each` with every batch in the order in which they began, one at a time because they may be very many.
    fn scan<'a>(&'a self, each: &'a mut (dyn FnMut(Record) + Send)) -> Logged<'a, ()>;
    /// Does the same for the part of the log that a start needs: every batch from the first unfinished one on, and the
    /// last one. Others may be left out.
    fn scan_needed<'a>(&'a self, each: &'a mut (dyn FnMut(Record) + Send)) -> Logged<'a, ()> {
        self.scan(each)
    }
    /// Completes the writes that were requested before, and accepts none after. The next process that opens the log
    /// need not repair it.
    fn close(&self) -> Logged<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// Returns all batches of a log at once. Use it for a small log only.
///
/// # Errors
/// Fails if the log cannot be read.
pub async fn all(log: &dyn Log) -> Result<Vec<Record>, LogError> {
    let mut records = Vec::new();
    log.scan(&mut |record| records.push(record)).await?;
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_without_a_name_that_has_taken_the_log_is_another_one() {
        for (name, begin) in [
            ("", "another gateway has taken"),
            ("g1", "gateway `g1` has taken"),
        ] {
            let (path, by) = ("postgres://log".to_owned(), name.to_owned());
            let said = LogError::TakenOver { path, by }.to_string();
            assert!(said.starts_with(begin), "{said}");
        }
    }
}
