//! Limits the number of running batches, of their entries, and of unfinished batches at each catalog. They bound the
//! memory. A table or a catalog that makes no progress takes places only from its own batches.
//!
//! An undecided batch has a place among the running batches. If it must wait for a locked table, it moves for good into
//! a smaller waiting room. Batches that are decided and not finished are counted for each catalog that they involve. One
//! caller has at most half of the running batches, of the waiting room, and of the unfinished batches of a catalog: what it
//! has begun and does not end keeps nobody else out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::batch::{TableKey, busy};
use crate::error::Error;
use crate::metrics::Limit;

/// The largest number of running batches; a further one gets 503.
const RUNNING: usize = 4096;
/// The largest number of entries of running batches; a batch beyond it gets 503.
const ENTRIES: usize = 100_000;
/// The waiting room has a quarter of both limits.
const ROOM: usize = 4;
/// The largest number of unfinished batches of one catalog. It covers some 15 minutes of 18 aborts in a second, each
/// with a create that may still land, and is four times the number of batches that can wait for a decision.
const OPEN: usize = 16_384;
/// The largest number of entries of such batches, each some 500 bytes: 200 MB for a catalog that no longer does its
/// removals.
const OPEN_ENTRIES: usize = 400_000;
/// The part of the running batches, of the waiting room, and of the unfinished batches of one catalog, that one caller may
/// have: one half.
const SHARE: usize = 2;

/// The places of all batches.
pub(in crate::batch) struct Permits {
    running: PermitPool,
    waiting: PermitPool,
    open: Mutex<HashMap<Arc<str>, Load>>,
}

/// The admission of one batch.
pub(in crate::batch) struct Permit {
    place: Place,
    /// The catalogs that the batch involves, each once, with the number of its entries.
    open: Vec<(Arc<str>, usize)>,
}

/// The place of an undecided batch, among those that run or in the waiting room; none for a recovered one.
#[derive(Clone)]
pub(in crate::batch) struct Place {
    permits: Arc<Permits>,
    /// The name of the caller; empty for a batch from the log, which does not tell.
    caller: Arc<str>,
    entries: u32,
    taken: Arc<Mutex<Option<PooledPermit>>>,
}

/// The reason why a batch is not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::batch) enum NoRoom {
    /// Too many batches are running.
    Running,
    /// Too many batches of this caller are running.
    RunningShare,
    /// Too many batches of this catalog are unfinished.
    Open(Arc<str>),
    /// Too many batches of this caller at this catalog are unfinished.
    Share(Arc<str>),
}

struct PermitPool {
    batches: Arc<Semaphore>,
    entries: Arc<Semaphore>,
    /// The sizes of the semaphores. A batch with more entries takes all of the second.
    most: Count,
    /// The places that each caller has.
    callers: Arc<Callers>,
}

/// A number of batches and entries for each caller.
type Callers = Mutex<HashMap<Arc<str>, Count>>;

struct PooledPermit {
    _batch: OwnedSemaphorePermit,
    _entries: OwnedSemaphorePermit,
    _share: CallerShare,
    /// True for a place in the waiting room.
    waits: bool,
}

/// One of the places that a caller has.
struct CallerShare {
    callers: Arc<Callers>,
    caller: Arc<str>,
    entries: usize,
}

/// A number of batches, and that of their entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    batches: usize,
    entries: usize,
}

/// The unfinished batches of one catalog.
#[derive(Debug, Default)]
struct Load {
    all: Count,
    callers: HashMap<Arc<str>, Count>,
}

impl Default for Permits {
    fn default() -> Self {
        Self {
            running: PermitPool::new(RUNNING, ENTRIES),
            waiting: PermitPool::new(RUNNING / ROOM, ENTRIES / ROOM),
            open: Mutex::default(),
        }
    }
}

