//! Which versions readers may not see, and what may not be made or changed.
//!
//! All versions of a batch point at one fate, so that they become visible, or stop being it, in one step; what stands on
//! a hidden version is hidden with it. A version of an aborted batch is free at once where nothing that was sent about it
//! can still arrive. Where a create of ours may still land, it stays hidden, and nothing of its table changes but by
//! creates that name their version. Where a removal may, nobody makes it.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use tokio::time::Instant;

use crate::batch::locks::TableKey;
use crate::batch::log::{Action, VersionRange};
use crate::batch::visibility::commit_flag::CommitFlag;
use crate::batch::visibility::hidden_range::{HiddenRange, HideReason};
use crate::batch::visibility::names::Names;
use crate::batch::visibility::read_epoch::ReadEpochs;
use strays::Strays;

mod claims;
pub mod commit_flag;
pub mod filter;
mod gates;
mod hidden_range;
pub mod json_splice;
pub mod names;
mod read_epoch;
pub(in crate::batch) mod reads;
mod strays;
mod tables;

pub use crate::batch::visibility::hidden_range::{Claim, Subject};
pub use crate::batch::visibility::read_epoch::{Epoch, Moment};
pub use gates::Forbidden;

/// The line of versions of one table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableBranch {
    /// The table.
    pub table: TableKey,
    /// The branch; `None` is the main one.
    pub branch: Option<String>,
}

/// HideReason is hidden, and what may not be made.
#[derive(Clone, Default)]
pub struct Visibility {
    /// The names of tables that are hidden.
    pub names: Names,
    tables: Arc<DashMap<TableKey, Vec<HiddenRange>>>,
    /// The number of slots of all tables.
    slots: Arc<AtomicUsize>,
    shown: ReadEpochs,
    strays: Strays,
}

/// The versions of a line that a reader may not see. Empty for nearly every table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hidden(Vec<RangeInclusive<u64>>);

/// Whether a create of ours may still land as a version that was let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateArrival {
    /// Nobody else has asked for that version.
    Alone,
    /// Somebody else's create of it was let through, and may have landed as well.
    Contested,
    /// Somebody else has made that version.
    Taken,
}

/// How something that a batch had made is let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Nothing that was sent can still arrive.
    Clean(Pause),
    /// A create may still land, for so long.
    Landing(Duration),
    /// A removal may still arrive, for so long; so may a create.
    Leaving(Duration),
}

/// The time after an undo in which others leave its version alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// How long nobody makes its number.
    pub number: Duration,
    /// How long creates above it are refused, until it is made again.
    pub above: Duration,
}

impl Hidden {
    /// Nothing is hidden.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// This version is.
    pub fn contains(&self, version: u64) -> bool {
        self.0.iter().any(|versions| versions.contains(&version))
    }
}

impl Visibility {
    /// Hides a version, and what stands on it, until its fate is revealed, or it is forgotten or released.
    pub fn hide(&self, line: TableBranch, version: u64, fate: &CommitFlag) {
        self.add(line, version..=version, fate, HideReason::Made);
    }

    /// Hides versions from the moment when their fate is revealed.
    pub fn hide_removed(
        &self,
        line: TableBranch,
        versions: RangeInclusive<u64>,
        fate: &CommitFlag,
    ) {
        self.add(line, versions, fate, HideReason::Removed);
    }

    /// The versions that a reader may not see now.
    pub fn hidden(&self, line: &TableBranch) -> Hidden {
        let Some(slots) = self.tables.get(&line.table) else {
            return Hidden::default();
        };
        let on = line.branch.as_deref();
        Hidden(slots.iter().filter_map(|slot| slot.hides(on)).collect())
    }

    /// The present moment; to be taken before a catalog is asked, and looked at once the filter knows what is hidden.
    pub fn moment(&self, line: &TableBranch) -> Moment {
        self.shown.moment(line)
    }

    /// The present moment of all lines.
    pub fn epoch(&self) -> Epoch {
        self.shown.epoch()
    }

    /// Whether anything of the line was shown since.
    pub fn has_shown(&self, since: Epoch, line: impl FnOnce() -> TableBranch) -> bool {
        self.shown.has_shown(since, line)
    }

    /// Whether anything of the table is remembered. Costs nearly nothing while nothing is of any.
    pub fn has(&self, table: impl FnOnce() -> TableKey) -> bool {
        self.slots.load(Ordering::Acquire) > 0 && self.tables.contains_key(&table())
    }

