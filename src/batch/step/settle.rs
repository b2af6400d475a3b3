//! Settlement, the phase after the decision: finishes or undoes each share, decides what may be deleted, unlocks it,
//! and watches it for as long as a request may still arrive.

use super::rollback_probe::{DeleteEvidence, RollbackProbe};
use super::state::{EntryState, LateRemoval, Phase, State};
use crate::batch::step::types::{Decision, Effect, Finding, Hazard, Match, Refusal, Settled};

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

    /// Settles the created entries of an aborted share, the last one first. Returns true when all are settled and none
    /// is a hazard.
    fn undo(&mut self, share: usize, effects: &mut Vec<Effect>) -> bool {
        let mut clean = true;
        let entries: Vec<usize> = self.shape.shares[share].iter().rev().copied().collect();
        for entry in entries {
            match self.progress[entry] {
                // The note must be durable before the table unlocks. Otherwise recovery could take another writer's
                // version for this one.
                EntryState::Pending => {
                    self.note(entry, Settled::Theirs, effects);
                    return false;
                }
                EntryState::Settled(Settled::Hazard(_)) => clean = false,
                EntryState::Settled(_) | EntryState::Watched | EntryState::Freeing(_) => {}
                // Some catalogs act and then refuse, so look for a version that a definite refusal left behind.
                EntryState::Refused => {
                    self.check(entry, RollbackProbe::doubtful(false), effects);
                    return false;
                }
                EntryState::Strange { lost } => {
                    self.lost[entry] = lost;
                    self.note(entry, Settled::Hazard(Hazard::Unproven), effects);
                    return false;
                }
                EntryState::Created { lost } => {
                    self.check(entry, RollbackProbe::ours(lost), effects);
                    return false;
                }
                EntryState::Uncertain { lost } => {
                    self.check(entry, RollbackProbe::doubtful(lost), effects);
                    return false;
                }
                EntryState::ForceDelete => {
                    self.check(entry, RollbackProbe::by_operator(self.lost[entry]), effects);
                    return false;
                }
                EntryState::Recheck(check) => {
                    self.check(entry, check, effects);
                    return false;
                }
                _ => return false,
            }
        }
        clean
    }

    pub(super) fn check(&mut self, entry: usize, check: RollbackProbe, effects: &mut Vec<Effect>) {
        self.progress[entry] = EntryState::Probing(check);
        let again = false;
        effects.push(Effect::Find { entry, again });
    }

    pub(super) fn found_in_undo(
        &mut self,
        entry: usize,
        finding: Finding,
        effects: &mut Vec<Effect>,
    ) {
        let EntryState::Probing(check) = self.progress[entry] else {
            return self.doubt(entry, effects);
        };
        if matches!(finding, Finding::Present { .. }) {
            self.is_there(entry, check);
        }
        let settled = match finding {
            Finding::Absent => match self.absent(entry, check) {
                Some(settled) => settled,
                None => {
                    let missed = true;
                    self.progress[entry] = EntryState::Probing(RollbackProbe { missed, ..check });
                    let again = true;
                    return effects.push(Effect::Find { entry, again });
                }
            },
            // Whoever built on it did so between the look before the delete and the delete. Its rows are in the higher
            // version, which stays hidden until an operator has decided. One answer may come from an old copy, and the
            // higher version may be a late one of the batch.
            Finding::Buried if check.rechecked => Settled::Hazard(Hazard::BuiltOn),
            Finding::Buried => {
                let check = RollbackProbe {
                    rechecked: true,
                    ..check
                };
                if self.doubts_above(entry) {
                    self.progress[entry] = EntryState::Recheck(check);
                    return self.proceed(effects);
                }
                self.progress[entry] = EntryState::Probing(check);
                return effects.push(Effect::Find { entry, again: true });
            }
            Finding::Present { likeness, latest } => match (likeness, check.evidence) {
                // No writer may build on a version that a removal of ours may still hit. Nor is a version shown because a
                // person wanted it deleted: it may be the batch's, made otherwise than it was staged.
                (Match::Unlike, evidence)
                    if self.leaving[entry] == LateRemoval::Yes
                        || evidence == DeleteEvidence::OperatorOverride =>
                {
                    Settled::Hazard(Hazard::Unproven)
                }
                (Match::Unlike, _) => Settled::Theirs,
                (Match::Proven, _)
                | (Match::Alike, DeleteEvidence::MatchSuffices)
                | (_, DeleteEvidence::OperatorOverride) => {
                    if latest {
                        self.progress[entry] = EntryState::Deleting(check.deleting(likeness));
                        let again = check.deleted;
                        effects.push(Effect::Delete { entry, again });
                        return;
                    }
                    if !check.rechecked && self.doubts_above(entry) {
                        let rechecked = true;
                        self.progress[entry] =
                            EntryState::Recheck(RollbackProbe { rechecked, ..check });
                        return self.proceed(effects);
                    }
                    Settled::Hazard(Hazard::BuiltOn)
                }
                (Match::Alike | Match::Incomparable, _) => Settled::Hazard(Hazard::Unproven),
            },
        };
        if settled.is_leaving() {
            self.leaving[entry] = LateRemoval::Yes;
        }
        self.lost[entry] = check.lost;
        match settled {
            settled if settled.is_free() => effects.push(Effect::Reserve(entry)),
            Settled::Theirs => effects.push(Effect::Show(entry)),
            _ => {}
        }
        self.note(entry, settled, effects);
    }

    /// Records that a delete may still arrive: it was answered with success, but the version is still there.
    fn is_there(&mut self, entry: usize, check: RollbackProbe) {
        if check.answered {
            self.leaving[entry] = LateRemoval::Yes;
        }
    }

    /// Looks a version up again, without an end, whose catalog did not answer, or of which nothing else is known than
    /// that it `is_there`. That discards an earlier report that it was absent.
    pub(super) fn probe_again(
        &mut self,
        entry: usize,
        check: RollbackProbe,
        is_there: bool,
        effects: &mut Vec<Effect>,
    ) {
        if is_there {
            self.is_there(entry, check);
            let missed = false;
            self.progress[entry] = EntryState::Probing(RollbackProbe { missed, ..check });
        }
        effects.push(Effect::Find { entry, again: true });
    }

    /// The final state of an entry that is not there; `None` if one lookup is not enough, because a catalog may answer
    /// from an old copy.
    fn absent(&self, entry: usize, check: RollbackProbe) -> Option<Settled> {
        let RollbackProbe {
            lost,
            made,
            deleted,
            answered,
            missed,
            ..
        } = check;
        if self.is_leaving(entry) {
            Some(Settled::Leaving)
        } else if lost {
            Some(Settled::Unseen)
        } else if answered {
            Some(Settled::Gone)
        } else if !missed {
            None
        } else if made || deleted {
            // It was there, and no catalog has reported that it deleted it, so it may appear again.
            Some(Settled::Unseen)
        } else {
            Some(Settled::Theirs)
        }
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
