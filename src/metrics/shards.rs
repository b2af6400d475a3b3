//! What every request counts, once for each thread that counts, so that cores do not take it from each other.
//!
//! Whoever reads the metrics puts the parts together.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many threads have a part of their own.
const ALONE: usize = 64;
/// So many parts are shared by the others.
const SHARED: usize = 16;

/// A part for each thread.
pub(super) struct Shards<T>(Box<[Shard<T>]>);

/// Alone in its cache lines.
#[repr(align(128))]
#[derive(Default)]
struct Shard<T>(T);

/// Who counts in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    /// One thread.
    Alone,
    /// Several.
    Among,
}

/// What is counted in a part. It only grows.
#[derive(Debug, Default)]
pub(super) struct Count {
    all: AtomicU64,
    /// How much of it was read.
    read: AtomicU64,
}

impl<T: Default> Default for Shards<T> {
    fn default() -> Self {
        let parts = (0..ALONE + SHARED).map(|_| Shard::default());
        Self(parts.collect())
    }
}

impl<T> Shards<T> {
    /// This thread's, and who counts there.
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

    /// Everybody's.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|shard| &shard.0)
    }
}

impl Count {
    /// So many more, counted by `writer`.
    pub(super) fn add(&self, more: u64, writer: Writer) {
        match writer {
            // Nobody else writes, so nothing is lost between the two, and nothing need be locked.
            Writer::Alone => {
                let before = self.all.load(Ordering::Relaxed);
                self.all.store(before + more, Ordering::Relaxed);
            }
            Writer::Among => {
                self.all.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    /// All that was counted.
    pub(super) fn all(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    /// What came since this was last asked, whoever asked.
    pub(super) fn unread(&self) -> u64 {
        let all = self.all();
        all.saturating_sub(self.read.fetch_max(all, Ordering::Relaxed))
    }
}

/// What is counted in a part under a lock: nothing that a panic could leave half done.
pub(super) fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The part of the thread that came so many others later.
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
