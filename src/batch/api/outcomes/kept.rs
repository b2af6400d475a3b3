//! Outcomes in memory, bounded by the bytes that they take.

use std::hash::Hash;
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::Outcome;

/// The bytes for which the cache expects one outcome. It has a part for some tens of outcomes, and one that is larger than
/// a part stays on disk: with this number a part of 32 MiB has at least 1 MiB, which is a batch of 2,000 entries.
const EXPECTED: usize = 32 << 10;

/// Outcomes by a key; the least used are removed first.
pub(super) struct KeptOutcomes<K>(Cache<K, Weighed, Weight>);

#[derive(Clone)]
struct Weighed {
    outcome: Arc<Outcome>,
    bytes: u64,
}

#[derive(Clone)]
struct Weight;

impl<K> Weighter<K, Weighed> for Weight {
    fn weight(&self, _: &K, weighed: &Weighed) -> u64 {
        weighed.bytes
    }
}

impl<K: Hash + Eq + Clone> KeptOutcomes<K> {
    /// Makes room for `bytes` of outcomes.
    pub(super) fn new(bytes: usize) -> Self {
        Self(Cache::with_weighter(
            (bytes / EXPECTED).max(1),
            bytes as u64,
            Weight,
        ))
    }

    /// Changes the room; the outcomes for which there is none are removed.
    pub(super) fn resize(&self, bytes: usize) {
        self.0.set_capacity(bytes as u64);
    }

    /// The room in bytes. It is divided into equal parts, so that it can be a few bytes more than it was set to.
    pub(super) fn capacity(&self) -> usize {
        usize::try_from(self.0.capacity()).unwrap_or(usize::MAX)
    }

    /// Returns the outcome with this key.
    pub(super) fn get(&self, key: &K) -> Option<Arc<Outcome>> {
        self.0.get(key).map(|weighed| weighed.outcome)
    }

    /// Adds an outcome that has its answer.
    pub(super) fn insert(&self, key: K, outcome: Arc<Outcome>) {
        let bytes = outcome.bytes() as u64;
        self.0.insert(key, Weighed { outcome, bytes });
    }

    /// Keeps only some outcomes.
    pub(super) fn retain(&self, keep: impl Fn(&Arc<Outcome>) -> bool) {
        self.0.retain(|_, weighed| keep(&weighed.outcome));
    }

    /// The number of outcomes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
