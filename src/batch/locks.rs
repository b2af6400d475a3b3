//! Locks tables and namespaces while batches and other changes work on them: who excludes whom, in which order they get
//! their turn.
//!
//! A batch holds its tables exclusively and the namespaces above them shared. An operation that changes a table, or
//! lets the catalog choose its latest version, holds the table shared. Dropping a namespace holds the namespace
//! exclusively. Several locks are always taken in the order of their keys, so that no deadlock is possible. A batch
//! that waits for longer than a moment lets others pass from time to time, during half of its wait: it has begun
//! nothing. Shortly before its wait is over, reads of the table that it waits for are ended, now and then (`pressed`). The
//! number of waiters is limited (`queues`): one locked table cannot use up the capacity that requests for other tables need.

mod hold;
mod holders;
mod pressed;
mod queues;
mod table_key;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use futures_util::FutureExt as _;
use tokio::sync::RwLock;
use tokio::time::{Instant, sleep, timeout_at};

use crate::batch::log::BatchId;
use crate::protocol::identifier::Identifier;
use crate::protocol::query::DEFAULT_DELIMITER;
pub use hold::Hold;
use hold::LockGuard;
use pressed::PressedTables;
pub use queues::Free;
use queues::{Queue, QueueTicket, Queues};
pub use table_key::{TableHasher, TableKey};

/// The time for which a new batch holds its tables, or its place before later requests, while it waits for others. It
/// is shorter than the time for which reads wait.
const STAND: Duration = Duration::from_millis(500);
/// The time for which it then lets others pass.
const ASIDE: Duration = Duration::from_millis(500);
/// The time before the end of a batch's wait from which reads that are under way give way to it.
const PRESSING: Duration = Duration::from_secs(1);

/// The locks of one gateway. Waiters are served in order (tokio's `RwLock` is fair).
#[derive(Clone, Default)]
pub struct Locks {
    shared: Arc<State>,
}

/// The answers to a batch or a snapshot if the other gateways could not be told of it, and if one of them did not
/// acknowledge in time.
pub(in crate::batch) const UNGUARDED: &str =
    "the other gateways that share the batch log could not be told of the batch; retry later";
pub(in crate::batch) const UNACKNOWLEDGED: &str = "another gateway that shares the batch log still serves a long operation on one of the tables, or does not answer; retry later";

#[derive(Default)]
struct State {
    held: DashMap<Key, Arc<RwLock<()>>, TableHasher>,
    /// The batches that hold tables.
    holders: DashMap<TableKey, BatchId, TableHasher>,
    pressed: PressedTables,
    queues: Queues,
}

/// The reason why a lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// The wait took longer than its limit.
    #[error("the lock was not free in time")]
    TimedOut,
    /// The limit of waiting requests is reached.
    #[error("too many requests wait for the lock")]
    Crowded,
    /// The other gateways that share the batch log could not be told of the lock.
    #[error("the other gateways could not be told of the lock")]
    Unguarded,
    /// One of the other gateways did not acknowledge the lock in time.
    #[error("another gateway did not acknowledge the lock in time")]
    Unacknowledged,
}

/// The object that is locked. Namespaces sort before tables, and a namespace before those below it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Namespace(TableKey),
    Table(TableKey),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Shared,
    Exclusive,
}

impl Mode {
    async fn wait(self, lock: Arc<RwLock<()>>) -> LockGuard {
        match self {
            Self::Shared => LockGuard::Shared(lock.read_owned().await),
            Self::Exclusive => LockGuard::Exclusive(lock.write_owned().await),
        }
    }

    /// Takes a place in the queue of a lock.
    fn queue(self, lock: Arc<RwLock<()>>) -> LockGuard {
        let mut turn = Box::pin(self.wait(lock));
        match turn.as_mut().now_or_never() {
            Some(taken) => taken,
            None => LockGuard::Queued(turn),
        }
    }
}

impl Locks {
    /// Limits how many requests wait for locks: not more than can still be served, as `free` returns it.
    pub fn leave_places(&self, free: Free) {
        self.shared.queues.leave_places(free);
    }

    /// Holds tables exclusively, for a new batch. If that takes long, it releases all of them from time to time, so
    /// that a long operation on one table does not block requests for the others. In the last half of `wait`, it no
    /// longer releases them.
    pub async fn for_batch(
        &self,
        tables: impl IntoIterator<Item = TableKey>,
        wait: Duration,
    ) -> Result<Hold, LockError> {
        self.in_turns(tables, wait, true).await
    }

