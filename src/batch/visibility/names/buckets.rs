//! What is known of one name without waiting for whoever changes others.

use std::sync::atomic::{AtomicU64, Ordering};

use super::ONE_CHANGE;
use crate::batch::locks::TableKey;
use crate::util::stable_hash::place;

/// How many parts all names are in.
const BUCKETS: usize = 1024;

/// For each part of all names, how many of them batches have a say in, and the last change of one of them. Both stand
/// in one word, as in a [`super::Moment`], so that they are of the same moment. Written under the lock of the state
/// only.
pub(super) struct Buckets(Box<[AtomicU64]>);

impl Default for Buckets {
    fn default() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Buckets {
    /// No batch has a say in the name.
    pub(super) fn has_none(&self, table: &TableKey) -> bool {
        let now = self.of(table).load(Ordering::Acquire);
        now.is_multiple_of(ONE_CHANGE)
    }

    /// No batch has a say in the name, and it has not changed after the change of this number.
    pub(super) fn is_calm(&self, table: &TableKey, since: u64) -> bool {
        let now = self.of(table).load(Ordering::Acquire);
        now.is_multiple_of(ONE_CHANGE) && now / ONE_CHANGE <= since
    }

    /// One more batch has a say in the name.
    pub(super) fn add(&self, table: &TableKey) {
        self.of(table).fetch_add(1, Ordering::Release);
    }

    /// So many have none any more.
    pub(super) fn remove(&self, table: &TableKey, batches: u64) {
        self.of(table).fetch_sub(batches, Ordering::Release);
    }

    /// This is the last change.
    pub(super) fn change(&self, table: &TableKey, number: u64) {
        let bucket = self.of(table);
        let batches = bucket.load(Ordering::Relaxed) % ONE_CHANGE;
        bucket.store(number * ONE_CHANGE + batches, Ordering::Release);
    }

    fn of(&self, table: &TableKey) -> &AtomicU64 {
        &self.0[place(table, BUCKETS)]
    }
}
