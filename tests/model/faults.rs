//! What goes wrong: messages that are lost, doubled or late, and a gateway that stops and comes back.

use nsgate::batch::step::{Decision, Effect, Event, Settled, State};

use crate::catalog::Made;
use crate::planted::Protocol;
use crate::world::{Facts, Flight, Gateway, Late, Reader, Slot, World, place_of, refusal};

/// How a question or a write goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not arrive.
    Lost,
    /// It arrives and is done; the answer is lost.
    AnswerLost,
    /// It arrives when nobody waits for it any more.
    Late,
    /// The catalog has begun, and writes when nobody waits for it any more.
    HalfDone,
    /// It arrives twice.
    Doubled,
    /// Somebody on the way repeats it, and passes on the second answer.
    Repeated,
    /// A definite no, and nothing was done.
    Refused,
    /// Another gateway has aborted the batch.
    Forestalled,
}

impl Flight {
    /// The ways in which it can go wrong.
    pub fn faults(&self) -> &'static [Fault] {
        use Fault::*;
        match self {
            Self::Ask(Effect::Create { .. }) => {
                &[Lost, AnswerLost, Late, HalfDone, Doubled, Repeated, Refused]
            }
            Self::Ask(Effect::Find { .. }) => &[Lost],
            Self::Ask(Effect::Remove { .. }) => &[Lost, AnswerLost, Late],
            Self::Ask(Effect::Delete { .. }) => &[Lost, Late, Doubled],
            Self::Ask(Effect::LogDecision(_)) => &[Lost, AnswerLost, Forestalled],
            Self::Ask(Effect::Lock | Effect::Validate(_) | Effect::LogIntent) => &[Refused],
            _ => &[],
        }
    }
}

impl World {
    pub fn fail(&mut self, effect: Effect, fault: Fault) {
        let event = match effect {
            Effect::Create { entry, again } => return self.fail_create(entry, again, fault),
            Effect::Lock => Event::LockTimedOut(refusal()),
            Effect::Validate(share) => {
                let refusal = Some(refusal());
                Event::Validated { share, refusal }
            }
            Effect::LogIntent => Event::IntentFailed(refusal()),
            Effect::Find { entry, .. } => Event::Unanswered(entry),
            Effect::LogDecision(_) if fault == Fault::Forestalled => {
                Event::Decided(self.decide(Decision::Abort))
            }
            Effect::LogDecision(decision) => {
                if fault == Fault::AnswerLost {
                    self.decide(decision);
                }
                Event::DecisionUnknown
            }
            Effect::Delete { entry, .. } => {
                if fault != Fault::Lost {
                    self.linger(Late::Delete(entry));
                }
                if fault == Fault::Doubled {
                    self.delete(entry);
                }
                Event::DeleteAsked(entry)
            }
            Effect::Remove { entry, .. } => {
                match fault {
                    Fault::AnswerLost => self.tables[place_of(entry).0].remove_base(),
                    Fault::Late => self.linger(Late::Remove(entry)),
                    _ => {}
                }
                Event::NotRemoved(entry)
            }
            other => unreachable!("{other:?} does not fail"),
        };
        self.fly(Flight::Say(event));
    }

    fn fail_create(&mut self, entry: usize, again: bool, fault: Fault) {
        let group = self.plan.together(entry);
        let late = match fault {
            Fault::Late | Fault::Doubled => Some(Late::Create(group[0])),
            Fault::HalfDone if self.judge(group) == Made::Yes => Some(Late::Put(group[0])),
            _ => None,
        };
        late.into_iter().for_each(|late| self.linger(late));
        let made = match fault {
            Fault::AnswerLost => {
                self.create(group);
                None
            }
            Fault::Doubled => Some(self.create(group)),
            Fault::Repeated => {
                self.create(group);
                Some(self.create(group))
            }
            Fault::Refused => Some(Made::Refused),
            _ => None,
        };
        self.answer_create(entry, again, |entry| match made {
            Some(made) => made.answer(entry),
            None => Event::Lost(entry),
        });
    }

    pub fn land(&mut self, index: usize) {
        let landed = match self.late.remove(index) {
            Late::Delete(entry) => return self.delete(entry),
            Late::Remove(entry) => return self.tables[place_of(entry).0].remove_base(),
            Late::Create(entry) if self.create(self.plan.together(entry)) != Made::Yes => return,
            Late::Put(entry) if !self.put(self.plan.together(entry)) => return,
            Late::Create(entry) | Late::Put(entry) => self.plan.together(entry),
        };
        for &entry in landed {
            self.facts[entry].landed |= self.facts[entry].seen_absent;
        }
    }

    /// Nobody listens to what is under way any more; what was on its way to a catalog may still arrive.
    pub fn abandon(&mut self) {
        for flight in std::mem::take(&mut self.flights) {
            match flight {
                Flight::Ask(Effect::Create { entry, .. }) => {
                    let late = Late::Create(self.plan.together(entry)[0]);
                    if !self.late.contains(&late) {
                        self.linger(late);
                    }
                }
                Flight::Ask(Effect::Remove { entry, .. }) => self.linger(Late::Remove(entry)),
                Flight::Ask(Effect::Delete { entry, .. }) => self.linger(Late::Delete(entry)),
                _ => {}
            }
        }
        self.clock = false;
    }

    pub fn crash(&mut self) {
        self.faults.crashes -= 1;
        self.moves = 0;
        self.abandon();
        self.gateway = Gateway::Down;
        self.locked = [false; 2];
        self.slots = Default::default();
        self.asked = None;
        self.knows = false;
        for facts in &mut self.facts {
            facts.unclear = true;
            facts.proof = false;
            facts.deletable = false;
        }
        if !matches!(self.reader, Reader::Idle | Reader::Between { .. }) {
            self.reader = Reader::Done;
        }
    }

    /// The log is read before anything is served.
    pub fn recover(&mut self, protocol: Protocol) {
        self.gateway = Gateway::Idle;
        if !self.log.intent {
            return;
        }
        let aborted = self.log.decision == Some(Decision::Abort);
        if self.log.ended {
            for (slot, settled) in self.slots.iter_mut().zip(self.log.settled) {
                if aborted && matches!(settled, Some(Settled::Gone | Settled::Unseen)) {
                    *slot = Slot::Resting;
                }
            }
            return;
        }
        if aborted {
            for (facts, proof) in self.facts.iter_mut().zip(self.log.proofs) {
                *facts = Facts { proof, ..*facts };
            }
        }
        self.locked = [true; 2];
        self.hide();
        self.knows = self.log.decision.is_some();
        self.log.by_recovery |= !self.knows;
        let (state, effects) =
            State::recovered(self.plan.shape(), self.log.decision, &self.log.settled);
        self.gateway = Gateway::Busy(state);
        self.begin(protocol.recovered(effects));
    }
}
