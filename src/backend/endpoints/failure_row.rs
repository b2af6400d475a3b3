//! The consecutive failures of one address: whether the address is to blame, or one caller or one table may be.
//!
//! Five requests of one caller for one slow table fail one after the other although the catalog serves everybody else.
//! So they are no evidence against the last address of a catalog, unless they come from several callers and concern
//! several tables. A failure to connect is always evidence, because no request can bring it about.

use std::hash::{BuildHasher as _, Hash};

use foldhash::fast::FixedState;

use crate::request::context::RequestContext;

/// The possible cause of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend) enum FailureSource {
    /// The address alone: nothing of the request was sent, or another address answered it.
    Address,
    /// The request, too: another one might have been answered.
    Request {
        /// A hash of the caller; `None` if callers are not known.
        caller: Option<u64>,
        /// A hash of the table or namespace.
        target: u64,
    },
}

impl FailureSource {
    /// Returns the source of a failure of this request after it was sent. Only failures pay for the hashes.
    pub(in crate::backend) fn sent(context: &RequestContext) -> Self {
        let caller = context.principal.as_ref();
        let caller = caller.filter(|caller| !caller.is_anonymous());
        Self::Request {
            caller: caller.map(|caller| hash(&(caller.issuer(), caller.subject()))),
            target: context
                .identifier
                .as_ref()
                .map_or_else(|| hash(&context.operation), |identifier| hash(&identifier)),
        }
    }
}

/// Two sources with the same hash count as one: the breaker then stays closed a little longer.
fn hash(key: &impl Hash) -> u64 {
    FixedState::default().hash_one(key)
}

/// The failures since the last success.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::backend) struct FailureRow {
    count: u32,
    first: Option<(Option<u64>, u64)>,
    has_several_callers: bool,
    has_several_targets: bool,
    blames_address: bool,
}

impl FailureRow {
    /// Returns a row of `count` failures that the address is to blame for.
    pub(in crate::backend) fn of_address(count: u32) -> Self {
        Self {
            count,
            blames_address: true,
            ..Self::default()
        }
    }

    /// Adds a failure.
    pub(in crate::backend) fn add(&mut self, source: FailureSource) {
        self.count = self.count.saturating_add(1);
        match source {
            FailureSource::Address => self.blames_address = true,
            FailureSource::Request { caller, target } => {
                let first = *self.first.get_or_insert((caller, target));
                // Callers that are not known cannot be told apart, so only their tables count.
                self.has_several_callers |= caller.is_none() || caller != first.0;
                self.has_several_targets |= target != first.1;
            }
        }
    }

    /// Records that something else than requests has shown the address to be broken.
    pub(in crate::backend) fn blame_address(&mut self) {
        self.blames_address = true;
    }

    /// Returns the number of failures.
    pub(in crate::backend) fn count(&self) -> u32 {
        self.count
    }

    /// True if one caller or one table can be the cause of all of them.
    pub(in crate::backend) fn may_be_one_requests(&self) -> bool {
        !(self.blames_address || self.has_several_callers && self.has_several_targets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(sources: &[FailureSource]) -> FailureRow {
        let mut row = FailureRow::default();
        for source in sources {
            row.add(*source);
        }
        row
    }

    fn of(caller: Option<u64>, target: u64) -> FailureSource {
        FailureSource::Request { caller, target }
    }

    #[test]
    fn one_caller_or_one_table_is_no_evidence_against_the_address() {
        let (ann, bob) = (Some(1), Some(2));
        for (sources, is_one) in [
            (vec![of(ann, 7); 5], true),
            (vec![of(ann, 7), of(ann, 8), of(ann, 9)], true),
            (vec![of(ann, 7), of(bob, 7), of(None, 7)], true),
            (vec![of(ann, 7), of(bob, 8)], false),
            (vec![of(ann, 7), of(bob, 7), of(bob, 8)], false),
            // Without authentication all callers look alike.
            (vec![of(None, 7); 5], true),
            (vec![of(None, 7), of(None, 8)], false),
            (vec![of(ann, 7), FailureSource::Address], false),
            (vec![FailureSource::Address], false),
        ] {
            let row = row(&sources);
            assert_eq!(row.may_be_one_requests(), is_one, "{sources:?}");
            assert_eq!(row.count() as usize, sources.len());
        }
    }

    #[test]
    fn something_else_can_blame_the_address() {
        let mut row = row(&[of(Some(1), 7); 3]);
        row.blame_address();
        assert!(!row.may_be_one_requests());
    }
}
