//! The vocabulary of the protocol: events, effects, and the results that catalogs report.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::code::Code;
use crate::error::origin::ErrorOrigin;
use crate::error::retry_after::RetryAfter;

/// The composition of a batch. An *entry* is one change of one table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The entries of each table branch, in the order in which they are done. Entries that make something come before
    /// those that remove something.
    pub shares: Vec<Vec<usize>>,
    /// The kind of each entry.
    pub kinds: Vec<Kind>,
    /// The group of each entry that its catalog makes all or nothing with one request; `None` if the entry is sent by
    /// itself.
    pub groups: Vec<Option<usize>>,
}

/// The kind of an entry, as far as the protocol is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A change that can be undone: a version is created, a name is declared or registered. It is made before the
    /// decision, hidden until then, and undone after ABORT.
    Made,
    /// A change that cannot be undone: a name is deregistered, versions are deleted. It is done after COMMIT and
    /// retried until it succeeds.
    Removed,
}

/// The decision about a batch. The pages for operators spell it in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Every version exists and is visible.
    Commit,
    /// No version of the batch is or will be visible.
    Abort,
}

impl Decision {
    /// The word for operators.
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
    /// The contract's code.
    pub code: Code,
    /// The index of the entry that it is about; `None` if it is about the whole batch.
    pub entry: Option<usize>,
    /// The text for the caller, without the index.
    pub message: String,
    /// The time after which the caller may retry, if the status is 503.
    pub retry_after: RetryAfter,
    /// The table's latest version, if that is the reason; 0 if it has none.
    pub found: Option<u64>,
    /// The lock that could not be had, if that is the reason and it is known.
    pub locked: Option<LockedEntry>,
    /// The part of the system that refused or failed.
    pub origin: ErrorOrigin,
}

/// An entry whose table is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockedEntry {
    /// The index of the entry.
    pub entry: usize,
    /// The id of the batch that holds the lock; `None` if a long operation holds it.
    pub by: Option<Uuid>,
}

impl Refusal {
    /// Creates a refusal of the whole batch, with the contract's status for `code`.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            status: code.status().as_u16(),
            code,
            entry: None,
            message: message.into(),
            retry_after: RetryAfter::SOON,
            found: None,
            locked: None,
            origin: ErrorOrigin::Gateway,
        }
    }

    /// Creates a refusal with status 409 and code 14.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Code::ConcurrentModification, message)
    }

    /// Creates a refusal with status 503 and code 17.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Code::ServiceUnavailable, message)
    }

    /// True if another writer is the reason: the entry's version, name or table is no longer as the batch expects it, or
    /// is locked. A refusal of the whole batch is not, e.g. an operator's decision.
    pub fn is_another_writers(&self) -> bool {
        let is_conflict = self.status == StatusCode::CONFLICT && self.entry.is_some();
        is_conflict || self.locked.is_some()
    }

    /// Sets the table's latest version.
    #[must_use]
    pub fn with_found(self, latest: u64) -> Self {
        Self {
            found: Some(latest),
            ..self
        }
    }

    /// Sets the index of the entry that it is about.
    #[must_use]
    pub fn at(self, entry: usize) -> Self {
        Self {
            entry: Some(entry),
            ..self
        }
    }
}

/// The answer to the client of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// COMMIT is durable.
    Committed,
    /// ABORT is durable, or nothing was ever written.
    Refused(Refusal),
    /// A decision whose record may or may not be durable.
    Unknown,
}

/// The comparison of a version found in a catalog with the one that the entry staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Match {
    /// Proven to be ours: the very object that a catalog reported when it answered a create of ours.
    Proven,
    /// Equal in all properties that can be compared.
    Alike,
    /// Different in at least one property: another writer made it.
    Unlike,
    /// No evidence either way: nothing can be compared.
    Incomparable,
}

