//! Gates: checks whether a request may go to a catalog now, although aborted batches had made versions there.

use std::time::Duration;

use tokio::time::Instant;

use super::{TableBranch, Visibility};
use crate::batch::locks::TableKey;
use crate::batch::step::Refusal;
use crate::batch::visibility::hidden_range::{HiddenRange, HideReason, Subject};
use crate::batch::visibility::names::RenamedLocation;
use crate::error::retry_after::RetryAfter;

/// The reason why a create or a change may not go to the catalog now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// A request about it by an aborted batch may still reach the catalog, for this long.
    Uncertain(Duration),
    /// The version would be built on one that is gone.
    BuiltOnGone {
        /// The version that is gone.
        version: u64,
    },
}

impl Forbidden {
    /// The refusal for the writer of this version.
    pub fn refusal(self, version: u64) -> Refusal {
        match self {
            Self::Uncertain(_) => self.wait(|wait| format!(
                "version {version} was rolled back with its batch, and an unanswered request for it may still reach the catalog; retry in {wait} s"
            )),
            Self::BuiltOnGone { version: gone } => Refusal::conflict(format!(
                "version {version} was built on version {gone}, which was rolled back with its batch"
            )),
        }
    }

    /// The refusal of another change of the table, or of its name.
    pub fn of_name(self, table: &TableKey) -> Refusal {
        let TableKey {
            backend,
            scope,
            table,
        } = table;
        self.wait(|wait| format!(
            "an unanswered batch request for table {table} of catalog `{backend}`{scope} may still reach it; retry in {wait} s. To see the batch: `nsgate batches list`"
        ))
    }

    /// The refusal of a change of a namespace with all that is below it.
    pub fn of_namespace(self) -> Refusal {
        self.wait(|wait| format!(
            "an unanswered batch request for a table below the namespace may still reach its catalog; retry in {wait} s. To see the batch: `nsgate batches list`"
        ))
    }

    /// The refusal of a request that may be retried later, with a message that says when.
    fn wait(self, message: impl FnOnce(RetryAfter) -> String) -> Refusal {
        let retry_after = match self {
            Self::Uncertain(rest) => RetryAfter::rest(rest),
            Self::BuiltOnGone { .. } => RetryAfter::SOON,
        };
        Refusal {
            retry_after,
            ..Refusal::unavailable(message(retry_after))
        }
    }
}

/// The refusal of a request that must wait until a batch has renamed the table.
pub(in crate::batch) fn renaming() -> Refusal {
    Refusal::unavailable("an unfinished batch is renaming the table; retry later")
}

impl Visibility {
    /// Checks that a create of this version may go to the catalog, as far as aborted batches are concerned. `came` is
    /// the time at which the create arrived: one from before a freed version was made again was not built on the new
    /// one.
    ///
    /// # Errors
    ///
    /// The reason why it may not go now.
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
        // A create that can never succeed takes precedence, so that its writer does not wait in vain.
        match forbidden.max_by_key(|forbidden| matches!(forbidden, Forbidden::BuiltOnGone { .. })) {
            Some(forbidden) => Err(forbidden),
            None => Ok(()),
        }
    }

    /// The end of the cool-down of this version, or with `None` of any undone version of the table. Returns `None` if
    /// it is over. A writer that built on the undone version sends its create of the next one within that time.
    pub fn rests(&self, table: &TableKey, version: Option<(&TableBranch, u64)>) -> Option<Instant> {
        if self.is_empty() {
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

    /// Checks that a create of this version, which a batch builds on a version of its own, may go to the catalog: no
    /// removal of ours may still hit it. The version below was not undone and is not checked.
    ///
    /// # Errors
    ///
    /// A removal may still arrive.
    pub fn may_follow(&self, line: &TableBranch, version: u64) -> Result<(), Forbidden> {
        let on = line.branch.as_deref();
        self.is_certain(&line.table, |slot| {
            let removal = matches!(slot.what, HideReason::Uncertain { removal: true, .. });
            removal && slot.subject.start(on) == Some(version)
        })
    }

    /// Checks that a change of the table whose version the catalog chooses may go to the catalog.
    ///
    /// # Errors
    ///
    /// A request about a version or the name of the table may still arrive.
    pub fn may_change(&self, table: &TableKey) -> Result<(), Forbidden> {
        self.is_certain(table, |slot| slot.subject != Subject::Table)
    }

    /// Checks that the name of the table may go to another table, or that a table may get it.
    ///
    /// # Errors
    ///
    /// A request about the table may still arrive.
    pub fn may_rename(&self, table: &TableKey) -> Result<(), Forbidden> {
        self.is_certain(table, |_| true)
    }

    /// Checks that the data at a place may be destroyed, or the place get another name: no batch gives it a second name
    /// that is undecided or may come back.
    ///
    /// # Errors
    ///
    /// A batch gives it a second name; the refusal is for the caller.
    pub fn may_leave(&self, is_at: impl Fn(&RenamedLocation) -> bool) -> Result<(), Refusal> {
        let Some(name) = self.names.second_name(is_at) else {
            return Ok(());
        };
        Err(match self.may_rename(&name) {
            Err(forbidden) => forbidden.of_name(&name),
            Ok(()) => renaming(),
        })
    }

    fn is_certain(
        &self,
        table: &TableKey,
        matters: impl Fn(&HiddenRange) -> bool,
    ) -> Result<(), Forbidden> {
        if self.is_empty() {
            return Ok(());
        }
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

    /// Checks that a namespace may be dropped.
    ///
    /// # Errors
    ///
    /// A request about a table below it may still arrive.
    pub fn may_drop(&self, below: impl Fn(&TableKey) -> bool) -> Result<(), Forbidden> {
        let tables = self.tables.iter().filter(|table| below(table.key()));
        // Collect first: the map must not be read again while one of its shards is locked.
        let tables: Vec<TableKey> = tables.map(|table| table.key().clone()).collect();
        tables.iter().try_for_each(|table| self.may_rename(table))
    }
}
