//! The batch protocol as one pure function: `step(state, event) -> (state, effects)`.
//!
//! It knows no clock, socket or disk. The running coordinator, recovery, a model checker and a simulator
//! drive the same function; whoever drives it carries out the effects and reports back what happened.
//!
//! A *share* is one table's part of the batch: its entries in the order of their versions.
//!
//! | invariant | where it is kept |
//! |---|---|
//! | I1 at most one decision | `decide` leaves `Preparing`, nothing returns to it; the log's first decision wins |
//! | I2 COMMIT implies every version proven created | `advance`: only when every entry is `Ours` |
//! | I3 no create before a durable INTENT | `Create` is only emitted in `Preparing`, entered by `IntentDurable` |
//! | I5 a delete only after ABORT, of what is ours and latest | `found_in_undo` |
//! | I6 an answer only after its record | `decided` |
//! | I7 a table unlocks only when its undo is done | `undo_share` |
//! | I8 all versions become visible together | one `Reveal`, in `decided` |

mod words;

use std::collections::BTreeSet;

use crate::protocol::error::Code;

pub use words::{Answer, Decision, Effect, Event, Finding, Hazard, Likeness, Refusal, Settled};

/// Where a batch stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    shares: Vec<Vec<usize>>,
    versions: Vec<Version>,
    phase: Phase,
    /// The first thing that went wrong.
    failure: Option<Refusal>,
    /// False after a crash: a recovered batch settles what was asked, and asks for nothing more.
    may_create: bool,
    /// The shares whose undo is done.
    undone: Vec<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    New,
    Locking,
    Validating(BTreeSet<usize>),
    Intending,
    Preparing,
    Deciding(Decision),
    Undoing,
    Closing,
    Ended,
}

/// One version, as far as the batch knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Version {
    /// No create was ever sent, or it was refused and cannot have happened.
    Never,
    /// A create is under way; `lost`: an earlier one got no clear answer.
    Asked { lost: bool },
    /// A create got no clear answer; the catalog is asked what is there.
    Sought {
        lost: bool,
        refusal: Option<Refusal>,
    },
    /// Proven created by us.
    Ours,
    /// It may or may not exist, or be ours.
    Doubtful { lost: bool },
    /// Undo asks the catalog what is there; `ours`: what it looks like ours may be taken for ours.
    Checked { ours: bool, deleted: bool },
    /// Undo is deleting it.
    Deleting,
    /// Undo has settled it, and that is being written.
    Noting(Settled),
    /// Undo has settled it, durably.
    Settled(Settled),
}

impl State {
    /// A new batch; `shares` lists for each table its entries in the order of their versions.
    pub fn new(shares: Vec<Vec<usize>>) -> Self {
        let entries = shares.iter().map(Vec::len).sum();
        let undone = vec![false; shares.len()];
        Self {
            shares,
            versions: vec![Version::Never; entries],
            phase: Phase::New,
            failure: None,
            may_create: true,
            undone,
        }
    }

    /// A batch read from the log, its tables locked and its versions hidden, and what is to be done first.
    ///
    /// `settled` holds what undo had noted for each entry.
    pub fn recovered(
        shares: Vec<Vec<usize>>,
        decision: Option<Decision>,
        settled: &[Option<Settled>],
    ) -> (Self, Vec<Effect>) {
        let mut state = Self::new(shares);
        state.may_create = false;
        let mut effects = Vec::new();
        if decision == Some(Decision::Commit) {
            state.phase = Phase::Deciding(Decision::Commit);
            state.decided(Decision::Commit, &mut effects);
            return (state, effects);
        }
        for (version, settled) in state.versions.iter_mut().zip(settled) {
            *version = match (settled, decision) {
                (Some(settled), _) => Version::Settled(*settled),
                (None, Some(_)) => Version::Doubtful { lost: true },
                (None, None) => Version::Sought {
                    lost: true,
                    refusal: None,
                },
            };
        }
        if decision.is_some() {
            state.phase = Phase::Undoing;
            state.undo(&mut effects);
        } else {
            state.phase = Phase::Preparing;
            effects.push(Effect::StartClock);
            effects.extend((0..state.versions.len()).map(|entry| Effect::Find {
                entry,
                again: false,
            }));
        }
        (state, effects)
    }

