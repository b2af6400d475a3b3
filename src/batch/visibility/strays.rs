//! Creates of others that got no answer: they may land as the version that a batch asks for, and be taken for its own.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use tokio::time::Instant;

use super::TableBranch;
use crate::batch::locks::TableKey;

/// Tables of which strays are remembered by themselves; beyond it every table is taken to have some.
const TABLES: usize = 10_000;
/// Strays of one table that are told apart.
const OF_ONE: usize = 16;

/// What may still land, by table.
#[derive(Clone, Default)]
pub(super) struct Strays {
    tables: Arc<DashMap<TableKey, Vec<Stray>>>,
    /// Until then there may be some of any table: an earlier life of the gateway knew of them, or there are too many.
    anywhere: Arc<Mutex<Option<Instant>>>,
}

struct Stray {
    /// The branch and the version that it makes; `None`: its catalog chooses.
    makes: Option<(Option<String>, u64)>,
    until: Instant,
}

impl Strays {
    /// A create, or a change of which the catalog chooses the version, got no answer.
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

    /// From now on, for so long, there may be strays of any table.
    pub(super) fn anywhere_for(&self, lasts: Duration) {
        let mut anywhere = self.anywhere.lock().unwrap_or_else(PoisonError::into_inner);
        *anywhere = Some(Instant::now() + lasts).max(*anywhere);
    }

    /// Whether somebody else's create may land as this version.
    pub(super) fn may_land(&self, line: &TableBranch, version: u64) -> bool {
        let now = Instant::now();
        let anywhere = *self.anywhere.lock().unwrap_or_else(PoisonError::into_inner);
        if anywhere.is_some_and(|until| until > now) {
            return true;
        }
        let Some(strays) = self.tables.get(&line.table) else {
            return false;
        };
        strays.iter().any(|Stray { makes, until }| {
            let fits = makes
                .as_ref()
                .is_none_or(|(branch, number)| *branch == line.branch && *number == version);
            fits && *until > now
        })
    }

    /// Forgets those that cannot land any more.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        self.tables.retain(|_, strays| {
            strays.retain(|stray| stray.until > now);
            !strays.is_empty()
        });
    }
}
