//! Records what catalogs and the log do as it happens. The gateway may remove only what it created.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nsgate::batch::log::{Action, BatchId, IntentEntry, Record, Verdict};
use nsgate::batch::step::Decision;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Entry, History, Kind};
use crate::catalog::{BRANCH, Change, Onto, Spot};
use crate::environment::Inner;
use crate::scenario::{Scenario, backend_name};

/// The origin of the message that a catalog acted on.
#[derive(Clone, Copy, Debug)]
pub struct Cause {
    /// True if the gateway sent it on its own account.
    pub own: bool,
    /// True if the request bypassed the gateway.
    pub behind: bool,
    /// True if the sender still waits for the answer.
    pub waited_for: bool,
    /// True if the message arrives twice.
    pub doubled: bool,
}

impl Inner {
    /// Looks at what came or went when a catalog has acted.
    pub fn happened(&mut self, scenario: &Scenario, catalog: usize, cause: Cause) {
        for change in self.catalogs[catalog].catalog.changes() {
            match change {
                Change::Made {
                    spot,
                    version,
                    author,
                    onto,
                } => {
                    self.history.landed(spot, version, &author, &onto);
                    self.made(scenario, (spot, version, &author), cause);
                }
                Change::Deleted {
                    spot,
                    version,
                    author,
                } => self.deleted(scenario, (spot, version, &author), cause),
                Change::Named { name, from, to } => {
                    self.renamed((catalog, &name), (from, to), cause);
                }
            }
        }
    }

    fn made(&mut self, scenario: &Scenario, (spot, _, author): (Spot, u64, &String), cause: Cause) {
        let Some((op, entry)) = self.history.place(author) else {
            return;
        };
        let op = &self.history.ops[op];
        if op.kind == Kind::Coordinated {
            let entry = &op.entries[entry];
            if self.records_of(scenario, entry).is_empty() {
                let wrong = format!("{author} was created without a durable INTENT");
                self.wrong.push(wrong);
            }
            return;
        }
        if cause.behind {
            self.history.disturbed.insert(spot);
        }
        if !cause.waited_for {
            let counts = &mut self.history.counts;
            counts.add("versions created without a lock", 1);
        }
    }

    fn deleted(
        &mut self,
        scenario: &Scenario,
        (spot, version, author): (Spot, u64, &String),
        cause: Cause,
    ) {
        self.history.counts.add("versions deleted", 1);
        if !cause.own {
            let at = self.tick();
            if cause.waited_for || !self.history.is_strict {
                self.history.removed.insert(author.clone(), at);
            }
            return;
        }
        // What is late may arrive when the others are gone.
        if version > 1 && cause.waited_for && self.stored(spot).is_empty() {
            self.wrong.push(format!(
                "version {version} of {spot:?} was all that was left, and was deleted by the gateway"
            ));
        }
        let place = self.history.place(author);
        let entry = place.map(|(op, entry)| &self.history.ops[op].entries[entry]);
        let records = entry.map(|entry| self.records_of(scenario, entry));
        let aborted = records.is_some_and(|records| records.iter().any(is_aborted));
        let op = self.history.op(author);
        // A version made behind the gateway's back that looks like the batch's cannot be told from it.
        if aborted && op.is_some_and(|op| op.kind == Kind::Behind) {
            let counts = &mut self.history.counts;
            counts.add("a version from behind deleted for the batch's", 1);
            return;
        }
        let is_ours = self.history.is_coordinated(author);
        let committed = self.history.committed.contains_key(author);
        if is_ours && aborted && !committed {
            return;
        }
        // A late delete may hit a late version, too, and so may the second copy of one that is waited for. No client was
        // told of that version, because its number is in cool-down. Had a client seen it, another check would report its
        // absence.
        let is_unknown = op.is_some_and(|op| op.done_at().is_none()) && !committed;
        if is_unknown && (!cause.waited_for || cause.doubled) {
            let counts = &mut self.history.counts;
            counts.add("a version that nobody knew of deleted for the batch's", 1);
            return;
        }
        self.wrong.push(format!(
            "version {version} of {spot:?} by {author} was deleted by the gateway"
        ));
    }

    /// Checks a removal of a name by the gateway: it may only undo what it registered, or finish a rename.
    fn renamed(
        &mut self,
        (catalog, name): (usize, &String),
        (from, to): (Option<usize>, Option<usize>),
        cause: Cause,
    ) {
        let at = self.tick();
        let key = (catalog, name.clone());
        if let (Some(place), true) = (from, cause.own) {
            let location = self.catalogs[catalog].catalog.location(place);
            let (since, own) = self.history.named.get(&key).copied().unwrap_or_default();
            let decided = |record: &Record| self.ledger.decided.get(&record.id).copied();
            let records = self.ledger.records().iter();
            let about: Vec<_> = records
                .filter(|record| is_registered(record, &location))
                .filter_map(|record| decided(record).map(|decided| (record, decided)))
                .filter(|(_, (decision, _))| *decision == Decision::Commit)
                .collect();
            let has = |record: &Record, action: fn(&Action) -> bool| {
                let mut entries = record.intent.entries.iter();
                entries.any(|it| is_name(it, catalog, name) && action(&it.action))
            };
            let moved = about.iter().any(|(record, (_, decided))| {
                *decided > since && has(record, |it| matches!(it, Action::Deregister))
            });
            let kept = about.iter().any(|(record, (_, decided))| {
                *decided > since && has(record, |it| matches!(it, Action::Register { .. }))
            });
            if !moved && (!own || kept) {
                self.wrong.push(format!(
                    "name {name} of c{catalog} was taken from place {place} by the gateway"
                ));
            }
        }
        self.history.named.insert(key, (at, cause.own));
        let what = match (to, cause.own) {
            (Some(_), true) => "names given by the gateway",
            (None, true) => "names taken by the gateway",
            (Some(_), false) => "names given by clients",
            (None, false) => "names taken by clients",
        };
        self.history.counts.add(what, 1);
    }

