//! Applies a batch to what readers and writers see: hides, reveals, releases, unlocks.

use std::time::Duration;

use tokio::time::sleep;

use super::{BatchRun, WATCH};
use crate::batch::log::Action;
use crate::batch::plan::Entry;
use crate::batch::step::{Settled, State};
use crate::batch::visibility::{LateArrival, Release, Subject};

impl BatchRun {
    /// Hides what the batch makes and, from its commit on, what it removes.
    pub(super) fn hide(&self) {
        let visibility = &self.coordinator.visibility;
        for Entry { line, action, .. } in &self.plan.entries {
            visibility.hide_action(line, action, &self.fate);
        }
    }

    /// Reveals the batch in one step: readers see what was made, and no longer what is removed.
    pub(super) fn reveal(&mut self) {
        let shares = self.plan.shape.shares.iter().enumerate();
        for (share, _) in shares.filter(|(_, entries)| entries.len() > 1) {
            let line = self.plan.line(share);
            self.coordinator.visibility.invalidate_reads(line);
        }
        let names = &self.coordinator.visibility.names;
        names.reveal(&self.fate, self.plan.names());
        for table in self.plan.names() {
            let claims = self.coordinator.visibility.renamed(table);
            self.superseded.extend(claims);
        }
        for entry in &self.plan.entries {
            if let Some(version) = entry.version() {
                let visibility = &self.coordinator.visibility;
                let rest = self.coordinator.settings().slot_cooldown;
                self.superseded
                    .extend(visibility.taken(&entry.line, version, rest));
            }
        }
    }

    /// Ends the batch's effect on what readers see of the entry.
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
                // The numbers are not used again, but a reader whose request went to the catalog before the delete
                // must not see them.
                let rest = self.coordinator.settings().slot_cooldown;
                tokio::spawn(async move {
                    sleep(rest).await;
                    forget();
                });
            }
            // Removed after COMMIT, or undone after ABORT: a reader whose request went to the catalog before must
            // not see it either.
            Action::Deregister if self.fate.is_revealed() => names.gone(&line.table, &self.fate),
            Action::Declare { .. } | Action::Register { .. } if !self.fate.is_revealed() => {
                names.gone(&line.table, &self.fate);
            }
            Action::Declare { .. } | Action::Register { .. } | Action::Deregister => {
                names.forget(&line.table, &self.fate);
            }
        }
    }

    /// Shows what exists: it is another writer's, or an operator keeps it.
    pub(super) fn show(&self, entry: usize) {
        let Entry { line, action, .. } = &self.plan.entries[entry];
        let visibility = &self.coordinator.visibility;
        visibility.unwatch(&line.table, &self.subject(entry), &self.fate);
        if action.is_about_name() {
            visibility.names.forget(&line.table, &self.fate);
        } else {
            self.forget(entry);
        }
    }

    /// Reserves an entry that is gone: it is free once the table is unlocked, and hidden until then.
    pub(super) fn reserve(&mut self, entry: usize) {
        let Entry { line, .. } = &self.plan.entries[entry];
        self.reserved[entry] = true;
        self.held[entry] = false;
        self.resting[entry] = false;
        let visibility = &self.coordinator.visibility;
        // An entry for which another writer's create was sent stays contested, however often it is undone.
        self.contested[entry] |= self.plan.entries[entry].version().is_some()
            && visibility.watched(&line.table, &self.subject(entry), &self.fate)
                == LateArrival::Contested;
    }

    /// Returns the settlement as it is written to the log, which says whether the entry is contested.
    pub(super) fn as_noted(&self, entry: usize, settled: Settled) -> Settled {
        match settled {
            Settled::Unseen if self.contested[entry] => Settled::Contested,
            Settled::Leaving if self.contested[entry] => Settled::LeavingContested,
            settled => settled,
        }
    }

    /// Returns what others must leave alone while a request that was sent for the entry may still arrive.
    pub(super) fn subject(&self, entry: usize) -> Subject {
        let Entry { line, action, .. } = &self.plan.entries[entry];
        action.subject(line)
    }

    /// Releases an entry: it is free, unless a request that was sent may still arrive.
    fn rest(&self, entry: usize, state: &State) {
        let line = &self.plan.entries[entry].line;
        let visibility = &self.coordinator.visibility;
        let release = match (state.is_leaving(entry), state.is_watched(entry)) {
            (true, _) => Release::Leaving(WATCH),
            (false, true) => Release::Landing(WATCH),
            (false, false) => Release::Clean(self.coordinator.pause()),
        };
        let (subject, claim) = (self.subject(entry), Some((self.id, entry)));
        match (&subject, state.is_watched(entry)) {
            (Subject::Name | Subject::Table, false) => return self.forget(entry),
            // The watch does not extend the time for which the deleted versions are hidden.
            (Subject::Table, true) => self.forget(entry),
            (Subject::Versions { .. }, _) | (Subject::Name, true) => {}
        }
        visibility.release(line, subject, &self.fate, release, claim);
        if self.contested[entry]
            && let Some(version) = self.plan.entries[entry].version()
        {
            visibility.contest(line, version);
        }
        if let Release::Clean(pause) = release {
            let (visibility, table) = (visibility.clone(), line.table.clone());
            tokio::spawn(async move {
                sleep(pause.above + Duration::from_millis(1)).await;
                visibility.sweep(&table);
            });
        }
    }

    /// Unlocks the table of a share, unless another share of the batch still needs it.
    pub(super) fn unlock(&mut self, share: usize, state: &State) {
        self.unlocked[share] = true;
        for &entry in &self.plan.shape.shares[share] {
            match (self.reserved[entry], self.resting[entry]) {
                // Another entry of the share was undone once more: this one stays in cool-down, or watched, as
                // before.
                (true, true) => {}
                (true, false) => {
                    self.rest(entry, state);
                    self.resting[entry] = true;
                }
                (false, _) => self.forget(entry),
            }
            if state.is_kept(entry) {
                let line = &self.plan.entries[entry].line;
                let visibility = &self.coordinator.visibility;
                visibility.release(
                    line,
                    Subject::Table,
                    &self.fate,
                    Release::Leaving(WATCH),
                    None,
                );
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
