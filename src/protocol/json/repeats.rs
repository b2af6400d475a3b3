//! Finds a member that an object has twice: some servers take the first value, and others the last.

use std::borrow::Cow;
use std::collections::HashSet;

/// The number of names that are compared one by one, which needs no memory. Most objects have fewer.
const FEW: usize = 12;

/// The names of an object's members so far.
#[derive(Default)]
pub(super) struct SeenNames<'a> {
    first: [&'a str; FEW],
    count: usize,
    others: HashSet<Cow<'a, str>>,
}

impl<'a> SeenNames<'a> {
    /// Adds a decoded name. Returns false if the object has it already.
    pub(super) fn add(&mut self, name: Cow<'a, str>) -> bool {
        let is_among_first = self.first[..self.count].contains(&&*name);
        if is_among_first || !self.others.is_empty() && self.others.contains(&name) {
            return false;
        }
        match name {
            Cow::Borrowed(name) if self.count < FEW => {
                self.first[self.count] = name;
                self.count += 1;
            }
            _ => {
                self.others.insert(name);
            }
        }
        true
    }
}
