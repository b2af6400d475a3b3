//! What became of batches, for whoever asks again: the same request, or `transaction/{id}/describe`.
//!
//! The latest are in memory. All others are read from the log when somebody asks: a request with a key that is not in
//! memory is the first only once the log does not know the key either.

mod request_key;

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
use crate::batch::coordinator::WallClock;
use crate::batch::log::{BatchId, Log, LogError, Record, Verdict};
use crate::batch::step::Refusal;
use crate::error::Error;
use crate::protocol::error::Code;
pub use request_key::{Fingerprint, RequestKey};

/// Finished batches that are in memory; the least used leave it first.
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

/// The memory, and what it is read from.
pub struct Outcomes {
    log: Arc<dyn Log>,
    clock: WallClock,
    /// By request, while it is not answered.
    running: DashMap<String, Slot>,
    /// By request, when it is.
    finished: Cache<String, Arc<Outcome>>,
    /// By batch, while it is not answered.
    undecided: DashMap<BatchId, Arc<Outcome>>,
    /// By batch, when it is.
    decided: Cache<BatchId, Arc<Outcome>>,
    /// For how many milliseconds.
    remember: AtomicU64,
}

/// What is under way for a key.
enum Slot {
    /// Somebody looks for it in the log; closed when that is over.
    Lookup(watch::Receiver<()>),
    /// A batch.
    Batch(Arc<Outcome>),
}

/// What memory says to a request.
enum Recalled {
    Admission(Admission),
    /// Another request looks for the key in the log: ask again when that is over.
    Wait(watch::Receiver<()>),
    /// It is this request's to look; until the sender is dropped all others wait.
    Look(watch::Sender<()>),
}

/// A look into the log, for as long as which nobody else begins a batch with its key.
struct Lookup<'a> {
    outcomes: &'a Outcomes,
    key: &'a str,
    _over: watch::Sender<()>,
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
    fn recorded(record: &Record, now: u64) -> Self {
        let entries = record.intent.entries.iter();
        let tables = entries.map(|entry| entry.line().table).collect();
        let mut outcome = Self::new(record.id, record.intent.fingerprint.clone(), tables);
        let age = record.ended.map_or(0, |ended| now.saturating_sub(ended));
        let since = outcome.since.checked_sub(Duration::from_millis(age));
        outcome.since = since.unwrap_or(outcome.since);
        match &record.verdict {
            None => {}
            Some(Verdict::Commit(versions)) => outcome.set(Answered::Committed(versions.clone())),
            Some(abort) => {
                if let Some(refusal) = abort.refusal() {
                    let written = true;
                    outcome.set(Answered::Refused { refusal, written });
                }
            }
        }
        outcome
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

    /// Waits for the answer.
    pub async fn wait(&self) -> Arc<Answered> {
        self.wait_for(Option::is_some).await
    }

    /// Waits for the answer that no other can follow.
    pub async fn wait_for_decision(&self) -> Arc<Answered> {
        let definite =
            |answer: &Option<Arc<Answered>>| answer.as_deref().is_some_and(Answered::is_definite);
        self.wait_for(definite).await
    }

    async fn wait_for(&self, until: impl FnMut(&Option<Arc<Answered>>) -> bool) -> Arc<Answered> {
        let mut answer = self.answer.subscribe();
        match answer.wait_for(until).await {
            Ok(answer) => answer.clone().unwrap_or(Arc::new(Answered::Unknown)),
            Err(_) => Arc::new(Answered::Unknown),
        }
    }

    fn is_answered(&self) -> bool {
        self.get().is_some_and(|answer| answer.is_definite())
    }

    /// Whether it is what a request with its key, or a request that is the same, is answered with. An undecided batch
    /// always is.
    fn holds_key(&self, has_key: bool) -> bool {
        match self.get().as_deref() {
            None | Some(Answered::Unknown) => true,
            Some(answer) => has_key && answer.holds_key(),
        }
    }
}

impl Answered {
    fn is_definite(&self) -> bool {
        !matches!(self, Self::Unknown)
    }