    /// Returns the decisions of all batches with this version; `None` for an undecided one.
    fn records_of(&self, scenario: &Scenario, entry: &Entry) -> Vec<Option<Verdict>> {
        let is_version = |it: &IntentEntry| {
            let branch = it.branch.as_deref() == Some(BRANCH);
            branch == entry.branch
                && matches!(it.action, Action::CreateVersion { version: its, .. } if its == entry.version)
        };
        let of = self.ledger.records().iter().filter(|record| {
            let mut entries = record.intent.entries.iter();
            entries.any(|e| scenario.is_table(entry.table, &e.backend, &e.table) && is_version(e))
        });
        of.map(|record| record.verdict.clone()).collect()
    }

    /// Checks a durable COMMIT: every version that it names must exist, and belong to one batch.
    pub fn committed(&mut self, id: BatchId, versions: &[Box<RawValue>], at: u64, creates: usize) {
        let name = self.ledger.name(id);
        let (mut ops, mut from_behind) = (BTreeSet::new(), false);
        for raw in versions {
            let version: Value = serde_json::from_str(raw.get()).expect("what a catalog said");
            // The entry of a rename is a table, not a version.
            let Some(author) = version["author"].as_str().map(str::to_owned) else {
                continue;
            };
            let history = &self.history;
            from_behind |= history
                .op(&author)
                .is_some_and(|op| op.kind == Kind::Behind);
            let Some(((op, entry), (spot, number))) = history
                .place(&author)
                .zip(history.landed.get(&author).copied())
            else {
                let wrong = format!("{name} committed somebody else's {author}");
                self.wrong.push(wrong);
                continue;
            };
            // A client's own removal or rename without an answer may arrive at any time.
            let table = history.ops[op].entries[entry].table;
            if self.stored(spot).get(&number) != Some(&author) && !history.adrift.contains(&table) {
                let wrong = format!("{name} committed {author}, which is not there");
                self.wrong.push(wrong);
            }
            ops.insert(op);
            self.history.committed.insert(author, at);
        }
        self.history.counts.add("batches committed", 1);
        if creates == 0 {
            return;
        }
        let whole = ops
            .iter()
            .map(|op| self.history.ops[*op].entries.len())
            .sum::<usize>();
        if ops.len() == 1 && whole == creates && !from_behind {
            return;
        }
        if from_behind {
            // A version made behind the gateway's back that looks like the batch's cannot be told from it.
            self.history
                .counts
                .add("a version from behind taken for the batch's", 1)
        } else {
            self.wrong.push(format!(
                "{name} committed {ops:?}, {creates} versions: somebody else's"
            ))
        }
    }
}

impl History {
    /// Records a new version, and whose rows it has.
    fn landed(&mut self, spot: Spot, version: u64, author: &String, onto: &Onto) {
        self.landed.insert(author.clone(), (spot, version));
        let base = match onto {
            // The writer staged the manifest, so it has recorded the rows already.
            Onto::Manifest { .. } if self.rows.contains_key(author) => return,
            Onto::Manifest { below: base } | Onto::Rows(base) => base.clone(),
            Onto::Nothing => None,
        };
        self.has(author, base.as_deref());
    }

    /// Gives a version the rows of its author and those of its base.
    pub fn has(&mut self, author: &str, base: Option<&str>) {
        let rows = base.and_then(|base| self.rows.get(base)).cloned();
        let mut rows = rows.map(Arc::unwrap_or_clone).unwrap_or_default();
        rows.insert(author.to_owned());
        self.rows.insert(author.to_owned(), Arc::new(rows));
    }
}

fn is_aborted(verdict: &Option<Verdict>) -> bool {
    matches!(verdict, Some(Verdict::Abort { .. }))
}

/// Returns true if a batch registers this place under some name.
fn is_registered(record: &Record, location: &str) -> bool {
    let mut entries = record.intent.entries.iter();
    entries.any(|it| matches!(&it.action, Action::Register { location: its } if its == location))
}

fn is_name(entry: &IntentEntry, catalog: usize, name: &str) -> bool {
    &*entry.backend == backend_name(catalog) && entry.table.names().eq(name.split('$'))
}

/// Returns the names that lead to each place.
pub fn by_place(names: &BTreeMap<String, usize>) -> BTreeMap<usize, Vec<&String>> {
    let mut places: BTreeMap<usize, Vec<&String>> = BTreeMap::new();
    for (name, place) in names {
        places.entry(*place).or_default().push(name);
    }
    places
}
