//! Values at prefixes of names, found by the longest prefix: mounts and access rules.
//!
//! A look-up reads each name once and allocates nothing. It probes at most once for each length that some prefix has,
//! and compares names only if a hash agrees: its cost does not depend on the number of prefixes. A client that picks
//! names with colliding hashes gains nothing, because names that are looked up are not stored.

mod index;

use super::identifier::Identifier;
use index::Index;

/// A value with a prefix of names.
pub trait PrefixEntry {
    /// Returns the prefix.
    fn prefix(&self) -> &Identifier;
}

/// Values by their prefixes. Immutable.
#[derive(Clone, Debug)]
pub struct Prefixes<T> {
    /// The values, sorted by prefix, so that those below a name are one slice.
    all: Vec<T>,
    /// The end of the slice of values below each value, by the value's index.
    ends: Vec<usize>,
    index: Index,
    /// A bit set: bit `n` is set if some prefix has `n + 1` names.
    lengths: u64,
}

impl<T: PrefixEntry> Prefixes<T> {
    /// Returns the table of `all`. Of two values with the same prefix, one is lost.
    pub fn new(mut all: Vec<T>) -> Self {
        all.sort_by(|a, b| a.prefix().cmp(b.prefix()));
        all.dedup_by(|a, b| a.prefix() == b.prefix());
        let prefixes = || all.iter().map(T::prefix);
        let lengths = prefixes().filter_map(|prefix| prefix.len().checked_sub(1));
        Self {
            ends: ends(&all),
            index: Index::new(prefixes().map(hash)),
            lengths: lengths.fold(0, |lengths, length| lengths | 1 << length),
            all,
        }
    }

    /// Returns all values, sorted by prefix.
    pub fn all(&self) -> &[T] {
        &self.all
    }

    /// Returns the value with the longest prefix of `id`.
    pub fn find(&self, id: &Identifier) -> Option<&T> {
        self.place(id).map(|place| &self.all[place])
    }

    /// Returns the values strictly below `id`, sorted by prefix.
    pub fn below(&self, id: &Identifier) -> &[T] {
        let around = match self.place(id) {
            Some(place) => &self.all[place + 1..self.ends[place]],
            None => &self.all,
        };
        let first = around.partition_point(|one| one.prefix() <= id);
        let from = &around[first..];
        &from[..from.partition_point(|one| one.prefix().starts_with(id))]
    }

    fn place(&self, id: &Identifier) -> Option<usize> {
        let root = self.all.first().filter(|first| first.prefix().is_root());
        let mut longest = root.map(|_| 0);
        let mut hash = index::SEED;
        let joined = id.joined().as_bytes();
        let (mut start, mut left) = (0, self.lengths);
        while left != 0 && start < joined.len() {
            let name = joined[start..].iter().take_while(|byte| **byte != 0);
            let end = start + name.count();
            hash = index::add(hash, &joined[start..end]);
            if left & 1 == 1 {
                let prefix = &joined[..end];
                let is = |place: usize| self.all[place].prefix().joined().as_bytes() == prefix;
                longest = self.index.find(hash, is).or(longest);
            }
            left >>= 1;
            start = end + 1;
        }
        longest
    }
}

impl<T> Default for Prefixes<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            ends: Vec::new(),
            index: Index::default(),
            lengths: 0,
        }
    }
}

/// Returns, for each of the sorted values, the end of the slice of values below it.
fn ends<T: PrefixEntry>(all: &[T]) -> Vec<usize> {
    let mut ends = vec![all.len(); all.len()];
    let mut open: Vec<usize> = Vec::new();
    for (place, one) in all.iter().enumerate() {
        while let Some(&above) = open.last()
            && !one.prefix().starts_with(all[above].prefix())
        {
            ends[above] = place;
            open.pop();
        }
        open.push(place);
    }
    ends
}

fn hash(prefix: &Identifier) -> u64 {
    let names = prefix.names();
    names.fold(index::SEED, |hash, name| index::add(hash, name.as_bytes()))
}

#[cfg(test)]
mod tests;
