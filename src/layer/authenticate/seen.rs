//! Which tokens were verified before, in so few bytes that this can be told of very many.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// As many as busy clients may have; of more, some are forgotten.
const PLACES: usize = 1 << 17;

/// Marks by the hash of what was seen. A mistake costs memory or time, and decides nothing.
pub(super) struct Seen(Box<[AtomicU32]>);

impl Default for Seen {
    fn default() -> Self {
        Self((0..PLACES).map(|_| AtomicU32::new(0)).collect())
    }
}

impl Seen {
    /// Marks what has this hash, and tells whether it was marked.
    pub(super) fn again(&self, hash: u64) -> bool {
        // Other bits than those that choose the place. Nothing that is marked looks like a place that never was.
        let (place, mark) = (hash as usize % PLACES, (hash >> 32) as u32 | 1);
        self.0[place].swap(mark, Relaxed) == mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_known_until_another_takes_its_place() {
        let seen = Seen::default();
        for hash in [0, 1, u64::MAX, 7 << 32] {
            assert!(!seen.again(hash), "{hash:x}");
            assert!(seen.again(hash), "{hash:x}");
        }
        let here = 5 | 2 << 32;
        let (there, same_place) = (6 | 2 << 32, 5 | 4 << 32);
        assert!(!seen.again(here) && !seen.again(there) && seen.again(here));
        assert!(!seen.again(same_place));
        assert!(!seen.again(here));
    }
}
