//! Counters with one part for each thread, so that cores do not contend for them.
//!
//! A reader of the metrics adds the parts up.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of threads that have a part of their own.
const ALONE: usize = 64;
/// The number of parts that the other threads share.
const SHARED: usize = 16;

/// One part for each thread.
pub(super) struct Shards<T>(Box<[Shard<T>]>);

/// A part on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Shard<T>(T);

/// The threads that count in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    /// One thread.
    Alone,
    /// Several threads.
    Among,
}

/// A counter in a part. It only grows.
#[derive(Debug, Default)]
pub(super) struct Count {
    all: AtomicU64,
    /// The amount that was already read.
    read: AtomicU64,
}

impl<T: Default> Default for Shards<T> {
    fn default() -> Self {
        let parts = (0..ALONE + SHARED).map(|_| Shard::default());
        Self(parts.collect())
    }
}

impl<T> Shards<T> {
    /// Returns the part of the current thread, and which threads count in it.
    pub(super) fn own(&self) -> (&T, Writer) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static PLACE: usize = place(NEXT.fetch_add(1, Ordering::Relaxed)));
        let place = PLACE.with(|place| *place);
        let writer = if place < ALONE {
            Writer::Alone
        } else {
            Writer::Among
        };
        (&self.0[place].0, writer)
    }

    /// Returns all parts.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|shard| &shard.0)
    }
}

impl Count {
    /// Adds `more`, counted by `writer`.
    pub(super) fn add(&self, more: u64, writer: Writer) {
        match writer {
            // No other thread writes, so no count is lost between load and store, and no atomic addition is
            // needed.
            Writer::Alone => {
                let before = self.all.load(Ordering::Relaxed);
                self.all.store(before + more, Ordering::Relaxed);
            }
            Writer::Among => {
                self.all.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    /// Returns the total.
    pub(super) fn all(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    /// Returns the amount that was added since the last call, from whichever thread.
    pub(super) fn unread(&self) -> u64 {
        let all = self.all();
        all.saturating_sub(self.read.fetch_max(all, Ordering::Relaxed))
    }
}

/// Locks a part. Ignores poisoning: a panic cannot leave the counters half updated.
pub(super) fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the index of the part for a thread, which is the number of threads that counted before it.
fn place(thread: usize) -> usize {
    if thread < ALONE {
        thread
    } else {
        ALONE + thread % SHARED
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use std::collections::HashSet;
    use std::thread;

    use super::*;

    #[test]
    fn only_those_without_a_part_of_their_own_share_one() {
        let places: Vec<_> = (0..1000).map(place).collect();
        let own: HashSet<_> = places[..ALONE].iter().collect();
        assert_eq!(own.len(), ALONE);
        assert!(places[ALONE..].iter().all(|place| !own.contains(place)));
        assert!(places.iter().all(|place| *place < ALONE + SHARED));
    }

    #[test]
    fn whoever_reads_while_threads_count_sees_everything_once() {
        const THREADS: usize = 8;
        const EACH: u64 = 10_000;
        let shards = Shards::<Count>::default();
        let read = || shards.all().map(Count::unread).sum::<u64>();
        let seen = thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let (count, writer) = shards.own();
                        count.add(1, writer);
                    }
                });
            }
            let readers = [0; 2].map(|_| scope.spawn(|| (0..100).map(|_| read()).sum::<u64>()));
            readers
                .map(|reader| reader.join().unwrap())
                .iter()
                .sum::<u64>()
        });
        assert_eq!(seen + read(), THREADS as u64 * EACH);
    }
}