impl Permits {
    /// Admits one more batch of the caller with this name. `tables` has the table of each of its entries.
    pub(in crate::batch) fn admit(
        self: &Arc<Self>,
        caller: &str,
        tables: &[TableKey],
    ) -> Result<Permit, NoRoom> {
        let entries = u32::try_from(tables.len()).unwrap_or(u32::MAX);
        let caller = Arc::from(caller);
        let place = self.running.take(&caller, entries)?;
        let open = by_catalog(tables.iter().map(|table| &table.backend));
        self.count(&caller, &open, true)?;
        Ok(self.permit(caller, entries, Some(place), open))
    }

    /// Counts a batch that was recovered from the log. It continues even if there is no place for it.
    pub(in crate::batch) fn recovered<'a>(
        self: &Arc<Self>,
        backends: impl Iterator<Item = &'a Arc<str>>,
    ) -> Permit {
        let open = by_catalog(backends);
        let nobody = Arc::from("");
        let counted = self.count(&nobody, &open, false);
        debug_assert!(counted.is_ok(), "nothing bounds it");
        self.permit(nobody, 0, None, open)
    }

    fn permit(
        self: &Arc<Self>,
        caller: Arc<str>,
        entries: u32,
        taken: Option<PooledPermit>,
        open: Vec<(Arc<str>, usize)>,
    ) -> Permit {
        let place = Place {
            permits: Arc::clone(self),
            caller,
            entries,
            taken: Arc::new(Mutex::new(taken)),
        };
        Permit { place, open }
    }

    /// Counts the batch at all of its catalogs. If one of them has no place, counts it at none and returns that one.
    fn count(
        &self,
        caller: &Arc<str>,
        open: &[(Arc<str>, usize)],
        is_bounded: bool,
    ) -> Result<(), NoRoom> {
        let mut loads = self.loads();
        if is_bounded {
            for (backend, entries) in open {
                let Some(load) = loads.get(backend) else {
                    continue;
                };
                let most = Count {
                    batches: OPEN,
                    entries: OPEN_ENTRIES,
                };
                if !load.all.has_room(*entries, most) {
                    return Err(NoRoom::Open(Arc::clone(backend)));
                }
                let own = load.callers.get(caller).copied().unwrap_or_default();
                if !own.has_room(*entries, most.share()) {
                    return Err(NoRoom::Share(Arc::clone(backend)));
                }
            }
        }
        for (backend, entries) in open {
            let load = loads.entry(Arc::clone(backend)).or_default();
            load.all.add(*entries);
            let own = load.callers.entry(Arc::clone(caller)).or_default();
            own.add(*entries);
        }
        Ok(())
    }

    fn loads(&self) -> MutexGuard<'_, HashMap<Arc<str>, Load>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// The place of the batch.
    pub(in crate::batch) fn place(&self) -> &Place {
        &self.place
    }

    /// Gives the place back. The batch is decided, and the work that is left counts for its catalogs.
    pub(in crate::batch) fn decided(&mut self) {
        *self.place.taken() = None;
    }
}

impl Place {
    /// Moves the batch into the waiting room, so that others may run; returns false if that is full. The batch stays
    /// there when it continues: it holds locks, and must not wait for a second place while others wait for its locks.
    pub(in crate::batch) fn wait(&self) -> bool {
        let mut taken = self.taken();
        let Some(place) = taken.as_mut().filter(|place| !place.waits) else {
            return true;
        };
        let Ok(waiting) = self.permits.waiting.take(&self.caller, self.entries) else {
            return false;
        };
        *place = PooledPermit {
            waits: true,
            ..waiting
        };
        true
    }

    fn taken(&self) -> MutexGuard<'_, Option<PooledPermit>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallerShare {
    fn drop(&mut self) {
        uncount(&mut locked(&self.callers), &self.caller, self.entries);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut loads = self.place.permits.loads();
        for (backend, entries) in &self.open {
            if let Some(load) = loads.get_mut(backend) {
                load.all.remove(*entries);
                uncount(&mut load.callers, &self.place.caller, *entries);
                if load.all.batches == 0 {
                    loads.remove(backend);
                }
            }
        }
    }
}

