//! The evidence that the undo of one entry has collected, and the evidence that it needs to delete a version.

use super::Match;

/// The progress of the undo of one entry: the required evidence and the observations so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RollbackProbe {
    pub(super) evidence: DeleteEvidence,
    pub(super) lost: bool,
    /// True if a catalog answered that it created the version.
    pub(super) made: bool,
    /// True if a delete was sent.
    pub(super) deleted: bool,
    /// True if the last delete was answered with success.
    pub(super) answered: bool,
    /// True if the versions that seem to be built on it were looked up again, since the last delete.
    pub(super) rechecked: bool,
    /// True if a lookup did not find the version although it was not known to be deleted.
    pub(super) missed: bool,
}

/// The evidence that allows undo to delete a version as ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum DeleteEvidence {
    /// Requires proof. Either a catalog reported that the version existed before our create; or ours was seen for
    /// certain, no other create of it was sent, and a delete was.
    ProofRequired,
    /// Requires that everything comparable agrees: a create of ours was sent under the table's lock.
    MatchSuffices,
    /// Requires only that nothing differs: an operator has examined it.
    OperatorOverride,
}

impl RollbackProbe {
    const FIRST: Self = Self {
        evidence: DeleteEvidence::MatchSuffices,
        lost: false,
        made: false,
        deleted: false,
        answered: false,
        rechecked: false,
        missed: false,
    };

    /// The probe for an entry that may not exist or not be ours. `lost` is true if a create of ours got no answer.
    pub(super) fn doubtful(lost: bool) -> Self {
        let evidence = if lost {
            DeleteEvidence::MatchSuffices
        } else {
            DeleteEvidence::ProofRequired
        };
        Self {
            evidence,
            lost,
            ..Self::FIRST
        }
    }

    /// The probe after a delete is sent; `found` is the match of the version that is deleted.
    pub(super) fn deleting(self, found: Match) -> Self {
        let evidence = match (found, self.evidence) {
            (Match::Proven, DeleteEvidence::MatchSuffices) if !self.lost => {
                DeleteEvidence::ProofRequired
            }
            (_, evidence) => evidence,
        };
        Self {
            evidence,
            deleted: true,
            answered: false,
            rechecked: false,
            ..self
        }
    }

    /// The probe for a version that an operator decided to delete.
    pub(super) fn by_operator(lost: bool) -> Self {
        Self {
            evidence: DeleteEvidence::OperatorOverride,
            lost,
            ..Self::FIRST
        }
    }

    /// The probe for a version that a catalog has confirmed to be ours.
    pub(super) fn ours(lost: bool) -> Self {
        Self {
            lost,
            made: true,
            ..Self::FIRST
        }
    }
}
