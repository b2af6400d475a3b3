//! Finds values by what is above and below a list of names, so that checks stay quick however long the file is.

use std::collections::BTreeMap;
use std::ops::Bound;

/// Values by lists of names.
pub(super) struct Prefixes<'a, T>(BTreeMap<&'a [String], T>);

impl<'a, T> Prefixes<'a, T> {
    /// Returns the values at the list or above it, the longest list first.
    pub(super) fn covering<'b>(
        &'b self,
        names: &'b [String],
    ) -> impl Iterator<Item = (&'a [String], &'b T)> {
        let prefixes = (0..=names.len()).rev().map(|length| &names[..length]);
        prefixes.filter_map(|prefix| self.0.get_key_value(prefix).map(|(at, value)| (*at, value)))
    }

    /// Returns the values below the list, each with the names that lead there from it.
    pub(super) fn below<'b>(
        &'b self,
        names: &'b [String],
    ) -> impl Iterator<Item = (&'a [String], &'b T)> {
        let after = (Bound::Excluded(names), Bound::Unbounded);
        let below = self.0.range::<[String], _>(after);
        below.map_while(|(at, value)| Some((at.strip_prefix(names)?, value)))
    }
}

impl<'a, T> FromIterator<(&'a [String], T)> for Prefixes<'a, T> {
    fn from_iter<I: IntoIterator<Item = (&'a [String], T)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}
