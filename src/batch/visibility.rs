//! Visibility: the versions that readers may not see, and those that may not be made or changed.
//!
//! All versions of a batch share one [`CommitFlag`], so that they become visible or hidden in one step. A version that
//! is built on a hidden one is hidden with it. A version of an aborted batch is free at once if no request about it can
//! still arrive. While a create of ours may still land, the version stays hidden, and its table changes only by creates
//! that name their version. While a removal of ours may still arrive, no writer may make the version.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use tokio::time::Instant;

use crate::batch::locks::{TableHasher, TableKey};
use crate::batch::log::{Action, VersionRange};
use crate::batch::visibility::commit_flag::CommitFlag;
use crate::batch::visibility::hidden_range::{HiddenRange, HideReason};
use crate::batch::visibility::list_watch::ListWatches;
use crate::batch::visibility::names::Names;
use crate::batch::visibility::read_epoch::ReadEpochs;
use strays::Strays;

mod claims;
pub mod commit_flag;
pub mod filter;
mod filtered_body;
pub(in crate::batch) mod gates;
mod hidden_range;
pub mod json_splice;
pub mod list_filter;
mod list_watch;
pub mod names;
mod read_epoch;
pub(in crate::batch) mod reads;
mod removed;
mod strays;
mod tables;

pub use crate::batch::visibility::hidden_range::{Claim, Hidden, Subject};
pub use crate::batch::visibility::list_watch::{ListCut, ListWatch};
pub use crate::batch::visibility::read_epoch::{BranchEpoch, Epoch};
pub use gates::Forbidden;

/// The versions of one branch of a table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableBranch {
    /// The table.
    pub table: TableKey,
    /// The branch; `None` is the main one.
    pub branch: Option<String>,
}

/// The hidden versions and names, and those that may not be made.
#[derive(Clone, Default)]
pub struct Visibility {
    /// The hidden names of tables.
    pub names: Names,
    tables: Arc<DashMap<TableKey, Vec<HiddenRange>, TableHasher>>,
    /// The number of recorded ranges of all tables.
    slots: Arc<AtomicUsize>,
    shown: ReadEpochs,
    lists: ListWatches,
    strays: Strays,
}

/// The owner of a version that a batch gave up, if a create of the batch lands late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateArrival {
    /// The batch alone: no other writer has sent a create of that version.
    Alone,
    /// Unclear: another writer's create of it was let through, and may have landed as well.
    Contested,
    /// Another writer, who has made that version.
    Taken,
}

/// The way in which a batch gives up a version or name that it had made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// A clean release: no request that was sent can still arrive.
    Clean(Pause),
    /// A create may still land, for this long.
    Landing(Duration),
    /// A removal may still arrive, for this long; so may a create.
    Leaving(Duration),
}

/// The cool-down of a version number after an undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The time in which no writer may make the number.
    pub number: Duration,
    /// The time in which creates above the number are refused, until it is made again.
    pub above: Duration,
}

impl Visibility {
    /// Hides a version, and the versions above it, until `commit_flag` is revealed, or until it is forgotten or released.
    pub fn hide(&self, line: TableBranch, version: u64, commit_flag: &CommitFlag) {
        self.add(line, version..=version, commit_flag, HideReason::Made);
    }

    /// Hides versions from the moment when `commit_flag` is revealed.
    pub fn hide_removed(
        &self,
        line: TableBranch,
        versions: RangeInclusive<u64>,
        commit_flag: &CommitFlag,
    ) {
        self.add(line, versions, commit_flag, HideReason::Removed);
    }

    /// The versions of the branch that a reader may not see now.
    pub fn hidden(&self, line: &TableBranch) -> Hidden {
        if self.is_empty() {
            return Hidden::default();
        }
        let Some(slots) = self.tables.get(&line.table) else {
            return Hidden::default();
        };
        Hidden::by(&slots, line.branch.as_deref())
    }

    /// The present moment of a branch. Take it before the request to the catalog, and check it with
    /// [`Self::has_passed`] after reading which versions are hidden.
    pub fn moment(&self, line: &TableBranch) -> BranchEpoch {
        self.shown.moment(line)
    }

    /// The present moment of all branches.
    pub fn epoch(&self) -> Epoch {
        self.shown.epoch()
    }

    /// Returns true if answers about the branch from before `since` are outdated: a version became visible or was
    /// freed.
    pub fn has_shown(&self, since: Epoch, line: impl FnOnce() -> TableBranch) -> bool {
        self.shown.has_shown(since, line)
    }

