//! The protocol's memory of one batch.

use std::collections::BTreeSet;

use super::rollback_probe::RollbackProbe;
use super::{Decision, Effect, Hazard, Kind, Refusal, Settled, Shape};

/// The state of one batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) shape: Shape,
    /// The share of each entry.
    pub(super) share_of: Vec<usize>,
    /// The state of each entry, by entry.
    pub(super) progress: Vec<EntryState>,
    pub(super) phase: Phase,
    /// The reason of the first failure; `None` if nothing has failed.
    pub(super) failure: Option<Refusal>,
    /// False after a crash: a recovered batch settles the creates that were sent before, and sends no new ones.
    pub(super) may_create: bool,
    /// True for each share whose table is unlocked.
    pub(super) unlocked: Vec<bool>,
    /// The possibility that a removal still arrives, by entry.
    pub(super) leaving: Vec<LateRemoval>,
    /// True for each entry if a create of it had got no clear answer when undo last settled it, as a hazard for
    /// example.
    pub(super) lost: Vec<bool>,
    /// True for each entry of which the log says that a create may land, and so that no removal was sent.
    pub(super) may_only_land: Vec<bool>,
}

/// The possibility that a removal of ours still arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LateRemoval {
    No,
    /// An earlier life of the process may have sent one. A version that is found in its place may have been there long
    /// before.
    Perhaps,
    /// One was sent, and it is not known to have been done.
    Yes,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    New,
    Locking,
    Validating(BTreeSet<usize>),
    Intending,
    Preparing,
    Deciding(Decision),
    /// The undo after ABORT.
    Undoing,
    /// The removals after COMMIT.
    Finishing,
    Closing,
    Ended,
}

/// The state of one entry, as far as the batch knows. `lost` is true if a create got no clear answer and may still act.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum EntryState {
    /// Waiting, with nothing sent yet: a removal waits for COMMIT, a create for its turn.
    Pending,
    /// A create got a definite refusal.
    Refused,
    /// A create is in flight.
    Creating { lost: bool },
    /// A create got no clear answer; a lookup at the catalog is in flight.
    Resolving {
        lost: bool,
        refusal: Option<Refusal>,
    },
    /// The version is proven to be created by us.
    Created { lost: bool },
    /// A catalog answered that it created the version, but showed a different one.
    Strange { lost: bool },
    /// The version may or may not exist, and may or may not be ours.
    Uncertain { lost: bool },
    /// The undo looks the version up at the catalog.
    Probing(RollbackProbe),
    /// The undo wants to delete a version of which the log says that no removal was sent. That is being corrected.
    Marking(RollbackProbe),
    /// The undo is deleting the version.
    Deleting(RollbackProbe),
    /// The version is gone and its table unlocked; a request that was sent may still arrive and is watched for.
    Watched,
    /// No request that was sent can arrive any more, and that is being written to the log.
    Freeing(Settled),
    /// An operator decided to delete the version.
    ForceDelete,
    /// The version is looked up again after the entries that come after it in the share.
    Recheck(RollbackProbe),
    /// A removal of COMMIT is in flight.
    Removing,
    /// The last attempt of a removal, which is not retried: an operator decided that the version or name may stay.
    RemovingLast,
    /// The entry is settled, and that is being written to the log.
    Noting(Settled),
    /// The entry is settled, durably.
    Settled(Settled),
}

impl State {
    /// Creates the state of a new batch.
    pub fn new(shape: Shape) -> Self {
        let mut share_of = vec![0; shape.kinds.len()];
        for (share, entries) in shape.shares.iter().enumerate() {
            for entry in entries {
                share_of[*entry] = share;
            }
        }
        Self {
            share_of,
            progress: vec![EntryState::Pending; shape.kinds.len()],
            unlocked: vec![false; shape.shares.len()],
            leaving: vec![LateRemoval::No; shape.kinds.len()],
            lost: vec![false; shape.kinds.len()],
            may_only_land: vec![false; shape.kinds.len()],
            shape,
            phase: Phase::New,
            failure: None,
            may_create: true,
        }
    }

