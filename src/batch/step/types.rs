//! The words of the protocol: what happens to a batch, what is to be done, and how things are found.

use crate::error::code::Code;

/// What a batch consists of. An *entry* is one change of one table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// For each line of versions its entries, in the order in which they are done: what is made before what is removed.
    pub shares: Vec<Vec<usize>>,
    /// For each entry what it is.
    pub kinds: Vec<Kind>,
    /// For each entry the group that its catalog makes all or nothing, with one request, if it does.
    pub groups: Vec<Option<usize>>,
}

/// What an entry is, as far as the protocol is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Something that can be undone: a version created, a name declared or registered. Made before the decision,
    /// hidden until it, undone after ABORT.
    Made,
    /// Something that cannot: a name deregistered, versions deleted. Done after COMMIT, again and again until it is
    /// done.
    Removed,
}

/// How a batch ended, as the log knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Every version exists and is visible.
    Commit,
    /// No version of the batch is or will be visible.
    Abort,
}

impl Decision {
    /// As people are shown it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Abort => "abort",
        }
    }
}

/// Why a batch did not happen, in the contract's terms.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// HTTP status of the answer.
    pub status: u16,
    /// The contract's code.
    pub code: Code,
    /// Words for the caller; they name the entry's index.
    pub message: String,
}

/// What the client of a batch is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// COMMIT is durable.
    Committed,
    /// ABORT is durable, or nothing was ever written.
    Refused(Refusal),
    /// The decision's own fate is not known yet.
    Unknown,
}

/// How a version found in a catalog compares with what the entry staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Match {
    /// It is the very object that a create of ours was answered with.
    Proven,
    /// Everything that can be compared agrees.
    Alike,
    /// Something that can be compared differs: it is somebody else's.
    Unlike,
    /// There is nothing to compare.
    Incomparable,
}

/// What a catalog says of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finding {
    /// It does not exist (now; a lost create may still land).
    Absent,
    /// It exists; `latest` if nothing was built on it.
    Present {
        /// Whose it seems to be.
        likeness: Match,
        /// No higher version exists.
        latest: bool,
    },
}

/// How one entry was settled after the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settled {
    /// It does not exist (any more), and nothing that was sent about it can still arrive.
    Gone,
    /// It does not exist, but a create of ours that got no answer may still land.
    Unseen,
    /// The same, and somebody else's create of it was let through: what appears there need not be ours.
    Contested,
    /// It does not exist, but a removal of ours that got no clear answer may still arrive, and so may a create: nobody
    /// else may use its number, or its name.
    Leaving,
    /// The same, and somebody else's create of it was let through before that removal was sent.
    LeavingContested,
    /// Ours was never created: what is there, if anything, is somebody else's.
    Theirs,
    /// A person said that what is there stays.
    Kept,
    /// What was to be removed is removed.
    Removed,
    /// It exists and could not be removed safely: a person must look.
    Hazard(Hazard),
}

impl Settled {
    /// A create of ours may still land.
    pub fn may_land(self) -> bool {
        matches!(self, Self::Unseen | Self::Contested)
    }

    /// Somebody else's create of it was let through.
    pub fn is_contested(self) -> bool {
        matches!(self, Self::Contested | Self::LeavingContested)
    }

    /// A removal of ours may still arrive.
    pub fn is_leaving(self) -> bool {
        matches!(self, Self::Leaving | Self::LeavingContested)
    }

    /// Something that was sent may still arrive: a create, or a removal.
    pub fn is_uncertain(self) -> bool {
        self.may_land() || self.is_leaving()
    }

    /// The version does not exist, as far as the batch knows.
    pub fn is_free(self) -> bool {
        self == Self::Gone || self.is_uncertain()
    }
}

/// Why a version was not deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hazard {
    /// A later version exists: something was built on it.
    BuiltOn,
    /// It may be somebody else's.
    Unproven,
}