impl NoRoom {
    /// The answer to the request: 503 with `Retry-After`.
    pub(in crate::batch) fn into_error(self) -> Error {
        let error = match self {
            Self::Running => busy("too many batches are running; retry later"),
            Self::RunningShare => {
                busy("too many batches of this caller are running; retry when some have finished")
            }
            Self::Share(backend) => busy(&format!(
                "too many batches of this caller at backend `{backend}` are unfinished; retry later. To see them: `nsgate batches list`"
            )),
            Self::Open(backend) => busy(&format!(
                "too many decided batches of backend `{backend}` are unfinished; retry later. To see them: `nsgate batches list`"
            )),
        };
        error.because(Limit::Batches.as_str())
    }
}

impl PermitPool {
    fn new(batches: usize, entries: usize) -> Self {
        Self {
            batches: Arc::new(Semaphore::new(batches)),
            entries: Arc::new(Semaphore::new(entries)),
            most: Count { batches, entries },
            callers: Arc::default(),
        }
    }

    fn take(&self, caller: &Arc<str>, entries: u32) -> Result<PooledPermit, NoRoom> {
        let most = u32::try_from(self.most.entries).unwrap_or(u32::MAX);
        let entries = entries.min(most);
        let batch = Arc::clone(&self.batches).try_acquire_owned();
        let all = Arc::clone(&self.entries).try_acquire_many_owned(entries);
        let (Ok(batch), Ok(all)) = (batch, all) else {
            return Err(NoRoom::Running);
        };
        Ok(PooledPermit {
            waits: false,
            _share: self.share(caller, entries as usize)?,
            _batch: batch,
            _entries: all,
        })
    }

    /// Counts one more batch of a caller, unless it has its share already.
    fn share(&self, caller: &Arc<str>, entries: usize) -> Result<CallerShare, NoRoom> {
        let mut callers = locked(&self.callers);
        let own = callers.get(caller).copied().unwrap_or_default();
        if !own.has_room(entries, self.most.share()) {
            return Err(NoRoom::RunningShare);
        }
        callers.entry(Arc::clone(caller)).or_default().add(entries);
        Ok(CallerShare {
            callers: Arc::clone(&self.callers),
            caller: Arc::clone(caller),
            entries,
        })
    }
}

fn locked(callers: &Callers) -> MutexGuard<'_, HashMap<Arc<str>, Count>> {
    callers.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Count {
    /// True if one more batch with so many entries stays within `most`. The only one may have any number of entries.
    fn has_room(self, entries: usize, most: Self) -> bool {
        let fits = self.batches < most.batches && self.entries + entries <= most.entries;
        fits || self.batches == 0
    }

    fn share(self) -> Self {
        Self {
            batches: self.batches / SHARE,
            entries: self.entries / SHARE,
        }
    }

    fn add(&mut self, entries: usize) {
        self.batches += 1;
        self.entries += entries;
    }

    fn remove(&mut self, entries: usize) {
        self.batches -= 1;
        self.entries -= entries;
    }
}

/// Counts one batch less for a caller.
fn uncount(counts: &mut HashMap<Arc<str>, Count>, caller: &Arc<str>, entries: usize) {
    if let Some(own) = counts.get_mut(caller) {
        own.remove(entries);
        if own.batches == 0 {
            counts.remove(caller);
        }
    }
}

/// The number of entries at each catalog.
fn by_catalog<'a>(backends: impl Iterator<Item = &'a Arc<str>>) -> Vec<(Arc<str>, usize)> {
    let mut counts: Vec<(Arc<str>, usize)> = Vec::new();
    for backend in backends {
        // A batch involves few catalogs, so a linear search is enough.
        match counts.iter_mut().find(|(known, _)| known == backend) {
            Some((_, entries)) => *entries += 1,
            None => counts.push((Arc::clone(backend), 1)),
        }
    }
    counts
}

#[cfg(test)]
mod tests;
