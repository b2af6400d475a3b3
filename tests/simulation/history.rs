//! The history of a simulation: what clients did and were told, and what the catalogs and the log did meanwhile.

mod events;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use nsgate::batch::log::BatchId;

use crate::catalog::Spot;
pub use events::{Cause, by_place};

/// The events that the checks read.
#[derive(Default)]
pub struct History {
    pub ops: Vec<Op>,
    pub reads: Vec<Read>,
    pub transactions: Vec<Asked>,
    /// The operation and the entry of each author. An author is one version that a client wants.
    pub authors: BTreeMap<String, (usize, usize)>,
    /// The authors of versions that a durable COMMIT names, and its place in the order of all events.
    pub committed: BTreeMap<String, u64>,
    /// The line and the time at which each version was created.
    pub landed: BTreeMap<String, (Spot, u64)>,
    /// The authors of the rows of each version, by the version's author.
    pub rows: BTreeMap<String, Arc<BTreeSet<String>>>,
    /// The versions that a client's own request removed, and when.
    pub removed: BTreeMap<String, u64>,
    /// The time at which each name was last given to a place, and whether the gateway did so by itself.
    pub named: BTreeMap<(usize, String), (u64, bool)>,
    /// The lines to which a client wrote behind the gateway's back.
    pub disturbed: BTreeSet<Spot>,
    /// The authors whose creates met a fault on the way: their answer may differ from what was done.
    pub mistreated: BTreeSet<String>,
    /// The tables, as their catalogs spell them, of which a removal of the gateway was done and refused.
    pub refused: BTreeSet<(usize, String)>,
    /// The tables whose name was to change, or to be given, by requests that got no clear answer.
    pub adrift: BTreeSet<usize>,
    /// True if the checks excuse nothing by a removal or a rename of a client that got no answer.
    pub is_strict: bool,
    /// The authors who were told that another client was first: from then on nothing proves who made the version.
    pub contested: BTreeSet<String>,
    pub counts: Counts,
}

/// One attempt to create versions, or to change names.
pub struct Op {
    pub kind: Kind,
    pub entries: Vec<Entry>,
    pub keyed: bool,
    /// True if its base was read behind the gateway's back.
    pub raw: bool,
    pub attempts: Vec<Attempt>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A batch that the gateway coordinates.
    Coordinated,
    /// A create of one version.
    Single,
    /// A change for which the catalog chooses the version.
    Server {
        /// True if nothing that was there is left.
        overwrites: bool,
    },
    /// A change of names.
    Names,
    /// A create behind the gateway's back.
    Behind,
}

#[derive(Clone, Debug)]
pub struct Entry {
    /// The requested name.
    pub table: usize,
    pub branch: bool,
    /// The requested version number; 0 if the catalog numbers it.
    pub version: u64,
    pub author: String,
    /// The size of its manifest.
    pub size: u64,
    /// The author of the version below it that the writer has seen; `None` if it saw none.
    pub base: Option<String>,
}

/// One request for the operation. `to`: its end in the order of all events.
pub struct Attempt {
    pub to: u64,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Status 200, and the transaction, if any.
    Done(Option<String>),
    /// An answer that says that nothing of it exists or ever will.
    Definite(u16, u64),
    /// No answer, or one that leaves the result open.
    Unknown,
}

/// One read through the gateway.
pub struct Read {
    /// The requested name.
    pub table: usize,
    /// The line that was shown; `None` if none was.
    pub spot: Option<Spot>,
    pub from: u64,
    pub to: u64,
    pub saw: Saw,
}

/// The answer to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saw {
    /// All versions: number and author.
    All(BTreeMap<u64, String>),
    /// The latest version: number and author.
    Top(u64, String),
    /// One version, or `None` if it does not exist.
    One(u64, Option<String>),
    /// No version at all.
    Nothing,
    /// The table does not exist.
    NoTable,
    Failed(u16),
}

/// A query for a transaction.
pub struct Asked {
    pub id: BatchId,
    pub from: u64,
    pub to: u64,
    pub status: u16,
    pub said: String,
}

/// The number of events of each kind.
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
    /// Returns whether the answer shows this version; `None` if it says nothing about the version.
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

    /// Returns the versions that the answer shows.
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
    /// Returns an operation without an idempotency key.
    pub fn one(kind: Kind, entries: Vec<Entry>) -> Self {
        Self {
            kind,
            entries,
            keyed: false,
            raw: false,
            attempts: Vec::new(),
        }
    }

    /// Returns when an attempt was answered with 200; `None` if none was.
    pub fn done_at(&self) -> Option<u64> {
        let done = |attempt: &&Attempt| matches!(attempt.outcome, Outcome::Done(_));
        self.attempts.iter().find(done).map(|attempt| attempt.to)
    }
}

impl History {
    /// Records that the names of these tables may change, by a request that got no clear answer.
    pub fn drift(&mut self, tables: impl IntoIterator<Item = usize>) {
        if !self.is_strict {
            self.adrift.extend(tables);
        }
    }

    pub fn op(&self, author: &str) -> Option<&Op> {
        self.place(author).map(|(op, _)| &self.ops[op])
    }

    /// Returns the operation of an author, and its entry. The second copy of a server-side write has a mark behind its
    /// name.
    pub fn place(&self, author: &str) -> Option<(usize, usize)> {
        self.authors.get(author.trim_end_matches('+')).copied()
    }

    /// Returns true if the author's version is part of a batch that the gateway coordinates.
    pub fn is_coordinated(&self, author: &str) -> bool {
        let op = self.op(author);
        op.is_some_and(|op| op.kind == Kind::Coordinated)
    }

    /// Returns true if a rename of a client, which has no answer, may have given the author's version to this table: the
    /// gateway cannot know that, and does not hide it there.
    pub fn may_have_moved(&self, author: &str, table: usize) -> bool {
        let place = self.place(author);
        let planned = place.and_then(|(op, entry)| self.ops[op].entries.get(entry));
        self.adrift.contains(&table) && planned.is_some_and(|entry| entry.table != table)
    }

    /// Returns true if the author bypasses the gateway, to read or to write.
    pub fn is_behind(&self, author: &str) -> bool {
        let op = self.op(author);
        op.is_some_and(|op| op.raw || op.kind == Kind::Behind)
    }

    /// Iterates over the authors of the rows that a version has, its own author among them.
    pub fn rows_of(&self, author: &str) -> impl Iterator<Item = &str> {
        let rows = self.rows.get(author).into_iter();
        rows.flat_map(|rows| rows.iter().map(String::as_str))
    }

    /// Returns true if the version of `author` has rows of the version `of`.
    pub fn has_rows(&self, author: &str, of: &str) -> bool {
        let rows = self.rows.get(author);
        rows.is_some_and(|rows| rows.contains(of))
    }

    /// Returns the rows in a version that come from batches that were not committed by then. Rows that a client built
    /// on after it read behind the gateway's back do not count.
    pub fn undecided_rows(&self, author: &str, by: u64) -> Vec<String> {
        let undecided = self.rows_of(author).filter(|of| {
            let committed = self.committed.get(*of);
            self.is_coordinated(of) && committed.is_none_or(|at| *at > by)
        });
        // If a batch is committed in part, its rest was taken for a version made behind the gateway's back. Another
        // check reports that.
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

    /// Returns true if the rows of a version were overwritten on the way to the version of `author`.
    pub fn is_overwritten(&self, author: &str) -> bool {
        let mut rows = self.rows_of(author);
        rows.any(|it| {
            let op = self.op(it);
            op.is_some_and(|op| op.kind == Kind::Server { overwrites: true })
        })
    }
}