    /// Returns true if anything is recorded about the table. Nearly free while nothing is recorded about any table.
    pub fn has(&self, table: impl FnOnce() -> TableKey) -> bool {
        !self.is_empty() && self.tables.contains_key(&table())
    }

    /// Returns true if an answer to a request that was sent at this moment may show part of a batch, or a version that
    /// was undone since. The request must then be sent again.
    pub fn has_passed(&self, moment: BranchEpoch) -> bool {
        self.shown.has_passed(moment)
    }

    /// Invalidates the answers that catalogs gave before now. Several changes of this branch are about to be revealed,
    /// and an older answer may show only some of them.
    pub fn invalidate_reads(&self, line: &TableBranch) {
        self.shown.invalidate_reads(line);
    }

    /// The versions of a table that creates of ours may still make.
    pub fn landing(&self, table: &TableKey) -> Vec<(TableBranch, u64)> {
        let slots = self.tables.get(table);
        let slots = slots.iter().flat_map(|slots| slots.iter());
        slots
            .filter_map(|slot| match (&slot.subject, slot.what) {
                (Subject::Versions { branch, range }, HideReason::Uncertain { .. }) => {
                    let line = TableBranch::new(table.clone(), branch.clone());
                    Some((line, *range.start()))
                }
                _ => None,
            })
            .collect()
    }

    /// Gives up a version or name that a batch had made. From now on it is free, or may still be made or removed, as
    /// `release` says. Answers that catalogs gave before are invalidated, because they may show it.
    pub fn release(
        &self,
        line: &TableBranch,
        subject: Subject,
        commit_flag: &CommitFlag,
        release: Release,
        claim: Option<Claim>,
    ) {
        let now = Instant::now();
        let what = match release {
            Release::Clean(pause) => HideReason::Freed {
                rests: now + pause.number,
                until: now + pause.above,
                claim,
            },
            Release::Landing(rest) | Release::Leaving(rest) => HideReason::Uncertain {
                until: now + rest,
                removal: matches!(release, Release::Leaving(_)),
                contested: false,
                claim,
                noted: false,
            },
        };
        self.invalidate_reads(line);
        let mut slots = self.tables.entry(line.table.clone()).or_default();
        let known = slots.iter().position(|slot| slot.is(&subject, commit_flag));
        let slot = known.unwrap_or_else(|| {
            self.slots.fetch_add(1, Ordering::Release);
            slots.push(HiddenRange {
                subject,
                commit_flag: commit_flag.clone(),
                what,
            });
            slots.len() - 1
        });
        slots[slot].what = what;
        self.tell_lists(&line.table, &slots[slot]);
    }

    /// The owner of a version or name that may still land.
    pub fn watched(
        &self,
        table: &TableKey,
        subject: &Subject,
        commit_flag: &CommitFlag,
    ) -> LateArrival {
        let slots = self.tables.get(table);
        let mut slots = slots.iter().flat_map(|slots| slots.iter());
        let slot = slots.find(|slot| slot.is(subject, commit_flag));
        match slot.map(|slot| slot.what) {
            None | Some(HideReason::Retaken { .. }) => LateArrival::Taken,
            Some(HideReason::Uncertain {
                contested: true, ..
            }) => LateArrival::Contested,
            Some(_) => LateArrival::Alone,
        }
    }

    /// Ends the watch of a version or name: it is free.
    pub fn unwatch(&self, table: &TableKey, subject: &Subject, commit_flag: &CommitFlag) {
        self.retain(table, |slot| {
            let watched = matches!(slot.what, HideReason::Uncertain { .. });
            !(watched && slot.is(subject, commit_flag))
        });
    }

    /// Records a create of another writer, or a change whose version the catalog chooses, that got no answer and may
    /// still land.
    pub fn add_stray(&self, table: &TableKey, makes: Option<(&TableBranch, u64)>, lasts: Duration) {
        self.strays.add(table, makes, lasts);
    }

    /// Assumes for this long that creates of other writers may land anywhere, because an earlier life of the gateway
    /// may have let them through.
    pub fn expect_strays(&self, lasts: Duration) {
        self.strays.anywhere_for(lasts);
    }