    /// Whether a request with the same key gets this answer, too. What was refused before anything was written, or for a
    /// reason that passes, may be tried again.
    fn holds_key(&self) -> bool {
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

impl Outcomes {
    /// The outcomes in a log; finished batches are remembered for `remember`.
    pub fn new(log: Arc<dyn Log>, clock: WallClock, remember: Duration) -> Self {
        Self {
            log,
            clock,
            running: DashMap::new(),
            finished: Cache::new(REMEMBERED),
            undecided: DashMap::new(),
            decided: Cache::new(REMEMBERED),
            remember: AtomicU64::new(millis(remember)),
        }
    }

    /// From now on, finished batches are remembered for `remember`, those that are finished already included.
    pub fn remember_for(&self, remember: Duration) {
        self.remember.store(millis(remember), Ordering::Relaxed);
    }

    fn remember(&self) -> Duration {
        Duration::from_millis(self.remember.load(Ordering::Relaxed))
    }

    /// Finds out whether a request is the first of its kind, and names its batch if it is. Only what has a key is looked
    /// for in the log.
    pub async fn admit(
        &self,
        request: &RequestKey,
        tables: Vec<TableKey>,
        name: impl Fn() -> BatchId,
    ) -> Result<Admission, LogError> {
        let mut tables = Some(tables);
        // Named while nobody else can begin: of two batches with one key the later one has the later name.
        let mut begin = || {
            let tables = tables.take().unwrap_or_default();
            let fingerprint = request.fingerprint.canonical.clone();
            Arc::new(Outcome::new(name(), fingerprint, tables))
        };
        loop {
            match self.recall_key(request, &mut begin) {
                Recalled::Admission(admission) => return Ok(admission),
                Recalled::Wait(mut over) => {
                    // It is only ever closed.
                    let _ = over.changed().await;
                }
                Recalled::Look(over) => {
                    let lookup = Lookup {
                        outcomes: self,
                        key: &request.key,
                        _over: over,
                    };
                    let found = self.log.find_by_key(&request.key).await?;
                    return Ok(match found.and_then(|record| self.recorded(&record)) {
                        Some(outcome) if outcome.holds_key(true) => {
                            if outcome.is_answered() {
                                self.finished
                                    .insert(request.key.clone(), Arc::clone(&outcome));
                                self.decided.insert(outcome.id, Arc::clone(&outcome));
                            }
                            request.join(&outcome)
                        }
                        _ => lookup.first(begin()),
                    });
                }
            }
        }
    }

    /// What memory says to a request.
    fn recall_key(
        &self,
        request: &RequestKey,
        begin: &mut dyn FnMut() -> Arc<Outcome>,
    ) -> Recalled {
        match self.running.entry(request.key.clone()) {
            Entry::Occupied(mut slot) => match slot.get() {
                Slot::Lookup(over) => Recalled::Wait(over.clone()),
                Slot::Batch(outcome) if outcome.holds_key(request.has_key) => {
                    Recalled::Admission(request.join(outcome))
                }
                Slot::Batch(_) => {
                    let outcome = self.begun(begin());
                    slot.insert(Slot::Batch(Arc::clone(&outcome)));
                    Recalled::Admission(Admission::First(outcome))
                }
            },
            Entry::Vacant(free) if request.has_key => {
                if let Some(finished) = self.finished.get(&request.key)
                    && self.is_fresh(&finished)
                {
                    return Recalled::Admission(request.join(&finished));
                }
                let (over, wait) = watch::channel(());
                free.insert(Slot::Lookup(wait));
                Recalled::Look(over)
            }
            Entry::Vacant(free) => {
                let outcome = self.begun(begin());
                free.insert(Slot::Batch(Arc::clone(&outcome)));
                Recalled::Admission(Admission::First(outcome))
            }
        }
    }

    fn begun(&self, outcome: Arc<Outcome>) -> Arc<Outcome> {
        self.undecided.insert(outcome.id, Arc::clone(&outcome));
        outcome
    }

    fn is_fresh(&self, outcome: &Outcome) -> bool {
        outcome.since.elapsed() < self.remember()
    }

    /// The outcome of a batch in the log; `None` if it ended so long ago that it counts as forgotten.
    fn recorded(&self, record: &Record) -> Option<Arc<Outcome>> {
        let outcome = Arc::new(Outcome::recorded(record, (self.clock)()));
        if outcome.get().is_none() {
            outcome.set(Answered::Unknown);
        }
        (record.ended.is_none() || self.is_fresh(&outcome)).then_some(outcome)
    }

    /// Lets go of a batch that was answered, and remembers its answer for the same request, if it holds its key. One whose
    /// answer is not known yet keeps it until it is.
    pub async fn finish(&self, key: &str, has_key: bool, outcome: &Arc<Outcome>) {
        let running = |_: &String, slot: &Slot| match slot {
            Slot::Batch(running) => Arc::ptr_eq(running, outcome),
            Slot::Lookup(_) => false,
        };
        outcome.wait().await;
        if !has_key {
            self.running.remove_if(key, running);
        }
        let answer = outcome.wait_for_decision().await;
        if has_key && answer.holds_key() {
            self.finished.insert(key.to_owned(), Arc::clone(outcome));
        }
        // What was refused before anything was written is no batch that anybody can ask for.
        if !matches!(*answer, Answered::Refused { written: false, .. }) {
            self.decided.insert(outcome.id, Arc::clone(outcome));
        }
        self.undecided.remove(&outcome.id);
        self.running.remove_if(key, running);
    }

    /// Remembers a batch that the log knows.
    pub fn recall(self: &Arc<Self>, record: &Record) -> Arc<Outcome> {
        let outcome = Arc::new(Outcome::recorded(record, (self.clock)()));
        let key = record.intent.idempotency.clone();
        if outcome.is_answered() {
            self.decided.insert(outcome.id, Arc::clone(&outcome));
            if let Some(key) = key.filter(|_| outcome.holds_key(true)) {
                self.finished.insert(key, Arc::clone(&outcome));
            }
            return outcome;
        }
        self.begun(Arc::clone(&outcome));
        if let Some(key) = &key {
            let slot = Slot::Batch(Arc::clone(&outcome));
            self.running.insert(key.clone(), slot);
        }
        let (outcomes, unanswered) = (Arc::clone(self), Arc::clone(&outcome));
        tokio::spawn(async move {
            let has_key = key.is_some();
            let key = key.unwrap_or_default();
            outcomes.finish(&key, has_key, &unanswered).await;
        });
        outcome
    }

    /// Forgets what has been remembered for long enough, but for batches that are not over.
    pub fn forget(&self, is_open: impl Fn(BatchId) -> bool) {
        let keep = |outcome: &Arc<Outcome>| self.is_fresh(outcome) || is_open(outcome.id);
        self.finished.retain(|_, outcome| keep(outcome));
        self.decided.retain(|_, outcome| keep(outcome));
    }

    /// Batches that run or are in memory.
    pub fn len(&self) -> usize {
        let batches = self.undecided.len() + self.decided.len();
        let requests = self.running.len().max(self.finished.len());
        batches.max(requests)
    }

    /// None.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The batch of this name, if memory or the log knows it.
    pub async fn batch(&self, id: BatchId) -> Result<Option<Arc<Outcome>>, LogError> {
        if let Some(undecided) = self.undecided.get(&id) {
            return Ok(Some(Arc::clone(&undecided)));
        }
        if let Some(decided) = self.decided.get(&id) {
            return Ok(Some(decided));
        }
        // Names of other versions are no batch's.
        if id.get_version_num() != 7 {
            return Ok(None);
        }
        let found = self.log.find(id).await?;
        let Some(outcome) = found.and_then(|record| self.recorded(&record)) else {
            return Ok(None);
        };
        if outcome.is_answered() {
            self.decided.insert(id, Arc::clone(&outcome));
        }
        Ok(Some(outcome))
    }
}

impl Lookup<'_> {
    /// The log does not know the key: this batch is the first with it.
    fn first(self, outcome: Arc<Outcome>) -> Admission {
        let outcome = self.outcomes.begun(outcome);
        let slot = Slot::Batch(Arc::clone(&outcome));
        self.outcomes.running.insert(self.key.to_owned(), slot);
        Admission::First(outcome)
    }
}

impl Drop for Lookup<'_> {
    /// However it ended: who waits asks again.
    fn drop(&mut self) {
        let looking = |_: &String, slot: &Slot| matches!(slot, Slot::Lookup(_));
        self.outcomes.running.remove_if(self.key, looking);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
