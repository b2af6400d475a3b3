//! What clients did, what they were told, and what the catalogs and the log did meanwhile.

mod events;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use nsgate::batch::log::BatchId;

use crate::catalog::Spot;
pub use events::{Cause, by_place};

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
    /// Where each version has come to be.
    pub landed: BTreeMap<String, (Spot, u64)>,
    /// Whose rows each version has, by its author.
    pub rows: BTreeMap<String, Arc<BTreeSet<String>>>,
    /// Versions that a client's own request took away, and when.
    pub removed: BTreeMap<String, u64>,
    /// When each name was last given to a place, and whether the gateway did so on its own account.
    pub named: BTreeMap<(usize, String), (u64, bool)>,
    /// Lines that somebody wrote to behind the gateway's back.
    pub disturbed: BTreeSet<Spot>,
    /// Authors whose creates something happened to on the way: what was answered need not be what was done.
    pub mistreated: BTreeSet<String>,
    /// Tables, as their catalogs spell them, of which a removal of the gateway's was done and refused.
    pub refused: BTreeSet<(usize, String)>,
    /// Tables whose name was to change, or to be given, by requests that got no clear answer.
    pub adrift: BTreeSet<usize>,
    /// Authors who were told that somebody else had been first: nobody can prove to be somebody after that.
    pub contested: BTreeSet<String>,
    pub counts: Counts,
}

/// One attempt to create versions.
pub struct Op {
    pub kind: Kind,
    pub entries: Vec<Entry>,
    pub keyed: bool,
    /// Its base was read behind the gateway's back.
    pub raw: bool,
    pub attempts: Vec<Attempt>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A batch that the gateway coordinates.
    Coordinated,
    /// A create of one version.
    Single,
    /// A change of which the catalog chooses the version.
    Server {
        /// It leaves nothing of what was there.
        overwrites: bool,
    },
    /// A change of names.
    Names,
    /// A create behind the gateway's back.
    Behind,
}

#[derive(Clone, Debug)]
pub struct Entry {
    /// The name that is asked for.
    pub table: usize,
    pub branch: bool,
    /// As it is asked for; of what the catalog numbers itself 0.
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
    /// The name that was asked for.
    pub table: usize,
    /// What was shown, if anything was.
    pub spot: Option<Spot>,
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
    /// No such table.
    NoTable,
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
            Self::One(..) | Self::NoTable | Self::Failed(_) => None,
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
            Self::One(_, None) | Self::Nothing | Self::NoTable | Self::Failed(_) => Vec::new(),
        }
    }
}

impl Op {
    /// One without a key.
    pub fn one(kind: Kind, entries: Vec<Entry>) -> Self {
        Self {
            kind,
            entries,
            keyed: false,
            raw: false,
            attempts: Vec::new(),
        }
    }

    /// Whether any attempt was answered with 200.
    pub fn done_at(&self) -> Option<u64> {
        let done = |attempt: &&Attempt| matches!(attempt.outcome, Outcome::Done(_));
        self.attempts.iter().find(done).map(|attempt| attempt.to)
    }
}

impl History {
    pub fn op(&self, author: &str) -> Option<&Op> {
        self.place(author).map(|(op, _)| &self.ops[op])
    }

    /// The operation of an author, and its entry. The second copy of a server-side write has a mark behind its name.
    pub fn place(&self, author: &str) -> Option<(usize, usize)> {
        self.authors.get(author.trim_end_matches('+')).copied()
    }

    /// Whether an author's version is part of a batch that the gateway coordinates.
    pub fn is_coordinated(&self, author: &str) -> bool {
        let op = self.op(author);
        op.is_some_and(|op| op.kind == Kind::Coordinated)
    }

    /// Whether an author does not ask the gateway, either to read or to write.
    pub fn is_behind(&self, author: &str) -> bool {
        let op = self.op(author);
        op.is_some_and(|op| op.raw || op.kind == Kind::Behind)
    }

    /// Whose rows a version has, its author's among them.
    pub fn rows_of(&self, author: &str) -> impl Iterator<Item = &str> {
        let rows = self.rows.get(author).into_iter();
        rows.flat_map(|rows| rows.iter().map(String::as_str))
    }

    /// Whether a version has rows of another one.
    pub fn has_rows(&self, author: &str, of: &str) -> bool {
        let rows = self.rows.get(author);
        rows.is_some_and(|rows| rows.contains(of))
    }

    /// The rows in a version of batches that had not been committed by then, but for what somebody who reads behind the
    /// gateway's back has built on.
    pub fn undecided_rows(&self, author: &str, by: u64) -> Vec<String> {
        let undecided = self.rows_of(author).filter(|of| {
            let committed = self.committed.get(*of);
            self.is_coordinated(of) && committed.is_none_or(|at| *at > by)
        });
        // Of a batch that is committed in part, the rest was taken for what came from behind, which is told elsewhere.
        let undecided = undecided.filter(|of| {
            let entries = self.op(of).into_iter().flat_map(|op| &op.entries);
            let mut committed = entries.filter_map(|entry| self.committed.get(&entry.author));
            !committed.any(|at| *at <= by)
        });
        let excused = |of: &str| {
            let mut rows = self.rows_of(author);
            rows.any(|it| self.is_behind(it) && self.has_rows(it, of))
        };
        let undecided = undecided.filter(|of| !excused(of));
        undecided.map(str::to_owned).collect()
    }

    /// Whether the rows of one version were overwritten on the way to another one.
    pub fn is_overwritten(&self, author: &str) -> bool {
        let mut rows = self.rows_of(author);
        rows.any(|it| {
            let op = self.op(it);
            op.is_some_and(|op| op.kind == Kind::Server { overwrites: true })
        })
    }
}
