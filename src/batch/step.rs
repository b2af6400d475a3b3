//! The batch protocol as one pure function: `step(state, event) -> (state, effects)`.
//!
//! The protocol knows no clock, socket or disk. The running coordinator, recovery, a model checker and a simulator
//! drive the same function. Each of them carries out the effects and reports the results as events.
//!
//! An *entry* is one change of one table; a *share* is the entries of one table branch, in the order in which they are
//! done. An entry that makes something can be undone: it is made before the decision, hidden, and undone after ABORT.
//! An entry that removes something cannot be undone: nothing happens to it before COMMIT, and then it is retried until
//! the thing is gone.
//!
//! The present file says what each event means and how a batch is decided. `prepare` holds the phase before the
//! decision, `settle` the phase after it.
//!
//! | invariant | where it is kept |
//! |---|---|
//! | I1 at most one decision | `decide` leaves `Preparing`, nothing returns to it; the log's first decision wins |
//! | I2 COMMIT implies everything proven made | `advance`: only when every entry is `Created` |
//! | what an earlier life has not decided and makes nothing is aborted: its client may know it as refused | `recovered` |
//! | I3 no create before a durable INTENT | `Create` is only emitted in `Preparing`, entered by `IntentDurable` |
//! | no INTENT before every table is validated | `validated`; recovery relies on it |
//! | I5 deletes only after ABORT, of what is ours and latest; removals only after COMMIT | `found_in_undo`, `finish` |
//! | I6 an answer only after its record | `decided` |
//! | I7 a table unlocks only when its undo, or its removals, are done | `undo`, `finish` |
//! | I8 all of a batch becomes visible together | one `Reveal`, in `carry_out` |
//! | I9 no other writer gets a number or a name that a removal of ours may still hit | `removal_lost`, `absent` |

mod prepare;
#[cfg(test)]
mod random_test;
mod rollback_probe;
mod settle;
mod state;
mod types;
mod undo;

use prepare::Created;
use rollback_probe::RollbackProbe;
use state::{EntryState, Phase};

pub use crate::batch::step::types::{
    Answer, Decision, Effect, Event, Finding, Hazard, Kind, LockedEntry, Match, Refusal, Settled,
    Shape,
};
pub use state::State;

/// Applies one event to the state and returns the effects to carry out. An event that has no meaning in the current
/// state changes nothing.
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
                self.failure.get_or_insert(self.instead_of(refusal));
                self.decide(Decision::Abort, effects);
            }
            Event::Created(entry) => self.create_answered(entry, Created::Yes, effects),
            Event::Unsent(entry, refusal) => {
                self.create_answered(entry, Created::Never(refusal), effects);
            }
            Event::Refused(entry, refusal) => {
                self.create_answered(entry, Created::No(refusal), effects);
            }
            Event::Spoiled(entry, refusal) => {
                self.create_answered(entry, Created::Wrong(refusal), effects);
            }
            Event::Strange(entry, refusal) => {
                self.create_answered(entry, Created::Strange(refusal), effects);
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
            Event::Unanswered(entry) | Event::Glimpsed(entry) => {
                match (&self.progress[entry], &self.phase) {
                    (EntryState::Probing(check), _) => {
                        let is_there = event == Event::Glimpsed(entry);
                        self.probe_again(entry, *check, is_there, effects);
                    }
                    (EntryState::Resolving { .. }, Phase::Preparing) => {
                        effects.push(Effect::Find { entry, again: true });
                    }
                    _ => self.doubt(entry, effects),
                }
            }
            Event::Decided(decision) if matches!(self.phase, Phase::Deciding(_)) => {
                self.decided(decision, effects);
            }
            Event::DecisionUnknown => {
                if let Phase::Deciding(decision) = self.phase {
                    effects.push(Effect::Answer(Answer::Unknown));
                    effects.push(Effect::LogDecision(decision));
                }
            }
            Event::Deleted(entry) | Event::NotDeleted(entry) => {
                if let EntryState::Deleting(check) = self.progress[entry] {
                    let answered = event == Event::Deleted(entry);
                    self.check(entry, RollbackProbe { answered, ..check }, effects);
                }
            }
            Event::RemovalLost(entry) => self.removal_lost(entry, effects),
            Event::Removed(entry) => match self.progress[entry] {
                EntryState::Removing | EntryState::RemovingLast => self.removed(entry, effects),
                _ => {}
            },
            Event::NotRemoved(entry) => self.not_removed(entry, effects),
            Event::Noted(entry) => {
                // Somebody may have built on it meanwhile.
                if let EntryState::Marking(check) = self.progress[entry] {
                    self.may_only_land[entry] = false;
                    self.check(entry, check, effects);
                }
                if let EntryState::Noting(settled) = self.progress[entry] {
                    self.may_only_land[entry] = settled.may_land();
                    self.progress[entry] = EntryState::Settled(settled);
                    // An entry that an operator keeps becomes visible only after that is durable.
                    if settled == Settled::Kept {
                        effects.push(Effect::Show(entry));
                    }
                    self.proceed(effects);
                }
                // The number is freed only after the note is durable. Otherwise recovery could take another writer's
                // version for this one.
                if let EntryState::Freeing(settled) = self.progress[entry] {
                    self.progress[entry] = EntryState::Settled(settled);
                    effects.push(Effect::Free(entry));
                    self.proceed(effects);
                }
            }
            Event::Landed(entry) if self.is_watched(entry) && !self.is_kept(entry) => {
                let share = self.share_of(entry);
                self.unlocked[share] = false;
                self.check(entry, RollbackProbe::ours(true), effects);
            }
            Event::WatchOver(entry) if self.is_watched(entry) => self.watch_over(entry, effects),
            Event::Resolved(decision) => self.resolved(decision, effects),
            Event::Ended if self.phase == Phase::Closing => self.phase = Phase::Ended,
            _ => {}
        }
    }

    // ── before the decision ──

    /// Ends the batch with a refusal. Nothing has been written anywhere.
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
            // Not earlier, although only a create needs both: recovery takes a version that looks like the batch's own
            // for the batch's own, because INTENT says that it was not there when the table was locked.
            self.phase = Phase::Intending;
            effects.push(Effect::LogIntent);
        }
    }

    // ── the decision ──

    fn decide(&mut self, decision: Decision, effects: &mut Vec<Effect>) {
        self.phase = Phase::Deciding(decision);
        effects.push(Effect::LogDecision(decision));
    }

    fn decided(&mut self, decision: Decision, effects: &mut Vec<Effect>) {
        let answer = match decision {
            Decision::Commit => Answer::Committed,
            Decision::Abort => {
                let other = || Refusal::conflict("the batch was aborted by another gateway");
                Answer::Refused(self.failure.clone().unwrap_or_else(other))
            }
        };
        self.carry_out(decision, Some(answer), effects);
    }

    /// Enters the phase after the decision. `Reveal` comes before `Answer`, so that a client that reads after its
    /// answer finds what the answer says.
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
}

#[cfg(test)]
mod tests;
