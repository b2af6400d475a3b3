//! A bounded number of token buckets, found by a hash of their caller.
//!
//! A bucket needs only the time at which it is full again. A full bucket is the same as none, so full ones are
//! forgotten first if room is needed. After those comes the one that is full soonest, because its caller gains the
//! least.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, PoisonError};

use governor::nanos::Nanos;
use governor::state::StateStore;

/// The number of locks over which the buckets are spread, so that requests of different callers rarely meet.
const SHARDS: usize = 64;

/// The buckets of all callers.
pub(super) struct Buckets {
    shards: Box<[Shard]>,
    /// The most buckets of one shard.
    most: usize,
}

/// A part of the buckets, alone in its cache lines.
#[repr(align(128))]
#[derive(Default)]
struct Shard(Mutex<FullAt>);

/// The time at which each bucket is full again, in nanoseconds of the limiter's clock.
type FullAt = HashMap<u64, u64, BuildHasherDefault<PrehashedHasher>>;

/// A hasher for keys that are hashes already.
#[derive(Default)]
struct PrehashedHasher(u64);

impl Buckets {
    /// Makes room for about `callers` buckets.
    pub(super) fn new(callers: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            most: callers.div_ceil(SHARDS),
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let shards = self.shards.iter();
        shards
            .map(|shard| shard.0.lock().expect("not poisoned").len())
            .sum()
    }
}

impl StateStore for Buckets {
    type Key = u64;

    fn measure_and_replace<T, F, E>(&self, key: &u64, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        // The map uses the lowest and the highest bits.
        let shard = &self.shards[(*key >> 32) as usize % SHARDS];
        let mut shard = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(full_at) = shard.get_mut(key) {
            let (outcome, then) = decide(Some(Nanos::from(*full_at)))?;
            *full_at = then.as_u64();
            return Ok(outcome);
        }
        let (outcome, then) = decide(None)?;
        if shard.len() >= self.most {
            make_room(&mut shard, then.as_u64());
        }
        shard.insert(*key, then.as_u64());
        Ok(outcome)
    }
}

/// Forgets the buckets that are no emptier than the new one, which is full at `newcomer`; at least one of them.
fn make_room(shard: &mut FullAt, newcomer: u64) {
    let before = shard.len();
    shard.retain(|_, full_at| *full_at > newcomer);
    if shard.len() == before
        && let Some(fullest) = shard.iter().min_by_key(|(_, full_at)| **full_at)
    {
        let fullest = *fullest.0;
        shard.remove(&fullest);
    }
}

impl Hasher for PrehashedHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}
