//! The state of one batch in the protocol.

use std::collections::BTreeSet;

use super::{Decision, Effect, Hazard, Kind, Match, Refusal, Settled, Shape};

/// The state of one batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) shape: Shape,
    /// The state of each entry.
    pub(super) progress: Vec<EntryState>,
    pub(super) phase: Phase,
    /// The first failure; `None` if nothing has failed.
    pub(super) failure: Option<Refusal>,
    /// False after a crash: a recovered batch settles the creates that were sent, and sends no more.
    pub(super) may_create: bool,
    /// True for each share that is unlocked.
    pub(super) unlocked: Vec<bool>,
    /// The possibility, for each entry, that a removal of it may still arrive.
    pub(super) leaving: Vec<LateRemoval>,
    /// True for each entry that undo settled while a create of it had no clear answer.
    pub(super) lost: Vec<bool>,
}

/// The possibility that a removal by the batch may still arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LateRemoval {
    No,
    /// An earlier process may have sent one; what is found in its place may have been there long before.
    Perhaps,
    /// A removal was sent, and it is not known to be done.
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
    /// ABORT is durable and is being carried out.
    Undoing,
    /// COMMIT is durable and is being carried out.
    Finishing,
    Closing,
    Ended,
}

/// The state of one entry, as far as the batch knows. `lost` is true if a create got no clear answer and may still
/// act.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum EntryState {
    /// No request was sent yet: the entry is a removal before COMMIT, or a create whose turn has not come.
    Pending,
    /// A create got a definite refusal.
    Refused,
    /// A create is in flight.
    Creating { lost: bool },
    /// A create got no clear answer; a lookup of the version is in flight.
    Resolving {
        lost: bool,
        refusal: Option<Refusal>,
    },
    /// The version is proven to be created by the batch.
    Created { lost: bool },
    /// The catalog answered that it created the version, but showed another one.
    Strange { lost: bool },
    /// The existence of the version, or whether it is the batch's own, is not known.
    Uncertain { lost: bool },
    /// Undo is looking the version up.
    Probing(RollbackProbe),
    /// Undo is deleting the version.
    Deleting(RollbackProbe),
    /// The table is unlocked, and requests that may still arrive are watched for. The version is gone, or it is
    /// committed and another create of it may still act.
    Watched,
    /// No request can arrive any more, and this is being written.
    Freeing(Settled),
    /// An operator decided to delete the version.
    ForceDelete,
    /// The version is looked up again once those after it in the share have been.
    Recheck(RollbackProbe),
    /// COMMIT is durable, and the removal is in flight.
    Removing,
    /// The removal is in flight for the last time: an operator decided that its target may stay.
    RemovingLast,
    /// The settlement of the entry is being written.
    Noting(Settled),
    /// The settlement of the entry is durable.
    Settled(Settled),
}

/// The state of undo's lookup of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RollbackProbe {
    pub(super) belief: DeleteEvidence,
    pub(super) lost: bool,
    /// True if a catalog answered that the version was created.
    pub(super) made: bool,
    /// True if a delete has been sent.
    pub(super) deleted: bool,
    /// True if the last delete was answered with success.
    pub(super) answered: bool,
    /// True if the versions that seem to be built on it have been looked up again.
    pub(super) rechecked: bool,
    /// True if a lookup found nothing, although no delete was known to be done.
    pub(super) missed: bool,
}

/// The evidence that undo needs before it deletes a version as the batch's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum DeleteEvidence {
    /// Proof is required: a catalog answered that another writer was first, or the batch's version was seen for
    /// certain, no other create of it was sent, and a delete was.
    Doubted,
    /// Equality of everything that can be compared suffices: a create by the batch was sent, under the table's lock.
    Likely,
    /// No difference must be known: an operator has looked at it.
    Told,
}

impl State {
    /// Returns the state of a new batch.
    pub fn new(shape: Shape) -> Self {
        Self {
            progress: vec![EntryState::Pending; shape.kinds.len()],
            unlocked: vec![false; shape.shares.len()],
            leaving: vec![LateRemoval::No; shape.kinds.len()],
            lost: vec![false; shape.kinds.len()],
            shape,
            phase: Phase::New,
            failure: None,
            may_create: true,
        }
    }

