//! The outcomes of batches, for repeated requests and for `transaction/{id}/describe`.
//!
//! The latest are in memory, as many as `batch.outcome_memory` has room for. All others are read from the log on demand: a
//! request with a key that is not in memory is the first only if the log does not know the key either.

mod kept;
mod outcome;
mod request_key;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use tokio::sync::watch;

use crate::batch::TableKey;
use crate::batch::log::{BatchId, Log, LogError, Record};
use crate::batch::run::WallClock;
use kept::KeptOutcomes;
pub use outcome::{BatchAnswer, Outcome};
pub use request_key::{Fingerprint, RequestKey};

/// The way in which a request for a batch continues.
pub enum Admission {
    /// The request is the first: run the batch and answer it.
    First(Arc<Outcome>),
    /// Another request is running, or has run, the batch: wait for its answer.
    Join(Arc<Outcome>),
    /// The key was used before with other entries.
    Different,
    /// A batch with this key was refused, and its INTENT is not out of the log yet.
    Withdrawn,
}

/// The outcomes in memory, and the log that others are read from.
pub struct Outcomes {
    log: Arc<dyn Log>,
    clock: WallClock,
    /// The batches that are not answered, by request.
    running: DashMap<String, KeySlot>,
    /// The batches that are answered, by request.
    finished: KeptOutcomes<String>,
    /// The batches that are not decided, by id.
    undecided: DashMap<BatchId, Arc<Outcome>>,
    /// The batches that are decided, by id.
    decided: KeptOutcomes<BatchId>,
    /// The number of milliseconds for which finished batches are remembered.
    remember: AtomicU64,
}

/// The work in progress for a key.
enum KeySlot {
    /// A request looks the key up in the log; the channel closes when that is over.
    Lookup(watch::Receiver<()>),
    /// The batch that runs for the key.
    Batch(Arc<Outcome>),
}

/// The result of looking a request up in memory.
enum KeyLookup {
    Admission(Admission),
    /// Another request looks the key up in the log: repeat when that is over.
    Wait(watch::Receiver<()>),
    /// The caller has to look the key up; all other requests wait until the sender is dropped.
    Look(watch::Sender<()>),
}

/// A lookup in the log, during which no other request starts a batch with its key.
struct Lookup<'a> {
    outcomes: &'a Outcomes,
    key: &'a str,
    _over: watch::Sender<()>,
}

impl Outcomes {
    /// Returns the outcomes of a log; finished batches are remembered for `remember`, and take at most `memory` bytes.
    pub fn new(log: Arc<dyn Log>, clock: WallClock, (remember, memory): (Duration, usize)) -> Self {
        Self {
            log,
            clock,
            running: DashMap::new(),
            finished: KeptOutcomes::new(memory / 2),
            undecided: DashMap::new(),
            decided: KeptOutcomes::new(memory / 2),
            remember: AtomicU64::new(millis(remember)),
        }
    }

    /// Sets the time for which finished batches are remembered, and their memory in bytes, also for those that have
    /// finished already.
    pub fn remember_for(&self, remember: Duration, memory: usize) {
        self.remember.store(millis(remember), Ordering::Relaxed);
        self.finished.resize(memory / 2);
        self.decided.resize(memory / 2);
    }

    /// The number of bytes that finished batches may take.
    pub fn memory(&self) -> usize {
        self.finished.capacity() + self.decided.capacity()
    }

    fn remember(&self) -> Duration {
        Duration::from_millis(self.remember.load(Ordering::Relaxed))
    }

