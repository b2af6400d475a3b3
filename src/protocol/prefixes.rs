//! What stands at prefixes of names, found by the longest one: mounts, and rules of who may do what.
//!
//! Finding reads each name once and allocates nothing. It probes once for each length that some prefix has, at most,
//! and compares names only where a hash agrees: what it costs does not depend on how many prefixes there are. Who picks
//! names so that their hashes collide gains nothing, for what is looked up is not kept.

mod index;

use super::identifier::Identifier;
use index::Index;

/// Something that stands at a prefix of names.
pub trait PrefixEntry {
    /// The names.
    fn prefix(&self) -> &Identifier;
}

/// Things by their prefixes. Immutable.
#[derive(Clone, Debug)]
pub struct Prefixes<T> {
    /// Sorted by prefix, so that what is below a name is one slice.
    all: Vec<T>,
    /// Where what is below each of them ends.
    ends: Vec<usize>,
    index: Index,
    /// Bit `n` says that some prefix has `n + 1` names.
    lengths: u64,
}

impl<T: PrefixEntry> Prefixes<T> {
    /// The table of `all`. Of two with the same prefix, one is lost.
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

    /// All of them, sorted by prefix.
    pub fn all(&self) -> &[T] {
        &self.all
    }

    /// What has the longest prefix of `id`.
    pub fn find(&self, id: &Identifier) -> Option<&T> {
        self.place(id).map(|place| &self.all[place])
    }

    /// What is strictly below `id`, sorted by prefix.
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

/// Where what is below each of `all`, which are sorted, ends.
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
