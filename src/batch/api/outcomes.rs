//! What became of batches, for whoever asks again: the same request, or `transaction/{id}/describe`.
//!
//! The latest are in memory. All others are read from the log when somebody asks: a request with a key that is not in
//! memory is the first only once the log does not know the key either.

mod outcome;
mod request_key;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use quick_cache::sync::Cache;
use tokio::sync::watch;

use crate::batch::TableKey;
use crate::batch::log::{BatchId, Log, LogError, Record};
use crate::batch::run::WallClock;
pub use outcome::{BatchAnswer, Outcome};
pub use request_key::{Fingerprint, RequestKey};

/// Finished batches that are in memory; the least used leave it first.
pub const REMEMBERED: usize = 100_000;

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
    running: DashMap<String, KeySlot>,
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
enum KeySlot {
    /// Somebody looks for it in the log; closed when that is over.
    Lookup(watch::Receiver<()>),
    /// A batch.
    Batch(Arc<Outcome>),
}

/// What memory says to a request.
enum KeyLookup {
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
                KeyLookup::Admission(admission) => return Ok(admission),
                KeyLookup::Wait(mut over) => {
                    // It is only ever closed.
                    let _ = over.changed().await;
                }
                KeyLookup::Look(over) => {
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

    /// Finds the batch that a request joins, and begins none; `None`: the request would be the first.
    pub async fn known(&self, request: &RequestKey) -> Result<Option<Admission>, LogError> {
        loop {
            let running = self.running.get(&request.key);
            let mut over = match running.as_deref() {
                Some(KeySlot::Lookup(over)) => over.clone(),
                Some(KeySlot::Batch(outcome)) => {
                    let holds = outcome.holds_key(request.has_key);
                    return Ok(holds.then(|| request.join(outcome)));
                }
                None => break,
            };
            drop(running);
            // It is only ever closed.
            let _ = over.changed().await;
        }
        if !request.has_key {
            return Ok(None);
        }
        let finished = self.finished.get(&request.key);
        if let Some(finished) = finished.filter(|finished| self.is_fresh(finished)) {
            return Ok(Some(request.join(&finished)));
        }
        let found = self.log.find_by_key(&request.key).await?;
        let found = found.and_then(|record| self.recorded(&record));
        let holder = found.filter(|outcome| outcome.holds_key(true));
        Ok(holder.map(|outcome| request.join(&outcome)))
    }

    /// What memory says to a request.
    fn recall_key(
        &self,
        request: &RequestKey,
        begin: &mut dyn FnMut() -> Arc<Outcome>,
    ) -> KeyLookup {
        match self.running.entry(request.key.clone()) {
            Entry::Occupied(mut slot) => match slot.get() {
                KeySlot::Lookup(over) => KeyLookup::Wait(over.clone()),
                KeySlot::Batch(outcome) if outcome.holds_key(request.has_key) => {
                    KeyLookup::Admission(request.join(outcome))
                }
                KeySlot::Batch(_) => {
                    let outcome = self.begun(begin());
                    slot.insert(KeySlot::Batch(Arc::clone(&outcome)));
                    KeyLookup::Admission(Admission::First(outcome))
                }
            },
            Entry::Vacant(free) if request.has_key => {
                if let Some(finished) = self.finished.get(&request.key)
                    && self.is_fresh(&finished)
                {
                    return KeyLookup::Admission(request.join(&finished));
                }
                let (over, wait) = watch::channel(());
                free.insert(KeySlot::Lookup(wait));
                KeyLookup::Look(over)
            }
            Entry::Vacant(free) => {
                let outcome = self.begun(begin());
                free.insert(KeySlot::Batch(Arc::clone(&outcome)));
                KeyLookup::Admission(Admission::First(outcome))
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
            outcome.set(BatchAnswer::Unknown);
        }
        (record.ended.is_none() || self.is_fresh(&outcome)).then_some(outcome)
    }

    /// Lets go of a batch that was answered, and remembers its answer for the same request, if it holds its key. One whose
    /// answer is not known yet keeps it until it is.
    pub async fn finish(&self, key: &str, has_key: bool, outcome: &Arc<Outcome>) {
        let running = |_: &String, slot: &KeySlot| match slot {
            KeySlot::Batch(running) => Arc::ptr_eq(running, outcome),
            KeySlot::Lookup(_) => false,
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
        if !matches!(*answer, BatchAnswer::Refused { written: false, .. }) {
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
            let slot = KeySlot::Batch(Arc::clone(&outcome));
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
        let slot = KeySlot::Batch(Arc::clone(&outcome));
        self.outcomes.running.insert(self.key.to_owned(), slot);
        Admission::First(outcome)
    }
}

impl Drop for Lookup<'_> {
    /// However it ended: who waits asks again.
    fn drop(&mut self) {
        let looking = |_: &String, slot: &KeySlot| matches!(slot, KeySlot::Lookup(_));
        self.outcomes.running.remove_if(self.key, looking);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
