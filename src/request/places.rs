//! The places of requests that are served at a time, and each caller's share of them.
//!
//! Shares are not counted as long as half of the places are free, so that they cost nothing. Beyond that a caller may
//! have only so many more: requests that take long by design, as bodies that come in byte by byte do, leave places to
//! others.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::caller::Caller;
use super::{CompletionObserver, RequestRecord};
use crate::body::End;

/// The number of callers that are told apart, roughly. Two callers in one slot have one share; no caller can choose
/// which two.
const SLOTS: usize = 1 << 12;
/// The fewest places of which callers have shares. With fewer, a single caller could not use them.
const FEWEST: usize = 16;

/// The places of requests that are served at a time.
pub struct Places {
    taken: AtomicUsize,
    all: AtomicUsize,
    /// The most that one caller may have of them, in percent.
    share: AtomicU32,
    /// The number of places beyond the first half that each caller has.
    slots: Box<[AtomicU32]>,
    hasher: RandomState,
}

impl Places {
    /// Creates `all` places, of which one caller has at most `share` percent.
    pub fn new(all: usize, share: u32) -> Self {
        Self {
            taken: AtomicUsize::new(0),
            all: AtomicUsize::new(all),
            share: AtomicU32::new(share),
            slots: (0..SLOTS).map(|_| AtomicU32::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Changes the number of places and the share; requests that are being served go on.
    pub fn set(&self, all: usize, share: u32) {
        self.all.store(all, Ordering::Relaxed);
        self.share.store(share, Ordering::Relaxed);
    }

    /// The number of places that are free now.
    pub fn free(&self) -> usize {
        let all = self.all.load(Ordering::Relaxed);
        all.saturating_sub(self.taken.load(Ordering::Relaxed))
    }

    /// Takes a place; false if there is none.
    pub fn take(&self) -> bool {
        if self.taken.fetch_add(1, Ordering::Relaxed) < self.all.load(Ordering::Relaxed) {
            return true;
        }
        self.taken.fetch_sub(1, Ordering::Relaxed);
        false
    }

    /// True if more than half of the places are taken, so that shares count.
    pub fn is_scarce(&self) -> bool {
        let all = self.all.load(Ordering::Relaxed);
        self.taken.load(Ordering::Relaxed) > all / 2
            && all >= FEWEST
            && self.share.load(Ordering::Relaxed) < 100
    }

    /// Counts the place of `exchange` toward its caller's share; false if the caller has its share already.
    pub fn count(&self, caller: &Caller<'_>, exchange: &RequestRecord) -> bool {
        let all = self.all.load(Ordering::Relaxed);
        let share = self.share.load(Ordering::Relaxed) as usize;
        let most = (all * share / 100).saturating_sub(all / 2).max(1);
        let slot = self.hasher.hash_one(caller) as usize % SLOTS;
        let had = self.slots[slot].fetch_add(1, Ordering::Relaxed) as usize;
        if had < most {
            exchange.shares(slot);
            return true;
        }
        self.slots[slot].fetch_sub(1, Ordering::Relaxed);
        false
    }
}

impl CompletionObserver for Places {
    fn over(&self, exchange: &RequestRecord, _: End) {
        if !exchange.is_served() {
            return;
        }
        self.taken.fetch_sub(1, Ordering::Relaxed);
        if let Some(slot) = exchange.share() {
            self.slots[slot].fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_leaves_places_to_others() {
        let places = Places::new(100, 75);
        let (one, other) = (
            Caller::of_subject("i", "one"),
            Caller::of_subject("i", "other"),
        );
        let mut exchanges = Vec::new();
        let mut ask = |caller: &Caller<'_>| {
            if !places.take() {
                return false;
            }
            let exchange = RequestRecord::begin(None, [].into_iter().collect());
            exchange.served();
            let has = !places.is_scarce() || places.count(caller, &exchange);
            if has {
                exchanges.push(exchange);
            } else {
                places.over(&exchange, End::Aborted);
            }
            has
        };
        assert_eq!((0..100).filter(|_| ask(&one)).count(), 75);
        assert_eq!((0..100).filter(|_| ask(&other)).count(), 25);
        for exchange in exchanges {
            places.over(&exchange, End::Complete);
        }
        assert_eq!(places.free(), 100);
        let slots = places.slots.iter();
        assert!(
            slots
                .into_iter()
                .all(|slot| slot.load(Ordering::Relaxed) == 0)
        );
    }

    #[test]
    fn few_places_are_anybodys() {
        for places in [Places::new(15, 75), Places::new(100, 100)] {
            while places.take() {
                assert!(!places.is_scarce());
            }
        }
    }
}
