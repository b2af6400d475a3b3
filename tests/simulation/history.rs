//! What clients did, what they were told, and what the catalogs and the log did meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use nsgate::batch::log::{Action, BatchId, IntentEntry, Verdict};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::scenario::Scenario;
use crate::world::Inner;

/// Everything that the checks look at.
#[derive(Default)]
pub struct History {
    pub ops: Vec<Op>,
    pub reads: Vec<Read>,
    pub transactions: Vec<Asked>,
    /// Who writes what: the operation and its entry, by author.
    pub authors: BTreeMap<String, (usize, usize)>,
    /// Authors of versions that a durable COMMIT names, and its place in the order of everything.
    pub committed: BTreeMap<String, u64>,
    /// Tables that somebody wrote to without the gateway's locks.
    pub disturbed: BTreeSet<usize>,
    /// Authors whose creates something happened to on the way: what was answered need not be what was done.
    pub mistreated: BTreeSet<String>,
    /// Authors who were told that somebody else had been first: nobody can prove to be somebody after that.
    pub contested: BTreeSet<String>,
    pub counts: Counts,
}

/// One attempt to create versions.
pub struct Op {
    pub kind: Kind,
    pub entries: Vec<Entry>,
    pub keyed: bool,
    pub attempts: Vec<Attempt>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A batch that the gateway coordinates.
    Coordinated,
    /// A batch that is left to one catalog.
    Passed,
    /// A create of one version.
    Single,
    /// A create behind the gateway's back.
    Behind,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub table: usize,
    pub version: u64,
    pub author: String,
    /// Of its manifest.
    pub size: u64,
    /// Whose version the writer has seen below it.
    pub base: Option<String>,
}

/// One request for it, and when it ended in the order of everything.
pub struct Attempt {
    pub to: u64,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// 200, and the transaction.
    Done(Option<String>),
    /// An answer that says that nothing of it is or will be there.
    Definite(u16, u64),
    /// No answer, or one that leaves it open.
    Unknown,
}

/// One read through the gateway.
pub struct Read {
    pub table: usize,
    pub from: u64,
    pub to: u64,
    pub saw: Saw,
}

/// What it was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saw {
    /// All versions.
    All(BTreeMap<u64, String>),
    /// The latest version.
    Top(u64, String),
    /// One version, or that it does not exist.
    One(u64, Option<String>),
    /// No version at all.
    Nothing,
    Failed(u16),
}

/// A question for a transaction.
pub struct Asked {
    pub id: BatchId,
    pub from: u64,
    pub to: u64,
    pub status: u16,
    pub said: String,
}

/// How often what happened.
#[derive(Clone, Default)]
pub struct Counts(pub BTreeMap<&'static str, u64>);

impl Counts {
    pub fn add(&mut self, what: &'static str, more: u64) {
        *self.0.entry(what).or_default() += more;
    }

    pub fn merge(&mut self, other: &Self) {
        for (what, more) in &other.0 {
            self.add(what, *more);
        }
    }

    pub fn get(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|(what, count)| writeln!(f, "{count:>10}  {what}"))
    }
}

impl Saw {
    /// Whether the answer shows this version: `None` if it says nothing about it.
    pub fn shows(&self, version: u64, author: &str) -> Option<bool> {
        match self {
            Self::All(all) => Some(all.get(&version).is_some_and(|shown| shown == author)),
            Self::Top(top, shown) if *top == version => Some(shown == author),
            Self::Top(top, _) => (*top < version).then_some(false),
            Self::One(one, shown) if *one == version => Some(shown.as_deref() == Some(author)),
            Self::One(..) | Self::Failed(_) => None,
            Self::Nothing => Some(false),
        }
    }

    /// The versions that it shows.
    pub fn shown(&self) -> Vec<(u64, &str)> {
        match self {
            Self::All(all) => all
                .iter()
                .map(|(n, author)| (*n, author.as_str()))
                .collect(),
            Self::Top(n, author) | Self::One(n, Some(author)) => vec![(*n, author)],
            Self::One(_, None) | Self::Nothing | Self::Failed(_) => Vec::new(),
        }
    }
}

impl Op {
    /// Whether any attempt was answered with 200.
    pub fn done_at(&self) -> Option<u64> {
        let done = |attempt: &&Attempt| matches!(attempt.outcome, Outcome::Done(_));
        self.attempts.iter().find(done).map(|attempt| attempt.to)
    }
}

impl History {
    pub fn op(&self, author: &str) -> Option<&Op> {
        self.authors.get(author).map(|(op, _)| &self.ops[*op])
    }
}

