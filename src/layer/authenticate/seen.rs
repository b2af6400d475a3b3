//! Remembers which tokens were verified before, in so few bytes that very many fit.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// The number of marks: as many as busy clients may have tokens. Beyond it, some are forgotten.
const PLACES: usize = 1 << 17;
/// The number of places that a mark may have. New marks take them in turn: with one place alone, two tokens that
/// alternate would evict each other for ever.
const CHOICES: usize = 4;

/// Marks by the hash of a token. A mistake costs memory or time, and decides nothing.
pub(super) struct SeenFilter {
    places: Box<[AtomicU32]>,
    turn: AtomicUsize,
}

impl Default for SeenFilter {
    fn default() -> Self {
        Self {
            places: (0..PLACES).map(|_| AtomicU32::new(0)).collect(),
            turn: AtomicUsize::new(0),
        }
    }
}

impl SeenFilter {
    /// Marks this hash, and returns true if it was marked before.
    pub(super) fn again(&self, hash: u64) -> bool {
        // These are other bits than those that choose the places. The lowest bit is set, so that no mark looks like an
        // empty place.
        let mark = (hash >> 32) as u32 | 1;
        let first = hash as usize % (PLACES / CHOICES) * CHOICES;
        let places = &self.places[first..first + CHOICES];
        if places.iter().any(|place| place.load(Relaxed) == mark) {
            return true;
        }
        let turn = self.turn.fetch_add(1, Relaxed) % CHOICES;
        places[turn].store(mark, Relaxed);
        false
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};

    use super::*;

    #[test]
    fn what_was_seen_is_known_until_others_take_its_place() {
        let seen = SeenFilter::default();
        for hash in [0, 1, u64::MAX, 7 << 32] {
            assert!(!seen.again(hash), "{hash:x}");
            assert!(seen.again(hash), "{hash:x}");
        }
        let here = |mark: u64| 5 | mark << 33;
        assert!(!seen.again(here(0)) && !seen.again(6));
        for other in 1..CHOICES as u64 {
            assert!(seen.again(here(0)) && !seen.again(here(other)), "{other}");
        }
        assert!(!seen.again(here(0)));
    }

    #[test]
    fn of_many_that_come_in_turn_nearly_all_are_known_soon() {
        let seen = SeenFilter::default();
        let hash = |number: u64| {
            let mut hasher = DefaultHasher::new();
            number.hash(&mut hasher);
            hasher.finish()
        };
        let mut unknown: Vec<u64> = (0..100_000).map(hash).collect();
        for _ in 0..6 {
            unknown.retain(|hash| !seen.again(*hash));
        }
        assert!(unknown.len() < 2000, "{} are not", unknown.len());
    }
}
