//! What every request counts, once for each thread that counts, so that cores do not take it from each other.
//!
//! Whoever reads the metrics puts the parts together.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads beyond this many share parts with others.
const SHARDS: usize = 16;

/// A part for each thread.
pub(super) struct Shards<T>(Box<[Shard<T>]>);

/// Alone in its cache lines.
#[repr(align(128))]
#[derive(Default)]
struct Shard<T>(T);

impl<T: Default> Default for Shards<T> {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Shard::default()).collect())
    }
}

impl<T> Shards<T> {
    /// This thread's.
    pub(super) fn own(&self) -> &T {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static PLACE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
        &self.0[PLACE.with(|place| *place)].0
    }

    /// Everybody's.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|shard| &shard.0)
    }
}
