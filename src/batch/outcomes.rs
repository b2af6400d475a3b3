//! What became of batches, for whoever asks again: the same request, or `transaction/{id}/describe`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use quick_cache::sync::Cache;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::batch::TableKey;
use crate::batch::log::BatchId;
use crate::batch::step::Refusal;
use crate::error::Error;
use crate::protocol::error::Code;

/// Finished batches that are remembered; the least used are forgotten first.
pub const REMEMBERED: usize = 100_000;

/// How a batch was answered.
#[derive(Clone, Debug)]
pub enum Answered {
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
    fingerprint: String,
    answer: watch::Sender<Option<Arc<Answered>>>,
    since: Instant,
}

/// What a request is to do.
pub enum Admission {
    /// It is the first: run the batch and answer it.
    First(Arc<Outcome>),
    /// Another one is running, or has run: wait for its answer.
    Join(Arc<Outcome>),
    /// The same key came with other entries before.
    Different,
}

/// The memory.
pub struct Outcomes {
    /// By request, while running.
    running: DashMap<String, Arc<Outcome>>,
    /// By request, when finished.
    finished: Cache<String, Arc<Outcome>>,
    /// By batch, running or finished.
    batches: Cache<BatchId, Arc<Outcome>>,
    /// For how many milliseconds.
    remember: AtomicU64,
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

    /// Gives the answer to everyone who waits. Only `Unknown` can be followed by another.
    pub fn set(&self, answered: Answered) {
        self.answer.send_if_modified(|answer| {
            let open = matches!(answer.as_deref(), None | Some(Answered::Unknown));
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
        self.set(Answered::Refused { refusal, written });
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
            self.set(Answered::Refused { refusal, written });
        }
    }

    /// The answer, if there is one.
    pub fn get(&self) -> Option<Arc<Answered>> {
        self.answer.borrow().clone()
    }

    fn is_answered(&self) -> bool {
        !matches!(self.get().as_deref(), None | Some(Answered::Unknown))
    }

    /// Waits for the answer.
    pub async fn wait(&self) -> Arc<Answered> {
        let mut answer = self.answer.subscribe();
        match answer.wait_for(Option::is_some).await {
            Ok(answer) => answer.clone().unwrap_or(Arc::new(Answered::Unknown)),
            Err(_) => Arc::new(Answered::Unknown),
        }
    }
}

impl Outcomes {
    /// An empty memory; finished batches stay in it for `remember`.
    pub fn new(remember: Duration) -> Self {
        Self {
            running: DashMap::new(),
            finished: Cache::new(REMEMBERED),
            batches: Cache::new(REMEMBERED),
            remember: AtomicU64::new(millis(remember)),
        }
    }

    /// From now on, finished batches stay in it for `remember`, those that are in it included.
    pub fn remember_for(&self, remember: Duration) {
        self.remember.store(millis(remember), Ordering::Relaxed);
    }

    fn remember(&self) -> Duration {
        Duration::from_millis(self.remember.load(Ordering::Relaxed))
    }

    /// Finds out whether a request is the first of its kind. `key` identifies caller and request.
    pub fn admit(
        &self,
        key: &str,
        has_key: bool,
        id: BatchId,
        fingerprint: &str,
        tables: Vec<TableKey>,
    ) -> Admission {
        let join = |outcome: &Arc<Outcome>| match outcome.fingerprint == fingerprint {
            true => Admission::Join(Arc::clone(outcome)),
            false => Admission::Different,
        };
        match self.running.entry(key.to_owned()) {
            // Without a key, only what is running is joined.
            Entry::Occupied(mut answered) if !has_key && answered.get().is_answered() => {
                let outcome = Arc::new(Outcome::new(id, fingerprint.to_owned(), tables));
                answered.insert(Arc::clone(&outcome));
                self.batches.insert(id, Arc::clone(&outcome));
                Admission::First(outcome)
            }
            Entry::Occupied(running) => join(running.get()),
            Entry::Vacant(free) => {
                if let Some(finished) = self.finished.get(key)
                    && finished.since.elapsed() < self.remember()
                {
                    return join(&finished);
                }
                let outcome = Arc::new(Outcome::new(id, fingerprint.to_owned(), tables));
                free.insert(Arc::clone(&outcome));
                self.batches.insert(id, Arc::clone(&outcome));
                Admission::First(outcome)
            }
        }
    }

    /// The batch has its answer. Kept for the same request if it brought a key and something was written.
    pub fn finish(&self, key: &str, has_key: bool, outcome: &Arc<Outcome>) {
        let kept = match outcome.get().as_deref() {
            Some(Answered::Committed(_) | Answered::Unknown) => true,
            Some(Answered::Refused { written, .. }) => *written,
            None => false,
        };
        match (kept, has_key) {
            (true, true) => self.finished.insert(key.to_owned(), Arc::clone(outcome)),
            (true, false) => {}
            (false, _) => {
                self.batches.remove(&outcome.id);
            }
        }
        let running = |_: &String, running: &Arc<Outcome>| Arc::ptr_eq(running, outcome);
        self.running.remove_if(key, running);
    }

