//! The undo of an aborted batch: looks each entry up, deletes what is the batch's own, the latest, and not all that its
//! table has left, and leaves to an operator what it cannot prove.

use super::rollback_probe::{DeleteEvidence, RollbackProbe};
use super::state::{EntryState, LateRemoval, State};
use crate::batch::step::types::{Effect, Finding, Hazard, Match, Settled};

/// Next step in the undo of an entry.
enum UndoStep {
    /// Records the final state.
    Settle(Settled),
    /// Looks once more, with this evidence.
    Look(RollbackProbe),
    /// Looks the later entries up first, then this one with this evidence.
    Recheck(RollbackProbe),
    /// Deletes the version, which matches so well.
    Delete(Match),
}

impl State {
    /// Settles the created entries of an aborted share, the last one first. Returns true when all are settled and none
    /// is a hazard.
    pub(super) fn undo(&mut self, share: usize, effects: &mut Vec<Effect>) -> bool {
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

    /// Continues the undo of an entry with what the catalog has reported.
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
        match self.undo_step(entry, check, finding) {
            UndoStep::Settle(settled) => self.settle(entry, check, settled, effects),
            UndoStep::Look(check) => {
                self.progress[entry] = EntryState::Probing(check);
                effects.push(Effect::Find { entry, again: true });
            }
            UndoStep::Recheck(check) => {
                self.progress[entry] = EntryState::Recheck(check);
                self.proceed(effects);
            }
            UndoStep::Delete(likeness) => {
                // The next life would let another writer make the version, and the delete would hit that.
                if self.may_only_land[entry] {
                    self.progress[entry] = EntryState::Marking(check);
                    return effects.push(Effect::Note(entry, Settled::Leaving));
                }
                self.progress[entry] = EntryState::Deleting(check.deleting(likeness));
                let again = check.deleted;
                effects.push(Effect::Delete { entry, again });
            }
        }
    }

    /// Decides what follows from a finding.
    fn undo_step(&mut self, entry: usize, check: RollbackProbe, finding: Finding) -> UndoStep {
        let rechecked = RollbackProbe {
            rechecked: true,
            ..check
        };
        let (likeness, obstacle) = match finding {
            Finding::Absent => {
                let missed = true;
                let look = UndoStep::Look(RollbackProbe { missed, ..check });
                return self.absent(entry, check).map_or(look, UndoStep::Settle);
            }
            // Whoever built on it did so between the look before the delete and the delete. Its rows are in the higher
            // version, which stays hidden until an operator has decided. One answer may come from an old copy, and the
            // higher version may be a late one of the batch.
            Finding::Buried if check.rechecked => {
                return UndoStep::Settle(Settled::Hazard(Hazard::BuiltOn));
            }
            Finding::Buried if self.doubts_above(entry) => return UndoStep::Recheck(rechecked),
            Finding::Buried => return UndoStep::Look(rechecked),
            Finding::Present { likeness, obstacle } => (likeness, obstacle),
        };
        match (likeness, check.evidence) {
            // No writer may build on a version that a removal of ours may still hit. Nor is a version shown because a
            // person wanted it deleted: it may be the batch's, made otherwise than it was staged.
            (Match::Unlike, evidence)
                if self.leaving[entry] == LateRemoval::Yes
                    || evidence == DeleteEvidence::OperatorOverride =>
            {
                UndoStep::Settle(Settled::Hazard(Hazard::Unproven))
            }
            (Match::Unlike, _) => UndoStep::Settle(Settled::Theirs),
            (Match::Proven, _)
            | (Match::Alike, DeleteEvidence::MatchSuffices)
            | (_, DeleteEvidence::OperatorOverride) => match obstacle {
                None => UndoStep::Delete(likeness),
                Some(Hazard::BuiltOn) if !check.rechecked && self.doubts_above(entry) => {
                    UndoStep::Recheck(rechecked)
                }
                Some(why) => UndoStep::Settle(Settled::Hazard(why)),
            },
            (Match::Alike | Match::Incomparable, _) => {
                UndoStep::Settle(Settled::Hazard(Hazard::Unproven))
            }
        }
    }

    /// Records the final state of an entry whose batch was aborted.
    fn settle(
        &mut self,
        entry: usize,
        check: RollbackProbe,
        settled: Settled,
        effects: &mut Vec<Effect>,
    ) {
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
}
