//! Positions by the hash of names: a table that is built once, with at least half of its slots empty, and linear
//! probing.

/// The hash of an empty list of names.
pub(super) const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// An odd factor with evenly spread bits.
const FACTOR: u64 = 0xd6e8_feb8_6659_fd93;
/// The `place` of an empty slot.
const EMPTY: u32 = u32::MAX;

/// The positions of values, by their hashes.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// The slots; their number is a power of two, or zero.
    slots: Box<[Slot]>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The upper half of the hash; the lower half determines the slot.
    tag: u32,
    place: u32,
}

impl Index {
    /// Returns the index of the positions `0..`, given their hashes.
    pub(super) fn new(hashes: impl ExactSizeIterator<Item = u64>) -> Self {
        let empty = Slot {
            tag: 0,
            place: EMPTY,
        };
        let mut slots = vec![empty; (hashes.len() * 2).next_power_of_two()];
        let mask = slots.len() - 1;
        for (place, hash) in hashes.enumerate() {
            let mut at = hash as usize & mask;
            while slots[at].place != EMPTY {
                at = (at + 1) & mask;
            }
            slots[at] = Slot {
                tag: tag(hash),
                place: place as u32,
            };
        }
        Self {
            slots: slots.into(),
        }
    }

    /// Returns the position with this hash for which `is` returns true.
    pub(super) fn find(&self, hash: u64, is: impl Fn(usize) -> bool) -> Option<usize> {
        self.probe(hash)
            .filter(|slot| slot.tag == tag(hash))
            .map(|slot| slot.place as usize)
            .find(|&place| is(place))
    }

    /// Returns the slots that a value with this hash may be in.
    fn probe(&self, hash: u64) -> impl Iterator<Item = Slot> {
        let mask = self.slots.len().wrapping_sub(1);
        (hash as usize..)
            .map_while(move |at| self.slots.get(at & mask))
            .copied()
            .take_while(|slot| slot.place != EMPTY)
    }
}

fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Returns the hash of a list of names, whose hash is `hash`, with one more name.
pub(super) fn add(hash: u64, name: &[u8]) -> u64 {
    let (words, rest) = name.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let hash = words.fold(hash, |hash, word| mix(hash ^ word));
    let rest = rest
        .iter()
        .fold(0, |word, byte| word << 8 | u64::from(*byte));
    // The length is included, so that `["a", "b"]` has another hash than `["ab"]`.
    mix(mix(hash ^ rest) ^ name.len() as u64)
}

/// Mixes a word: every bit of the result depends on every bit of `word`.
fn mix(word: u64) -> u64 {
    let product = u128::from(word) * u128::from(FACTOR);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(names: &[String]) -> u64 {
        let names = names.iter();
        names.fold(SEED, |hash, name| add(hash, name.as_bytes()))
    }

    #[test]
    fn finding_one_of_many_takes_as_few_probes_as_finding_one_of_few() {
        for count in [10, 1_000, 100_000] {
            let shapes: [&dyn Fn(usize) -> Vec<String>; 3] = [
                &|n| vec![format!("tenant-{n}")],
                &|n| vec![(n % 100).to_string(), (n / 100).to_string()],
                &|n| vec!["lake".to_owned(), "eu".to_owned(), format!("{n:08}")],
            ];
            for shape in shapes {
                let hashes: Vec<u64> = (0..count).map(|n| hash(&shape(n))).collect();
                let index = Index::new(hashes.iter().copied());
                let probes = hashes.iter().enumerate().map(|(place, &hash)| {
                    assert_eq!(index.find(hash, |found| found == place), Some(place));
                    index
                        .probe(hash)
                        .take_while(|slot| slot.place as usize != place)
                        .count()
                        + 1
                });
                let (most, all) = probes.fold((0, 0), |(most, all), n| (n.max(most), all + n));
                assert!(all < count * 2, "{all} probes for {count}");
                assert!(most < 40, "{most} probes for one of {count}");
                let tags = |hash: u64| index.find(hash, |_| true);
                let others = (count..2 * count).filter(|&n| tags(hash(&shape(n))).is_some());
                assert_eq!(others.count(), 0, "no name is compared that is not the one");
            }
        }
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        assert_eq!(Index::default().find(SEED, |_| true), None);
        assert_eq!(Index::new([].into_iter()).find(SEED, |_| true), None);
    }
}
