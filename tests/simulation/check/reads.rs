//! The checks of what clients were shown.

use std::collections::BTreeMap;

use super::Check;
use crate::catalog::Spot;
use crate::history::{Kind, Read, Saw};

/// A line, a version number and its author.
type Known = (Spot, u64, String);

impl Check<'_> {
    pub(super) fn reads(&mut self) {
        let known = self.known();
        for read in &self.history.reads {
            self.nothing_undecided(read);
            let Some(spot) = read.spot else { continue };
            self.nothing_missing(read, spot, &known);
            self.no_gap(read, spot);
        }
    }

    fn nothing_undecided(&mut self, read: &Read) {
        let (table, from, to) = (read.table, read.from, read.to);
        let is_here = |author: &str| !self.history.may_have_moved(author, table);
        let shown = read.saw.shown().into_iter();
        for (version, author) in shown.filter(|(_, author)| is_here(author)) {
            let committed = self.history.committed.get(author);
            if self.history.is_coordinated(author) && committed.is_none_or(|at| *at > to) {
                self.fail(format!(
                    "a read ({from}..{to}) of table {table} showed version {version} by {author}, which was not committed"
                ));
            }
            let mut rows = self.history.undecided_rows(author, to);
            rows.retain(|row| is_here(row));
            if !rows.is_empty() && rows != [author] {
                self.fail(format!(
                    "a read ({from}..{to}) of table {table} showed rows of {rows:?} in version {version} by {author}, which were not committed"
                ));
            }
        }
    }

    /// Returns the time from which each version is known to exist.
    fn known(&self) -> BTreeMap<Known, u64> {
        let mut known: BTreeMap<Known, u64> = BTreeMap::new();
        let mut learn = |spot: Spot, version: u64, author: &str, at: u64| {
            let since = known
                .entry((spot, version, author.to_owned()))
                .or_insert(at);
            *since = at.min(*since);
        };
        for read in &self.history.reads {
            let shown = read.spot.map(|spot| (spot, read.saw.shown()));
            for (spot, (version, author)) in shown
                .into_iter()
                .flat_map(|(spot, shown)| shown.into_iter().map(move |shown| (spot, shown)))
            {
                if !self.history.may_have_moved(author, read.table) {
                    learn(spot, version, author, read.to);
                }
            }
        }
        for op in &self.history.ops {
            if let Some(at) = op.done_at() {
                for entry in &op.entries {
                    if let Some((spot, version)) = self.history.landed.get(&entry.author) {
                        learn(*spot, *version, &entry.author, at);
                    }
                }
            }
        }
        // A version of a batch proves the others.
        for op in &self.history.ops {
            let keys = || {
                let landed = op.entries.iter().filter_map(|entry| {
                    let (spot, version) = self.history.landed.get(&entry.author)?;
                    Some((*spot, *version, entry.author.clone()))
                });
                landed.collect::<Vec<_>>()
            };
            if op.kind == Kind::Coordinated {
                let keys = keys();
                if let Some(first) = keys.iter().filter_map(|key| known.get(key).copied()).min() {
                    known.extend(keys.into_iter().map(|key| (key, first)));
                }
            }
        }
        known
    }

    fn nothing_missing(&mut self, read: &Read, spot: Spot, known: &BTreeMap<Known, u64>) {
        let first = (spot, 0, String::new());
        for ((there, version, author), since) in known.range(first..) {
            if *there != spot {
                break;
            }
            if *since > read.from || self.may_vanish(spot, author, read.to) {
                continue;
            }
            let (from, to, table) = (read.from, read.to, read.table);
            if read.saw.shows(*version, author) == Some(false) {
                self.fail(format!(
                    "a read ({from}..{to}) of table {table} did not show version {version} by {author}, known since {since}: {:?}",
                    read.saw
                ));
            }
            // A version above has its rows, unless a client has overwritten them.
            if let Saw::Top(top, shown) = &read.saw
                && top > version
                && !self.history.has_rows(shown, author)
                && !self.history.is_overwritten(shown)
                && !self
                    .history
                    .rows_of(shown)
                    .any(|it| self.history.is_behind(it))
            {
                self.fail(format!(
                    "a read ({from}..{to}) of table {table} showed version {top} by {shown} without the rows of version {version} by {author}, known since {since}"
                ));
            }
        }
    }

    /// Returns true if the version may disappear: a client removed it, or it was made behind the gateway's back. The
    /// latter is hidden while a batch is to get its number, and may be taken for the batch's.
    fn may_vanish(&self, spot: Spot, author: &str, by: u64) -> bool {
        let removed = self.history.removed.get(author);
        if removed.is_some_and(|at| *at <= by) {
            return true;
        }
        let is_safe =
            self.history.is_coordinated(author) && self.history.committed.contains_key(author);
        self.history.disturbed.contains(&spot) && !is_safe
    }

    fn no_gap(&mut self, read: &Read, spot: Spot) {
        if self.history.disturbed.contains(&spot) {
            return;
        }
        match &read.saw {
            Saw::All(all) if !all.keys().copied().eq(1..=all.len() as u64) => {
                self.fail(format!(
                    "a read of table {} showed a gap: {all:?}",
                    read.table
                ));
            }
            Saw::Nothing => {
                let seeded = crate::catalog::seed(spot, 1);
                let landed = self.history.landed.contains_key(&seeded);
                if landed && !self.history.removed.contains_key(&seeded) {
                    self.fail(format!(
                        "a read of table {} showed no version at all",
                        read.table
                    ));
                }
            }
            _ => {}
        }
    }
}
