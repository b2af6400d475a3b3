//! The batch protocol as one pure function: `step(state, event) -> (state, effects)`.
//!
//! It knows no clock, socket or disk. The running coordinator, recovery, a model checker and a simulator
//! drive the same function; whoever drives it carries out the effects and reports back what happened.
//!
//! An *entry* is one change of one table; a *share* is the entries of one table line, in the order in which they are
//! done. What is made can be undone, so it is made before the decision, hidden, and undone after ABORT. What is removed
//! cannot be undone, so nothing happens to it before COMMIT, and then it is removed until it is gone.
//!
//! | invariant | where it is kept |
//! |---|---|
//! | I1 at most one decision | `decide` leaves `Preparing`, nothing returns to it; the log's first decision wins |
//! | I2 COMMIT implies everything proven made | `advance`: only when every entry is `Ours` |
//! | I3 no create before a durable INTENT | `Create` is only emitted in `Preparing`, entered by `IntentDurable` |
//! | I5 a delete only after ABORT, of what is ours and latest; a removal only after COMMIT | `found_in_undo`, `finish` |
//! | I6 an answer only after its record | `decided` |
//! | I7 a table unlocks only when its undo, or its removals, are done | `undo`, `finish` |
//! | I8 all of a batch is seen together | one `Reveal`, in `carry_out` |

mod state;
mod words;

use crate::protocol::error::Code;
use state::{Belief, Check, Phase, Progress};

