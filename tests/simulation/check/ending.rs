//! What must be true when all is settled.

use nsgate::batch::log::{Action, IntentEntry, Record, Verdict};
use nsgate::batch::{OpenBatch, OpenEntry};

use super::Check;
use crate::catalog::Tags;
use crate::catalog::{BRANCH, Spot};
use crate::history::{Attempt, Entry, Kind, Op, Outcome, by_place};
use crate::scenario::backend_name;

impl Check<'_> {
    /// The catalogs hold what was committed, and nothing else.
    pub(super) fn lines(&mut self) {
        let landed = self.history.landed.values();
        let mut spots: Vec<Spot> = landed.map(|(spot, _)| *spot).collect();
        spots.sort_unstable();
        spots.dedup();
        for spot in spots {
            self.line(spot);
        }
        for author in self.history.committed.keys() {
            let removed = self.history.removed.contains_key(author);
            if !self.is_there(author) && !removed {
                self.fail(format!("{author} was committed and is gone"));
            }
        }
    }

    fn line(&mut self, spot: Spot) {
        let stored = self.inner.stored(spot);
        // Where somebody wrote behind the gateway's back, or waits for a person, the line may be broken.
        let disturbed = self.history.disturbed.contains(&spot) || self.stuck.spots.contains(&spot);
        if !disturbed && !stored.keys().copied().eq(1..=stored.len() as u64) {
            self.fail(format!("{spot:?} has a gap: {stored:?}"));
        }
        for (version, author) in &stored {
            let Some((op, entry)) = self.history.place(author) else {
                continue;
            };
            let op = &self.history.ops[op];
            let entry = &op.entries[entry];
            if entry.version > 0 && (entry.branch, entry.version) != (spot.branch, *version) {
                self.fail(format!("{author} is in the wrong place"));
            }
            let committed = self.history.committed.contains_key(author);
            let waits = self.stuck.versions.contains(&(spot, *version));
            if op.kind == Kind::Coordinated && !committed && !waits && !self.is_adrift(spot) {
                self.fail(format!("{author} is there, and was never committed"));
            }
            let below = stored.get(&(version - 1));
            let raw = op.raw && !self.is_base_decided(entry);
            if !disturbed && !raw && entry.base.is_some() && entry.base.as_ref() != below {
                self.fail(format!(
                    "{author} was built on {:?} and stands on {below:?}",
                    entry.base
                ));
            }
            let rows = self.history.undecided_rows(author, u64::MAX);
            if op.kind != Kind::Coordinated && !rows.is_empty() && !disturbed {
                self.fail(format!("{author} has rows of {rows:?}, which was undone"));
            }
        }
    }

    /// Whether a line has no name any more, which a request that outlived its gateway may have taken: nobody looks there.
    fn is_adrift(&self, spot: Spot) -> bool {
        let mut places = self.inner.catalogs[spot.catalog].catalog.names().values();
        self.history.counts.get("crashes of the gateway") > 0 && !places.any(|it| *it == spot.place)
    }

    /// Whether the version that somebody built on was decided in the end; one that lists raw storage cannot know.
    fn is_base_decided(&self, entry: &Entry) -> bool {
        entry.base.as_ref().is_none_or(|base| {
            !self.history.is_coordinated(base) || self.history.committed.contains_key(base)
        })
    }

    /// What the gateway registered is a committed rename's, and what a committed rename took away is gone.
    pub(super) fn names(&mut self) {
        for (number, depot) in self.inner.catalogs.iter().enumerate() {
            for (place, names) in by_place(depot.catalog.names()) {
                // What was dropped under one name is there under none, whatever is left of them.
                let (catalog, branch) = (number, false);
                if !depot.catalog.has(Spot {
                    catalog,
                    place,
                    branch,
                }) {
                    continue;
                }
                let location = depot.catalog.location(place);
                for name in &names {
                    self.name((number, name), &location, names.len());
                }
            }
        }
    }

    fn name(&mut self, (catalog, name): (usize, &String), location: &str, of: usize) {
        let tables = self.scenario.tables.iter();
        let mut tables = tables.map(|table| (table.catalog, &table.there));
        let table = tables.position(|it| it == (catalog, name));
        if table.is_some_and(|table| self.stuck.tables.contains(&table)) {
            return;
        }
        let named = self.history.named.get(&(catalog, name.clone()));
        let (since, own) = named.copied().unwrap_or_default();
        let decided = |record: &Record| self.inner.ledger.decided.get(&record.id).map(|it| it.1);
        let records = self.inner.ledger.records().iter();
        let about = records
            .filter(|record| matches!(record.verdict, Some(Verdict::Commit(_))))
            .filter(|record| {
                let mut entries = record.intent.entries.iter();
                entries.any(|it| matches!(&it.action, Action::Register { location: its } if its == location))
            });
        let about: Vec<&Record> = about.collect();
        let has = |record: &Record, action: fn(&Action) -> bool| {
            let mut entries = record.intent.entries.iter();
            entries.any(|it| {
                let is_name = it.table.names().eq(name.split('$'));
                &*it.backend == backend_name(catalog) && is_name && action(&it.action)
            })
        };
        let is_later = |it: &Record| decided(it).is_some_and(|decided| decided > since);
        let is_given = about
            .iter()
            .any(|it| is_later(it) && has(it, |action| matches!(action, Action::Register { .. })));
        if own && !is_given {
            self.fail(format!(
                "{name} of c{catalog} is a name of {location}, one of {of}, by a rename that was not committed"
            ));
        }
        let is_taken = about
            .iter()
            .any(|it| is_later(it) && has(it, |action| matches!(action, Action::Deregister)));
        if is_taken {
            self.fail(format!(
                "{name} of c{catalog} is a name of {location} still, one of {of}, although it was renamed"
            ));
        }
    }

    /// A person is needed only where the gateway cannot know what to do:
    ///
    /// - nothing that a catalog shows can be compared with what the writer said of its manifest;
    /// - the size is all that can be compared, and another create of that number got no answer, or was asked for by a
    ///   batch since; or a change of the table's name did, for another table may have had the name;
    /// - somebody who does not ask the gateway, or whose request got no answer, has built on it.
    pub(super) fn hazards(&mut self, open: &[OpenBatch]) {
        let entries = open.iter().flat_map(|batch| {
            let entries = batch.entries.iter();
            entries.map(|entry| (&batch.id, entry))
        });
        for (batch, entry) in entries {
            let (Some(hazard), Some(version)) = (entry.hazard, entry.version) else {
                continue;
            };
            let mut tables = self.scenario.tables.iter();
            let table = tables.position(|table| {
                backend_name(table.catalog) == &*entry.backend && table.there == entry.table
            });
            let table = table.expect("a table of the scenario");
            let branch = entry.branch.as_deref() == Some(BRANCH);
            let Some(spot) = self.inner.spot(self.scenario, table, branch) else {
                continue;
            };
            let own = self.own_op(batch);
            if self.is_justified(table, (spot, version), own)
                || self.is_asked_for_since(batch, entry)
            {
                continue;
            }
            let stored = self.inner.stored(spot);
            self.fail(format!(
                "version {version} of table {table} waits for a person without need ({hazard}): {stored:?}"
            ));
        }
    }

    /// Whether a batch that began later was to make that version.
    fn is_asked_for_since(&self, batch: &str, entry: &OpenEntry) -> bool {
        let records = self.inner.ledger.records().iter();
        let mut later = records.skip_while(|record| record.id.to_string() != *batch);
        later.next();
        later.flat_map(|record| &record.intent.entries).any(|other| {
            let is_version = matches!(other.action, Action::CreateVersion { version, .. } if Some(version) == entry.version);
            is_version
                && (&other.backend, &other.branch) == (&entry.backend, &entry.branch)
                && other.table.to_string() == entry.table
        })
    }

    /// The only operation that a batch can have been begun for.
    fn own_op(&self, batch: &str) -> Option<usize> {
        let mut records = self.inner.ledger.records().iter();
        let record = records.find(|record| record.id.to_string() == *batch)?;
        let is_of = |entry: &Entry, other: &IntentEntry| {
            let is_version = matches!(other.action, Action::CreateVersion { version, .. } if version == entry.version);
            let is_table = self
                .scenario
                .is_table(entry.table, &other.backend, &other.table);
            is_version && is_table && entry.branch == other.branch.is_some()
        };
        let ops = self.history.ops.iter().enumerate().filter(|(_, op)| {
            let entries = &record.intent.entries;
            let is_one = |entry: &Entry| entries.iter().any(|other| is_of(entry, other));
            let asked = !matches!(op.kind, Kind::Behind | Kind::Names | Kind::Server { .. });
            asked && op.entries.len() == entries.len() && op.entries.iter().all(is_one)
        });
        let ops: Vec<usize> = ops.map(|(number, _)| number).collect();
        match ops[..] {
            [one] => Some(one),
            _ => None,
        }
    }

    /// `own`: the operation that the batch was begun for, where that is certain.
    fn is_justified(&self, table: usize, (spot, version): (Spot, u64), own: Option<usize>) -> bool {
        let stored = self.inner.stored(spot);
        let is_open = |op: &Op| {
            let mut attempts = op.attempts.iter();
            attempts.any(|it: &Attempt| !matches!(it.outcome, Outcome::Definite(..)))
        };
        // Somebody was told that another had been first, of it or of what stands on it.
        let contested = self.history.contested.iter().any(|author| {
            let Some((op, entry)) = self.history.place(author) else {
                return false;
            };
            let told = &self.history.ops[op].entries[entry];
            (told.table, told.branch) == (table, spot.branch) && told.version >= version
        });
        // And nobody has been told that it is theirs.
        let holder = stored
            .get(&version)
            .and_then(|author| self.history.op(author));
        let is_nobodys = holder.is_none_or(|op| op.done_at().is_none());
        // Another create of it came to nobody knows what.
        let rivals = self.history.ops.iter().enumerate().filter(|(number, op)| {
            // An attempt before this one is another batch.
            let is_own = own == Some(*number) && (op.keyed || op.attempts.len() < 2);
            // Of what the catalog numbers itself, it may be any number, and nobody can be sure of which branch.
            let of = |entry: &Entry| {
                let is_it = (entry.branch, entry.version) == (spot.branch, version);
                entry.table == table && (is_it || entry.version == 0)
            };
            // An answer to a batch tells nothing of a create that got none.
            let silent = |entry: &Entry| self.history.mistreated.contains(&entry.author);
            let mut entries = op.entries.iter().filter(|entry| of(entry));
            !is_own && entries.any(|entry| is_open(op) || silent(entry))
        });
        let ways = self.scenario.catalogs[self.scenario.tables[table].catalog];
        let proves = ways.tags == Tags::Kept && self.scenario.staging.tells_tag;
        // Whatever an earlier life had let through may land for a while, and sizes prove nothing then.
        let crashed = !proves && self.history.counts.get("crashes of the gateway") > 0;
        // One was deleted before and the delete refused: it may be seen again, for all that its catalog says.
        let there = &self.scenario.tables[table].there;
        let doubted = !proves
            && self
                .history
                .refused
                .contains(&(spot.catalog, there.clone()));
        // A tag that differs where all have been kept so far is not taken for the batch's.
        let changed = ways.tags == Tags::Mixed;
        let author = |version: u64| stored.get(&version);
        let built_on = author(version + 1).is_some_and(|above| {
            let op = self.history.op(above);
            let silent = op.is_some_and(|op| op.done_at().is_none());
            silent || self.history.is_behind(above)
        });
        // A chain that lands late as a whole: its first version may be looked at while its last one stands on it.
        let own_chain = author(version)
            .and_then(|it| self.history.place(it))
            .zip(author(version + 1).and_then(|it| self.history.place(it)))
            .is_some_and(|((one, _), (next, _))| one == next);
        !self.scenario.is_comparable(table)
            || self.history.disturbed.contains(&spot)
            || (contested && is_nobodys)
            || rivals.count() > 0
            || self.history.adrift.contains(&table)
            || crashed
            || doubted
            || changed
            || built_on
            || own_chain
    }
}