    /// Whether an answer from after this moment may hold a part of a batch, or what was undone since: ask again.
    pub fn has_passed(&self, moment: Moment) -> bool {
        self.shown.has_passed(moment)
    }

    /// Several changes of this line are about to be revealed: an answer from before may hold some of them.
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

    /// Lets something go that a batch had made: from now on it is free, or may still be made or removed. Who has asked the
    /// catalog before asks again, for it may have been there.
    pub fn release(
        &self,
        line: &TableBranch,
        subject: Subject,
        fate: &CommitFlag,
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
        match slots.iter_mut().find(|slot| slot.is(&subject, fate)) {
            Some(slot) => slot.what = what,
            None => {
                slots.push(HiddenRange {
                    subject,
                    fate: fate.clone(),
                    what,
                });
                self.slots.fetch_add(1, Ordering::Release);
            }
        }
    }

    /// Whether what may still land is still nobody else's.
    pub fn watched(&self, table: &TableKey, subject: &Subject, fate: &CommitFlag) -> LateArrival {
        let slots = self.tables.get(table);
        let mut slots = slots.iter().flat_map(|slots| slots.iter());
        let slot = slots.find(|slot| slot.is(subject, fate));
        match slot.map(|slot| slot.what) {
            None | Some(HideReason::Retaken { .. }) => LateArrival::Taken,
            Some(HideReason::Uncertain {
                contested: true, ..
            }) => LateArrival::Contested,
            Some(_) => LateArrival::Alone,
        }
    }

    /// The watch is over: it is free.
    pub fn unwatch(&self, table: &TableKey, subject: &Subject, fate: &CommitFlag) {
        self.retain(table, |slot| {
            let watched = matches!(slot.what, HideReason::Uncertain { .. });
            !(watched && slot.is(subject, fate))
        });
    }

    /// A create of somebody else, or a change of which the catalog chooses the version, got no answer and may still land.
    pub fn add_stray(&self, table: &TableKey, makes: Option<(&TableBranch, u64)>, lasts: Duration) {
        self.strays.add(table, makes, lasts);
    }

    /// Creates of others may land anywhere, for so long: an earlier life of the gateway may have let them through.
    pub fn expect_strays(&self, lasts: Duration) {
        self.strays.anywhere_for(lasts);
    }

    /// Whether this version may be made by a create that was sent before: a writer's that got no answer, or that of a batch
    /// that was aborted.
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

    /// Hides what one change of a batch makes until `fate` is revealed, and what it removes from then on.
    pub fn hide_action(&self, line: &TableBranch, action: &Action, fate: &CommitFlag) {
        match action {
            Action::CreateVersion { version, .. } => self.hide(line.clone(), *version, fate),
            Action::DeleteVersions { ranges } => {
                for VersionRange { start, end } in ranges {
                    let versions = *start..=end.saturating_sub(1);
                    self.hide_removed(line.clone(), versions, fate);
                }
            }
            Action::Declare { .. } => self.names.hide_made(line.table.clone(), fate),
            Action::Register { location } => {
                let table = line.table.clone();
                self.names.hide_registered(table, location, fate);
            }
            Action::Deregister => self.names.hide_removed(line.table.clone(), fate),
        }
    }

    /// Forgets the slots of one batch on a line, or only those of one version.
    pub fn forget(&self, line: &TableBranch, version: Option<u64>, fate: &CommitFlag) {
        let on = line.branch.as_deref();
        self.retain(&line.table, |slot| {
            let start = slot.subject.start(on);
            let other = start.is_none() || version.is_some_and(|version| start != Some(version));
            other || !slot.fate.is(fate)
        });
    }

    /// Forgets what is over of a table.
    pub fn sweep(&self, table: &TableKey) {
        let now = Instant::now();
        self.retain(table, |slot| !slot.is_over(now));
    }

    /// Forgets what is over of every table, and the strays that cannot land any more.
    pub fn sweep_all(&self) {
        self.strays.sweep();
        let tables: Vec<TableKey> = self.tables.iter().map(|it| it.key().clone()).collect();
        for table in &tables {
            self.sweep(table);
        }
    }

    /// Tables about which anything is remembered.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Nothing is hidden or forbidden anywhere.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    fn add(
        &self,
        line: TableBranch,
        range: RangeInclusive<u64>,
        fate: &CommitFlag,
        what: HideReason,
    ) {
        let TableBranch { table, branch } = line;
        let slot = HiddenRange {
            subject: Subject::Versions { branch, range },
            fate: fate.clone(),
            what,
        };
        self.tables.entry(table).or_default().push(slot);
        self.slots.fetch_add(1, Ordering::Release);
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
