//! The types of the protocol: its events, its effects, and the states of what is found.

use crate::error::code::Code;

/// The composition of a batch. An *entry* is one change of one table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The entries of each table branch, in the order in which they are done: what is made comes before what is
    /// removed.
    pub shares: Vec<Vec<usize>>,
    /// The kind of each entry.
    pub kinds: Vec<Kind>,
    /// The group of each entry, which its catalog makes atomically, with one request; `None` for an entry by itself.
    pub groups: Vec<Option<usize>>,
}

/// The kind of an entry, as far as the protocol is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A change that can be undone: a version created, a name declared or registered. It is made before the decision,
    /// hidden until then, and undone after ABORT.
    Made,
    /// A change that cannot be undone: a name deregistered, versions deleted. It starts after COMMIT and is retried
    /// until it is done.
    Removed,
}

/// The decision about a batch, as the log records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Every version exists and is visible.
    Commit,
    /// No version of the batch is or will be visible.
    Abort,
}

impl Decision {
    /// Returns the name of the decision for operators.
    pub fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Abort => "abort",
        }
    }
}

/// The reason why a batch did not happen, in the contract's terms.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// The HTTP status of the answer.
    pub status: u16,
    /// The contract's error code.
    pub code: Code,
    /// The message for the caller; it names the entry's index.
    pub message: String,
}

/// The answer to the client of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// COMMIT is durable.
    Committed,
    /// ABORT is durable, or nothing was ever written.
    Refused(Refusal),
    /// The decision may or may not be durable: that is not known yet.
    Unknown,
}

/// The result of comparing a version found in a catalog with what the entry staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Match {
    /// The version is the batch's own: a create of the batch was answered with it, or its entity tag is the staged
    /// one.
    Proven,
    /// All values that can be compared are equal.
    Alike,
    /// A value that can be compared differs: the version is another writer's.
    Unlike,
    /// No value can be compared.
    Incomparable,
}

/// The answer of a catalog about one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finding {
    /// The version does not exist now; a lost create may still land.
    Absent,
    /// The version exists.
    Present {
        /// The result of comparing it with what was staged.
        likeness: Match,
        /// True if no higher version exists, so that nothing was built on it.
        latest: bool,
    },
}

/// The settlement of one entry after the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settled {
    /// The version does not exist (any more), and no request about it can still arrive.
    Gone,
    /// The version does not exist, but a create of the batch that got no answer may still land.
    Unseen,
    /// An `Unseen` version, but another writer's create of the version was let through: a version that appears need
    /// not be the batch's own.
    Contested,
    /// The version, or the name, does not exist, but a removal by the batch that got no clear answer may still
    /// arrive, and so may a create. No other writer may use the number or the name.
    Leaving,
    /// A `Leaving` version, but another writer's create of it was let through before that removal was sent.
    LeavingContested,
    /// No version of the batch exists or can still arrive: what is there, if anything, is another writer's.
    Theirs,
    /// An operator decided that what is there stays.
    Kept,
    /// The removal is done.
    Removed,
    /// The version exists and could not be removed safely: an operator has to decide.
    Hazard(Hazard),
}

impl Settled {
    /// Returns true if a create by the batch may still land.
    pub fn may_land(self) -> bool {
        matches!(self, Self::Unseen | Self::Contested)
    }

    /// Returns true if another writer's create of the version was let through.
    pub fn is_contested(self) -> bool {
        matches!(self, Self::Contested | Self::LeavingContested)
    }

    /// Returns true if a removal by the batch may still arrive.
    pub fn is_leaving(self) -> bool {
        matches!(self, Self::Leaving | Self::LeavingContested)
    }

    /// Returns true if a request that was sent, a create or a removal, may still arrive.
    pub fn is_uncertain(self) -> bool {
        self.may_land() || self.is_leaving()
    }

    /// Returns true if the version does not exist, as far as the batch knows.
    pub fn is_free(self) -> bool {
        self == Self::Gone || self.is_uncertain()
    }
}

/// The reason why a version was not deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hazard {
    /// A later version exists, which was built on it.
    BuiltOn,
    /// The version may be another writer's.
    Unproven,
}

