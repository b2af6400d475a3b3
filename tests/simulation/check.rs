//! What must be true of every history.
//!
//! - Nobody is shown a version of a batch that is not durably committed.
//! - What has been shown or answered with 200 is shown ever after, and of a batch all or nothing.
//! - 200 means that COMMIT is durable, and a definite error that nothing is there or ever will be.
//! - A transaction is what its batch is, and one `Idempotency-Key` begins one batch.
//! - In the end the catalogs hold exactly what was committed, each table one unbroken line, each version built on the one
//!   that its writer saw.

use std::collections::{BTreeMap, BTreeSet};

use nsgate::batch::OpenBatch;
use nsgate::batch::step::Decision;

use crate::history::{Attempt, Entry, History, Kind, Op, Outcome, Read, Saw};
use crate::scenario::{Scenario, backend_name};
use crate::world::Inner;

/// What is wrong with a history; empty if nothing is.
pub fn history(inner: &Inner, scenario: &Scenario, hazards: &[OpenBatch]) -> Vec<String> {
    let mut check = Check {
        inner,
        history: &inner.history,
        scenario,
        stuck: stuck(scenario, hazards),
        wrong: inner.wrong.clone(),
    };
    check.reads();
    check.answers();
    check.transactions();
    check.log();
    check.tables();
    check.hazards(hazards);
    check.wrong
}

struct Check<'a> {
    inner: &'a Inner,
    history: &'a History,
    scenario: &'a Scenario,
    /// Versions that wait for a person or may still land, by table.
    stuck: BTreeSet<(usize, u64)>,
    wrong: Vec<String>,
}

/// The tables of batches that wait for a person or for what may still land, and all their versions.
pub fn stuck(scenario: &Scenario, hazards: &[OpenBatch]) -> BTreeSet<(usize, u64)> {
    let entries = hazards.iter().flat_map(|batch| &batch.entries);
    let place = entries.filter_map(|entry| {
        let mut tables = scenario.tables.iter();
        let table = tables.position(|table| {
            backend_name(table.catalog) == &*entry.backend && table.there == entry.table
        })?;
        Some((table, entry.version?))
    });
    place.collect()
}