/// A catalog's report about one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finding {
    /// The version does not exist now; a lost create may still land.
    Absent,
    /// The version does not exist, but a higher one does: somebody built on it before it was deleted.
    Buried,
    /// The version exists.
    Present {
        /// The comparison with the entry.
        likeness: Match,
        /// The reason why it must not be deleted, even if it is the batch's own; `None` if it may be.
        obstacle: Option<Hazard>,
    },
}

/// The final state of one entry after the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settled {
    /// The version does not exist (any more), and no request that was sent about it can still arrive.
    Gone,
    /// The version does not exist, but a create of ours that got no answer may still land.
    Unseen,
    /// A create of ours may still land, as with `Unseen`, and another writer's create of the version was let through: a
    /// version that appears there need not be ours.
    Contested,
    /// The version does not exist, but a removal of ours that got no clear answer may still arrive, and so may a
    /// create. No other writer may use its number or its name.
    Leaving,
    /// A removal of ours may still arrive, as with `Leaving`, and another writer's create of the version was let
    /// through before that removal was sent.
    LeavingContested,
    /// Our version was never created. If a version exists, another writer made it.
    Theirs,
    /// An operator decided that the existing version or name stays.
    Kept,
    /// The version or name that was to be removed is gone.
    Removed,
    /// The version exists and could not be removed safely: an operator must decide.
    Hazard(Hazard),
}

impl Settled {
    /// True if a create of ours may still land.
    pub fn may_land(self) -> bool {
        matches!(self, Self::Unseen | Self::Contested)
    }

    /// True if another writer's create of it was let through.
    pub fn is_contested(self) -> bool {
        matches!(self, Self::Contested | Self::LeavingContested)
    }

    /// True if a removal of ours may still arrive.
    pub fn is_leaving(self) -> bool {
        matches!(self, Self::Leaving | Self::LeavingContested)
    }

    /// True if a create or a removal that was sent may still arrive.
    pub fn is_uncertain(self) -> bool {
        self.may_land() || self.is_leaving()
    }

    /// True if the version does not exist, as far as the batch knows.
    pub fn is_free(self) -> bool {
        self == Self::Gone || self.is_uncertain()
    }
}

/// The reason why a version was not deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hazard {
    /// A later version exists: it was built on this one.
    BuiltOn,
    /// No other version exists, although the table had one before the batch: without it, the table would be gone.
    OnlyVersion,
    /// Another writer may have made it.
    Unproven,
}

/// An input of the protocol: something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The batch was admitted.
    Begin,
    /// All tables of the batch are locked exclusively.
    Locked,
    /// The locks could not be taken within the time limit.
    LockTimedOut(Refusal),
    /// The check of a share's table has finished. The share is valid if the table exists and its latest version is the
    /// one before the first entry.
    Validated {
        /// Index of the share.
        share: usize,
        /// The reason why the share is not valid; `None` if it is valid.
        refusal: Option<Refusal>,
    },
    /// INTENT is durable.
    IntentDurable,
    /// INTENT could not be written, and nothing else was written either.
    IntentFailed(Refusal),
    /// The catalog answered that it created the version.
    Created(usize),
    /// The create was never sent, or the catalog was never reached.
    Unsent(usize, Refusal),
    /// The catalog definitely refused the create.
    Refused(usize, Refusal),
    /// The catalog made something, but not the version or name of the request.
    Spoiled(usize, Refusal),
    /// The catalog answered that it created the version, but shows a different one from the one that was staged.
    Strange(usize, Refusal),
    /// The catalog answered 409: we created it before, or another writer did.
    Conflicted(usize, Refusal),
    /// The create got no answer, or one that does not say whether the catalog acted.
    Lost(usize),
    /// The catalog reported whether the version exists.
    Found(usize, Finding),
    /// The catalog did not answer the lookup.
    Unanswered(usize),
    /// The catalog has the version, and did not say whether it is the latest.
    Glimpsed(usize),
    /// The time limit of prepare has passed.
    PrepareTimedOut(Refusal),
    /// The decision is durable. The log's first decision wins, so it may be the other one.
    Decided(Decision),
    /// The log did not say whether the decision was written.
    DecisionUnknown,
    /// The catalog answered that it deleted the version, or that the version does not exist.
    Deleted(usize),
    /// The catalog answered that it did not delete the version, or it was never reached.
    NotDeleted(usize),
    /// A delete or a removal got no clear answer, or the catalog reported success but did not do it. It may still
    /// arrive.
    RemovalLost(usize),
    /// A create that had got no answer landed after all; the table is locked again.
    Landed(usize),
    /// The watch has ended: nothing landed, or another writer has made that version since.
    WatchOver(usize),
    /// The version or name that was to be removed is seen to be gone.
    Removed(usize),
    /// The catalog answered that it did not remove it, or it was never reached.
    NotRemoved(usize),
    /// The final state of the entry is durable.
    Noted(usize),
    /// An operator decided. ABORT aborts an undecided batch and has hazards deleted. COMMIT keeps the versions and
    /// names that the undo or the removal cannot finish with.
    Resolved(Decision),
    /// The end of the batch is durable.
    Ended,
}