    /// The batch needs nothing more.
    pub fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// What went wrong first, if anything did.
    pub fn failure(&self) -> Option<&Refusal> {
        self.failure.as_ref()
    }

    /// The entries that wait for a person, and why.
    pub fn hazards(&self) -> impl Iterator<Item = (usize, Hazard)> + '_ {
        self.versions
            .iter()
            .enumerate()
            .filter_map(|(entry, version)| match version {
                Version::Settled(Settled::Hazard(why)) => Some((entry, *why)),
                _ => None,
            })
    }
}

/// The protocol. An event that means nothing in the state it meets changes nothing.
pub fn step(mut state: State, event: Event) -> (State, Vec<Effect>) {
    let mut effects = Vec::new();
    state.take(event, &mut effects);
    (state, effects)
}

impl State {
    fn take(&mut self, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Begin if self.phase == Phase::New => {
                self.phase = Phase::Locking;
                effects.push(Effect::Lock);
            }
            Event::Locked if self.phase == Phase::Locking => {
                let shares = 0..self.shares.len();
                self.phase = Phase::Validating(shares.clone().collect());
                effects.extend(shares.map(Effect::Validate));
            }
            Event::LockTimedOut(refusal) if self.phase == Phase::Locking => {
                self.refuse(refusal, effects);
            }
            Event::Validated { share, refusal } => self.validated(share, refusal, effects),
            Event::IntentFailed(refusal) if self.phase == Phase::Intending => {
                self.refuse(refusal, effects);
            }
            Event::IntentDurable if self.phase == Phase::Intending => {
                self.phase = Phase::Preparing;
                effects.extend([Effect::Hide, Effect::StartClock]);
                self.advance(effects);
            }
            Event::PrepareTimedOut(refusal) if self.phase == Phase::Preparing => {
                self.failure.get_or_insert(refusal);
                self.decide(Decision::Abort, effects);
            }
            Event::Created(entry) => self.create_answered(entry, Created::Yes, effects),
            Event::Refused(entry, refusal) => {
                self.create_answered(entry, Created::No(refusal), effects);
            }
            Event::Conflicted(entry, refusal) => {
                self.create_answered(entry, Created::Conflict(refusal), effects);
            }
            Event::Lost(entry) => self.create_answered(entry, Created::Unknown, effects),
            Event::Found(entry, finding) => match self.phase {
                Phase::Preparing => self.found_in_prepare(entry, finding, effects),
                Phase::Undoing => self.found_in_undo(entry, finding, effects),
                _ => self.doubt(entry),
            },
            Event::Unanswered(entry) => match self.phase {
                Phase::Preparing | Phase::Undoing => {
                    effects.push(Effect::Find { entry, again: true });
                }
                _ => self.doubt(entry),
            },
            Event::Decided(decision) if matches!(self.phase, Phase::Deciding(_)) => {
                self.decided(decision, effects);
            }
            Event::DecisionUnknown => {
                if let Phase::Deciding(decision) = self.phase {
                    effects.push(Effect::Answer(Answer::Unknown));
                    effects.push(Effect::LogDecision(decision));
                }
            }
            Event::DeleteAsked(entry) if self.versions[entry] == Version::Deleting => {
                self.versions[entry] = Version::Checked {
                    ours: true,
                    deleted: true,
                };
                effects.push(Effect::Find {
                    entry,
                    again: false,
                });
            }
            Event::Noted(entry) => {
                if let Version::Noting(settled) = self.versions[entry] {
                    self.versions[entry] = Version::Settled(settled);
                    self.undo(effects);
                }
            }
            Event::Ended if self.phase == Phase::Closing => self.phase = Phase::Ended,
            _ => {}
        }
    }

    /// Nothing has been written anywhere: the batch is over with its answer.
    fn refuse(&mut self, refusal: Refusal, effects: &mut Vec<Effect>) {
        effects.extend((0..self.shares.len()).map(Effect::Unlock));
        effects.push(Effect::Answer(Answer::Refused(refusal)));
        self.phase = Phase::Ended;
    }

    fn validated(&mut self, share: usize, refusal: Option<Refusal>, effects: &mut Vec<Effect>) {
        let Phase::Validating(open) = &mut self.phase else {
            return;
        };
        open.remove(&share);
        if let Some(refusal) = refusal {
            self.refuse(refusal, effects);
        } else if open.is_empty() {
            self.phase = Phase::Intending;
            effects.push(Effect::LogIntent);
        }
    }

    /// Prepare goes on: the next version of each table, or the decision.
    fn advance(&mut self, effects: &mut Vec<Effect>) {
        if self.failure.is_some() {
            // Creates under way are waited for (each is bounded), so that undo meets as few surprises as can be.
            let asked = |version: &Version| matches!(version, Version::Asked { .. });
            if !self.versions.iter().any(asked) {
                self.decide(Decision::Abort, effects);
            }
            return;
        }
        if self
            .versions
            .iter()
            .all(|version| *version == Version::Ours)
        {
            self.decide(Decision::Commit, effects);
            return;
        }
        for share in &self.shares {
            let next = share
                .iter()
                .find(|entry| self.versions[**entry] != Version::Ours);
            if let Some(&entry) = next
                && self.versions[entry] == Version::Never
            {
                self.versions[entry] = Version::Asked { lost: false };
                let again = false;
                effects.push(Effect::Create { entry, again });
            }
        }
    }

    fn decide(&mut self, decision: Decision, effects: &mut Vec<Effect>) {
        self.phase = Phase::Deciding(decision);
        effects.push(Effect::LogDecision(decision));
    }

    fn create_answered(&mut self, entry: usize, created: Created, effects: &mut Vec<Effect>) {
        let Version::Asked { lost } = self.versions[entry] else {
            return;
        };
        let preparing = self.phase == Phase::Preparing;
        let sought = |lost, refusal| match preparing {
            true => Version::Sought { lost, refusal },
            false => Version::Doubtful { lost },
        };
        self.versions[entry] = match created {
            Created::Yes => Version::Ours,
            Created::No(refusal) if !lost => {
                self.failure.get_or_insert(refusal);
                Version::Never
            }
            // An attempt before it may have acted and consumed what this one was refused for.
            Created::No(refusal) | Created::Conflict(refusal) => sought(lost, Some(refusal)),
            Created::Unknown => sought(true, None),
        };
        if matches!(self.versions[entry], Version::Sought { .. }) {
            let again = false;
            effects.push(Effect::Find { entry, again });
        }
        match self.phase {
            Phase::Preparing => self.advance(effects),
            Phase::Undoing => self.undo(effects),
            _ => {}
        }
    }

    fn found_in_prepare(&mut self, entry: usize, finding: Finding, effects: &mut Vec<Effect>) {
        let Version::Sought { lost, refusal } = self.versions[entry].clone() else {
            return;
        };
        let refusal = refusal.unwrap_or_else(|| self.unproven(entry));
        self.versions[entry] = match finding {
            Finding::Present {
                likeness: Likeness::Proven,
                ..
            } => Version::Ours,
            // A clean 409 to the first attempt says that somebody was there before us, however alike it looks.
            Finding::Present {
                likeness: Likeness::Alike,
                ..
            } if lost => Version::Ours,
            Finding::Absent if lost && self.may_create && self.failure.is_none() => {
                let again = true;
                effects.push(Effect::Create { entry, again });
                Version::Asked { lost }
            }
            _ => {
                self.failure.get_or_insert(refusal);
                Version::Doubtful { lost }
            }
        };
        self.advance(effects);
    }

    /// A find that comes back while the decision is being written settles nothing; undo asks again.
    fn doubt(&mut self, entry: usize) {
        if let Version::Sought { lost, .. } = self.versions[entry] {
            self.versions[entry] = Version::Doubtful { lost };
        }
    }

    fn unproven(&self, entry: usize) -> Refusal {
        let message = match self.may_create {
            true => {
                format!("entries[{entry}]: the catalog does not say whether it created the version")
            }
            false => format!("entries[{entry}]: the gateway stopped before it was created"),
        };
        Refusal {
            status: 503,
            code: Code::ServiceUnavailable,
            message,
        }
    }

    fn decided(&mut self, decision: Decision, effects: &mut Vec<Effect>) {
        match decision {
            Decision::Commit => {
                effects.extend([Effect::Reveal, Effect::Answer(Answer::Committed)]);
                effects.extend((0..self.shares.len()).map(Effect::Unlock));
                self.close(effects);
            }
            Decision::Abort => {
                let refusal = self.failure.clone().unwrap_or_else(|| Refusal {
                    status: 409,
                    code: Code::ConcurrentModification,
                    message: "the batch was aborted by another gateway".into(),
                });
                effects.push(Effect::Answer(Answer::Refused(refusal)));
                self.phase = Phase::Undoing;
                self.undo(effects);
            }
        }
    }

    fn close(&mut self, effects: &mut Vec<Effect>) {
        self.phase = Phase::Closing;
        effects.push(Effect::LogEnd);
    }

    /// Undo goes on in every share; a share that is done unlocks, and when all are, the batch ends.
    fn undo(&mut self, effects: &mut Vec<Effect>) {
        for share in 0..self.shares.len() {
            if !self.undone[share] && self.undo_share(share, effects) {
                self.undone[share] = true;
                effects.push(Effect::Unlock(share));
            }
        }
        if self.undone.iter().all(|done| *done) && self.phase == Phase::Undoing {
            self.close(effects);
        }
    }

    /// Settles a share's versions, the latest first. True when every one is settled and none is a hazard.
    fn undo_share(&mut self, share: usize, effects: &mut Vec<Effect>) -> bool {
        let mut clean = true;
        for &entry in self.shares[share].iter().rev() {
            match self.versions[entry] {
                Version::Never => self.versions[entry] = Version::Settled(Settled::Gone),
                Version::Settled(Settled::Hazard(_)) => clean = false,
                Version::Settled(_) => {}
                Version::Ours | Version::Doubtful { .. } => {
                    let ours = !matches!(self.versions[entry], Version::Doubtful { lost: false });
                    let deleted = false;
                    self.versions[entry] = Version::Checked { ours, deleted };
                    let again = false;
                    effects.push(Effect::Find { entry, again });
                    return false;
                }
                Version::Sought { lost, .. } => {
                    let ours = lost;
                    let deleted = false;
                    self.versions[entry] = Version::Checked { ours, deleted };
                    return false;
                }
                Version::Asked { .. }
                | Version::Checked { .. }
                | Version::Deleting
                | Version::Noting(_) => return false,
            }
        }
        clean
    }

    fn found_in_undo(&mut self, entry: usize, finding: Finding, effects: &mut Vec<Effect>) {
        let Version::Checked { ours, deleted } = self.versions[entry] else {
            return self.doubt(entry);
        };
        let settled = match finding {
            Finding::Absent => Settled::Gone,
            Finding::Present { likeness, latest } => match likeness {
                Likeness::Unlike => Settled::Theirs,
                Likeness::Proven | Likeness::Alike
                    if latest && (ours || likeness == Likeness::Proven) =>
                {
                    self.versions[entry] = Version::Deleting;
                    let again = deleted;
                    effects.push(Effect::Delete { entry, again });
                    return;
                }
                Likeness::Proven => Settled::Hazard(Hazard::BuiltOn),
                Likeness::Alike if ours => Settled::Hazard(Hazard::BuiltOn),
                Likeness::Alike | Likeness::Incomparable => Settled::Hazard(Hazard::Unproven),
            },
        };
        match settled {
            Settled::Gone => effects.push(Effect::Reserve(entry)),
            Settled::Theirs => effects.push(Effect::Show(entry)),
            Settled::Hazard(_) => {}
        }
        self.versions[entry] = Version::Noting(settled);
        effects.push(Effect::Note(entry, settled));
    }
}

/// What a create came to.
enum Created {
    Yes,
    No(Refusal),
    Conflict(Refusal),
    Unknown,
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod walk;