impl Inner {
    /// A catalog has acted on a table: what came or went is looked at.
    pub fn changed(
        &mut self,
        scenario: &Scenario,
        table: usize,
        before: &BTreeMap<u64, String>,
        waited_for: bool,
    ) {
        let after = self.stored(scenario, table);
        for (version, author) in &after {
            if before.get(version) == Some(author) {
                continue;
            }
            let Some(op) = self.history.op(author) else {
                continue;
            };
            match op.kind {
                Kind::Coordinated if self.intended(scenario, table, *version) => {}
                Kind::Coordinated => {
                    let wrong = format!("{author} was created without a durable INTENT");
                    self.wrong.push(wrong);
                }
                Kind::Passed | Kind::Single if waited_for => {}
                // Its lock is gone: it comes behind the gateway's back like any other.
                Kind::Passed | Kind::Single | Kind::Behind => {
                    self.history.disturbed.insert(table);
                    self.history
                        .counts
                        .add("versions created without a lock", 1);
                }
            }
        }
        for (version, author) in before {
            if after.get(version) != Some(author) {
                self.history.counts.add("versions deleted", 1);
                self.may_delete(scenario, table, *version, author);
            }
        }
    }

    fn may_delete(&mut self, scenario: &Scenario, table: usize, version: u64, author: &str) {
        let aborted = self.records_of(scenario, table, version);
        let aborted = aborted
            .iter()
            .any(|v| matches!(v, Some(Verdict::Abort { .. })));
        // Of two manifests that look alike, one of them lost on the way, nobody can tell which is whose.
        if self.history.disturbed.contains(&table) && aborted && self.looks_alike(author) {
            let counts = &mut self.history.counts;
            counts.add("somebody else's version deleted for the batch's", 1);
            return;
        }
        let of_a_batch = self
            .history
            .op(author)
            .is_some_and(|op| op.kind == Kind::Coordinated);
        if !of_a_batch || !aborted || self.history.committed.contains_key(author) {
            let name = &scenario.tables[table].there;
            self.wrong.push(format!(
                "version {version} of {name} by {author} was deleted"
            ));
        }
    }

    /// Whether an author who is not a batch wrote what looks like a batch's version of the same number.
    fn looks_alike(&self, author: &str) -> bool {
        let Some(&(op, entry)) = self.history.authors.get(author) else {
            return false;
        };
        let one = &self.history.ops[op];
        let here = &one.entries[entry];
        let alike = |other: &Entry| {
            (other.table, other.version, other.size) == (here.table, here.version, here.size)
        };
        let batches = self
            .history
            .ops
            .iter()
            .filter(|op| op.kind == Kind::Coordinated);
        one.kind != Kind::Coordinated && batches.flat_map(|op| &op.entries).any(alike)
    }

    fn intended(&self, scenario: &Scenario, table: usize, version: u64) -> bool {
        !self.records_of(scenario, table, version).is_empty()
    }

    /// The decisions of all batches with this version.
    fn records_of(&self, scenario: &Scenario, table: usize, version: u64) -> Vec<Option<Verdict>> {
        let is_version = |entry: &IntentEntry| matches!(entry.action, Action::CreateVersion { version: its, .. } if its == version);
        let of = self.ledger.records().iter().filter(|record| {
            let mut entries = record.intent.entries.iter();
            entries.any(|e| scenario.is_table(table, &e.backend, &e.table) && is_version(e))
        });
        of.map(|record| record.verdict.clone()).collect()
    }

    /// A COMMIT is durable: every version that it names must be there, and be one batch's.
    pub fn committed(
        &mut self,
        id: BatchId,
        versions: &[Box<RawValue>],
        at: u64,
        scenario: &Scenario,
    ) {
        #[derive(Deserialize)]
        struct Version {
            author: String,
        }
        let name = self.ledger.name(id);
        let mut ops = BTreeSet::new();
        let mut disturbed = false;
        for raw in versions {
            let version: Version = serde_json::from_str(raw.get()).expect("a version of a catalog");
            let Some(&(op, entry)) = self.history.authors.get(&version.author) else {
                self.wrong.push(format!(
                    "{name} committed somebody else's {}",
                    version.author
                ));
                continue;
            };
            let Entry {
                table,
                version: number,
                ..
            } = self.history.ops[op].entries[entry];
            disturbed |= self.history.disturbed.contains(&table);
            if self.stored(scenario, table).get(&number) != Some(&version.author) {
                self.wrong.push(format!(
                    "{name} committed {}, which is not there",
                    version.author
                ));
            }
            ops.insert(op);
            self.history.committed.insert(version.author, at);
        }
        self.history.counts.add("batches committed", 1);
        let whole = ops
            .iter()
            .map(|op| self.history.ops[*op].entries.len())
            .sum::<usize>();
        if ops.len() == 1 && whole == versions.len() {
            return;
        }
        match disturbed {
            // Of two manifests that look alike nobody can tell which is whose.
            true => self
                .history
                .counts
                .add("somebody else's version taken for the batch's", 1),
            false => self.wrong.push(format!(
                "{name} committed {ops:?}, {} versions",
                versions.len()
            )),
        }
    }
}
