//! HideReason may not go to a catalog now, on account of what aborted batches had made there.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::{TableBranch, Visibility};
use crate::batch::locks::TableKey;
use crate::batch::step::Refusal;
use crate::batch::visibility::hidden_range::{HiddenRange, HideReason, Subject};
use crate::batch::visibility::names::Place;
use crate::error::code::Code;
use crate::protocol::identifier::Identifier;

/// A create or a change that may not go to the catalog now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// A request that an aborted batch sent about it may still reach the catalog, for so long.
    Uncertain(Duration),
    /// The version would be built on one that is gone.
    BuiltOnGone {
        /// The version that is gone.
        version: u64,
    },
}

impl Forbidden {
    /// HideReason the writer of this version is told.
    pub fn refusal(self, version: u64) -> Refusal {
        match self {
            Self::Uncertain(rest) => Refusal {
                status: 503,
                code: Code::ServiceUnavailable,
                message: format!(
                    "version {version} was rolled back with its batch, and an unanswered request for it may still reach the catalog; retry in {} s",
                    rest.as_secs() + 1
                ),
            },
            Self::BuiltOnGone { version: gone } => Refusal {
                status: 409,
                code: Code::ConcurrentModification,
                message: format!(
                    "version {version} was built on version {gone}, which was rolled back with its batch"
                ),
            },
        }
    }

    /// HideReason is told to whoever asks for another change of the table, or of its name.
    pub fn of_name(self, table: &Identifier) -> Refusal {
        Refusal {
            status: 503,
            code: Code::ServiceUnavailable,
            message: format!(
                "an unanswered batch request for table {table} may still reach its catalog; retry in {} s. To see the batch: `nsgate batches list`",
                self.seconds()
            ),
        }
    }

    /// The seconds after which it may be tried again.
    pub fn seconds(self) -> u64 {
        match self {
            Self::Uncertain(rest) => rest.as_secs() + 1,
            Self::BuiltOnGone { .. } => 1,
        }
    }
}

impl Visibility {
    /// Whether a create of this version may go to the catalog, as far as aborted batches are concerned. `came`: when it
    /// was asked for; what was asked for before a freed version was made again was not built on that.
    pub fn may_create(
        &self,
        line: &TableBranch,
        version: u64,
        came: Instant,
    ) -> Result<(), Forbidden> {
        let now = Instant::now();
        let Some(slots) = self.tables.get(&line.table) else {
            return Ok(());
        };
        let on = line.branch.as_deref();
        let forbidden = slots.iter().filter_map(|slot| {
            let gone = match (&slot.subject, slot.what) {
                (Subject::Name, HideReason::Uncertain { until, .. }) => {
                    return Some(Forbidden::Uncertain(until.saturating_duration_since(now)));
                }
                (subject, _) => subject.start(on).filter(|start| *start <= version)?,
            };
            match slot.what {
                HideReason::Uncertain { until, removal, .. } if gone == version => {
                    removal.then_some(Forbidden::Uncertain(until.saturating_duration_since(now)))
                }
                HideReason::Uncertain { .. } => Some(Forbidden::BuiltOnGone { version: gone }),
                HideReason::Freed { until, .. } if gone < version && now < until => {
                    Some(Forbidden::BuiltOnGone { version: gone })
                }
                HideReason::Retaken { at, until } if gone < version && now < until && came < at => {
                    Some(Forbidden::BuiltOnGone { version: gone })
                }
                _ => None,
            }
        });
        // HideReason can never succeed is said first.
        match forbidden.max_by_key(|forbidden| matches!(forbidden, Forbidden::BuiltOnGone { .. })) {
            Some(forbidden) => Err(forbidden),
            None => Ok(()),
        }
    }

    /// The end of the time in which nobody makes this version, or any of the table that was undone (`None`): whoever built
    /// on it asks by then for the next one. `None`: it is over.
    pub fn rests(&self, table: &TableKey, version: Option<(&TableBranch, u64)>) -> Option<Instant> {
        if self.slots.load(Ordering::Acquire) == 0 {
            return None;
        }
        let slots = self.tables.get(table)?;
        let is_one = |slot: &HiddenRange| match version {
            Some((line, version)) => slot.subject.start(line.branch.as_deref()) == Some(version),
            None => true,
        };
        let rests = slots.iter().filter_map(|slot| match slot.what {
            HideReason::Freed { rests, .. } if is_one(slot) => Some(rests),
            _ => None,
        });
        rests.max().filter(|rests| *rests > Instant::now())
    }

    /// Whether a create of this version, which a batch builds on one of its own, may go to the catalog: no removal of ours
    /// may still hit it. HideReason it is built on was not undone.
    pub fn may_follow(&self, line: &TableBranch, version: u64) -> Result<(), Forbidden> {
        let on = line.branch.as_deref();
        self.is_certain(&line.table, |slot| {
            let removal = matches!(slot.what, HideReason::Uncertain { removal: true, .. });
            removal && slot.subject.start(on) == Some(version)
        })
    }

    /// Whether a change of the table may go to its catalog of which that chooses the version.
    pub fn may_change(&self, table: &TableKey) -> Result<(), Forbidden> {
        self.is_certain(table, |slot| slot.subject != Subject::Table)
    }

    /// Whether the name of the table may go to another one, or a table may get it.
    pub fn may_rename(&self, table: &TableKey) -> Result<(), Forbidden> {
        self.is_certain(table, |_| true)
    }

    /// Whether what is at a place may be destroyed, and the place get another name: no batch gives it a second one that is
    /// not decided, or may come back.
    pub fn may_leave(&self, is_at: impl Fn(&Place) -> bool) -> Result<(), Refusal> {
        let Some(name) = self.names.second_name(is_at) else {
            return Ok(());
        };
        Err(match self.may_rename(&name) {
            Err(forbidden) => forbidden.of_name(&name.table),
            Ok(()) => Refusal {
                status: 503,
                code: Code::ServiceUnavailable,
                message: "an unfinished batch is renaming the table; retry later".into(),
            },
        })
    }

    fn is_certain(
        &self,
        table: &TableKey,
        matters: impl Fn(&HiddenRange) -> bool,
    ) -> Result<(), Forbidden> {
        let slots = self.tables.get(table);
        let slots = slots.iter().flat_map(|slots| slots.iter());
        let until = slots.filter_map(|slot| match slot.what {
            HideReason::Uncertain { until, .. } if matters(slot) => Some(until),
            _ => None,
        });
        until.max().map_or(Ok(()), |until| {
            let rest = until.saturating_duration_since(Instant::now());
            Err(Forbidden::Uncertain(rest))
        })
    }

    /// Whether a namespace may be dropped: nothing that was sent about a table below it may still arrive.
    pub fn may_drop(&self, below: impl Fn(&TableKey) -> bool) -> Result<(), Forbidden> {
        let tables = self.tables.iter().filter(|table| below(table.key()));
        // The map must not be asked again while one of its shards is looked at.
        let tables: Vec<TableKey> = tables.map(|table| table.key().clone()).collect();
        tables.iter().try_for_each(|table| self.may_rename(table))
    }
}