pub use state::State;
pub use words::{
    Answer, Decision, Effect, Event, Finding, Hazard, Kind, Likeness, Refusal, Settled, Shape,
};

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
                let shares = 0..self.shape.shares.len();
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
                _ => self.doubt(entry, effects),
            },
            Event::Unanswered(entry) => match (&self.progress[entry], &self.phase) {
                (Progress::Sought { .. }, Phase::Preparing) | (Progress::Checked(_), _) => {
                    effects.push(Effect::Find { entry, again: true });
                }
                _ => self.doubt(entry, effects),
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
            Event::DeleteAsked(entry) => {
                if let Progress::Deleting(check) = self.progress[entry] {
                    self.check(entry, check, effects);
                }
            }
            Event::Removed(entry) if self.progress[entry] == Progress::Removing => {
                self.note(entry, Settled::Removed, effects);
            }
            Event::NotRemoved(entry) if self.progress[entry] == Progress::Removing => {
                effects.push(Effect::Remove { entry, again: true });
            }
            Event::Noted(entry) => {
                if let Progress::Noting(settled) = self.progress[entry] {
                    self.progress[entry] = Progress::Settled(settled);
                    // What a person keeps is seen once that cannot be forgotten.
                    if settled == Settled::Kept {
                        effects.push(Effect::Show(entry));
                    }
                    self.proceed(effects);
                }
            }
            Event::Landed(entry) if self.progress[entry] == Progress::Watched => {
                let share = self.share_of(entry);
                self.unlocked[share] = false;
                self.check(entry, Check::ours(true), effects);
            }
            Event::WatchOver(entry) if self.progress[entry] == Progress::Watched => {
                self.progress[entry] = Progress::Settled(Settled::Gone);
                self.proceed(effects);
            }
            Event::Resolved(decision) => self.resolved(decision, effects),
            Event::Ended if self.phase == Phase::Closing => self.phase = Phase::Ended,
            _ => {}
        }
    }

    // ── before the decision ──

    /// Nothing has been written anywhere: the batch is over with its answer.
    fn refuse(&mut self, refusal: Refusal, effects: &mut Vec<Effect>) {
        effects.extend((0..self.shape.shares.len()).map(Effect::Unlock));
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

    /// Prepare goes on: what comes next in each share, or the decision.
    pub(super) fn advance(&mut self, effects: &mut Vec<Effect>) {
        let made = |entry: &usize| self.is_made(*entry);
        let mut entries = (0..self.progress.len()).filter(made);
        if self.failure.is_some() {
            // Creates under way are waited for (each is bounded), so that undo meets as few surprises as can be.
            let asked = |entry| matches!(self.progress[entry], Progress::Asked { .. });
            if !entries.any(asked) {
                self.decide(Decision::Abort, effects);
            }
        } else if entries.all(|entry| self.is_ours(entry)) {
            self.decide(Decision::Commit, effects);
        } else {
            let next = |entry: &usize| self.may_be_made(*entry);
            let next: Vec<usize> = (0..self.progress.len()).filter(next).collect();
            for entry in next {
                self.progress[entry] = Progress::Asked { lost: false };
                let again = false;
                effects.push(Effect::Create { entry, again });
            }
        }
    }

    /// An entry is made when all before it in its share is. What a catalog makes all or nothing is asked for together.
    fn may_be_made(&self, entry: usize) -> bool {
        let group = self.shape.groups[entry];
        let together =
            |other: usize| other == entry || (group.is_some() && self.shape.groups[other] == group);
        let reached = |other: usize| {
            let share = &self.shape.shares[self.share_of(other)];
            let before = share.iter().take_while(|before| **before != other);
            before
                .filter(|before| !together(**before))
                .all(|before| self.is_ours(*before))
        };
        self.is_made(entry)
            && self.progress[entry] == Progress::Never
            && (0..self.progress.len())
                .filter(|other| together(*other))
                .all(reached)
    }

    fn decide(&mut self, decision: Decision, effects: &mut Vec<Effect>) {
        self.phase = Phase::Deciding(decision);
        effects.push(Effect::LogDecision(decision));
    }

    fn create_answered(&mut self, entry: usize, created: Created, effects: &mut Vec<Effect>) {
        let Progress::Asked { lost } = self.progress[entry] else {
            return;
        };
        let preparing = self.phase == Phase::Preparing;
        let sought = |lost, refusal| match preparing {
            true => Progress::Sought { lost, refusal },
            false => Progress::Doubtful { lost },
        };
        self.progress[entry] = match created {
            Created::Yes => Progress::Ours { lost },
            Created::No(refusal) if !lost => {
                self.failure.get_or_insert(refusal);
                Progress::Never
            }
            // An attempt before it may have acted and consumed what this one was refused for.
            Created::No(refusal) | Created::Conflict(refusal) => sought(lost, Some(refusal)),
            Created::Unknown => sought(true, None),
        };
        if matches!(self.progress[entry], Progress::Sought { .. }) {
            let again = false;
            effects.push(Effect::Find { entry, again });
        }
        match self.phase {
            Phase::Preparing => self.advance(effects),
            Phase::Undoing => self.proceed(effects),
            _ => {}
        }
    }

    fn found_in_prepare(&mut self, entry: usize, finding: Finding, effects: &mut Vec<Effect>) {
        let Progress::Sought { lost, refusal } = self.progress[entry].clone() else {
            return;
        };
        let refusal = refusal.unwrap_or_else(|| self.unproven(entry));
        self.progress[entry] = match finding {
            Finding::Present {
                likeness: Likeness::Proven,
                ..
            } => Progress::Ours { lost },
            // A clean 409 to the first attempt says that somebody was there before us, however alike it looks.
            Finding::Present {
                likeness: Likeness::Alike,
                ..
            } if lost => Progress::Ours { lost },
            Finding::Absent if lost && self.may_create && self.failure.is_none() => {
                let again = true;
                effects.push(Effect::Create { entry, again });
                Progress::Asked { lost }
            }
            _ => {
                self.failure.get_or_insert(refusal);
                Progress::Doubtful { lost }
            }
        };
        self.advance(effects);
    }

    /// A find of prepare that comes back after it settles nothing: it may have looked before a create acted. Undo asks again.
    fn doubt(&mut self, entry: usize, effects: &mut Vec<Effect>) {
        if let Progress::Sought { lost, .. } = self.progress[entry] {
            self.progress[entry] = Progress::Doubtful { lost };
            self.proceed(effects);
        }
    }

    fn unproven(&self, entry: usize) -> Refusal {
        let why = match self.may_create {
            true => "the catalog does not say whether it created the version",
            false => "the gateway stopped before it was created",
        };
        Refusal {
            status: 503,
            code: Code::ServiceUnavailable,
            message: format!("entries[{entry}]: {why}"),
        }
    }

    // ── the decision ──

    fn decided(&mut self, decision: Decision, effects: &mut Vec<Effect>) {
        let answer = match decision {
            Decision::Commit => Answer::Committed,
            Decision::Abort => {
                let other = || conflict("the batch was aborted by another gateway");
                Answer::Refused(self.failure.clone().unwrap_or_else(other))
            }
        };
        self.carry_out(decision, Some(answer), effects);
    }

    /// Who is answered and then reads finds what the answer says.
    pub(super) fn carry_out(
        &mut self,
        decision: Decision,
        answer: Option<Answer>,
        effects: &mut Vec<Effect>,
    ) {
        self.phase = match decision {
            Decision::Commit => Phase::Finishing,
            Decision::Abort => Phase::Undoing,
        };
        if decision == Decision::Commit {
            effects.push(Effect::Reveal);
        }
        effects.extend(answer.map(Effect::Answer));
        self.proceed(effects);
    }

    // ── after it ──

    /// Every share goes on; one that is done unlocks, and when all are and nothing may land any more, the batch ends.
    fn proceed(&mut self, effects: &mut Vec<Effect>) {
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
        let watched = self.progress.contains(&Progress::Watched);
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
                Progress::Settled(_) => {}
                Progress::Never => {
                    self.progress[entry] = Progress::Removing;
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
                Progress::Never => {
                    self.note(entry, Settled::Theirs, effects);
                    return false;
                }
                Progress::Settled(Settled::Hazard(_)) => clean = false,
                Progress::Settled(_) | Progress::Watched => {}
                Progress::Ours { lost } => {
                    self.check(entry, Check::ours(lost), effects);
                    return false;
                }
                Progress::Doubtful { lost } => {
                    self.check(entry, Check::doubtful(lost), effects);
                    return false;
                }
                Progress::Told => {
                    self.check(entry, Check::told(), effects);
                    return false;
                }
                Progress::Again(check) => {
                    self.check(entry, check, effects);
                    return false;
                }
                _ => return false,
            }
        }
        clean
    }

    fn check(&mut self, entry: usize, check: Check, effects: &mut Vec<Effect>) {
        self.progress[entry] = Progress::Checked(check);
        let again = false;
        effects.push(Effect::Find { entry, again });
    }

    fn found_in_undo(&mut self, entry: usize, finding: Finding, effects: &mut Vec<Effect>) {
        let Progress::Checked(check) = self.progress[entry] else {
            return self.doubt(entry, effects);
        };
        let settled = match finding {
            Finding::Absent if check.lost => Settled::Unseen,
            Finding::Absent => Settled::Gone,
            Finding::Present { likeness, latest } => match (likeness, check.belief) {
                (Likeness::Unlike, _) => Settled::Theirs,
                (Likeness::Proven, _) | (Likeness::Alike, Belief::Likely) | (_, Belief::Told) => {
                    if latest {
                        self.progress[entry] = Progress::Deleting(check.deleting(likeness));
                        let again = check.deleted;
                        effects.push(Effect::Delete { entry, again });
                        return;
                    }
                    if !check.rechecked && self.doubts_above(entry) {
                        let rechecked = true;
                        self.progress[entry] = Progress::Again(Check { rechecked, ..check });
                        return self.proceed(effects);
                    }
                    Settled::Hazard(Hazard::BuiltOn)
                }
                (Likeness::Alike | Likeness::Incomparable, _) => Settled::Hazard(Hazard::Unproven),
            },
        };
        match settled {
            Settled::Gone | Settled::Unseen => effects.push(Effect::Reserve(entry)),
            Settled::Theirs => effects.push(Effect::Show(entry)),
            _ => {}
        }
        self.note(entry, settled, effects);
    }

    fn note(&mut self, entry: usize, settled: Settled, effects: &mut Vec<Effect>) {
        self.progress[entry] = Progress::Noting(settled);
        effects.push(Effect::Note(entry, settled));
    }

    /// The tombstones of a share that has been unlocked.
    fn watch(&mut self, share: usize, effects: &mut Vec<Effect>) {
        for &entry in &self.shape.shares[share] {
            if self.progress[entry] == Progress::Settled(Settled::Unseen) {
                self.progress[entry] = Progress::Watched;
                effects.push(Effect::Watch(entry));
            }
        }
    }

    /// A person has decided. Without an effect there is nothing that waits for this.
    fn resolved(&mut self, decision: Decision, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Preparing && decision == Decision::Abort {
            let told = || conflict("the batch was aborted by an operator");
            self.failure.get_or_insert_with(told);
            return self.decide(Decision::Abort, effects);
        }
        for entry in 0..self.progress.len() {
            match decision {
                Decision::Commit if self.is_stuck(entry) => {
                    self.note(entry, Settled::Kept, effects);
                }
                Decision::Abort if self.is_hazard(entry) => self.progress[entry] = Progress::Told,
                _ => {}
            }
        }
        self.proceed(effects);
    }

    /// Undo or removal cannot come to an end with it, and may leave it. What a delete is out for cannot be left any more.
    fn is_stuck(&self, entry: usize) -> bool {
        match (&self.progress[entry], &self.phase) {
            (Progress::Removing, _) => true,
            (Progress::Ours { .. } | Progress::Doubtful { .. }, Phase::Undoing) => true,
            (Progress::Checked(check) | Progress::Again(check), _) => !check.deleted,
            _ => self.is_hazard(entry),
        }
    }
}

fn conflict(message: &str) -> Refusal {
    Refusal {
        status: 409,
        code: Code::ConcurrentModification,
        message: message.into(),
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