    /// Does the same for a reader, to which no other reader gives way.
    pub async fn for_snapshot(
        &self,
        tables: impl IntoIterator<Item = TableKey>,
        wait: Duration,
    ) -> Result<Hold, LockError> {
        self.in_turns(tables, wait, false).await
    }

    async fn in_turns(
        &self,
        tables: impl IntoIterator<Item = TableKey>,
        wait: Duration,
        presses: bool,
    ) -> Result<Hold, LockError> {
        let wanted = of_batch(tables);
        let (begun, mut place, mut waited) = (Instant::now(), None, false);
        loop {
            let is_patient = begun.elapsed() + STAND + ASIDE <= wait / 2;
            let deadline = if is_patient {
                Instant::now() + STAND
            } else {
                begun + wait
            };
            let presses = presses && !is_patient;
            match self.attempt(&wanted, deadline, presses, &mut place).await {
                Err(LockError::TimedOut) if is_patient => sleep(ASIDE).await,
                Err(error) => return Err(error),
                Ok(mut hold) => {
                    hold.waited |= waited;
                    return Ok(hold);
                }
            }
            waited = true;
        }
    }

    /// Waits until whoever reads this table since `began` must give way to a batch.
    pub async fn pressed(&self, table: &TableKey, began: Instant) {
        self.shared.pressed.wait(table, began).await;
    }

    /// Holds tables exclusively again, for a batch that has work left on them. It is not limited by the number of
    /// waiters.
    pub async fn exclusive(
        &self,
        tables: impl IntoIterator<Item = TableKey>,
        wait: Duration,
    ) -> Result<Hold, LockError> {
        self.take(of_batch(tables), wait, None).await
    }

    /// Holds tables exclusively, for a batch that an earlier life or another gateway has begun. It does not wait: a lock
    /// that a request of this gateway still has is this hold's as soon as it is free, before anyone who comes later.
    pub fn exclusive_in_turn(&self, tables: impl IntoIterator<Item = TableKey>) -> Hold {
        let wanted = of_batch(tables);
        let mut hold = Hold::with_room(self, wanted.len());
        for (key, mode) in wanted {
            let taken = self.at_once(&key, mode);
            hold.add(key, taken.unwrap_or_else(|lock| mode.queue(lock)));
        }
        hold
    }

    /// Holds a table shared while a catalog works on it.
    pub async fn shared(&self, table: TableKey, wait: Duration) -> Result<Hold, LockError> {
        let wanted = [(Key::Table(table), Mode::Shared)];
        self.take(wanted, wait, Some(Queue::Requests)).await
    }

    /// Holds tables shared while catalogs work on them.
    pub async fn all_shared(
        &self,
        tables: impl IntoIterator<Item = TableKey>,
        wait: Duration,
    ) -> Result<Hold, LockError> {
        let wanted = tables.into_iter();
        let wanted = wanted.map(|table| (Key::Table(table), Mode::Shared));
        let wanted = in_order(wanted.collect());
        self.take(wanted, wait, Some(Queue::Requests)).await
    }

    /// Holds a namespace exclusively, against batches on the tables below it.
    pub async fn namespace(&self, namespace: TableKey, wait: Duration) -> Result<Hold, LockError> {
        let wanted = [(Key::Namespace(namespace), Mode::Exclusive)];
        self.take(wanted, wait, Some(Queue::Requests)).await
    }

    /// Returns the number of locks in memory. A lock that is neither held nor waited for is removed.
    pub fn len(&self) -> usize {
        self.shared.held.len()
    }

    /// True if no lock is in memory.
    pub fn is_empty(&self) -> bool {
        self.shared.held.is_empty()
    }

    /// Returns the tables with a lock that have the name of `table` in another part of its catalog's data.
    pub fn namesakes(&self, table: &TableKey) -> Vec<TableKey> {
        let held = self.shared.held.iter();
        let tables = held.filter_map(|held| match held.key() {
            Key::Table(other) => Some(other)
                .filter(|other| other.is_namesake(table))
                .cloned(),
            Key::Namespace(_) => None,
        });
        tables.filter(|other| other != table).collect()
    }

    /// Removes locks that were left behind by waits that were cancelled at the moment when they got the lock.
    pub fn sweep(&self) {
        self.shared
            .held
            .retain(|_, lock| Arc::strong_count(lock) > 1);
        self.shared.pressed.sweep();
    }

