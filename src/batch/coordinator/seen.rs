//! What readers and writers see of a batch: hidden, revealed, let go, unlocked.

use std::time::Duration;

use tokio::time::sleep;

use super::Run;
use crate::batch::log::Action;
use crate::batch::plan::Entry;
use crate::batch::step::{Settled, State};
use crate::batch::visibility::Watched;

impl Run {
    /// Hides what the batch makes, and from its commit on what it removes.
    pub(super) fn hide(&self) {
        let visibility = &self.coordinator.visibility;
        for Entry { line, action, .. } in &self.plan.entries {
            visibility.hide_action(line, action, &self.fate);
        }
    }

    /// In one step, readers see what was made, and what is removed no more.
    pub(super) fn reveal(&mut self) {
        let shares = self.plan.shape.shares.iter().enumerate();
        for (share, _) in shares.filter(|(_, entries)| entries.len() > 1) {
            let line = self.plan.line(share);
            self.coordinator.visibility.overtake(line);
        }
        let names = &self.coordinator.visibility.names;
        names.reveal(&self.fate, self.plan.names());
        for entry in &self.plan.entries {
            if let Some(version) = entry.version() {
                let visibility = &self.coordinator.visibility;
                self.superseded
                    .extend(visibility.taken(&entry.line, version));
            }
        }
    }

    /// The batch has no say any more in what readers see of the entry.
    pub(super) fn forget(&self, entry: usize) {
        let visibility = &self.coordinator.visibility;
        let names = &visibility.names;
        let Entry { line, action, .. } = &self.plan.entries[entry];
        match action {
            Action::CreateVersion { version, .. } => {
                visibility.forget(line, Some(*version), &self.fate);
            }
            Action::DeleteVersions { ranges } => {
                let starts: Vec<u64> = ranges.iter().map(|range| range.start).collect();
                let (visibility, line) = (visibility.clone(), line.clone());
                let fate = self.fate.clone();
                let forget = move || {
                    for start in starts {
                        visibility.forget(&line, Some(start), &fate);
                    }
                };
                if !self.fate.is_revealed() {
                    return forget();
                }
                // Their numbers do not come back; who has asked the catalog before it deleted them may not see them.
                let rest = self.coordinator.settings().slot_cooldown;
                tokio::spawn(async move {
                    sleep(rest).await;
                    forget();
                });
            }
            // Removed after COMMIT, or undone after ABORT: who has asked the catalog before does not see it either.
            Action::Deregister if self.fate.is_revealed() => names.gone(&line.table, &self.fate),
            Action::Declare { .. } | Action::Register { .. } if !self.fate.is_revealed() => {
                names.gone(&line.table, &self.fate);
            }
            Action::Declare { .. } | Action::Register { .. } | Action::Deregister => {
                names.forget(&line.table, &self.fate);
            }
        }
    }

    /// What is there is somebody else's, or stays on a person's word.
    pub(super) fn show(&self, entry: usize) {
        let Entry { line, action, .. } = &self.plan.entries[entry];
        match action.is_about_name() {
            true => {
                let names = &self.coordinator.visibility.names;
                names.forget(&line.table, &self.fate);
            }
            false => self.forget(entry),
        }
    }

    /// The version is gone: its number rests from when the table is unlocked, and it is hidden until then.
    pub(super) fn reserve(&mut self, entry: usize) {
        let Entry { line, .. } = &self.plan.entries[entry];
        let version = self.plan.entries[entry].version();
        self.reserved[entry] = version.is_some();
        self.resting[entry] = false;
        let visibility = &self.coordinator.visibility;
        // Once somebody else's create went out, it stays so however often ours is undone.
        self.contested[entry] |= version.is_some_and(|version| {
            visibility.watched(line, version, &self.fate) == Watched::Contested
        });
    }

    /// What the log is told of it.
    pub(super) fn as_noted(&self, entry: usize, settled: Settled) -> Settled {
        match settled {
            Settled::Unseen if self.contested[entry] => Settled::Contested,
            settled => settled,
        }
    }

    /// The number rests; `late`: a create of ours may still land as it.
    fn rest(&self, entry: usize, late: bool) {
        let Some(version) = self.plan.entries[entry].version() else {
            return;
        };
        let line = self.plan.entries[entry].line.clone();
        let rest = self.coordinator.settings().slot_cooldown;
        let visibility = self.coordinator.visibility.clone();
        let claim = Some((self.id, entry));
        visibility.release(&line, version, &self.fate, rest, claim);
        if late {
            visibility.watch(&line, version, &self.fate);
        }
        if self.contested[entry] {
            visibility.contest(&line, version);
        }
        tokio::spawn(async move {
            sleep(rest + Duration::from_millis(1)).await;
            visibility.sweep(&line);
        });
    }

    /// The table is free for others, unless another share of the batch is on it still.
    pub(super) fn unlock(&mut self, share: usize, state: &State) {
        self.unlocked[share] = true;
        for &entry in &self.plan.shape.shares[share] {
            match (self.reserved[entry], self.resting[entry]) {
                // Another entry of the share was undone once more: this one rests, or is watched for, as before.
                (true, true) => {}
                (true, false) => {
                    self.rest(entry, state.is_watched(entry));
                    self.resting[entry] = true;
                }
                (false, _) => self.forget(entry),
            }
        }
        let table = &self.plan.line(share).table;
        let mut shares = 0..self.unlocked.len();
        let others = |other: usize| !self.unlocked[other] && self.plan.line(other).table == *table;
        if !shares.any(others) {
            self.hold.free(table);
        }
    }
}