/// An action for the driver of the protocol. Effects are carried out in the order in which they are returned. The
/// events that may follow stand behind the arrow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Lock every table of the batch exclusively, in the global order. → `Locked`, `LockTimedOut`
    Lock,
    /// Check the share's table. → `Validated`
    Validate(usize),
    /// Write INTENT. → `IntentDurable`, `IntentFailed`
    LogIntent,
    /// Hide the versions of this batch from readers from now on.
    Hide,
    /// Start the timer of prepare. → `PrepareTimedOut`
    StartClock,
    /// Create the version in its catalog; with `again`, after a pause. → `Created`, `Unsent`, `Refused`, `Spoiled`,
    /// `Strange`, `Conflicted`, `Lost`
    Create {
        /// Index of the entry.
        entry: usize,
        /// True if an earlier attempt got no clear answer.
        again: bool,
    },
    /// Look the version up in its catalog; with `again`, after a pause. → `Found`, `Unanswered`, `Glimpsed`
    Find {
        /// Index of the entry.
        entry: usize,
        /// True if an earlier lookup must be repeated after a pause.
        again: bool,
    },
    /// Write the decision; the first one written wins. → `Decided`, `DecisionUnknown`
    LogDecision(Decision),
    /// Make all created entries visible and hide all entries that are to be removed, in one step.
    Reveal,
    /// Answer the client.
    Answer(Answer),
    /// Delete exactly this version; with `again`, after a pause. → `Deleted`, `NotDeleted`, `RemovalLost`
    Delete {
        /// Index of the entry.
        entry: usize,
        /// True if an earlier delete had no effect.
        again: bool,
    },
    /// Make the version visible: another writer made it, or an operator keeps it.
    Show(usize),
    /// Free the version or the name as soon as the table is unlocked. If a request that was sent may still arrive, it
    /// stays reserved until that is over.
    Reserve(usize),
    /// Watch for requests that were sent and may still arrive; the version stays hidden meanwhile. → `Landed`,
    /// `WatchOver`
    Watch(usize),
    /// Free the version or the name. The end of the watch is durable.
    Free(usize),
    /// Remove the version or name; with `again`, after a pause. → `Removed`, `NotRemoved`, `RemovalLost`
    Remove {
        /// Index of the entry.
        entry: usize,
        /// True if it was tried before.
        again: bool,
    },
    /// Write the final state of the entry. → `Noted`
    Note(usize, Settled),
    /// Unlock the share's table.
    Unlock(usize),
    /// Write the end. → `Ended`
    LogEnd,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_of_an_entry_and_a_lock_are_another_writers_and_nothing_else() {
        let conflict = Refusal::conflict("the version exists");
        assert!(conflict.clone().at(1).is_another_writers());
        assert!(!conflict.is_another_writers(), "an operator ended it");
        let busy = Refusal::unavailable("no answer");
        assert!(!busy.clone().at(0).is_another_writers());
        let locked = LockedEntry { entry: 0, by: None };
        let locked = Refusal {
            locked: Some(locked),
            ..busy
        };
        assert!(locked.is_another_writers());
    }
}