    /// Takes the locks in `wanted`, which must be in the order of the keys.
    async fn take(
        &self,
        wanted: impl IntoIterator<Item = (Key, Mode)>,
        wait: Duration,
        queue: Option<Queue>,
    ) -> Result<Hold, LockError> {
        let queues = &self.shared.queues;
        let wanted = wanted.into_iter();
        let mut deadline = None;
        let mut hold = Hold::with_room(self, wanted.size_hint().0);
        for (key, mode) in wanted {
            let taken = match self.at_once(&key, mode) {
                Ok(taken) => taken,
                Err(lock) => {
                    hold.waited = true;
                    let place = queue.map(|queue| queues.join(queue, &key)).transpose();
                    let Ok(_place) = place else {
                        drop(lock);
                        self.forget(&key);
                        return Err(LockError::Crowded);
                    };
                    // The wait is measured from the first lock that is not free.
                    let deadline = *deadline.get_or_insert_with(|| Instant::now() + wait);
                    self.wait_for(&key, lock, mode, deadline).await?
                }
            };
            hold.add(key, taken);
        }
        Ok(hold)
    }

    /// Takes locks for a new batch, which keeps its `place` in the queue if it does not get them by `deadline`. If it
    /// `presses`, readers give way to it before that.
    async fn attempt<'a>(
        &'a self,
        wanted: &'a [(Key, Mode)],
        deadline: Instant,
        presses: bool,
        place: &mut Option<QueueTicket<'a>>,
    ) -> Result<Hold, LockError> {
        let mut hold = Hold::with_room(self, wanted.len());
        for (key, mode) in wanted {
            let taken = match self.at_once(key, *mode) {
                Ok(taken) => taken,
                Err(lock) => {
                    hold.waited = true;
                    if place.as_ref().is_none_or(|place| !place.is_for(key)) {
                        *place = None;
                        *place = match self.shared.queues.join(Queue::Batches, key) {
                            Ok(place) => Some(place),
                            Err(crowded) => {
                                drop(lock);
                                self.forget(key);
                                return Err(crowded);
                            }
                        };
                    }
                    let left = deadline.saturating_duration_since(Instant::now());
                    let mut waiting = pin!(self.wait_for(key, lock, *mode, deadline));
                    if presses {
                        let pressing = deadline - PRESSING.min(left / 2);
                        if let Ok(taken) = timeout_at(pressing, &mut waiting).await {
                            hold.add(key.clone(), taken?);
                            continue;
                        }
                        if let Key::Table(table) = key {
                            self.shared.pressed.press(table);
                        }
                    }
                    waiting.await?
                }
            };
            hold.add(key.clone(), taken);
        }
        Ok(hold)
    }

    /// Takes a lock if it is free; otherwise returns the lock to wait for.
    fn at_once(&self, key: &Key, mode: Mode) -> Result<LockGuard, Arc<RwLock<()>>> {
        let lock = Arc::clone(&self.shared.held.entry(key.clone()).or_default());
        let taken = match mode {
            Mode::Shared => Arc::clone(&lock).try_read_owned().map(LockGuard::Shared),
            Mode::Exclusive => Arc::clone(&lock)
                .try_write_owned()
                .map(LockGuard::Exclusive),
        };
        taken.map_err(|_| lock)
    }

    async fn wait_for(
        &self,
        key: &Key,
        lock: Arc<RwLock<()>>,
        mode: Mode,
        deadline: Instant,
    ) -> Result<LockGuard, LockError> {
        let taken = timeout_at(deadline, mode.wait(lock)).await;
        taken.map_err(|_| {
            self.forget(key);
            LockError::TimedOut
        })
    }

    /// Removes a lock that is neither held nor waited for.
    fn forget(&self, key: &Key) {
        let held = &self.shared.held;
        held.remove_if(key, |_, lock| Arc::strong_count(lock) == 1);
    }
}

/// Lists the locks of a batch: the tables, and the namespaces above them.
fn of_batch(tables: impl IntoIterator<Item = TableKey>) -> Vec<(Key, Mode)> {
    let mut wanted = Vec::new();
    for table in tables {
        let split = table
            .table
            .split_below(&Identifier::root(), DEFAULT_DELIMITER);
        let mut above = split.as_ref().unwrap_or(&table.table).parent();
        while let Some(namespace) = above {
            above = namespace.parent();
            let key = TableKey {
                backend: Arc::clone(&table.backend),
                scope: table.scope.clone(),
                table: namespace,
            };
            wanted.push((Key::Namespace(key), Mode::Shared));
        }
        wanted.push((Key::Table(table), Mode::Exclusive));
    }
    in_order(wanted)
}

/// Sorts the locks into the order in which all requests take them, without duplicates.
fn in_order(mut wanted: Vec<(Key, Mode)>) -> Vec<(Key, Mode)> {
    wanted.sort_by(|(one, _), (other, _)| one.cmp(other));
    wanted.dedup_by(|(one, _), (other, _)| one == other);
    wanted
}

#[cfg(test)]
mod tests;