    /// Finds out whether a request is the first of its kind, and gives its batch an id if it is. Only a request with
    /// a key is looked up in the log.
    pub async fn admit(
        &self,
        request: &RequestKey,
        tables: Vec<TableKey>,
        name: impl Fn() -> BatchId,
    ) -> Result<Admission, LogError> {
        let mut tables = Some(tables);
        // The id is taken while no other request can begin: of two batches with one key, the later one has the later
        // id.
        let mut begin = || {
            let tables = tables.take().unwrap_or_default();
            let fingerprint = request.fingerprint.canonical.clone();
            Arc::new(Outcome::new(name(), fingerprint, tables))
        };
        loop {
            match self.recall_key(request, &mut begin) {
                KeyLookup::Admission(admission) => return Ok(admission),
                KeyLookup::Wait(mut over) => {
                    // The channel is only ever closed.
                    let _ = over.changed().await;
                }
                KeyLookup::Look(over) => {
                    let lookup = Lookup {
                        outcomes: self,
                        key: &request.key,
                        _over: over,
                    };
                    let found = self.log.find_by_key(&request.key).await?;
                    if found.as_ref().is_some_and(is_withdrawn) {
                        return Ok(Admission::Withdrawn);
                    }
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

    /// Returns the batch that a request joins, without starting one; `None` if the request would be the first.
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
            // The channel is only ever closed.
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
        if found.as_ref().is_some_and(is_withdrawn) {
            return Ok(Some(Admission::Withdrawn));
        }
        let found = found.and_then(|record| self.recorded(&record));
        let holder = found.filter(|outcome| outcome.holds_key(true));
        Ok(holder.map(|outcome| request.join(&outcome)))
    }

    /// Looks a request up in memory. Starts its batch with `begin` if it is the first and the log need not be read.
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

    /// Returns the outcome of a batch in the log; `None` if it ended so long ago that it counts as forgotten.
    fn recorded(&self, record: &Record) -> Option<Arc<Outcome>> {
        let outcome = Arc::new(Outcome::recorded(record, (self.clock)()));
        if outcome.get().is_none() {
            outcome.set(BatchAnswer::Unknown);
        }
        (record.ended.is_none() || self.is_fresh(&outcome)).then_some(outcome)
    }

    /// Waits for the answer of a batch, and then keeps it for repeated requests if it holds its key. A batch whose
    /// answer is not known yet keeps its key until it is.
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
        // A request that was refused before anything was written is no batch that a client can look up.
        if !matches!(*answer, BatchAnswer::Refused { written: false, .. }) {
            self.decided.insert(outcome.id, Arc::clone(outcome));
        }
        self.undecided.remove(&outcome.id);
        self.running.remove_if(key, running);
    }

    /// Remembers a batch that is in the log.
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

    /// Forgets what has been remembered for long enough, except unfinished batches.
    pub fn forget(&self, is_open: impl Fn(BatchId) -> bool) {
        let keep = |outcome: &Arc<Outcome>| self.is_fresh(outcome) || is_open(outcome.id);
        self.finished.retain(keep);
        self.decided.retain(keep);
    }

    /// Returns the number of batches that are running or in memory.
    pub fn len(&self) -> usize {
        let batches = self.undecided.len() + self.decided.len();
        let requests = self.running.len().max(self.finished.len());
        batches.max(requests)
    }

    /// Returns true if no batch is running or in memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the batch with this id from memory. One that is not decided is always there.
    pub fn in_memory(&self, id: BatchId) -> Option<Arc<Outcome>> {
        let undecided = self.undecided.get(&id).map(|found| Arc::clone(&found));
        undecided.or_else(|| self.decided.get(&id))
    }

    /// Returns the batch with this id; `None` if neither memory nor the log knows it.
    pub async fn batch(&self, id: BatchId) -> Result<Option<Arc<Outcome>>, LogError> {
        if let Some(known) = self.in_memory(id) {
            return Ok(Some(known));
        }
        // An id of another version belongs to no batch.
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
    /// Starts the first batch with the key, which the log does not know.
    fn first(self, outcome: Arc<Outcome>) -> Admission {
        let outcome = self.outcomes.begun(outcome);
        let slot = KeySlot::Batch(Arc::clone(&outcome));
        self.outcomes.running.insert(self.key.to_owned(), slot);
        Admission::First(outcome)
    }
}

impl Drop for Lookup<'_> {
    /// Ends the lookup, however it went, so that waiting requests repeat it.
    fn drop(&mut self) {
        let looking = |_: &String, slot: &KeySlot| matches!(slot, KeySlot::Lookup(_));
        self.outcomes.running.remove_if(self.key, looking);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// True for an undecided batch that was found only in the log. One that goes on is in memory.
fn is_withdrawn(record: &Record) -> bool {
    record.verdict.is_none() && record.ended.is_none()
}

#[cfg(test)]
mod tests;
