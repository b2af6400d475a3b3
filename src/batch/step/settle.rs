//! Settlement, the phase after the decision: finishes or undoes each share, unlocks it, and watches it for as long as a
//! request may still arrive.

use super::state::{EntryState, LateRemoval, Phase, State};
use crate::batch::step::types::{Decision, Effect, Refusal, Settled};

impl State {
    /// Advances every share. A share that is done unlocks. When all are unlocked and nothing may arrive any more, the
    /// batch ends.
    pub(super) fn proceed(&mut self, effects: &mut Vec<Effect>) {
        for share in 0..self.shape.shares.len() {
            let done = match (self.unlocked[share], &self.phase) {
                (false, Phase::Undoing) => self.undo(share, effects),
                (false, Phase::Finishing) => self.finish(share, effects),
                _ => false,
            };
            if done {
                self.unlocked[share] = true;
                effects.push(Effect::Unlock(share));
                self.watch(share, effects);
            }
        }
        let mut progress = self.progress.iter();
        let watched = progress.any(|it| matches!(it, EntryState::Watched | EntryState::Freeing(_)));
        let after = matches!(self.phase, Phase::Undoing | Phase::Finishing);
        if after && !watched && self.unlocked.iter().all(|unlocked| *unlocked) {
            self.phase = Phase::Closing;
            effects.push(Effect::LogEnd);
        }
    }

    /// Sends the removals of a committed share, one after the other. Returns true when all of them are done.
    fn finish(&mut self, share: usize, effects: &mut Vec<Effect>) -> bool {
        for &entry in &self.shape.shares[share] {
            match self.progress[entry] {
                _ if self.is_made(entry) => {}
                EntryState::Settled(_) => {}
                EntryState::Pending => {
                    self.progress[entry] = EntryState::Removing;
                    let again = false;
                    effects.push(Effect::Remove { entry, again });
                    return false;
                }
                _ => return false,
            }
        }
        true
    }

    /// Handles a removal without a clear answer: undo looks the version up, and a removal after COMMIT is retried
    /// unless it may stay. Once the version or name is gone, it stays reserved for the length of the watch.
    pub(super) fn removal_lost(&mut self, entry: usize, effects: &mut Vec<Effect>) {
        match self.progress[entry] {
            EntryState::Deleting(check) => {
                self.leaving[entry] = LateRemoval::Yes;
                self.check(entry, check, effects);
            }
            EntryState::Removing => {
                self.leaving[entry] = LateRemoval::Yes;
                effects.push(Effect::Remove { entry, again: true });
            }
            EntryState::RemovingLast => {
                self.leaving[entry] = LateRemoval::Yes;
                self.removed(entry, effects);
            }
            _ => {}
        }
    }

    /// Settles a removal that is done, or that may stay undone. If a removal that was sent may still arrive, the entry
    /// stays reserved and is watched.
    pub(super) fn removed(&mut self, entry: usize, effects: &mut Vec<Effect>) {
        if self.is_leaving(entry) {
            effects.push(Effect::Reserve(entry));
            self.note(entry, Settled::Leaving, effects);
        } else {
            self.note(entry, Settled::Removed, effects);
        }
    }

    /// Handles a removal that the catalog did not do: it is retried, unless the version or name may stay.
    pub(super) fn not_removed(&mut self, entry: usize, effects: &mut Vec<Effect>) {
        match self.progress[entry] {
            EntryState::Removing => effects.push(Effect::Remove { entry, again: true }),
            EntryState::RemovingLast if self.is_leaving(entry) => self.removed(entry, effects),
            EntryState::RemovingLast => self.note(entry, Settled::Kept, effects),
            _ => {}
        }
    }

    pub(super) fn note(&mut self, entry: usize, settled: Settled, effects: &mut Vec<Effect>) {
        self.progress[entry] = EntryState::Noting(settled);
        effects.push(Effect::Note(entry, settled));
    }

    /// Starts the watches of a share that has been unlocked: for undone or removed entries whose requests may still
    /// arrive, and for committed entries whose create may act once more.
    fn watch(&mut self, share: usize, effects: &mut Vec<Effect>) {
        for &entry in &self.shape.shares[share] {
            let uncertain = match self.progress[entry] {
                EntryState::Settled(settled) => settled.is_uncertain(),
                EntryState::Created { lost } => lost && self.phase == Phase::Finishing,
                _ => false,
            };
            if uncertain {
                self.progress[entry] = EntryState::Watched;
                effects.push(Effect::Watch(entry));
            }
        }
    }

    /// Ends the watch of an entry: no request that was sent about it can arrive any more.
    pub(super) fn watch_over(&mut self, entry: usize, effects: &mut Vec<Effect>) {
        if self.is_kept(entry) {
            self.progress[entry] = EntryState::Created { lost: false };
            effects.push(Effect::Free(entry));
            return self.proceed(effects);
        }
        self.leaving[entry] = LateRemoval::No;
        let settled = if self.is_made(entry) {
            Settled::Theirs
        } else {
            Settled::Removed
        };
        self.progress[entry] = EntryState::Freeing(settled);
        effects.push(Effect::Note(entry, settled));
    }

    /// Applies an operator's decision. Adds no effect if nothing waits for it.
    pub(super) fn resolved(&mut self, decision: Decision, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Preparing && decision == Decision::Abort {
            let aborted = || Refusal::conflict("the batch was aborted by an operator");
            self.failure.get_or_insert_with(aborted);
            return self.decide(Decision::Abort, effects);
        }
        for entry in 0..self.progress.len() {
            match decision {
                // A removal in flight may succeed, so wait for its answer.
                Decision::Commit if self.progress[entry] == EntryState::Removing => {
                    self.progress[entry] = EntryState::RemovingLast;
                }
                Decision::Commit if self.is_stuck(entry) => {
                    self.note(entry, Settled::Kept, effects);
                }
                Decision::Abort if self.is_hazard(entry) => {
                    self.progress[entry] = EntryState::ForceDelete
                }
                _ => {}
            }
        }
        self.proceed(effects);
    }

    /// True if the undo or the removal cannot finish with the entry and may leave it. An entry that a delete of this or
    /// an earlier life may still hit cannot be left. An entry that a catalog refused to delete can.
    fn is_stuck(&self, entry: usize) -> bool {
        let is_leaving = self.is_leaving(entry);
        match (&self.progress[entry], &self.phase) {
            (EntryState::Created { .. } | EntryState::Uncertain { .. }, Phase::Undoing) => {
                !is_leaving
            }
            (EntryState::Probing(check) | EntryState::Recheck(check), _) => {
                !check.answered && !is_leaving
            }
            _ => self.is_hazard(entry),
        }
    }

    /// Leaves an entry uncertain when a lookup of the prepare phase ends after that phase: it may have looked before a
    /// create acted. The undo looks again.
    pub(super) fn doubt(&mut self, entry: usize, effects: &mut Vec<Effect>) {
        if let EntryState::Resolving { lost, .. } = self.progress[entry] {
            self.progress[entry] = EntryState::Uncertain { lost };
            self.proceed(effects);
        }
    }
}
