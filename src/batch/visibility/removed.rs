//! Versions that batches have deleted: they are hidden from the commit on, until nobody can see them in the catalog any more,
//! or their numbers are made again.

use std::sync::atomic::Ordering;

use super::{TableBranch, Visibility};
use crate::batch::locks::TableKey;
use crate::batch::visibility::commit_flag::CommitFlag;
use crate::batch::visibility::hidden_range::{HiddenRange, HideReason, Subject};

impl Visibility {
    /// Shows the versions of a branch again, as far as they are there, that one batch has deleted or was to delete.
    pub fn forget_removed(&self, line: &TableBranch, commit_flag: &CommitFlag) {
        let on = line.branch.as_deref();
        self.retain(&line.table, |slot| {
            let is_removed = slot.what == HideReason::Removed && slot.commit_flag.is(commit_flag);
            !is_removed || slot.subject.start(on).is_none()
        });
    }

    /// Records that the versions of a table, or of a branch of it, may have begun anew: what batches have deleted there does
    /// not matter any more.
    pub fn renumbered(&self, table: &TableKey) {
        self.retain(table, |slot| {
            slot.what != HideReason::Removed || !slot.commit_flag.is_revealed()
        });
    }

    /// Shows a version whose number batches had deleted: it was made again.
    pub(super) fn reused(&self, line: &TableBranch, version: u64) {
        let Some(mut slots) = self.tables.get_mut(&line.table) else {
            return;
        };
        let mut rests = Vec::new();
        for slot in slots.iter_mut() {
            if slot.what != HideReason::Removed || !slot.commit_flag.is_revealed() {
                continue;
            }
            if let Subject::Versions { branch, range } = &mut slot.subject
                && *branch == line.branch
                && range.contains(&version)
            {
                self.invalidate_reads(line);
                let (start, end) = (*range.start(), *range.end());
                *range = version.saturating_add(1)..=end;
                if start < version {
                    rests.push(HiddenRange {
                        subject: Subject::Versions {
                            branch: line.branch.clone(),
                            range: start..=version - 1,
                        },
                        commit_flag: slot.commit_flag.clone(),
                        what: HideReason::Removed,
                    });
                }
            }
        }
        self.slots.fetch_add(rests.len(), Ordering::Release);
        slots.extend(rests);
    }
}
