//! The names of a catalog's answer that a page may need: no more than fit on it, however long the answer is. Pure.
//!
//! A catalog that keeps to the requested `limit` determines the order of its names. The names of one that lists more
//! are sorted, because nothing else says where the last page ended. Then only the smallest ones after that place are
//! kept while the others pass.

use std::collections::BTreeSet;
use std::mem::take;

use super::token::Place;

/// The memory of a name besides its text, in bytes.
const NAME: usize = size_of::<String>();

/// The selection from one answer, in which the page begins at a place.
pub(super) struct Selection {
    place: Place,
    /// The `limit` of the request to the catalog.
    limit: usize,
    /// The most names that are kept of an answer with more than that: those that fit, and one that shows that there are
    /// more.
    most: usize,
    /// The names in the answer so far, those that are not shown included.
    listed: usize,
    kept: Kept,
    bytes: usize,
}

enum Kept {
    /// All names so far, of a page that begins at the start of the answer.
    All(Vec<String>),
    /// The first names of an answer that was cut in its own order before, and the first ones after the place of the cut,
    /// once that has come.
    Ordered {
        first: Vec<String>,
        after: Option<Vec<String>>,
    },
    /// The smallest names after the place.
    Smallest(BTreeSet<String>),
}

impl Selection {
    /// Creates the selection of at most `room` names from an answer to a request with this `limit`.
    pub(super) fn new(place: Place, limit: usize, room: usize) -> Self {
        let kept = if place.is_sorted {
            Kept::Smallest(BTreeSet::new())
        } else if place.last.is_some() {
            Kept::Ordered {
                first: Vec::new(),
                after: None,
            }
        } else {
            Kept::All(Vec::new())
        };
        Self {
            place,
            limit,
            most: room.saturating_add(1),
            listed: 0,
            kept,
            bytes: 0,
        }
    }

    /// Creates the selection of everything from the answer to a request with this page token.
    pub(super) fn everything(token: Option<String>) -> Self {
        let place = Place {
            token,
            ..Place::default()
        };
        Self::new(place, usize::MAX, usize::MAX)
    }

    /// Returns the catalog's token of the answer.
    pub(super) fn token(&self) -> Option<&str> {
        self.place.token.as_deref()
    }

    /// Adds the names that are `shown` of the next `listed` ones in the answer.
    pub(super) fn add(&mut self, listed: usize, shown: Vec<String>) {
        self.listed = self.listed.saturating_add(listed);
        if self.listed > self.limit
            && let Kept::All(names) = &mut self.kept
        {
            let names = take(names);
            self.kept = Kept::Smallest(BTreeSet::new());
            self.place.is_sorted = true;
            self.bytes = 0;
            names.into_iter().for_each(|name| self.keep(name));
        }
        shown.into_iter().for_each(|name| self.keep(name));
    }

    /// Returns the number of names that are kept.
    pub(super) fn len(&self) -> usize {
        match &self.kept {
            Kept::All(names) => names.len(),
            Kept::Ordered { first, after } => first.len() + after.as_ref().map_or(0, Vec::len),
            Kept::Smallest(names) => names.len(),
        }
    }

    /// Returns the memory of the names that are kept, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the names at the end of the answer: those that fit on the page, and more than that if there are more. The
    /// place is that of the answer, and says in which order the names are.
    ///
    /// If the name after which the page begins is gone from an answer in its own order, all are given again: a name that
    /// comes twice does less harm than one that is missing.
    pub(super) fn finish(self) -> (Vec<String>, Place) {
        let names = match self.kept {
            Kept::All(names) => names,
            Kept::Ordered { first, after } => after.unwrap_or(first),
            Kept::Smallest(names) => names.into_iter().collect(),
        };
        (names, self.place)
    }

    fn keep(&mut self, name: String) {
        let size = NAME + name.len();
        match &mut self.kept {
            Kept::All(names) => names.push(name),
            Kept::Ordered { first, after } => {
                if after.is_none() && self.place.last.as_ref() == Some(&name) {
                    *after = Some(Vec::new());
                    first.clear();
                    self.bytes = 0;
                    return;
                }
                let names = after.as_mut().unwrap_or(first);
                if names.len() >= self.most {
                    return;
                }
                names.push(name);
            }
            Kept::Smallest(names) => {
                let is_before = self.place.last.as_ref().is_some_and(|last| name <= *last);
                let is_full = names.len() >= self.most;
                let is_beyond = is_full && names.last().is_some_and(|last| name >= *last);
                if is_before || is_beyond || !names.insert(name) {
                    return;
                }
                if is_full && let Some(beyond) = names.pop_last() {
                    self.bytes -= NAME + beyond.len();
                }
            }
        }
        self.bytes += size;
    }
}

#[cfg(test)]
mod tests;
