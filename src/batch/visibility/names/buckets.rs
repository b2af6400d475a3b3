//! Parts of all names that can be read without waiting for writers of other names.

use std::sync::atomic::{AtomicU64, Ordering};

use super::ONE_CHANGE;
use crate::batch::locks::TableKey;
use crate::util::stable_hash::place;

/// The number of parts.
const BUCKETS: usize = 1024;

/// The number of names that batches affect and the number of the last change, for each part. Both are in one word,
/// as in a [`super::NamesEpoch`], so that they are of the same moment. Written only under the lock of the state.
pub(super) struct Buckets(Box<[AtomicU64]>);

impl Default for Buckets {
    fn default() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Buckets {
    /// True if no batch affects the name.
    pub(super) fn has_none(&self, table: &TableKey) -> bool {
        let now = self.of(table).load(Ordering::Acquire);
        now.is_multiple_of(ONE_CHANGE)
    }

    /// True if no batch affects the name, and it has not changed after the change with this number.
    pub(super) fn is_calm(&self, table: &TableKey, since: u64) -> bool {
        let now = self.of(table).load(Ordering::Acquire);
        now.is_multiple_of(ONE_CHANGE) && now / ONE_CHANGE <= since
    }

    /// Adds a batch that affects the name.
    pub(super) fn add(&self, table: &TableKey) {
        self.of(table).fetch_add(1, Ordering::Release);
    }

    /// Removes this number of batches that affected the name.
    pub(super) fn remove(&self, table: &TableKey, batches: u64) {
        self.of(table).fetch_sub(batches, Ordering::Release);
    }

    /// Records the number of the last change.
    pub(super) fn change(&self, table: &TableKey, number: u64) {
        let bucket = self.of(table);
        let batches = bucket.load(Ordering::Relaxed) % ONE_CHANGE;
        bucket.store(number * ONE_CHANGE + batches, Ordering::Release);
    }

    fn of(&self, table: &TableKey) -> &AtomicU64 {
        &self.0[place(table, BUCKETS)]
    }
}
