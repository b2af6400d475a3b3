//! What the protocol remembers of one batch.

use std::collections::BTreeSet;

use super::{Decision, Effect, Hazard, Kind, Match, Refusal, Settled, Shape};

/// Where a batch stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) shape: Shape,
    /// By entry.
    pub(super) progress: Vec<EntryState>,
    pub(super) phase: Phase,
    /// The first thing that went wrong.
    pub(super) failure: Option<Refusal>,
    /// False after a crash: a recovered batch settles what was asked, and asks for nothing more.
    pub(super) may_create: bool,
    /// By share.
    pub(super) unlocked: Vec<bool>,
    /// By entry: whether a removal of it may still arrive.
    pub(super) leaving: Vec<LateRemoval>,
    /// By entry: when undo gave it to a person, a create of it had got no clear answer.
    pub(super) lost: Vec<bool>,
}

/// Whether a removal of ours may still arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LateRemoval {
    No,
    /// An earlier life may have sent one; what is found in its place may have been there long before.
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
    /// After ABORT.
    Undoing,
    /// After COMMIT.
    Finishing,
    Closing,
    Ended,
}

/// One entry, as far as the batch knows. `lost`: a create got no clear answer, and may act yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum EntryState {
    /// Its time has not come: a removal before COMMIT; anything else before it was asked for.
    Pending,
    /// A create got a definite no.
    Refused,
    /// A create is under way.
    Creating { lost: bool },
    /// A create got no clear answer; the catalog is asked what is there.
    Resolving {
        lost: bool,
        refusal: Option<Refusal>,
    },
    /// Proven created by us.
    Created { lost: bool },
    /// A catalog said that it created it, and showed something else.
    Strange { lost: bool },
    /// It may or may not exist, or be ours.
    Uncertain { lost: bool },
    /// Undo asks the catalog what is there.
    Probing(RollbackProbe),
    /// Undo is deleting it.
    Deleting(RollbackProbe),
    /// It is gone and its table unlocked; what may still arrive is watched for.
    Watched,
    /// Nothing that was sent can arrive any more, and that is being written.
    Freeing(Settled),
    /// A person has said to delete it.
    ForceDelete,
    /// It is looked at again when what came after it has been.
    Recheck(RollbackProbe),
    /// COMMIT is being carried out.
    Removing,
    /// The same, for the last time: a person has said that it may stay.
    RemovingLast,
    /// It is settled, and that is being written.
    Noting(Settled),
    /// It is settled, durably.
    Settled(Settled),
}

/// How undo looks at an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RollbackProbe {
    pub(super) belief: DeleteEvidence,
    pub(super) lost: bool,
    /// A catalog answered that it was created.
    pub(super) made: bool,
    /// A delete has been asked for.
    pub(super) deleted: bool,
    /// The last delete was answered with success.
    pub(super) answered: bool,
    /// What seems to be built on it has been looked for again.
    pub(super) rechecked: bool,
    /// It was not there when it was looked for, although nothing had been deleted.
    pub(super) missed: bool,
}

/// What it takes for a version to be deleted as ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum DeleteEvidence {
    /// Proof: a catalog said that somebody was there before us, or ours was seen for certain, no other
    /// create of it went out, and a delete has.
    Doubted,
    /// Everything that can be compared agrees: a create of ours went out, under the table's lock.
    Likely,
    /// That it does not differ: a person has looked.
    Told,
}

impl State {
    /// A new batch.
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

    /// A batch read from the log, its tables locked and its versions hidden, and what is to be done first.
    ///
    /// `settled` holds what had been noted for each entry.
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
            // A removal that an earlier life has sent may still be on its way: that of what landed late, too, and that of
            // what became a hazard after it.
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

    /// Where an entry stands, in a word for people.
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

    /// The batch needs nothing more.
    pub fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// All is settled and unlocked; only what was sent and may still arrive is watched for.
    pub fn is_watching(&self) -> bool {
        let decided = matches!(self.phase, Phase::Undoing | Phase::Finishing);
        decided && self.unlocked.iter().all(|unlocked| *unlocked)
    }

    /// ABORT is durable, and what was made is being undone.
    pub fn is_undoing(&self) -> bool {
        self.phase == Phase::Undoing
    }

    /// Something that was sent for this entry may still arrive, and is watched for.
    pub fn is_watched(&self, entry: usize) -> bool {
        self.progress[entry] == EntryState::Watched
    }

    /// It was made and committed, and another create of it may still act: its table keeps its name, and no other gets it.
    pub fn is_kept(&self, entry: usize) -> bool {
        self.phase == Phase::Finishing && self.is_made(entry) && self.is_watched(entry)
    }

    /// A removal of this entry was sent and may still arrive.
    pub fn is_leaving(&self, entry: usize) -> bool {
        self.leaving[entry] != LateRemoval::No
    }

    /// A delete of something that it had made is under way, or got no answer and is tried again.
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

    /// What went wrong first, if anything did.
    pub fn failure(&self) -> Option<&Refusal> {
        self.failure.as_ref()
    }

    /// The entries that wait for a person, and why.
    pub fn hazards(&self) -> impl Iterator<Item = (usize, Hazard)> + '_ {
        let progress = self.progress.iter().enumerate();
        progress.filter_map(|(entry, progress)| match progress {
            EntryState::Settled(Settled::Hazard(why)) => Some((entry, *why)),
            _ => None,
        })
    }

    /// What was built on an entry may be the batch's own, landed since it was last looked for: it is looked for again.
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
    /// A shape of versions only, each created by itself.
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

    /// The first look at what undo finds; `lost`: a create of ours got no answer.
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

    /// The look after a delete of what was found.
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

    /// The look at what a person has said to delete.
    pub(super) fn told(lost: bool) -> Self {
        Self {
            belief: DeleteEvidence::Told,
            lost,
            ..Self::FIRST
        }
    }

    /// The first look at what a catalog has said to be ours.
    pub(super) fn ours(lost: bool) -> Self {
        Self {
            lost,
            made: true,
            ..Self::FIRST
        }
    }
}
