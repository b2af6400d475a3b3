//! Prepare, the phase before the decision: decides which creates are sent now (shares side by side, the entries of a
//! share in their order), and what proves that a version is ours.

use std::collections::BTreeMap;

use super::state::{EntryState, Phase, State};
use crate::batch::step::types::{Decision, Effect, Finding, Match, Refusal};
use crate::error::origin::ErrorOrigin;

/// The result of a create.
pub(super) enum Created {
    Yes,
    /// The create was never sent.
    Never(Refusal),
    No(Refusal),
    /// The catalog made something, but not the version or name of the request.
    Wrong(Refusal),
    /// A version is there that another writer may have made.
    Strange(Refusal),
    Conflict(Refusal),
    Unknown,
}

impl State {
    /// Continues the prepare phase: sends the next create of each share, or decides.
    pub(super) fn advance(&mut self, effects: &mut Vec<Effect>) {
        self.advance_in(0..self.progress.len(), effects);
    }

    /// Does the same after an answer about an entry. Nothing has changed for other shares, unless their entries are
    /// sent together with those of this one.
    fn advance_after(&mut self, entry: usize, effects: &mut Vec<Effect>) {
        let share = &self.shape.shares[self.share_of(entry)];
        if share
            .iter()
            .any(|other| self.shape.groups[*other].is_some())
        {
            return self.advance(effects);
        }
        match share[..] {
            [_] => self.advance_in(None, effects),
            _ => self.advance_in(share.clone(), effects),
        }
    }

    /// Decides, or sends those of `waiting` whose turn it is.
    fn advance_in(&mut self, waiting: impl IntoIterator<Item = usize>, effects: &mut Vec<Effect>) {
        let made = |entry: &usize| self.is_made(*entry);
        // The last ones are the last to be answered, so that one look is enough as a rule.
        let mut entries = (0..self.progress.len()).rev().filter(made);
        if self.failure.is_some() {
            // Wait for creates in flight (each has a time limit), so that undo meets as few surprises as possible.
            let asked = |entry| matches!(self.progress[entry], EntryState::Creating { .. });
            if !entries.any(asked) {
                self.decide(Decision::Abort, effects);
            }
        } else if entries.all(|entry| self.is_ours(entry)) {
            self.decide(Decision::Commit, effects);
        } else {
            let mut groups = BTreeMap::new();
            let next = |entry: &usize| self.may_be_made(*entry, &mut groups);
            let next: Vec<usize> = waiting.into_iter().filter(next).collect();
            for entry in next {
                self.progress[entry] = EntryState::Creating { lost: false };
                let again = false;
                effects.push(Effect::Create { entry, again });
            }
        }
    }

    /// True if the entry's create may be sent now: all earlier entries of its share are created. Entries that a catalog
    /// makes all or nothing are sent together, so each of them must be ready; `groups` has what is known of that.
    fn may_be_made(&self, entry: usize, groups: &mut BTreeMap<usize, bool>) -> bool {
        if !self.is_made(entry) || !matches!(self.progress[entry], EntryState::Pending) {
            return false;
        }
        let Some(group) = self.shape.groups[entry] else {
            return self.is_reached(entry);
        };
        *groups.entry(group).or_insert_with(|| {
            let mut all = (0..self.progress.len()).zip(&self.shape.groups);
            all.all(|(other, its)| *its != Some(group) || self.is_reached(other))
        })
    }

    /// True if all entries that come before an entry in its share, and are not sent together with it, are created.
    fn is_reached(&self, entry: usize) -> bool {
        let group = self.shape.groups[entry];
        let share = &self.shape.shares[self.share_of(entry)];
        let mut before = share.iter().take_while(|before| **before != entry);
        before.all(|before| {
            let together = group.is_some() && self.shape.groups[*before] == group;
            together || self.is_ours(*before)
        })
    }

    pub(super) fn create_answered(
        &mut self,
        entry: usize,
        created: Created,
        effects: &mut Vec<Effect>,
    ) {
        let EntryState::Creating { lost } = self.progress[entry] else {
            return;
        };
        let preparing = self.phase == Phase::Preparing;
        let sought = |lost, refusal| {
            if preparing {
                EntryState::Resolving { lost, refusal }
            } else {
                EntryState::Uncertain { lost }
            }
        };
        self.progress[entry] = match created {
            Created::Yes => EntryState::Created { lost },
            Created::Wrong(refusal) => {
                self.failure.get_or_insert(refusal);
                EntryState::Created { lost }
            }
            Created::Strange(refusal) => {
                self.failure.get_or_insert(refusal);
                EntryState::Strange { lost }
            }
            Created::Never(refusal) if !lost => {
                self.failure.get_or_insert(refusal);
                EntryState::Pending
            }
            Created::No(refusal) if !lost => {
                self.failure.get_or_insert(refusal);
                EntryState::Refused
            }
            // An earlier attempt may have acted, and may have consumed the resource that this attempt was refused for.
            Created::Never(refusal) | Created::No(refusal) | Created::Conflict(refusal) => {
                sought(lost, Some(refusal))
            }
            Created::Unknown => sought(true, None),
        };
        if matches!(self.progress[entry], EntryState::Resolving { .. }) {
            let again = false;
            effects.push(Effect::Find { entry, again });
        }
        match self.phase {
            Phase::Preparing => self.advance_after(entry, effects),
            Phase::Undoing => self.proceed(effects),
            _ => {}
        }
    }

    pub(super) fn found_in_prepare(
        &mut self,
        entry: usize,
        finding: Finding,
        effects: &mut Vec<Effect>,
    ) {
        let EntryState::Resolving { lost, refusal } = self.progress[entry].clone() else {
            return;
        };
        let refusal = refusal.unwrap_or_else(|| self.unproven(entry));
        self.progress[entry] = match finding {
            Finding::Present {
                likeness: Match::Proven,
                ..
            } => EntryState::Created { lost },
            // A 409 to the first attempt says that another writer was there before us, however alike the versions look.
            Finding::Present {
                likeness: Match::Alike,
                ..
            } if lost => EntryState::Created { lost },
            Finding::Absent if lost && self.may_create && self.failure.is_none() => {
                let again = true;
                effects.push(Effect::Create { entry, again });
                EntryState::Creating { lost }
            }
            _ => {
                self.failure.get_or_insert(refusal);
                EntryState::Uncertain { lost }
            }
        };
        self.advance_after(entry, effects);
    }

    fn unproven(&self, entry: usize) -> Refusal {
        let why = "the catalog does not say whether it created the version";
        self.instead_of(Refusal::unavailable(why).at(entry))
    }

    /// Returns the refusal of a batch that began in this life of the gateway; for one of an earlier life, that it is undone
    /// and cannot be carried out again.
    pub(super) fn instead_of(&self, refusal: Refusal) -> Refusal {
        if self.may_create {
            return refusal;
        }
        let why = "the gateway stopped before the batch was decided, so all of it is undone. What was staged for it may be \
                   used up: stage it anew, and begin again with a new `Idempotency-Key`";
        Refusal {
            origin: ErrorOrigin::Takeover,
            ..Refusal::conflict(why)
        }
    }

    /// Returns the refusal of a batch of which an earlier life has sent nothing.
    pub(super) fn left_behind() -> Refusal {
        Refusal {
            origin: ErrorOrigin::Takeover,
            ..Refusal::unavailable("the gateway stopped before it was done")
        }
    }
}