    /// Restores a batch from the log, with its tables locked and its versions hidden. Returns the state and the first
    /// effects to carry out.
    ///
    /// `settled` holds the final state that was noted for each entry; `None` if there was none.
    pub fn recovered(
        shape: Shape,
        decision: Option<Decision>,
        settled: &[Option<Settled>],
    ) -> (Self, Vec<Effect>) {
        let mut state = Self::new(shape);
        state.may_create = false;
        state.lost.fill(true);
        let mut effects = Vec::new();
        for entry in 0..state.progress.len() {
            let made = state.shape.kinds[entry] == Kind::Made;
            state.progress[entry] = match (settled[entry], decision) {
                (Some(settled), _) => EntryState::Settled(settled),
                (None, Some(Decision::Abort)) if made => EntryState::Uncertain { lost: true },
                (None, None) if made => EntryState::Resolving {
                    lost: true,
                    refusal: None,
                },
                (None, Some(Decision::Commit)) if made => EntryState::Created { lost: true },
                (None, _) => EntryState::Pending,
            };
            // A removal that an earlier life sent may still be on its way, unless its log says that it sent none. This also
            // holds for an entry that became a hazard.
            let sent = match decision {
                Some(Decision::Abort) => made,
                Some(Decision::Commit) => !made,
                None => false,
            };
            state.leaving[entry] = match settled[entry] {
                Some(settled) if settled.is_leaving() => LateRemoval::Yes,
                None | Some(Settled::Hazard(_)) if sent => LateRemoval::Perhaps,
                _ => LateRemoval::No,
            };
            state.may_only_land[entry] = settled[entry].is_some_and(Settled::may_land);
            match settled[entry] {
                Some(settled) if settled.is_free() => effects.push(Effect::Reserve(entry)),
                Some(Settled::Theirs | Settled::Kept) => effects.push(Effect::Show(entry)),
                _ => {}
            }
        }
        if let Some(decision) = decision {
            state.carry_out(decision, None, &mut effects);
            return (state, effects);
        }
        state.phase = Phase::Preparing;
        effects.push(Effect::StartClock);
        let made = (0..state.progress.len()).filter(|entry| state.is_made(*entry));
        effects.extend(made.map(|entry| Effect::Find {
            entry,
            again: false,
        }));
        // Removals are sent after COMMIT only. So nothing was done, and its client may have been told so.
        if !(0..state.progress.len()).any(|entry| state.is_made(entry)) {
            state.failure = Some(State::left_behind());
        }
        state.advance(&mut effects);
        (state, effects)
    }