    /// Returns the state of a batch that was read from the log, and its first effects. Its tables are locked and its
    /// versions hidden.
    ///
    /// `settled` holds the settlement of each entry that the log has.
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
            // A removal that an earlier process sent may still arrive, also that of a create that landed late, and
            // that of what became a hazard after it.
            let sent = match decision {
                Some(Decision::Abort) => made,
                Some(Decision::Commit) => !made,
                None => false,
            };
            state.leaving[entry] = match settled[entry] {
                Some(settled) if settled.is_leaving() => LateRemoval::Yes,
                Some(Settled::Unseen) if sent => LateRemoval::Yes,
                None | Some(Settled::Contested | Settled::Hazard(_)) if sent => {
                    LateRemoval::Perhaps
                }
                _ => LateRemoval::No,
            };
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
        state.advance(&mut effects);
        (state, effects)
    }

    /// Returns the state of an entry in a few words for operators.
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
            EntryState::Deleting(_) => "deleting",
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

    /// Returns true if the batch needs nothing more.
    pub fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Returns true if everything is settled and unlocked, and only requests that may still arrive are watched for.
    pub fn is_watching(&self) -> bool {
        let decided = matches!(self.phase, Phase::Undoing | Phase::Finishing);
        decided && self.unlocked.iter().all(|unlocked| *unlocked)
    }

    /// Returns true if ABORT is durable, and what was made is being undone.
    pub fn is_undoing(&self) -> bool {
        self.phase == Phase::Undoing
    }

    /// Returns true if a request that was sent for this entry may still arrive and is watched for.
    pub fn is_watched(&self, entry: usize) -> bool {
        self.progress[entry] == EntryState::Watched
    }

    /// Returns true if the entry is committed and another create of it may still act: the table keeps its name, and
    /// no other table gets it.
    pub fn is_kept(&self, entry: usize) -> bool {
        self.phase == Phase::Finishing && self.is_made(entry) && self.is_watched(entry)
    }

    /// Returns true if a removal of this entry was, or may have been, sent and may still arrive.
    pub fn is_leaving(&self, entry: usize) -> bool {
        self.leaving[entry] != LateRemoval::No
    }

    /// Returns true if a delete of something that the batch made is in flight, or got no answer and is being retried.
    pub fn is_deleting(&self) -> bool {
        let mut progress = self.progress.iter().enumerate();
        progress.any(|(entry, progress)| match progress {
            EntryState::Deleting(_) => true,
            EntryState::Probing(_) | EntryState::Recheck(_) | EntryState::ForceDelete => {
                self.is_leaving(entry)
            }
            _ => false,
        })
    }

    /// Returns the first failure; `None` if nothing has failed.
    pub fn failure(&self) -> Option<&Refusal> {
        self.failure.as_ref()
    }

    /// Returns the entries that wait for an operator, and the reasons.
    pub fn hazards(&self) -> impl Iterator<Item = (usize, Hazard)> + '_ {
        let progress = self.progress.iter().enumerate();
        progress.filter_map(|(entry, progress)| match progress {
            EntryState::Settled(Settled::Hazard(why)) => Some((entry, *why)),
            _ => None,
        })
    }

    /// Has the entries above this one looked up again that may have landed since their last lookup, and returns
    /// whether there are any: what was built on the entry may be the batch's own.
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
        let mut shares = self.shape.shares.iter();
        let share = shares.position(|share| share.contains(&entry));
        share.unwrap_or_default()
    }
}

impl Shape {
    /// Returns the shape of a batch of versions only, each created by its own request.
    pub fn versions(shares: Vec<Vec<usize>>) -> Self {
        let entries = shares.iter().map(Vec::len).sum();
        Self {
            shares,
            kinds: vec![Kind::Made; entries],
            groups: vec![None; entries],
        }
    }
}

impl RollbackProbe {
    const FIRST: Self = Self {
        belief: DeleteEvidence::Likely,
        lost: false,
        made: false,
        deleted: false,
        answered: false,
        rechecked: false,
        missed: false,
    };

    /// Returns the first probe of an entry that need not be the batch's own; `lost` is true if a create by the batch
    /// got no answer.
    pub(super) fn doubtful(lost: bool) -> Self {
        let belief = if lost {
            DeleteEvidence::Likely
        } else {
            DeleteEvidence::Doubted
        };
        Self {
            belief,
            lost,
            ..Self::FIRST
        }
    }

    /// Returns the probe for the lookup after a delete of what was found.
    pub(super) fn deleting(self, found: Match) -> Self {
        let belief = match (found, self.belief) {
            (Match::Proven, DeleteEvidence::Likely) if !self.lost => DeleteEvidence::Doubted,
            (_, belief) => belief,
        };
        Self {
            belief,
            deleted: true,
            answered: false,
            ..self
        }
    }

    /// Returns the probe of an entry that an operator decided to delete.
    pub(super) fn told(lost: bool) -> Self {
        Self {
            belief: DeleteEvidence::Told,
            lost,
            ..Self::FIRST
        }
    }

    /// Returns the first probe of an entry that a catalog said is the batch's own.
    pub(super) fn ours(lost: bool) -> Self {
        Self {
            lost,
            made: true,
            ..Self::FIRST
        }
    }
}
