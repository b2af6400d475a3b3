//! Strays: creates of other writers that got no answer. They may land as the version that a batch creates, and be taken
//! for the batch's own.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use tokio::time::Instant;

use super::TableBranch;
use crate::batch::locks::{TableHasher, TableKey};

/// The largest number of tables with strays of their own. Beyond it, every table is assumed to have some.
const TABLES: usize = 10_000;
/// The largest number of different strays of one table.
const OF_ONE: usize = 16;

/// The requests that may still land, by table.
#[derive(Clone, Default)]
pub(super) struct Strays {
    tables: Arc<DashMap<TableKey, Vec<Stray>, TableHasher>>,
    /// The time until which any table may have strays; `None` if there is none. It is set if an earlier life of the
    /// gateway may have known some, or if there are too many tables.
    anywhere: Arc<Mutex<Option<Instant>>>,
}

struct Stray {
    /// The branch and the version that it makes; `None` if its catalog chooses.
    makes: Option<(Option<String>, u64)>,
    until: Instant,
}

impl Strays {
    /// Adds a create, or a change whose version the catalog chooses, that got no answer.
    pub(super) fn add(
        &self,
        table: &TableKey,
        makes: Option<(&TableBranch, u64)>,
        lasts: Duration,
    ) {
        let until = Instant::now() + lasts;
        if self.tables.len() >= TABLES && !self.tables.contains_key(table) {
            return self.anywhere_for(lasts);
        }
        let mut strays = self.tables.entry(table.clone()).or_default();
        let makes = makes.map(|(line, version)| (line.branch.clone(), version));
        let makes = makes.filter(|_| strays.len() < OF_ONE);
        match strays.iter_mut().find(|stray| stray.makes == makes) {
            Some(stray) => stray.until = until,
            None => strays.push(Stray { makes, until }),
        }
    }

    /// Assumes from now on, for this long, that any table may have strays.
    pub(super) fn anywhere_for(&self, lasts: Duration) {
        let mut anywhere = self.anywhere.lock().unwrap_or_else(PoisonError::into_inner);
        *anywhere = Some(Instant::now() + lasts).max(*anywhere);
    }

    /// True if another writer's create may land as this version.
    pub(super) fn may_land(&self, line: &TableBranch, version: u64) -> bool {
        let now = Instant::now();
        let anywhere = *self.anywhere.lock().unwrap_or_else(PoisonError::into_inner);
        if anywhere.is_some_and(|until| until > now) {
            return true;
        }
        let may_land = |table: &TableKey| {
            let strays = self.tables.get(table);
            let mut strays = strays.iter().flat_map(|strays| strays.iter());
            strays.any(|Stray { makes, until }| {
                let fits = makes
                    .as_ref()
                    .is_none_or(|(branch, number)| *branch == line.branch && *number == version);
                fits && *until > now
            })
        };
        // Other gateways tell only the name.
        may_land(&line.table)
            || (!line.table.scope.is_empty() && may_land(&line.table.without_scope()))
    }

    /// True if another writer's create may land in this table, or in one with its name in another part of its catalog's
    /// data.
    pub(super) fn has(&self, table: &TableKey) -> bool {
        let now = Instant::now();
        let anywhere = *self.anywhere.lock().unwrap_or_else(PoisonError::into_inner);
        let mut strays = self.tables.iter();
        let may_land = |strays: &[Stray]| strays.iter().any(|stray| stray.until > now);
        anywhere.is_some_and(|until| until > now)
            || strays.any(|it| it.key().is_namesake(table) && may_land(it.value()))
    }

    /// True if another writer's create may land in any table.
    pub(super) fn has_any(&self) -> bool {
        self.sweep();
        let anywhere = *self.anywhere.lock().unwrap_or_else(PoisonError::into_inner);
        anywhere.is_some_and(|until| until > Instant::now()) || !self.tables.is_empty()
    }

    /// Removes the strays that cannot land any more.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        self.tables.retain(|_, strays| {
            strays.retain(|stray| stray.until > now);
            !strays.is_empty()
        });
    }
}
