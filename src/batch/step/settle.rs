//! The steps after the decision: each share is finished or undone, unlocked, and watched while something may still
//! land.

use super::conflict;
use super::state::{DeleteEvidence, EntryState, LateRemoval, Phase, RollbackProbe, State};
use crate::batch::step::types::{Decision, Effect, Finding, Hazard, Match, Settled};

impl State {
    /// Continues every share. Unlocks a share that is done; ends the batch when all shares are unlocked and nothing
    /// may land any more.
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

    /// Carries out the removals of a share after COMMIT, one after the other. Returns true when all of them are done.
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

    /// Settles what was made in a share after ABORT, the last entry first. Returns true when all entries are settled
    /// and none is a hazard.
    fn undo(&mut self, share: usize, effects: &mut Vec<Effect>) -> bool {
        let mut clean = true;
        let entries: Vec<usize> = self.shape.shares[share].iter().rev().copied().collect();
        for entry in entries {
            match self.progress[entry] {
                // Durable before the table unlocks: after a crash, a version that another writer creates then must
                // not be taken for this one.
                EntryState::Pending => {
                    self.note(entry, Settled::Theirs, effects);
                    return false;
                }
                EntryState::Settled(Settled::Hazard(_)) => clean = false,
                EntryState::Settled(_) | EntryState::Watched | EntryState::Freeing(_) => {}
                // Some catalogs act and refuse, so a lookup follows a definite refusal.
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
                    self.check(entry, RollbackProbe::told(self.lost[entry]), effects);
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
        if finding != Finding::Absent {
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
            Finding::Present { likeness, latest } => match (likeness, check.belief) {
                // No writer may build on what a removal by the batch may still hit.
                (Match::Unlike, _) if self.leaving[entry] == LateRemoval::Yes => {
                    Settled::Hazard(Hazard::Unproven)
                }
                (Match::Unlike, _) => Settled::Theirs,
                (Match::Proven, _)
                | (Match::Alike, DeleteEvidence::Likely)
                | (_, DeleteEvidence::Told) => {
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

    /// Notes that the entry exists: a delete that was answered with success and left it there may still be done.
    fn is_there(&mut self, entry: usize, check: RollbackProbe) {
        if check.answered {
            self.leaving[entry] = LateRemoval::Yes;
        }
    }

    /// Handles a lookup that found the entry but did not get all answers: an earlier answer that it was absent was
    /// not true. Repeats the lookup for the rest.
    pub(super) fn glimpsed(
        &mut self,
        entry: usize,
        check: RollbackProbe,
        effects: &mut Vec<Effect>,
    ) {
        self.is_there(entry, check);
        let missed = false;
        self.progress[entry] = EntryState::Probing(RollbackProbe { missed, ..check });
        let again = true;
        effects.push(Effect::Find { entry, again });
    }

    /// Returns the settlement of an entry that was not found; `None` if one lookup is not enough, because a catalog
    /// may answer from an old copy.
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
            // It existed, and no catalog has said that it deleted it, so it may be seen again.
            Some(Settled::Unseen)
        } else {
            Some(Settled::Theirs)
        }
    }

    /// Handles a removal without a clear answer: looks the entry up or retries the removal. Once the entry is gone,
    /// its number or name stays reserved.
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

    /// Settles a removal that is done, or that an operator ended: as `Leaving` if a request that was sent may still
    /// arrive.
    pub(super) fn removed(&mut self, entry: usize, effects: &mut Vec<Effect>) {
        if self.is_leaving(entry) {
            effects.push(Effect::Reserve(entry));
            self.note(entry, Settled::Leaving, effects);
        } else {
            self.note(entry, Settled::Removed, effects);
        }
    }

    /// Handles a removal that the catalog did not carry out: retries it, unless its target may stay.
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

    /// Starts the watches of a share that was unlocked: for what was released and may come back or be removed again,
    /// and for what is committed and may be created once more.
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

    /// Ends the watch of an entry, because no request about it can arrive any more.
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

    /// Applies an operator's decision. If this has no effect, nothing was waiting for the decision.
    pub(super) fn resolved(&mut self, decision: Decision, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Preparing && decision == Decision::Abort {
            let told = || conflict("the batch was aborted by an operator");
            self.failure.get_or_insert_with(told);
            return self.decide(Decision::Abort, effects);
        }
        for entry in 0..self.progress.len() {
            match decision {
                // The removal that is in flight may be done, so its answer is awaited.
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

    /// Returns true if undo or removal cannot finish the entry and may leave it. An entry that a delete may still
    /// hit, sent by this process or an earlier one, cannot be left; one that a catalog has refused to delete can.
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

    /// Discards a lookup of prepare that returns after prepare: it may have been made before a create acted. Undo
    /// repeats it.
    pub(super) fn doubt(&mut self, entry: usize, effects: &mut Vec<Effect>) {
        if let EntryState::Resolving { lost, .. } = self.progress[entry] {
            self.progress[entry] = EntryState::Uncertain { lost };
            self.proceed(effects);
        }
    }
}
