//! The changes of visibility of a batch: hides, reveals and frees its versions and names, and unlocks its tables.

use std::time::Duration;

use tokio::time::sleep;

use super::entry::Number;
use super::{BatchRun, WATCH};
use crate::batch::log::Action;
use crate::batch::plan::Entry;
use crate::batch::step::{Settled, State};
use crate::batch::visibility::{LateArrival, Release, Subject};

impl BatchRun {
    /// Hides the versions and names that the batch makes, and from its commit on those that it removes; except those of
    /// entries that are `past`.
    pub(super) fn hide(&self, past: impl Fn(usize) -> bool) {
        let visibility = &self.coordinator.visibility;
        let entries = self.plan.entries.iter().enumerate();
        for (entry, Entry { line, action, .. }) in entries.filter(|(entry, _)| !past(*entry)) {
            let origin = self.plan.origin(entry);
            let origin = origin.map(|origin| origin.line.table.clone());
            visibility.hide_action(line, action, origin, &self.commit_flag);
        }
    }

    /// Makes all created entries visible and hides all entries that are to be removed, in one step.
    pub(super) fn reveal(&mut self) {
        let shares = self.plan.shape.shares.iter().enumerate();
        for (share, _) in shares.filter(|(_, entries)| entries.len() > 1) {
            let line = self.plan.line(share);
            self.coordinator.visibility.invalidate_reads(line);
        }
        let names = &self.coordinator.visibility.names;
        names.reveal(&self.commit_flag, self.plan.names());
        let removes = |entry: &&Entry| matches!(entry.action, Action::DeleteVersions { .. });
        for entry in self.plan.entries.iter().filter(removes) {
            self.coordinator.visibility.cut_lists(&entry.line);
        }
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

    /// Ends the batch's influence on what readers see of the entry.
    pub(super) fn forget(&self, entry: usize) {
        let visibility = &self.coordinator.visibility;
        let names = &visibility.names;
        let Entry { line, action, .. } = &self.plan.entries[entry];
        match action {
            Action::CreateVersion { version, .. } => {
                visibility.forget(line, Some(*version), &self.commit_flag);
            }
            Action::DeleteVersions { .. } => {
                let (visibility, line) = (visibility.clone(), line.clone());
                let commit_flag = self.commit_flag.clone();
                if !commit_flag.is_revealed() {
                    return visibility.forget_removed(&line, &commit_flag);
                }
                // A catalog may list them for a while after it has said that they are gone. The numbers come back only in
                // a branch or a table that is made anew, which ends this earlier.
                let rest = self.coordinator.settings().slot_cooldown;
                tokio::spawn(async move {
                    sleep(rest).await;
                    visibility.forget_removed(&line, &commit_flag);
                });
            }
            // Removed after COMMIT, or undone after ABORT: a reader that sent its request before must not see it
            // either.
            Action::Deregister if self.commit_flag.is_revealed() => {
                names.gone(&line.table, &self.commit_flag)
            }
            Action::Declare { .. } | Action::Register { .. } if !self.commit_flag.is_revealed() => {
                names.gone(&line.table, &self.commit_flag);
            }
            Action::Declare { .. } | Action::Register { .. } | Action::Deregister => {
                names.forget(&line.table, &self.commit_flag);
            }
        }
    }

    /// Makes the entry's version or name visible: another writer made it, or an operator keeps it.
    pub(super) fn show(&self, entry: usize) {
        let Entry { line, action, .. } = &self.plan.entries[entry];
        let visibility = &self.coordinator.visibility;
        visibility.unwatch(&line.table, &self.subject(entry), &self.commit_flag);
        if action.is_about_name() {
            visibility.names.forget(&line.table, &self.commit_flag);
        } else {
            self.forget(entry);
        }
    }

    /// Marks the number or name of an undone entry as freed. It stays hidden until the table is unlocked.
    pub(super) fn reserve(&mut self, entry: usize) {
        let Entry { line, .. } = &self.plan.entries[entry];
        self.entries[entry].number = Number::Freed;
        self.entries[entry].is_held = false;
        let visibility = &self.coordinator.visibility;
        // Once another writer's create was sent, the number stays contested, however often ours is undone.
        self.entries[entry].is_contested |= self.plan.entries[entry].version().is_some()
            && visibility.watched(&line.table, &self.subject(entry), &self.commit_flag)
                == LateArrival::Contested;
    }

    /// The final state as the log records it, with the knowledge that the number is contested.
    pub(super) fn as_noted(&self, entry: usize, settled: Settled) -> Settled {
        match settled {
            Settled::Unseen if self.entries[entry].is_contested => Settled::Contested,
            Settled::Leaving if self.entries[entry].is_contested => Settled::LeavingContested,
            settled => settled,
        }
    }

    /// The version, name or table that other writers may not use while a request for the entry may still arrive.
    pub(super) fn subject(&self, entry: usize) -> Subject {
        let Entry { line, action, .. } = &self.plan.entries[entry];
        action.subject(line)
    }

    /// Releases the number or name of an undone entry. It becomes free after its cool-down, or after the watch if a
    /// request that was sent may still arrive.
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
            // The versions that it deletes stay hidden no longer than without a late request.
            (Subject::Table, true) => self.forget(entry),
            (Subject::Versions { .. }, _) | (Subject::Name, true) => {}
        }
        visibility.release(line, subject, &self.commit_flag, release, claim);
        if self.entries[entry].is_contested
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

    /// Unlocks the share's table, unless another share of the batch still needs it.
    pub(super) fn unlock(&mut self, share: usize, state: &State) {
        self.unlocked[share] = true;
        for &entry in &self.plan.shape.shares[share] {
            match self.entries[entry].number {
                // Another entry of the share was undone once more. This one stays in cool-down, or watched, as before.
                Number::Resting => {}
                Number::Freed => {
                    self.rest(entry, state);
                    self.entries[entry].number = Number::Resting;
                }
                Number::Used => self.forget(entry),
            }
            if state.is_kept(entry) {
                let line = &self.plan.entries[entry].line;
                let visibility = &self.coordinator.visibility;
                visibility.release(
                    line,
                    Subject::Table,
                    &self.commit_flag,
                    Release::Leaving(WATCH),
                    None,
                );
            }
        }
        let table = &self.plan.line(share).table;
        // Shares of one table are neighbours.
        let is_here = |other: &usize| self.plan.line(*other).table == *table;
        let before = (0..share).rev().take_while(is_here);
        let mut others = before.chain((share + 1..self.unlocked.len()).take_while(is_here));
        if others.all(|other| self.unlocked[other]) {
            self.hold.free(table);
        }
    }
}
