//! What became of one batch.

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

/// How a batch was answered.
#[derive(Clone, Debug)]
pub enum BatchAnswer {
    /// COMMIT is durable; the `TableVersion`s in request order.
    Committed(Vec<Box<RawValue>>),
    /// It did not happen; `written` if an INTENT had been.
    Refused {
        /// Why.
        refusal: Refusal,
        /// Whether there was an INTENT.
        written: bool,
    },
    /// Not known yet.
    Unknown,
}

/// One batch and its answer, once there is one.
pub struct Outcome {
    /// The batch.
    pub id: BatchId,
    /// The tables that it is about.
    pub tables: Box<[TableKey]>,
    pub(super) fingerprint: String,
    answer: watch::Sender<Option<Arc<BatchAnswer>>>,
    pub(super) since: Instant,
}

impl Outcome {
    /// A batch without an answer.
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

    /// A batch as the log knows it, `now` in milliseconds since the epoch. Without a decision it has no answer.
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

    /// Gives the answer to everyone who waits. Only `Unknown` can be followed by another.
    pub fn set(&self, answered: BatchAnswer) {
        self.answer.send_if_modified(|answer| {
            let open = matches!(answer.as_deref(), None | Some(BatchAnswer::Unknown));
            if open {
                *answer = Some(Arc::new(answered));
            }
            open
        });
    }

    /// Nothing was written: the request is refused with this.
    pub fn refuse(&self, error: &Error) {
        let refusal = Refusal {
            status: error.status().as_u16(),
            code: error.code(),
            message: error.message().to_owned(),
        };
        let written = false;
        self.set(BatchAnswer::Refused { refusal, written });
    }

    /// Nothing was written, and there will be no answer but this.
    pub fn give_up(&self) {
        if self.get().is_none() {
            let refusal = Refusal {
                status: 500,
                code: Code::Internal,
                message: "the gateway failed on this request".into(),
            };
            let written = false;
            self.set(BatchAnswer::Refused { refusal, written });
        }
    }

    /// The answer, if there is one.
    pub fn get(&self) -> Option<Arc<BatchAnswer>> {
        self.answer.borrow().clone()
    }

    /// Waits for the answer.
    pub async fn wait(&self) -> Arc<BatchAnswer> {
        self.wait_for(Option::is_some).await
    }

    /// Waits for the answer that no other can follow.
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

    /// Whether it is what a request with its key, or a request that is the same, is answered with. An undecided batch
    /// always is.
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

    /// Whether a request with the same key gets this answer, too. What was refused before anything was written, or for a
    /// reason that passes, may be tried again.
    pub(super) fn holds_key(&self) -> bool {
        match self {
            Self::Committed(_) | Self::Unknown => true,
            Self::Refused { refusal, written } => *written && !passes(refusal.status),
        }
    }
}

/// Whether the reason for an answer with this status passes: the same request may do better later.
fn passes(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..)
}