/// An event, as it is reported to the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The batch was admitted.
    Begin,
    /// All tables of the batch are locked exclusively.
    Locked,
    /// The tables could not be locked within the time limit.
    LockTimedOut(Refusal),
    /// A share was validated: its table exists, and its latest version is the one before the first entry.
    Validated {
        /// The index of the share.
        share: usize,
        /// The reason why the share is not valid; `None` if it is.
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
    /// The catalog answered with a definite refusal.
    Refused(usize, Refusal),
    /// The catalog created something, but not what was requested.
    Spoiled(usize, Refusal),
    /// The catalog answered that it created the version, but shows another one than was staged.
    Strange(usize, Refusal),
    /// The catalog answered 409: the version was created by the batch before, or by another writer.
    Conflicted(usize, Refusal),
    /// The create got no answer, or one that does not say whether the catalog acted.
    Lost(usize),
    /// The catalog answered a lookup of the version.
    Found(usize, Finding),
    /// The catalog did not answer a lookup.
    Unanswered(usize),
    /// The catalog has the version, but did not say whether it is the latest.
    Glimpsed(usize),
    /// The time limit of prepare has passed.
    PrepareTimedOut(Refusal),
    /// The decision is durable. The log's first decision wins, so it may differ from the one that was to be written.
    Decided(Decision),
    /// The decision may or may not have been written: that is not known.
    DecisionUnknown,
    /// The catalog answered that it deleted the version, or that there is none.
    Deleted(usize),
    /// The catalog answered that it did not delete the version, or was never reached.
    NotDeleted(usize),
    /// A delete or a removal got no clear answer, or was not done although the catalog reported success: it may still
    /// arrive.
    RemovalLost(usize),
    /// A create that had got no answer has landed late; the table is locked again.
    Landed(usize),
    /// The watch has ended: nothing has landed for its whole duration, or another writer has created the version
    /// since.
    WatchOver(usize),
    /// The catalog was seen not to have the removed table or versions any more.
    Removed(usize),
    /// The catalog answered that it did not carry out the removal, or was never reached.
    NotRemoved(usize),
    /// The settlement of the entry is durable.
    Noted(usize),
    /// An operator decided: ABORT aborts an undecided batch and has hazards deleted, COMMIT keeps what undo or
    /// removal cannot finish.
    Resolved(Decision),
    /// The end of the batch is durable.
    Ended,
}

/// An action for the driver of the protocol. Effects are started in the order in which they are returned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Locks every table of the batch exclusively, in the global order. → `Locked`, `LockTimedOut`
    Lock,
    /// Checks the share's table. → `Validated`
    Validate(usize),
    /// Writes INTENT. → `IntentDurable`, `IntentFailed`
    LogIntent,
    /// Hides the versions of this batch from readers from now on.
    Hide,
    /// Starts the time limit of prepare. → `PrepareTimedOut`
    StartClock,
    /// Creates the version in its catalog; `again` after a pause. → `Created`, `Unsent`, `Refused`, `Spoiled`,
    /// `Strange`, `Conflicted`, `Lost`
    Create {
        /// The index of the entry.
        entry: usize,
        /// True if an earlier attempt got no clear answer.
        again: bool,
    },
    /// Looks the version up in its catalog; `again` after a pause. → `Found`, `Unanswered`, `Glimpsed`
    Find {
        /// The index of the entry.
        entry: usize,
        /// True if the last lookup got no answer, or one that does not settle the entry.
        again: bool,
    },
    /// Writes the decision; the first one written wins. → `Decided`, `DecisionUnknown`
    LogDecision(Decision),
    /// Makes all that was made visible, and all that is to be removed invisible, in one step.
    Reveal,
    /// Answers the client.
    Answer(Answer),
    /// Deletes exactly this version; `again` after a pause. → `Deleted`, `NotDeleted`, `RemovalLost`
    Delete {
        /// The index of the entry.
        entry: usize,
        /// True if an earlier delete left the version there.
        again: bool,
    },
    /// Lets readers see the version: it is another writer's, or an operator keeps it.
    Show(usize),
    /// Prepares to free the version, or the name, when the table is unlocked: it is free at once if no request that
    /// was sent can still arrive, otherwise as soon as that is so.
    Reserve(usize),
    /// Watches for requests that were sent and may still arrive; the version stays hidden meanwhile. → `Landed`,
    /// `WatchOver`
    Watch(usize),
    /// Frees the version, or the name, because the watch is over, durably.
    Free(usize),
    /// Carries out the removal; `again` after a pause. → `Removed`, `NotRemoved`, `RemovalLost`
    Remove {
        /// The index of the entry.
        entry: usize,
        /// True if the removal was tried before.
        again: bool,
    },
    /// Writes the settlement of the entry. → `Noted`
    Note(usize, Settled),
    /// Unlocks the share's table.
    Unlock(usize),
    /// Writes the end of the batch. → `Ended`
    LogEnd,
}
