//! The tables and versions that the checks skip, because something about them is not over.

use std::collections::BTreeSet;

use nsgate::batch::OpenBatch;

use crate::catalog::Spot;
use crate::environment::Inner;
use crate::scenario::{Scenario, backend_name};

/// The parts of the world that wait for an operator or for what may still arrive.
pub struct Stuck {
    /// All names of the tables.
    pub tables: BTreeSet<usize>,
    /// The lines that those names lead to, with their branches.
    pub spots: BTreeSet<Spot>,
    /// The versions of the waiting batches.
    pub versions: BTreeSet<(Spot, u64)>,
}

impl Stuck {
    pub fn of(inner: &Inner, scenario: &Scenario, open: &[OpenBatch]) -> Self {
        let mut stuck = Self {
            tables: BTreeSet::new(),
            spots: BTreeSet::new(),
            versions: BTreeSet::new(),
        };
        for entry in open.iter().flat_map(|batch| &batch.entries) {
            let mut tables = scenario.tables.iter();
            let table = tables.position(|table| {
                backend_name(table.catalog) == &*entry.backend && table.there == entry.table
            });
            let Some(table) = table else { continue };
            stuck.tables.insert(table);
            for branch in [false, true] {
                stuck.spots.extend(inner.spot(scenario, table, branch));
            }
            let spot = inner.spot(scenario, table, entry.branch.is_some());
            stuck.versions.extend(spot.zip(entry.version));
            // A request of an earlier life may have removed its name since.
            let of = (table, entry.branch.is_some(), entry.version);
            let is_of = |author: &String| {
                let place = inner.history.place(author);
                let asked = place.map(|(op, nth)| &inner.history.ops[op].entries[nth]);
                asked.is_some_and(|it| (it.table, it.branch, Some(it.version)) == of)
            };
            let landed = inner.history.landed.iter();
            let landed = landed.filter(|(author, _)| inner.history.is_coordinated(author));
            let landed = landed.filter(|(author, _)| is_of(author));
            stuck.versions.extend(landed.map(|(_, landed)| *landed));
        }
        stuck
    }
}
