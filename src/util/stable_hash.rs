//! Distributes keys over a fixed number of places: fast, and the same in every process, as a simulation
//! needs it.
//!
//! A caller who chooses names can make them share a place. They lose nothing by it but a second look.

use std::hash::{Hash, Hasher};

/// Returns the place of a key, below `places`.
pub(crate) fn place(key: &impl Hash, places: usize) -> usize {
    let mut mixed = StableHasher(0);
    key.hash(&mut mixed);
    usize::try_from(mixed.finish()).unwrap_or_default() % places
}

struct StableHasher(u64);

impl StableHasher {
    fn mix(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

impl Hasher for StableHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        let rest = rest.iter().rev();
        self.mix(rest.fold(1, |word, byte| word << 8 | u64::from(*byte)));
    }

    fn write_u8(&mut self, byte: u8) {
        self.mix(byte.into());
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn names_are_spread_over_all_places() {
        const PLACES: usize = 64;
        let mut counts = [0; PLACES];
        for number in 0..6400 {
            counts[place(&format!("table_{number}"), PLACES)] += 1;
        }
        assert!(
            counts.iter().all(|count| (60..150).contains(count)),
            "{counts:?}"
        );
        // The boundary between two texts makes a difference.
        assert_ne!(place(&("ab", "c"), 1 << 20), place(&("a", "bc"), 1 << 20));
        assert_ne!(place(&"a", 1 << 20), place(&"a\0", 1 << 20));
    }
}
