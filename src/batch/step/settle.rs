//! After the decision: each share is finished or undone, unlocks, and is watched for as long as something may land.

use super::conflict;
use super::state::{DeleteEvidence, EntryState, LateRemoval, Phase, RollbackProbe, State};
use crate::batch::step::types::{Decision, Effect, Finding, Hazard, Match, Settled};

impl State {
    /// Every share goes on; one that is done unlocks, and when all are and nothing may land any more, the batch ends.
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

    /// COMMIT: removes what is to be removed, one after the other. True when all of it is gone.
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

    /// ABORT: settles what was made, the last first. True when all of it is settled and none is a hazard.
    fn undo(&mut self, share: usize, effects: &mut Vec<Effect>) -> bool {
        let mut clean = true;
        let entries: Vec<usize> = self.shape.shares[share].iter().rev().copied().collect();
        for entry in entries {
            match self.progress[entry] {
                // Durable before the table unlocks: after a crash nobody may take what another writer then makes
                // for this one.
                EntryState::Pending => {
                    self.note(entry, Settled::Theirs, effects);
                    return false;
                }
                EntryState::Settled(Settled::Hazard(_)) => clean = false,
                EntryState::Settled(_) | EntryState::Watched | EntryState::Freeing(_) => {}
                // Some catalogs act and refuse: what a definite no left behind is looked for.
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
                // Nobody may build on what a removal of ours may still hit.
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

    /// A delete that was answered with success and left it there may still be done.
    fn is_there(&mut self, entry: usize, check: RollbackProbe) {
        if check.answered {
            self.leaving[entry] = LateRemoval::Yes;
        }
    }

    /// It is there: what was said before, that it is not, was not so. What else there is to know is asked again.
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

    /// How an entry is settled that is not there; `None`: one look does not tell, for a catalog may answer out of an old
    /// copy.
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
            // It was there, and no catalog has said that it deleted it: it may be seen again.
            Some(Settled::Unseen)
        } else {
            Some(Settled::Theirs)
        }
    }

    /// A removal got no clear answer: it is looked for, or asked for again, and rests when it is gone.
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

    /// It is gone; or it may stay, but for what was sent and may still arrive.
    pub(super) fn removed(&mut self, entry: usize, effects: &mut Vec<Effect>) {
        if self.is_leaving(entry) {
            effects.push(Effect::Reserve(entry));
            self.note(entry, Settled::Leaving, effects);
        } else {
            self.note(entry, Settled::Removed, effects);
        }
    }

    /// The catalog did not remove it: it is asked again, unless it may stay.
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

    /// What a share that has been unlocked leaves to watch for: what was let go and may come back or be removed again, and
    /// what is committed and may be made once more.
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

    /// Nothing that was sent about the entry can arrive any more.
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

    /// A person has decided. Without an effect there is nothing that waits for this.
    pub(super) fn resolved(&mut self, decision: Decision, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Preparing && decision == Decision::Abort {
            let told = || conflict("the batch was aborted by an operator");
            self.failure.get_or_insert_with(told);
            return self.decide(Decision::Abort, effects);
        }
        for entry in 0..self.progress.len() {
            match decision {
                // What is under way just now may be done: its answer is waited for.
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

    /// Undo or removal cannot come to an end with it, and may leave it. What a delete may still be out for, of this life or
    /// of an earlier one, cannot be left any more; what a catalog has refused to delete can.
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

    /// A find of prepare that comes back after it settles nothing: it may have looked before a create acted. Undo asks
    /// again.
    pub(super) fn doubt(&mut self, entry: usize, effects: &mut Vec<Effect>) {
        if let EntryState::Resolving { lost, .. } = self.progress[entry] {
            self.progress[entry] = EntryState::Uncertain { lost };
            self.proceed(effects);
        }
    }
}