    /// Remembers a batch that the log knows.
    pub fn recall(&self, key: Option<String>, outcome: &Arc<Outcome>) {
        self.batches.insert(outcome.id, Arc::clone(outcome));
        if let Some(key) = key {
            self.finished.insert(key, Arc::clone(outcome));
        }
    }

    /// Forgets what has been remembered for long enough, but for batches that are not over.
    pub fn forget(&self, is_open: impl Fn(BatchId) -> bool) {
        let keep = |outcome: &Arc<Outcome>| {
            let answered = !matches!(outcome.get().as_deref(), None | Some(Answered::Unknown));
            !answered || outcome.since.elapsed() < self.remember() || is_open(outcome.id)
        };
        self.finished.retain(|_, outcome| keep(outcome));
        self.batches.retain(|_, outcome| keep(outcome));
    }

    /// Batches that run or are remembered.
    pub fn len(&self) -> usize {
        let kept = self.finished.len().max(self.batches.len());
        kept.max(self.running.len())
    }

    /// None.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The batch of this name, if it is known.
    pub fn batch(&self, id: BatchId) -> Option<Arc<Outcome>> {
        self.batches.get(&id)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    const REMEMBER: Duration = Duration::from_secs(60);

    fn begin(outcomes: &Outcomes, key: &str) -> Arc<Outcome> {
        match outcomes.admit(key, true, BatchId::now_v7(), "same", Vec::new()) {
            Admission::First(outcome) => outcome,
            Admission::Join(_) | Admission::Different => panic!("{key} is known"),
        }
    }

    fn is_known(outcomes: &Outcomes, key: &str) -> bool {
        matches!(
            outcomes.admit(key, true, BatchId::nil(), "same", Vec::new()),
            Admission::Join(_)
        )
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_left_of_a_batch_that_is_over_and_old() {
        let outcomes = Outcomes::new(REMEMBER);
        let refusal = Refusal {
            status: 409,
            code: Code::ConcurrentModification,
            message: "no".into(),
        };
        let written = true;
        for (number, answered) in [
            Answered::Committed(Vec::new()),
            Answered::Refused { refusal, written },
        ]
        .into_iter()
        .enumerate()
        {
            for has_key in [true, false] {
                let key = format!("{number} {has_key}");
                let outcome = begin(&outcomes, &key);
                outcome.set(answered.clone());
                outcomes.finish(&key, has_key, &outcome);
            }
        }
        let running = begin(&outcomes, "running");
        let stuck = begin(&outcomes, "stuck");
        stuck.set(Answered::Committed(Vec::new()));
        outcomes.finish("stuck", true, &stuck);
        assert_eq!(outcomes.len(), 6);

        tokio::time::advance(REMEMBER / 2).await;
        outcomes.forget(|_| false);
        assert_eq!(outcomes.len(), 6, "not old enough");
        tokio::time::advance(REMEMBER / 2).await;
        outcomes.forget(|id| id == stuck.id);
        assert_eq!(outcomes.len(), 2);
        assert!(outcomes.batch(running.id).is_some() && is_known(&outcomes, "running"));
        assert!(outcomes.batch(stuck.id).is_some());

        running.set(Answered::Unknown);
        outcomes.finish("running", true, &running);
        outcomes.forget(|_| false);
        assert_eq!(outcomes.len(), 1, "its answer is not known yet");
        running.set(Answered::Committed(Vec::new()));
        outcomes.forget(|_| false);
        assert!(outcomes.is_empty());
    }

    /// The same entries once more, right after the answer: they are tried again.
    #[test]
    fn without_a_key_only_what_is_running_is_joined() {
        let outcomes = Outcomes::new(REMEMBER);
        let id = BatchId::now_v7();
        let Admission::First(first) = outcomes.admit("k", false, id, "same", Vec::new()) else {
            panic!("nobody was before it");
        };
        let joined = outcomes.admit("k", false, BatchId::nil(), "same", Vec::new());
        assert!(matches!(joined, Admission::Join(_)));
        first.set(Answered::Committed(Vec::new()));
        let again = outcomes.admit("k", false, BatchId::now_v7(), "same", Vec::new());
        let Admission::First(second) = again else {
            panic!("it was answered");
        };
        outcomes.finish("k", false, &first);
        let joined = outcomes.admit("k", false, BatchId::nil(), "same", Vec::new());
        assert!(matches!(joined, Admission::Join(running) if Arc::ptr_eq(&running, &second)));
    }
}
