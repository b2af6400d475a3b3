//! The checks of the state in which everything has settled.

use nsgate::batch::log::{Action, IntentEntry, Record, Verdict};
use nsgate::batch::{OpenBatch, OpenEntry};

use super::Check;
use crate::catalog::Tags;
use crate::catalog::{BRANCH, Spot};
use crate::history::{Attempt, Entry, Kind, Op, Outcome, by_place};
use crate::scenario::backend_name;

impl Check<'_> {
    /// Checks that the catalogs hold what was committed, and nothing else.
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
        // A line may have gaps if a client wrote behind the gateway's back, or if an operator's decision is needed.
        let disturbed = self.history.disturbed.contains(&spot) || self.stuck.spots.contains(&spot);
        if !disturbed && !stored.keys().copied().eq(1..=stored.len() as u64) {
            self.fail(format!("{spot:?} has a gap: {stored:?}"));
        }
        // A restarted gateway does not know what was undone before.
        let is_forgotten = self.history.counts.get("crashes of the gateway") > 0;
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
            let raw = op.raw && is_forgotten && !self.is_base_decided(entry);
            if !disturbed && !raw && entry.base.is_some() && entry.base.as_ref() != below {
                self.fail(format!(
                    "{author} was built on {:?} and stands on {below:?}",
                    entry.base
                ));
            }
            let mut rows = self.history.undecided_rows(author, u64::MAX);
            rows.retain(|row| !self.history.may_have_moved(row, entry.table));
            if op.kind != Kind::Coordinated && !rows.is_empty() && !disturbed {
                self.fail(format!("{author} has rows of {rows:?}, which was undone"));
            }
        }
    }

    /// Returns true if a line has no name any more. A request that outlived its gateway may have removed the name, and
    /// then nothing looks there.
    fn is_adrift(&self, spot: Spot) -> bool {
        let mut places = self.inner.catalogs[spot.catalog].catalog.names().values();
        self.history.counts.get("crashes of the gateway") > 0 && !places.any(|it| *it == spot.place)
    }

    /// Returns true if the version that the entry was built on was decided in the end. A client that lists raw storage
    /// cannot know.
    fn is_base_decided(&self, entry: &Entry) -> bool {
        entry.base.as_ref().is_none_or(|base| {
            !self.history.is_coordinated(base) || self.history.committed.contains_key(base)
        })
    }

    /// Checks that the gateway registered only what a committed rename names, and that what a committed rename removed
    /// is gone.
    pub(super) fn names(&mut self) {
        for (number, depot) in self.inner.catalogs.iter().enumerate() {
            for (place, names) in by_place(depot.catalog.names()) {
                // A dropped table is not there under any name, whatever is left in storage.
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

    /// Checks that an operator is needed only where the gateway cannot know what to do:
    ///
    /// - the catalog shows nothing that can be compared with what the writer said of its manifest;
    /// - only the size can be compared, and another create of that number got no answer, or a batch has asked for it
    ///   since; or a change of the table's name got no answer, because another table may have had the name;
    /// - a client that bypasses the gateway, or whose request got no answer, has built on the version.
    pub(super) fn hazards(&mut self, open: &[OpenBatch]) {
        let entries = open.iter().flat_map(|batch| {
            let entries = batch.entries.iter();
            entries.map(|entry| (&batch.id, entry))
        });
        for (batch, entry) in entries {
            let (Some(hazard), Some(version)) = (&entry.hazard, entry.version) else {
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

    /// Returns true if a batch that began later was to create that version.
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

    /// Returns the only operation that can have begun the batch; `None` if there are several.
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
        // The other entries of a batch are names.
        let is_version = |it: &&IntentEntry| matches!(it.action, Action::CreateVersion { .. });
        let entries: Vec<_> = record.intent.entries.iter().filter(is_version).collect();
        let ops = self.history.ops.iter().enumerate().filter(|(_, op)| {
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

    /// Returns true if the hazard is justified. `own` is the operation that the batch was begun for, if it is certain.
    fn is_justified(&self, table: usize, (spot, version): (Spot, u64), own: Option<usize>) -> bool {
        let stored = self.inner.stored(spot);
        let is_open = |op: &Op| {
            let mut attempts = op.attempts.iter();
            attempts.any(|it: &Attempt| !matches!(it.outcome, Outcome::Definite(..)))
        };
        // A client was told that another had been first, with it or with a version above it.
        let contested = self.history.contested.iter().any(|author| {
            let Some((op, entry)) = self.history.place(author) else {
                return false;
            };
            let told = &self.history.ops[op].entries[entry];
            (told.table, told.branch) == (table, spot.branch) && told.version >= version
        });
        // No client has been told that the version is its own.
        let holder = stored
            .get(&version)
            .and_then(|author| self.history.op(author));
        let is_nobodys = holder.is_none_or(|op| op.done_at().is_none());
        // Another create of it has an unknown result.
        let rivals = self.history.ops.iter().enumerate().filter(|(number, op)| {
            // An attempt before this one is another batch.
            let is_own = own == Some(*number) && (op.keyed || op.attempts.len() < 2);
            // If the catalog numbers a version itself, it may be any number, and on any branch.
            let of = |entry: &Entry| {
                let is_it = (entry.branch, entry.version) == (spot.branch, version);
                entry.table == table && (is_it || entry.version == 0)
            };
            // An answer to a batch says nothing about a create that got none.
            let silent = |entry: &Entry| self.history.mistreated.contains(&entry.author);
            let mut entries = op.entries.iter().filter(|entry| of(entry));
            !is_own && entries.any(|entry| is_open(op) || silent(entry))
        });
        let ways = self.scenario.catalogs[self.scenario.tables[table].catalog];
        let proves = ways.tags == Tags::Kept && self.scenario.staging.tells_tag;
        // A create that an earlier life let through may land for a while, and then sizes prove nothing.
        let crashed = !proves && self.history.counts.get("crashes of the gateway") > 0;
        // A version was deleted before, and the delete was refused: it may be seen again, for all that its catalog
        // says.
        let there = &self.scenario.tables[table].there;
        let doubted = !proves
            && self
                .history
                .refused
                .contains(&(spot.catalog, there.clone()));
        // A version whose tag differs is not taken for the batch's if all tags so far were kept.
        let changed = ways.tags == Tags::Mixed;
        let author = |version: u64| stored.get(&version);
        let built_on = author(version + 1).is_some_and(|above| {
            let op = self.history.op(above);
            let silent = op.is_some_and(|op| op.done_at().is_none());
            silent || self.history.is_behind(above)
        });
        // A chain may land late as a whole, so its first version is looked at with its last one above it.
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