impl Check<'_> {
    fn fail(&mut self, what: String) {
        self.wrong.push(what);
    }

    fn reads(&mut self) {
        let known = self.known();
        for read in &self.history.reads {
            self.nothing_undecided(read);
            self.nothing_missing(read, &known);
            self.no_gap(read);
        }
    }

    fn nothing_undecided(&mut self, read: &Read) {
        for (version, author) in read.saw.shown() {
            let coordinated = |op: &Op| op.kind == Kind::Coordinated;
            if !self.history.op(author).is_some_and(coordinated) {
                continue;
            }
            let committed = self.history.committed.get(author);
            if committed.is_none_or(|at| *at > read.to) {
                let table = read.table;
                self.fail(format!(
                    "a read ({}..{}) of table {table} showed version {version} by {author}, which was not committed",
                    read.from, read.to
                ));
            }
        }
    }

    /// Since when each version is known to be there, by table, version and author.
    fn known(&self) -> BTreeMap<(usize, u64, String), u64> {
        let mut known: BTreeMap<(usize, u64, String), u64> = BTreeMap::new();
        let mut learn = |table: usize, version: u64, author: &str, at: u64| {
            let since = known
                .entry((table, version, author.to_owned()))
                .or_insert(at);
            *since = at.min(*since);
        };
        for read in &self.history.reads {
            for (version, author) in read.saw.shown() {
                learn(read.table, version, author, read.to);
            }
        }
        for op in &self.history.ops {
            if let Some(at) = op.done_at() {
                for entry in &op.entries {
                    learn(entry.table, entry.version, &entry.author, at);
                }
            }
        }
        // Of a batch one version tells of all.
        for op in &self.history.ops {
            let keys = || {
                let entries = op.entries.iter();
                entries.map(|entry| (entry.table, entry.version, entry.author.clone()))
            };
            let first = keys().filter_map(|key| known.get(&key).copied()).min();
            if let (Kind::Coordinated | Kind::Passed, Some(first)) = (op.kind, first) {
                known.extend(keys().map(|key| (key, first)));
            }
        }
        known
    }

    fn nothing_missing(&mut self, read: &Read, known: &BTreeMap<(usize, u64, String), u64>) {
        for ((table, version, author), since) in known {
            if *table != read.table || *since > read.from || self.may_vanish(*table, author) {
                continue;
            }
            if read.saw.shows(*version, author) == Some(false) {
                self.fail(format!(
                    "a read ({}..{}) of table {table} did not show version {version} by {author}, known since {since}: {:?}",
                    read.from, read.to, read.saw
                ));
            }
        }
    }

    /// What came behind the gateway's back is hidden while a batch is about to have its number, and may be taken for it.
    fn may_vanish(&self, table: usize, author: &str) -> bool {
        let coordinated = |op: &Op| op.kind == Kind::Coordinated;
        let safe = self.history.op(author).is_some_and(coordinated)
            && self.history.committed.contains_key(author);
        self.history.disturbed.contains(&table) && !safe
    }

    fn no_gap(&mut self, read: &Read) {
        if self.history.disturbed.contains(&read.table) {
            return;
        }
        match &read.saw {
            Saw::All(all) if !all.keys().copied().eq(1..=all.len() as u64) => {
                self.fail(format!(
                    "a read of table {} showed a gap: {all:?}",
                    read.table
                ));
            }
            Saw::Nothing if self.scenario.tables[read.table].latest > 0 => {
                self.fail(format!(
                    "a read of table {} showed no version at all",
                    read.table
                ));
            }
            _ => {}
        }
    }

    fn answers(&mut self) {
        for (number, op) in self.history.ops.iter().enumerate() {
            let Some(last) = op.attempts.last() else {
                continue;
            };
            let done: BTreeSet<_> = op
                .attempts
                .iter()
                .filter_map(Attempt::transaction)
                .collect();
            if done.len() > 1 && (op.keyed || op.attempts.len() == 1) {
                self.fail(format!("w{number} was answered with several transactions"));
            }
            match &last.outcome {
                Outcome::Done(_) => self.all_there(number, op, last),
                Outcome::Definite(status, code) => self.none_there(number, op, (*status, *code)),
                Outcome::Unknown => {}
            }
        }
    }

    fn all_there(&mut self, number: usize, op: &Op, answer: &Attempt) {
        for entry in &op.entries {
            let stored = self.inner.stored(self.scenario, entry.table);
            let disturbed = self.history.disturbed.contains(&entry.table);
            if stored.get(&entry.version) != Some(&entry.author) && !disturbed {
                self.fail(format!(
                    "w{number} was answered 200, but {} is not there",
                    entry.author
                ));
            }
            let committed = self.history.committed.get(&entry.author);
            if op.kind == Kind::Coordinated
                && committed.is_none_or(|at| *at > answer.to)
                && !disturbed
            {
                self.fail(format!(
                    "w{number} was answered 200 before it was committed"
                ));
            }
        }
    }

    fn none_there(&mut self, number: usize, op: &Op, (status, code): (u16, u64)) {
        let unclear = op.attempts.iter().any(|it| it.outcome == Outcome::Unknown);
        // Without a key an earlier attempt is another batch.
        if unclear && !(op.kind == Kind::Coordinated && op.keyed) {
            return;
        }
        for entry in &op.entries {
            let passed_on = op.kind != Kind::Coordinated;
            if passed_on && self.history.mistreated.contains(&entry.author) {
                continue;
            }
            let stored = self.inner.stored(self.scenario, entry.table);
            let waits = self.stuck.contains(&(entry.table, entry.version));
            if stored.get(&entry.version) == Some(&entry.author) && !waits {
                self.fail(format!(
                    "w{number} was answered {status} (code {code}), but {} is there",
                    entry.author
                ));
            }
            if self.history.committed.contains_key(&entry.author) {
                self.fail(format!(
                    "w{number} was answered {status} (code {code}), but is committed"
                ));
            }
        }
    }

    fn transactions(&mut self) {
        // Since when the end of a batch is known to somebody.
        let mut told: BTreeMap<String, u64> = BTreeMap::new();
        let mut tell = |id: String, at: u64| {
            let since = told.entry(id).or_insert(at);
            *since = at.min(*since);
        };
        for op in &self.history.ops {
            for attempt in &op.attempts {
                if let Outcome::Done(Some(id)) = &attempt.outcome {
                    tell(id.clone(), attempt.to);
                }
            }
        }
        for asked in &self.history.transactions {
            if matches!(asked.said.as_str(), "Succeeded" | "Failed") {
                tell(asked.id.to_string(), asked.to);
            }
        }
        for asked in &self.history.transactions {
            let name = self.inner.ledger.name(asked.id);
            let decided = self.inner.ledger.decided.get(&asked.id);
            let by_then = decided
                .filter(|(_, at)| *at < asked.to)
                .map(|(decision, _)| *decision);
            let right = match asked.said.as_str() {
                "Succeeded" => by_then == Some(Decision::Commit),
                "Failed" => by_then == Some(Decision::Abort),
                "Running" => told
                    .get(&asked.id.to_string())
                    .is_none_or(|at| *at > asked.from),
                _ => false,
            };
            if !right {
                self.fail(format!(
                    "{name} was said to be {} {:?}, when it was {by_then:?}",
                    asked.status, asked.said
                ));
            }
        }
    }

    fn log(&mut self) {
        let mut keys = BTreeSet::new();
        for record in self.inner.ledger.records() {
            let name = self.inner.ledger.name(record.id);
            if let Some(key) = &record.intent.idempotency
                && !keys.insert(key.clone())
            {
                self.fail(format!("{name} is the second batch of one Idempotency-Key"));
            }
            if record.verdict.is_none() {
                self.fail(format!("{name} is still undecided"));
            }
        }
    }

    /// The catalogs hold what was committed, and nothing else.
    fn tables(&mut self) {
        for table in 0..self.scenario.tables.len() {
            let stored = self.inner.stored(self.scenario, table);
            // Where somebody wrote behind the gateway's back, or waits for a person, the line may be broken.
            let disturbed = self.history.disturbed.contains(&table)
                || self.stuck.iter().any(|(stuck, _)| *stuck == table);
            if !disturbed && !stored.keys().copied().eq(1..=stored.len() as u64) {
                self.fail(format!("table {table} has a gap: {stored:?}"));
            }
            for (version, author) in &stored {
                let Some(&(op, entry)) = self.history.authors.get(author) else {
                    continue;
                };
                let op = &self.history.ops[op];
                let entry = &op.entries[entry];
                if (entry.table, entry.version) != (table, *version) {
                    self.fail(format!("{author} is in the wrong place"));
                }
                let committed = self.history.committed.contains_key(author);
                let waits = self.stuck.contains(&(table, *version));
                if op.kind == Kind::Coordinated && !committed && !waits {
                    self.fail(format!("{author} is there, and was never committed"));
                }
                let below = stored.get(&(version - 1));
                if !disturbed && entry.base.is_some() && entry.base.as_ref() != below {
                    self.fail(format!(
                        "{author} was built on {:?} and stands on {below:?}",
                        entry.base
                    ));
                }
            }
        }
        for author in self.history.committed.keys() {
            let Some(&(op, entry)) = self.history.authors.get(author) else {
                continue;
            };
            let entry = &self.history.ops[op].entries[entry];
            let stored = self.inner.stored(self.scenario, entry.table);
            if stored.get(&entry.version) != Some(author) {
                self.fail(format!("{author} was committed and is gone"));
            }
        }
    }

    /// A person is needed only where the gateway cannot know what to do.
    fn hazards(&mut self, hazards: &[OpenBatch]) {
        for entry in hazards.iter().flat_map(|batch| &batch.entries) {
            let (Some(_), Some(version)) = (entry.hazard, entry.version) else {
                continue;
            };
            let mut tables = self.scenario.tables.iter();
            let table = tables.position(|table| {
                backend_name(table.catalog) == &*entry.backend && table.there == entry.table
            });
            let table = table.expect("a table of the scenario");
            let stored = self.inner.stored(self.scenario, table);
            // Somebody was told that another had been first, of it or of what stands on it.
            let contested = self.history.contested.iter().any(|author| {
                let (op, entry) = self.history.authors[author];
                let told = &self.history.ops[op].entries[entry];
                told.table == table && told.version >= version
            });
            // Somebody else's create of it was let through once it was undone, and came to nobody knows what.
            let let_through = self.history.ops.iter().any(|op| {
                let of = |entry: &Entry| entry.table == table && entry.version == version;
                let open = |it: &Attempt| !matches!(it.outcome, Outcome::Definite(..));
                matches!(op.kind, Kind::Single | Kind::Passed)
                    && op.entries.iter().any(of)
                    && op.attempts.iter().any(open)
            });
            // A chain that lands late as a whole: its first version may be looked at while its last one stands on it.
            let author_at = |version| {
                stored
                    .get(&version)
                    .and_then(|it| self.history.authors.get(it))
            };
            let own_chain = author_at(version)
                .zip(author_at(version + 1))
                .is_some_and(|((one, _), (next, _))| one == next);
            if own_chain {
                continue;
            }
            let comparable = self.scenario.is_comparable(table);
            let disturbed = self.history.disturbed.contains(&table);
            if comparable && !disturbed && !contested && !let_through {
                self.fail(format!(
                    "version {version} of table {table} waits for a person for no reason: {stored:?}"
                ));
            }
        }
    }
}

impl Attempt {
    fn transaction(&self) -> Option<&String> {
        match &self.outcome {
            Outcome::Done(Some(id)) => Some(id),
            _ => None,
        }
    }
}