    /// The state of an entry in a word or two, for operators.
    pub fn stands(&self, entry: usize) -> &'static str {
        match &self.progress[entry] {
            EntryState::Pending => "waiting",
            EntryState::Refused => "refused",
            EntryState::Creating { .. } => "creating",
            EntryState::Resolving { .. }
            | EntryState::Uncertain { .. }
            | EntryState::Strange { .. } => "unclear",
            EntryState::Created { .. } => "created",
            EntryState::Probing(_) | EntryState::ForceDelete | EntryState::Recheck(_) => "undoing",
            EntryState::Marking(_) | EntryState::Deleting(_) => "deleting",
            EntryState::Watched if self.is_kept(entry) => "created, keeps its name",
            EntryState::Watched if self.is_leaving(entry) => "gone, resting",
            EntryState::Watched => "gone, watched",
            EntryState::Freeing(_) => "gone",
            EntryState::Removing | EntryState::RemovingLast => "removing",
            EntryState::Noting(settled) | EntryState::Settled(settled) => match settled {
                Settled::Gone | Settled::Unseen | Settled::Contested => "gone",
                Settled::Leaving | Settled::LeavingContested => "gone",
                Settled::Theirs => "not ours",
                Settled::Kept => "kept",
                Settled::Removed => "removed",
                Settled::Hazard(_) => "hazard",
            },
        }
    }

    /// True if the batch is finished.
    pub fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// True if everything is settled and unlocked. Only requests that were sent and may still arrive are watched for.
    pub fn is_watching(&self) -> bool {
        let decided = matches!(self.phase, Phase::Undoing | Phase::Finishing);
        decided && self.unlocked.iter().all(|unlocked| *unlocked)
    }

    /// True once the decision is carried out.
    pub fn is_decided(&self) -> bool {
        matches!(
            self.phase,
            Phase::Undoing | Phase::Finishing | Phase::Closing | Phase::Ended
        )
    }

    /// True if ABORT is durable and the batch is in its undo.
    pub fn is_undoing(&self) -> bool {
        self.phase == Phase::Undoing
    }

    /// True if a request that was sent for this entry may still arrive and is watched for.
    pub fn is_watched(&self, entry: usize) -> bool {
        self.progress[entry] == EntryState::Watched
    }

    /// True if the entry was made and committed, and another create of it may still act. Its table then keeps its name,
    /// and no other table gets that name.
    pub fn is_kept(&self, entry: usize) -> bool {
        self.phase == Phase::Finishing && self.is_made(entry) && self.is_watched(entry)
    }

    /// True if a removal of this entry may have been sent and may still arrive.
    pub fn is_leaving(&self, entry: usize) -> bool {
        self.leaving[entry] != LateRemoval::No
    }

    /// True if a delete of a version or name of this batch is in flight, or got no answer and is retried.
    pub fn is_deleting(&self) -> bool {
        let mut progress = self.progress.iter().enumerate();
        progress.any(|(entry, progress)| match progress {
            EntryState::Marking(_) | EntryState::Deleting(_) => true,
            EntryState::Probing(_) | EntryState::Recheck(_) | EntryState::ForceDelete => {
                self.is_leaving(entry)
            }
            _ => false,
        })
    }

    /// The reason of the first failure; `None` if nothing has failed.
    pub fn failure(&self) -> Option<&Refusal> {
        self.failure.as_ref()
    }

    /// The entries that wait for an operator, each with the reason.
    pub fn hazards(&self) -> impl Iterator<Item = (usize, Hazard)> + '_ {
        let progress = self.progress.iter().enumerate();
        progress.filter_map(|(entry, progress)| match progress {
            EntryState::Settled(Settled::Hazard(why)) => Some((entry, *why)),
            _ => None,
        })
    }

    /// The entries whose final state is in the log, and that state.
    pub fn settled(&self) -> impl Iterator<Item = (usize, Settled)> + '_ {
        let progress = self.progress.iter().enumerate();
        progress.filter_map(|(entry, progress)| match progress {
            EntryState::Settled(settled) => Some((entry, *settled)),
            _ => None,
        })
    }

    /// Marks the later entries of the share that may have landed late, so that they are looked up again. The version
    /// that was built on `entry` may be one of them. Returns true if there is any.
    pub(super) fn doubts_above(&mut self, entry: usize) -> bool {
        let share = &self.shape.shares[self.share_of(entry)];
        let above = share.iter().skip_while(|other| **other != entry).skip(1);
        let mut doubts = false;
        for &other in above {
            let progress = &mut self.progress[other];
            let may_land = match progress {
                EntryState::Settled(settled) => settled.is_uncertain(),
                EntryState::Watched => true,
                _ => false,
            };
            if may_land {
                *progress = EntryState::Uncertain { lost: true };
                doubts = true;
            }
        }
        doubts
    }

    pub(super) fn is_hazard(&self, entry: usize) -> bool {
        matches!(
            self.progress[entry],
            EntryState::Settled(Settled::Hazard(_))
        )
    }

    pub(super) fn is_ours(&self, entry: usize) -> bool {
        matches!(self.progress[entry], EntryState::Created { .. })
    }

    pub(super) fn is_made(&self, entry: usize) -> bool {
        self.shape.kinds[entry] == Kind::Made
    }

    pub(super) fn share_of(&self, entry: usize) -> usize {
        self.share_of[entry]
    }
}

impl Shape {
    /// Creates a shape of versions only, each created with a request of its own.
    pub fn versions(shares: Vec<Vec<usize>>) -> Self {
        let entries = shares.iter().map(Vec::len).sum();
        Self {
            shares,
            kinds: vec![Kind::Made; entries],
            groups: vec![None; entries],
        }
    }
}
