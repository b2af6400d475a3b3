//! A record about versions or a name that a batch affects: why they are hidden or may not be made, and until when.

use std::ops::RangeInclusive;

use tokio::time::Instant;

use crate::batch::log::BatchId;
use crate::batch::visibility::commit_flag::CommitFlag;

/// An entry of a batch, as its id and the entry's index.
pub type Claim = (BatchId, usize);

/// A range of versions, a name or a table that a batch affects, with the reason.
#[derive(Debug)]
pub(super) struct HiddenRange {
    pub(super) subject: Subject,
    pub(super) commit_flag: CommitFlag,
    pub(super) what: HideReason,
}

/// The versions of a branch that a reader may not see. Empty for nearly every table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hidden(pub(super) Vec<RangeInclusive<u64>>);

impl Hidden {
    /// Returns the versions of a branch that the records of its table hide, all of one moment.
    pub(super) fn by(records: &[HiddenRange], branch: Option<&str>) -> Self {
        let look = || Self(records.iter().filter_map(|it| it.hides(branch)).collect());
        match records {
            [] | [_] => look(),
            // A batch may be revealed between two of its ranges.
            _ => seen_twice(look),
        }
    }

    /// Returns true if nothing is hidden.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if this version is hidden.
    pub fn contains(&self, version: u64) -> bool {
        self.0.iter().any(|versions| versions.contains(&version))
    }
}

/// Looks until two looks in a row see the same.
fn seen_twice<T: PartialEq>(mut look: impl FnMut() -> T) -> T {
    let mut seen = look();
    loop {
        let again = look();
        if again == seen {
            return seen;
        }
        seen = again;
    }
}

/// The subject of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Versions of the table, or of a branch of it.
    Versions {
        /// The branch; `None` is the main one.
        branch: Option<String>,
        /// The affected versions.
        range: RangeInclusive<u64>,
    },
    /// The name of the table.
    Name,
    /// The table itself: it may change, but no other table may get its name.
    Table,
}

/// The reason why something is hidden or may not be made, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HideReason {
    /// Hidden until the batch is committed, together with the versions above it.
    Made,
    /// Hidden from the commit on.
    Removed,
    /// Undone; no request about it can still arrive.
    Freed {
        /// The time until which no writer may make it.
        rests: Instant,
        /// The time until which creates above it are refused, because they were built on the version that is gone.
        until: Instant,
        /// The batch's entry while the batch is open, because a restart frees the number again; `None` after it.
        claim: Option<Claim>,
    },
    /// Another writer has made the version since. Until `until`, creates above it that arrived before `at` are refused.
    Retaken { at: Instant, until: Instant },
    /// A request about it may still arrive, until `until`. It is hidden, together with the versions above it.
    Uncertain {
        until: Instant,
        /// True if a removal may arrive, so that no writer may make it. Otherwise a create may arrive.
        removal: bool,
        /// True if another writer's create of it was let through.
        contested: bool,
        claim: Option<Claim>,
        /// True if the log knows that the version is contested.
        noted: bool,
    },
}

impl Subject {
    /// Creates the subject of one version.
    pub fn version(branch: Option<&str>, version: u64) -> Self {
        Self::Versions {
            branch: branch.map(str::to_owned),
            range: version..=version,
        }
    }

    /// The first of the versions, if they are on this branch; otherwise `None`.
    pub(super) fn start(&self, on: Option<&str>) -> Option<u64> {
        match self {
            Self::Versions { branch, range } if branch.as_deref() == on => Some(*range.start()),
            _ => None,
        }
    }
}

impl HiddenRange {
    pub(super) fn is(&self, subject: &Subject, commit_flag: &CommitFlag) -> bool {
        self.commit_flag.is(commit_flag) && self.subject == *subject
    }

    /// The versions of the branch that the record hides now; `None` if it hides none.
    pub(super) fn hides(&self, on: Option<&str>) -> Option<RangeInclusive<u64>> {
        let Subject::Versions { branch, range } = &self.subject else {
            return None;
        };
        if branch.as_deref() != on {
            return None;
        }
        let with_all_above = *range.start()..=u64::MAX;
        match self.what {
            HideReason::Made => (!self.commit_flag.is_revealed()).then_some(with_all_above),
            HideReason::Removed => self.commit_flag.is_revealed().then(|| range.clone()),
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
            HideReason::Made => self.commit_flag.is_revealed(),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the second look, one of the first dozen rounds fails.
    #[test]
    fn a_look_during_the_commit_sees_all_ranges_of_a_batch_or_none() {
        for round in 0..200 {
            let commit_flag = CommitFlag::default();
            let removed = |range| HiddenRange {
                subject: Subject::Versions {
                    branch: None,
                    range,
                },
                commit_flag: commit_flag.clone(),
                what: HideReason::Removed,
            };
            let records = [removed(1..=1), removed(3..=3)];
            std::thread::scope(|threads| {
                threads.spawn(|| commit_flag.reveal());
                loop {
                    let hidden = Hidden::by(&records, None);
                    match hidden.0.len() {
                        0 => {}
                        2 => break,
                        _ => panic!("round {round}: {hidden:?}"),
                    }
                }
            });
        }
    }

    #[test]
    fn a_look_that_another_one_contradicts_does_not_count() {
        let mut looks = [1, 2, 3, 3, 4].into_iter();
        assert_eq!(seen_twice(|| looks.next()), Some(3));
    }
}