    /// Returns true if a create that was sent before may make this version: one of a writer that got no answer, or one
    /// of an aborted batch.
    pub fn may_be_anothers(&self, line: &TableBranch, version: u64) -> bool {
        let on = line.branch.as_deref();
        let slots = self.tables.get(&line.table);
        let mut slots = slots.iter().flat_map(|slots| slots.iter());
        let of_batch = slots.any(|slot| {
            let uncertain = matches!(slot.what, HideReason::Uncertain { .. });
            uncertain && slot.subject.start(on) == Some(version)
        });
        of_batch || self.strays.may_land(line, version)
    }

    /// Hides what a change of a batch makes until `commit_flag` is revealed, and what it removes from then on.
    /// `origin` is the present name of a table that the change registers under another one.
    pub fn hide_action(
        &self,
        line: &TableBranch,
        action: &Action,
        origin: Option<TableKey>,
        commit_flag: &CommitFlag,
    ) {
        match action {
            Action::CreateVersion { version, .. } => self.hide(line.clone(), *version, commit_flag),
            Action::DeleteVersions { ranges } => {
                for VersionRange { start, end } in ranges {
                    let versions = *start..=end.saturating_sub(1);
                    self.hide_removed(line.clone(), versions, commit_flag);
                }
            }
            Action::Declare { .. } => self.names.hide_made(line.table.clone(), commit_flag),
            Action::Register { location } => {
                let table = line.table.clone();
                self.names
                    .hide_registered(table, location, origin, commit_flag);
            }
            Action::Deregister => self.names.hide_removed(line.table.clone(), commit_flag),
        }
    }

    /// Removes the ranges of one batch on a branch, or only those of one version.
    pub fn forget(&self, line: &TableBranch, version: Option<u64>, commit_flag: &CommitFlag) {
        let on = line.branch.as_deref();
        self.retain(&line.table, |slot| {
            let start = slot.subject.start(on);
            let other = start.is_none() || version.is_some_and(|version| start != Some(version));
            other || !slot.commit_flag.is(commit_flag)
        });
    }

    /// Removes the expired ranges of a table.
    pub fn sweep(&self, table: &TableKey) {
        let now = Instant::now();
        self.retain(table, |slot| !slot.is_over(now));
    }

    /// Removes the expired ranges of every table, and the strays that cannot land any more.
    pub fn sweep_all(&self) {
        self.strays.sweep();
        let tables: Vec<TableKey> = self.tables.iter().map(|it| it.key().clone()).collect();
        for table in &tables {
            self.sweep(table);
        }
    }

    /// The number of tables about which anything is recorded.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Returns true if nothing is hidden or forbidden anywhere.
    pub fn is_empty(&self) -> bool {
        self.slots.load(Ordering::Acquire) == 0
    }

    fn add(
        &self,
        line: TableBranch,
        range: RangeInclusive<u64>,
        commit_flag: &CommitFlag,
        what: HideReason,
    ) {
        let TableBranch { table, branch } = line;
        let slot = HiddenRange {
            subject: Subject::Versions { branch, range },
            commit_flag: commit_flag.clone(),
            what,
        };
        // First, so that no range is there that `is_empty` does not know of.
        self.slots.fetch_add(1, Ordering::Release);
        let mut slots = self.tables.entry(table).or_default();
        slots.push(slot);
        if let Some(slot) = slots.last() {
            self.tell_lists(slots.key(), slot);
        }
    }

    fn change(&self, line: &TableBranch, change: impl FnMut(&mut HiddenRange)) {
        if let Some(mut slots) = self.tables.get_mut(&line.table) {
            slots.iter_mut().for_each(change);
        }
    }

    fn retain(&self, table: &TableKey, keep: impl Fn(&HiddenRange) -> bool) {
        self.tables.remove_if_mut(table, |_, slots| {
            for slot in slots.iter().filter(|slot| slot.is_hiding() && !keep(slot)) {
                self.invalidate_reads(&slot.line(table));
            }
            let before = slots.len();
            slots.retain(&keep);
            let forgotten = before - slots.len();
            self.slots.fetch_sub(forgotten, Ordering::Release);
            slots.is_empty()
        });
    }
}

impl HiddenRange {
    fn line(&self, table: &TableKey) -> TableBranch {
        let branch = match &self.subject {
            Subject::Versions { branch, .. } => branch.clone(),
            Subject::Name | Subject::Table => None,
        };
        TableBranch::new(table.clone(), branch)
    }
}

#[cfg(test)]
mod tests;
