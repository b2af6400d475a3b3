//! The checks of every history:
//!
//! - No client is shown a version of a batch that is not durably committed, nor its rows in a version that was built on
//!   it. This holds for lists, describes and counts.
//! - A version that has been shown, or answered with 200, is shown ever after, and of a batch all versions or none.
//!   Only a client's own request removes it.
//! - Status 200 means that COMMIT is durable. A definite error means that nothing is there or ever will be.
//! - A transaction has the state of its batch, and one `Idempotency-Key` begins one batch.
//! - At the end the catalogs hold exactly what was committed. Each table is one unbroken line, each version is built on
//!   the one that its writer saw, and every name leads where its clients and committed renames have put it.

mod ending;
mod stuck;

use std::collections::{BTreeMap, BTreeSet};

use nsgate::batch::OpenBatch;
use nsgate::batch::log::Verdict;
use nsgate::batch::step::Decision;

use crate::catalog::Spot;
use crate::environment::Inner;
use crate::history::{Attempt, History, Kind, Op, Outcome, Read, Saw};
use crate::scenario::Scenario;
pub use stuck::Stuck;

/// Returns everything that is wrong with a history; empty if nothing is.
pub fn history(inner: &Inner, scenario: &Scenario, open: &[OpenBatch]) -> Vec<String> {
    let mut check = Check {
        inner,
        history: &inner.history,
        scenario,
        stuck: Stuck::of(inner, scenario, open),
        wrong: inner.wrong.clone(),
    };
    check.reads();
    check.answers();
    check.transactions();
    check.log();
    check.lines();
    check.names();
    check.hazards(open);
    check.wrong
}

struct Check<'a> {
    inner: &'a Inner,
    history: &'a History,
    scenario: &'a Scenario,
    stuck: Stuck,
    wrong: Vec<String>,
}

/// A line, a version number and its author.
type Known = (Spot, u64, String);

impl Check<'_> {
    fn fail(&mut self, what: String) {
        self.wrong.push(what);
    }

    fn reads(&mut self) {
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
        for (version, author) in read.saw.shown() {
            let committed = self.history.committed.get(author);
            if self.history.is_coordinated(author) && committed.is_none_or(|at| *at > to) {
                self.fail(format!(
                    "a read ({from}..{to}) of table {table} showed version {version} by {author}, which was not committed"
                ));
            }
            let rows = self.history.undecided_rows(author, to);
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
                learn(spot, version, author, read.to);
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

    /// Returns true if a version is where it landed.
    fn is_there(&self, author: &str) -> bool {
        let landed = self.history.landed.get(author);
        landed.is_some_and(|(spot, version)| {
            self.inner.stored(*spot).get(version).map(String::as_str) == Some(author)
        })
    }

    fn all_there(&mut self, number: usize, op: &Op, answer: &Attempt) {
        for entry in &op.entries {
            let landed = self.history.landed.get(&entry.author).map(|it| it.0);
            let spot = landed.or_else(|| self.inner.spot(self.scenario, entry.table, entry.branch));
            // A version that never landed may have been taken for one made behind the gateway's back, under any name.
            let catalog = self.scenario.tables[entry.table].catalog;
            let disturbed = spot.is_some_and(|spot| self.history.disturbed.contains(&spot))
                || (landed.is_none()
                    && self
                        .history
                        .disturbed
                        .iter()
                        .any(|it| it.catalog == catalog));
            let removed = self.history.removed.contains_key(&entry.author);
            if !self.is_there(&entry.author) && !removed && !disturbed {
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
        // An earlier attempt without an idempotency key is another batch.
        if unclear && !(op.kind == Kind::Coordinated && op.keyed) {
            return;
        }
        for entry in &op.entries {
            let passed_on = op.kind != Kind::Coordinated;
            if passed_on && self.history.mistreated.contains(&entry.author) {
                continue;
            }
            let landed = self.history.landed.get(&entry.author);
            let waits = landed.is_some_and(|landed| self.stuck.versions.contains(landed));
            if self.is_there(&entry.author) && !waits {
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
        // The time from which a client knows the result, by transaction.
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
            // A batch that failed for a passing reason has released its key.
            let refusal = record.verdict.as_ref().and_then(Verdict::refusal);
            let keeps = refusal.is_none_or(|it| !matches!(it.status, 408 | 425 | 429 | 500..));
            if let Some(key) = record.intent.idempotency.as_ref().filter(|_| keeps)
                && !keys.insert(key.clone())
            {
                self.fail(format!("{name} is the second batch of one Idempotency-Key"));
            }
            if record.verdict.is_none() {
                self.fail(format!("{name} is still undecided"));
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
