//! The outcome of one batch.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::batch::TableKey;
use crate::batch::log::{BatchId, Record, Verdict};
use crate::batch::step::Refusal;
use crate::error::Error;
use crate::error::code::Code;

/// The bytes of an outcome without tables and versions, with its key and its places in the caches.
const FIXED: usize = 768;
/// The bytes that an allocation takes beyond those that were asked for, about.
const BLOCK: usize = 16;

/// The answer to a batch.
#[derive(Clone, Debug)]
pub enum BatchAnswer {
    /// COMMIT is durable; holds the `TableVersion`s in request order.
    Committed(Vec<Box<RawValue>>),
    /// The batch did not happen.
    Refused {
        /// The reason.
        refusal: Refusal,
        /// True if an INTENT was written.
        written: bool,
    },
    /// The answer is not known yet.
    Unknown,
}

/// One batch and its answer, once there is one.
pub struct Outcome {
    /// The id of the batch.
    pub id: BatchId,
    /// The tables that the batch changes, each once.
    pub tables: Box<[TableKey]>,
    pub(super) fingerprint: String,
    answer: watch::Sender<Option<Arc<BatchAnswer>>>,
    pub(super) since: Instant,
}

impl Outcome {
    /// Returns a batch without an answer.
    pub fn new(id: BatchId, fingerprint: String, mut tables: Vec<TableKey>) -> Self {
        tables.sort();
        tables.dedup();
        Self {
            id,
            tables: tables.into(),
            fingerprint,
            answer: watch::Sender::new(None),
            since: Instant::now(),
        }
    }

    /// Returns a batch from the log; `now` is in milliseconds since the epoch. Without a decision the batch has no
    /// answer.
    pub(super) fn recorded(record: &Record, now: u64) -> Self {
        let entries = record.intent.entries.iter();
        let tables = entries.map(|entry| entry.line().table).collect();
        let mut outcome = Self::new(record.id, record.intent.fingerprint.clone(), tables);
        let age = record.ended.map_or(0, |ended| now.saturating_sub(ended));
        let since = outcome.since.checked_sub(Duration::from_millis(age));
        outcome.since = since.unwrap_or(outcome.since);
        match &record.verdict {
            None => {}
            Some(Verdict::Commit(versions)) => {
                outcome.set(BatchAnswer::Committed(versions.clone()))
            }
            Some(abort) => {
                if let Some(refusal) = abort.refusal() {
                    let written = true;
                    outcome.set(BatchAnswer::Refused { refusal, written });
                }
            }
        }
        outcome
    }

    /// Gives the answer to all requests that wait for it. Only `Unknown` can be replaced by another answer.
    pub fn set(&self, answered: BatchAnswer) {
        self.answer.send_if_modified(|answer| {
            let open = matches!(answer.as_deref(), None | Some(BatchAnswer::Unknown));
            if open {
                *answer = Some(Arc::new(answered));
            }
            open
        });
    }

    /// Answers with a refusal; nothing was written.
    pub fn refuse(&self, error: &Error) {
        let (refusal, written) = (Refusal::from(error), false);
        self.set(BatchAnswer::Refused { refusal, written });
    }

    /// Answers with an internal error if there is no answer: nothing was written, and no other answer will come.
    pub fn give_up(&self) {
        if self.get().is_none() {
            let refusal = Refusal::new(Code::Internal, "the gateway failed on this request");
            let written = false;
            self.set(BatchAnswer::Refused { refusal, written });
        }
    }

    /// The bytes of memory that it takes with its answer and its key, about.
    pub(super) fn bytes(&self) -> usize {
        let tables = self.tables.iter().map(|key| {
            let names = key.table.names().map(|name| name.len() + BLOCK);
            size_of::<TableKey>() + names.sum::<usize>()
        });
        let answer = match self.get().as_deref() {
            Some(BatchAnswer::Committed(versions)) => versions
                .iter()
                .map(|version| size_of::<Box<RawValue>>() + BLOCK + version.get().len())
                .sum(),
            _ => 0,
        };
        FIXED + tables.sum::<usize>() + answer
    }

    /// Returns the answer; `None` if there is none yet.
    pub fn get(&self) -> Option<Arc<BatchAnswer>> {
        self.answer.borrow().clone()
    }

    /// Waits for the answer.
    pub async fn wait(&self) -> Arc<BatchAnswer> {
        self.wait_for(Option::is_some).await
    }

    /// Waits for the definite answer, which no other can replace.
    pub async fn wait_for_decision(&self) -> Arc<BatchAnswer> {
        let definite = |answer: &Option<Arc<BatchAnswer>>| {
            answer.as_deref().is_some_and(BatchAnswer::is_definite)
        };
        self.wait_for(definite).await
    }

    async fn wait_for(
        &self,
        until: impl FnMut(&Option<Arc<BatchAnswer>>) -> bool,
    ) -> Arc<BatchAnswer> {
        let mut answer = self.answer.subscribe();
        match answer.wait_for(until).await {
            Ok(answer) => answer.clone().unwrap_or(Arc::new(BatchAnswer::Unknown)),
            Err(_) => Arc::new(BatchAnswer::Unknown),
        }
    }

    pub(super) fn is_answered(&self) -> bool {
        self.get().is_some_and(|answer| answer.is_definite())
    }

    /// Returns true if this is the answer to a request with the same key or, without a key, to the same request. That
    /// is always so for an undecided batch.
    pub(super) fn holds_key(&self, has_key: bool) -> bool {
        match self.get().as_deref() {
            None | Some(BatchAnswer::Unknown) => true,
            Some(answer) => has_key && answer.holds_key(),
        }
    }
}

impl BatchAnswer {
    pub(super) fn is_definite(&self) -> bool {
        !matches!(self, Self::Unknown)
    }

    /// Returns true if a request with the same key gets this answer, too. A request that was refused before anything
    /// was written, or for a temporary reason, may be retried.
    pub(in crate::batch::api) fn holds_key(&self) -> bool {
        match self {
            Self::Committed(_) | Self::Unknown => true,
            Self::Refused { refusal, written } => *written && !passes(refusal.status),
        }
    }
}

/// Returns true if the reason for an answer with this status is temporary, so that a retry may succeed.
fn passes(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..)
}