/// What happened, as told to the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The batch was admitted.
    Begin,
    /// All its tables are locked exclusively.
    Locked,
    /// They were not to be had within the bound.
    LockTimedOut(Refusal),
    /// The share's table exists and its latest version is the one before the first entry; or why not.
    Validated {
        /// Index of the share.
        share: usize,
        /// `None`: valid.
        refusal: Option<Refusal>,
    },
    /// INTENT is durable.
    IntentDurable,
    /// INTENT could not be written, and nothing was.
    IntentFailed(Refusal),
    /// The catalog answered that it created the version.
    Created(usize),
    /// The create was never sent, or the catalog was never reached.
    Unsent(usize, Refusal),
    /// The catalog answered a definite no.
    Refused(usize, Refusal),
    /// The catalog made something, but not what was asked for.
    Spoiled(usize, Refusal),
    /// The catalog answered that it created the version, and shows another one than was staged.
    Strange(usize, Refusal),
    /// The catalog answered 409: created by us before, or by somebody else.
    Conflicted(usize, Refusal),
    /// No answer, or one that does not say whether the catalog acted.
    Lost(usize),
    /// The catalog was asked for the version.
    Found(usize, Finding),
    /// The catalog did not answer that question.
    Unanswered(usize),
    /// The catalog has the version, and did not say whether it is the latest.
    Glimpsed(usize),
    /// The bound on prepare has passed.
    PrepareTimedOut(Refusal),
    /// The decision is durable. The log's first decision wins, so it may be the other one.
    Decided(Decision),
    /// Whether the decision was written is not known.
    DecisionUnknown,
    /// The catalog answered that it deleted the version, or that there is none.
    Deleted(usize),
    /// The catalog answered that it did not delete the version, or was never reached.
    NotDeleted(usize),
    /// A delete or a removal got no clear answer, or was not done although the catalog said so: it may still arrive.
    RemovalLost(usize),
    /// A create that had got no answer landed after all; the table is locked again.
    Landed(usize),
    /// Nothing has landed for as long as it was watched for, or somebody else has made that version since.
    WatchOver(usize),
    /// What was to be removed is seen to be gone.
    Removed(usize),
    /// The catalog answered that it did not remove it, or was never reached.
    NotRemoved(usize),
    /// What became of the entry is durable.
    Noted(usize),
    /// A person decides: ABORT aborts what is undecided and has hazards deleted, COMMIT lets stand what undo or removal
    /// cannot come to.
    Resolved(Decision),
    /// The end of the batch is durable.
    Ended,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Lock every table of the batch exclusively, in the global order. → `Locked`, `LockTimedOut`
    Lock,
    /// Look at the share's table. → `Validated`
    Validate(usize),
    /// Write INTENT. → `IntentDurable`, `IntentFailed`
    LogIntent,
    /// From now on readers do not see the versions of this batch.
    Hide,
    /// Start the clock of prepare. → `PrepareTimedOut`
    StartClock,
    /// Create the version in its catalog; `again` after a pause. → `Created`, `Unsent`, `Refused`, `Spoiled`, `Strange`,
    /// `Conflicted`, `Lost`
    Create {
        /// Index of the entry.
        entry: usize,
        /// An earlier attempt got no clear answer.
        again: bool,
    },
    /// Ask the catalog for the version; `again` after a pause. → `Found`, `Unanswered`, `Glimpsed`
    Find {
        /// Index of the entry.
        entry: usize,
        /// The catalog did not answer last time.
        again: bool,
    },
    /// Write the decision; the first one written wins. → `Decided`, `DecisionUnknown`
    LogDecision(Decision),
    /// In one step, all that was made becomes visible, and what is to be removed is not any more.
    Reveal,
    /// Tell the client.
    Answer(Answer),
    /// Delete exactly this version; `again` after a pause. → `Deleted`, `NotDeleted`, `RemovalLost`
    Delete {
        /// Index of the entry.
        entry: usize,
        /// An earlier delete did not take.
        again: bool,
    },
    /// The version is somebody else's: readers may see it.
    Show(usize),
    /// The version, or the name, is free as soon as the table is unlocked: at once where nothing that was sent can still
    /// arrive, otherwise when that is over.
    Reserve(usize),
    /// Watch for what was sent and may still arrive; the version stays hidden meanwhile. → `Landed`, `WatchOver`
    Watch(usize),
    /// The watch is over, durably: the version, or the name, is free.
    Free(usize),
    /// Remove what was to be removed; `again` after a pause. → `Removed`, `NotRemoved`, `RemovalLost`
    Remove {
        /// Index of the entry.
        entry: usize,
        /// It was tried before.
        again: bool,
    },
    /// Write what became of the entry. → `Noted`
    Note(usize, Settled),
    /// Unlock the share's table.
    Unlock(usize),
    /// Write the end. → `Ended`
    LogEnd,
}
