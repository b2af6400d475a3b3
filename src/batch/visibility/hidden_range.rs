//! HideReason is remembered of versions, or of a name, that a batch has a say in: why they are hidden or may not be made, and
//! until when.

use std::ops::RangeInclusive;

use tokio::time::Instant;

use crate::batch::log::BatchId;
use crate::batch::visibility::commit_flag::CommitFlag;

/// An entry of a batch.
pub type Claim = (BatchId, usize);

/// Something that a batch has a say in, and what about it.
#[derive(Debug)]
pub(super) struct HiddenRange {
    pub(super) subject: Subject,
    pub(super) fate: CommitFlag,
    pub(super) what: HideReason,
}

/// HideReason a slot is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Versions of the table, or of a branch of it.
    Versions {
        /// The branch; `None` is the main line.
        branch: Option<String>,
        /// Which of its versions.
        range: RangeInclusive<u64>,
    },
    /// The name of the table.
    Name,
    /// The table as it is: it may change, but no other one may get its name.
    Table,
}

/// Why something is hidden or may not be made, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HideReason {
    /// Hidden until its fate is revealed, and with it what stands on it.
    Made,
    /// Hidden from then on.
    Removed,
    /// It was undone, and nothing that was sent about it can still arrive.
    Freed {
        /// Until then, nobody makes it.
        rests: Instant,
        /// Until then, creates above it are refused, for they were built on what is gone.
        until: Instant,
        /// The batch's entry, while the batch is open: after a restart the number is freed again.
        claim: Option<Claim>,
    },
    /// Somebody else has made the version since. Until then, creates above it that came before `at` are refused.
    Retaken { at: Instant, until: Instant },
    /// Something that was sent about it may still arrive until then. It is hidden, with what stands on it.
    Uncertain {
        until: Instant,
        /// A removal may arrive: nobody may make it. Otherwise a create may.
        removal: bool,
        /// Somebody else's create of it was let through.
        contested: bool,
        claim: Option<Claim>,
        /// The log knows that the version is contested.
        noted: bool,
    },
}

impl Subject {
    /// One version.
    pub fn version(branch: Option<&str>, version: u64) -> Self {
        Self::Versions {
            branch: branch.map(str::to_owned),
            range: version..=version,
        }
    }

    /// The first of the versions on this branch.
    pub(super) fn start(&self, on: Option<&str>) -> Option<u64> {
        match self {
            Self::Versions { branch, range } if branch.as_deref() == on => Some(*range.start()),
            _ => None,
        }
    }
}

impl HiddenRange {
    pub(super) fn is(&self, subject: &Subject, fate: &CommitFlag) -> bool {
        self.fate.is(fate) && self.subject == *subject
    }

    /// The versions of the branch that are hidden now.
    pub(super) fn hides(&self, on: Option<&str>) -> Option<RangeInclusive<u64>> {
        let Subject::Versions { branch, range } = &self.subject else {
            return None;
        };
        if branch.as_deref() != on {
            return None;
        }
        let with_all_above = *range.start()..=u64::MAX;
        match self.what {
            HideReason::Made => (!self.fate.is_revealed()).then_some(with_all_above),
            HideReason::Removed => self.fate.is_revealed().then(|| range.clone()),
            HideReason::Uncertain { .. } => Some(with_all_above),
            HideReason::Freed { .. } | HideReason::Retaken { .. } => None,
        }
    }

    pub(super) fn is_hiding(&self) -> bool {
        match &self.subject {
            Subject::Versions { branch, .. } => self.hides(branch.as_deref()).is_some(),
            Subject::Name | Subject::Table => false,
        }
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        match self.what {
            HideReason::Made => self.fate.is_revealed(),
            HideReason::Removed | HideReason::Uncertain { .. } => false,
            HideReason::Freed {
                rests,
                until,
                claim,
            } => until.max(rests) <= now && claim.is_none(),
            HideReason::Retaken { until, .. } => until <= now,
        }
    }
}
