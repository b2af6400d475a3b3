//! What is remembered of versions that a batch has a say in: whether they are hidden, and whether that is over.

use std::ops::RangeInclusive;

use tokio::time::Instant;

use crate::batch::fate::Fate;
use crate::batch::log::BatchId;

/// An entry of a batch.
pub type Claim = (BatchId, usize);

/// Some versions that a batch has a say in, and what about them.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) versions: RangeInclusive<u64>,
    pub(super) fate: Fate,
    pub(super) what: What,
}

/// Why versions are hidden, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Hidden until its fate is revealed.
    Made,
    /// Hidden from then on.
    Removed,
    /// It is gone. The number rests until then; it stays hidden until then, or while it is watched.
    Gone {
        until: Instant,
        watched: bool,
        contested: bool,
        /// The batch's entry, while the batch is open: after a restart it will claim the number again.
        claim: Option<Claim>,
        /// The log knows that the version is contested.
        noted: bool,
    },
}

impl Slot {
    pub(super) fn is(&self, version: u64, fate: &Fate) -> bool {
        *self.versions.start() == version && self.fate.is(fate)
    }

    pub(super) fn hides(&self, now: Instant) -> bool {
        match self.what {
            What::Made => !self.fate.is_revealed(),
            What::Removed => self.fate.is_revealed(),
            What::Gone { until, watched, .. } => watched || until > now,
        }
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        match self.what {
            What::Made => self.fate.is_revealed(),
            What::Removed => false,
            What::Gone {
                until,
                watched,
                claim,
                ..
            } => !watched && until <= now && claim.is_none(),
        }
    }
}
