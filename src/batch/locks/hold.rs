//! Locks that are held together, and freed table by table.

use std::pin::Pin;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};

use super::{Key, Locks, TableKey};
use crate::batch::log::BatchId;

/// Locks that are held. Dropping it frees them.
pub struct Hold {
    /// The locks in the order of their keys, so that one of thousands is found at once.
    guards: Vec<Guard>,
    /// The number of tables among them that are not freed.
    tables: usize,
    locks: Locks,
    /// True if a lock was not free at once.
    pub(super) waited: bool,
    /// The batch that holds the locks; `None` if it is no batch.
    batch: Option<BatchId>,
}

struct Guard {
    key: Key,
    /// `None` once it is freed.
    lock: Option<LockGuard>,
}

#[expect(dead_code, reason = "a guard works by being there")]
pub(super) enum LockGuard {
    Shared(OwnedRwLockReadGuard<()>),
    Exclusive(OwnedRwLockWriteGuard<()>),
    /// A place in the queue of a lock. When its turn comes, it has the lock, although nobody polls it: tokio hands a lock
    /// over to the first that waits.
    Queued(Pin<Box<dyn Future<Output = Self> + Send>>),
}

impl Hold {
    /// Returns a hold without locks.
    pub fn none(locks: &Locks) -> Self {
        Self::with_room(locks, 0)
    }

    pub(super) fn with_room(locks: &Locks, guards: usize) -> Self {
        Self {
            guards: Vec::with_capacity(guards),
            tables: 0,
            locks: locks.clone(),
            waited: false,
            batch: None,
        }
    }

    /// Names the batch that holds these locks, and those that join them.
    pub fn belongs_to(&mut self, batch: BatchId) {
        self.batch = Some(batch);
        self.tell_from(0);
    }

    /// Records who holds the tables from this guard on.
    fn tell_from(&self, first: usize) {
        let held = self.guards[first..].iter();
        for guard in held.filter(|guard| guard.lock.is_some()) {
            if let (Some(batch), Key::Table(table)) = (self.batch, &guard.key) {
                self.locks.shared.holders.insert(table.clone(), batch);
            }
        }
    }

    /// Adds a lock whose key comes after those of all others.
    pub(super) fn add(&mut self, key: Key, lock: LockGuard) {
        self.tables += usize::from(matches!(key, Key::Table(_)));
        let lock = Some(lock);
        self.guards.push(Guard { key, lock });
    }

    /// Adds the locks of `other` to this hold.
    pub fn join(&mut self, mut other: Self) {
        self.guards.retain(|guard| guard.lock.is_some());
        let known = self.guards.len();
        self.guards.append(&mut other.guards);
        self.tables += std::mem::take(&mut other.tables);
        self.tell_from(known);
        self.guards.sort_by(|one, other| one.key.cmp(&other.key));
    }

    /// True if a lock was not free at once.
    pub fn waited(&self) -> bool {
        self.waited
    }

    /// Frees one table, and with the last table also the namespaces above.
    pub fn free(&mut self, table: &TableKey) {
        let key = Key::Table(table.clone());
        let first = self.guards.partition_point(|guard| guard.key < key);
        let held = self.guards[first..].iter().take_while(|it| it.key == key);
        for place in first..first + held.count() {
            self.free_at(place);
        }
        if self.tables == 0 {
            self.free_all();
        }
    }

    fn free_all(&mut self) {
        for place in 0..self.guards.len() {
            self.free_at(place);
        }
        self.guards.clear();
    }

    /// Frees the lock at a place of `guards`, which stays there without it.
    fn free_at(&mut self, place: usize) {
        let Guard { key, lock } = &mut self.guards[place];
        let Some(lock) = lock.take() else {
            return;
        };
        if let Key::Table(table) = key {
            self.tables -= 1;
            if self.batch.is_some() {
                self.locks.shared.holders.remove(table);
            }
        }
        drop(lock);
        self.locks.forget(key);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.free_all();
    }
}
