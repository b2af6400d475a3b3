//! Faults: messages that are lost, doubled or late, answers that are false, and a gateway that stops and starts again.

use nsgate::batch::step::{Decision, Effect, Event, Finding, Settled, State};

use crate::catalog::{Made, Maker};
use crate::invariants::Invariant;
use crate::mutants::Protocol;
use crate::others::Writer;
use crate::readers::{Counter, Reader};
use crate::setup::{Assumption, Flaw};
use crate::visibility::Strays;
use crate::world::{Facts, Faults, Flight, Gateway, Late, World, refusal};

/// The way in which a request or a write goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The message does not arrive.
    Lost,
    /// The message arrives and is acted on; the answer is lost.
    AnswerLost,
    /// The message arrives after its sender has stopped waiting for the answer.
    Late,
    /// The catalog has begun, and writes after the sender has stopped waiting.
    HalfDone,
    /// The message arrives twice.
    Doubled,
    /// A proxy on the way repeats the message, and passes on the second answer.
    Repeated,
    /// The answer is a definite refusal, and nothing was done.
    Refused,
    /// The answer is a definite refusal, although the request was acted on.
    RefusedDone,
    /// The message was never sent.
    Unsent,
    /// A version was created, but not the requested one.
    Spoiled,
    /// Another gateway has aborted the batch.
    Forestalled,
    /// The answer says that it was done, and it never is.
    Untrue,
    /// The answer says that it was done, and it will be later.
    TrueLater,
    /// The answer is from before the version was there.
    Stale,
}

impl Flight {
    /// Returns the faults that this message can have.
    pub fn faults(&self) -> &'static [Fault] {
        use Fault::*;
        match self {
            Self::Ask(Effect::Create { .. }) => &[
                Lost,
                AnswerLost,
                Late,
                HalfDone,
                Doubled,
                Repeated,
                Refused,
                RefusedDone,
                Unsent,
                Spoiled,
            ],
            Self::Ask(Effect::Find { .. }) => &[Lost, Stale],
            Self::Ask(Effect::Remove { .. }) => &[Lost, AnswerLost, Late, Refused, RefusedDone],
            Self::Ask(Effect::Delete { .. }) => &[
                Lost,
                AnswerLost,
                Late,
                Doubled,
                Refused,
                RefusedDone,
                Untrue,
                TrueLater,
            ],
            Self::Ask(Effect::LogDecision(_)) => &[Lost, AnswerLost, Forestalled],
            Self::Ask(Effect::Lock | Effect::Validate(_) | Effect::LogIntent) => &[Refused],
            _ => &[],
        }
    }
}

impl Faults {
    /// Returns the number of faults of this kind that are left.
    pub fn of(&mut self, fault: Fault) -> &mut u8 {
        match fault {
            Fault::Refused | Fault::RefusedDone | Fault::Unsent | Fault::Spoiled => {
                &mut self.refusals
            }
            Fault::Untrue | Fault::TrueLater | Fault::Stale => &mut self.lies,
            _ => &mut self.messages,
        }
    }
}

impl World {
    /// Returns true if this message can have this fault in this world.
    pub fn may_fail(&self, flight: &Flight, fault: Fault) -> bool {
        let again = self.setup.lifted == Some(Assumption::AnsweredOnce);
        let fits = match (flight, fault) {
            (Flight::Ask(Effect::Delete { .. }), Fault::Doubled) => again,
            // A repeated create does nothing if the first one has consumed the staged manifest.
            (Flight::Ask(Effect::Create { entry, .. }), Fault::Doubled) => {
                let acts = self.judge(self.setup.plan.together(*entry)) == Made::Yes;
                again || acts && !self.setup.keeps
            }
            (Flight::Ask(Effect::Find { entry, .. }), Fault::Stale) => self.maker(*entry).is_some(),
            _ => true,
        };
        fits && *self.faults.clone().of(fault) > 0
    }

    pub fn fail(&mut self, effect: Effect, fault: Fault) {
        let event = match effect {
            Effect::Create { entry, again } => return self.fail_create(entry, again, fault),
            Effect::Delete { entry, .. } => self.fail_delete(entry, fault),
            Effect::Remove { entry, .. } => self.fail_remove(entry, fault),
            Effect::Lock => Event::LockTimedOut(refusal()),
            Effect::Validate(share) => {
                let refusal = Some(refusal());
                Event::Validated { share, refusal }
            }
            Effect::LogIntent => Event::IntentFailed(refusal()),
            Effect::Find { entry, .. } if fault == Fault::Stale => {
                let facts = &mut self.facts[entry];
                facts.deletable = false;
                facts.seen_absent = true;
                facts.landed = true;
                Event::Found(entry, Finding::Absent)
            }
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
            other => unreachable!("{other:?} does not fail"),
        };
        self.fly(Flight::Say(event));
    }

    fn fail_create(&mut self, entry: usize, again: bool, fault: Fault) {
        let group = self.setup.plan.together(entry);
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
            Fault::Unsent => Some(Made::Unsent),
            Fault::RefusedDone => {
                self.create(group);
                Some(Made::Refused)
            }
            Fault::Spoiled => Some(match self.create(group) {
                Made::Yes => Made::Spoiled,
                other => other,
            }),
            _ => None,
        };
        self.answer_create(entry, again, |entry| match made {
            Some(made) => made.answer(entry),
            None => Event::Lost(entry),
        });
    }

    fn fail_delete(&mut self, entry: usize, fault: Fault) -> Event {
        if matches!(fault, Fault::Late | Fault::Doubled | Fault::TrueLater) {
            self.linger(Late::Delete(entry));
        }
        if matches!(
            fault,
            Fault::AnswerLost | Fault::Doubled | Fault::RefusedDone
        ) {
            self.delete(entry, Invariant::NothingIsLost);
        }
        match fault {
            Fault::Lost | Fault::AnswerLost | Fault::Late => Event::RemovalLost(entry),
            Fault::Refused | Fault::RefusedDone => Event::NotDeleted(entry),
            _ => Event::Deleted(entry),
        }
    }

    fn fail_remove(&mut self, entry: usize, fault: Fault) -> Event {
        match fault {
            Fault::AnswerLost | Fault::RefusedDone => self.remove(entry),
            Fault::Late => self.linger(Late::Remove(entry)),
            _ => {}
        }
        match fault {
            Fault::Refused | Fault::RefusedDone => Event::NotRemoved(entry),
            _ => Event::RemovalLost(entry),
        }
    }

    pub fn land(&mut self, index: usize) {
        let landed = match self.late.remove(index) {
            Late::Delete(entry) => {
                self.cross(entry);
                return self.delete(entry, Invariant::RemovalsMissOthers);
            }
            Late::Remove(entry) => return self.remove(entry),
            Late::Write { table, place } => {
                self.tables[table].create(place, Maker::Stray);
                return;
            }
            Late::Insert(table) => {
                let place = self.tables[table].next();
                self.tables[table].create(place, Maker::Stray);
                return;
            }
            Late::Rival { table, place } => {
                let committed = false;
                self.tables[table].create(place, Maker::Rival { committed });
                return;
            }
            Late::Create(entry) => {
                let group = self.setup.plan.together(entry);
                if self.create(group) != Made::Yes {
                    return;
                }
                group
            }
            Late::Put(entry) => {
                let group = self.setup.plan.together(entry);
                if !self.put(group) {
                    return;
                }
                group
            }
        };
        for &entry in landed {
            let table = self.place_of(entry).0;
            let alien = self.tables[table].at(0) == Some(Maker::Alien);
            self.must(Invariant::CreatesMissOthers, !alien);
            let let_go = self.log.settled[entry].is_some_and(Settled::is_uncertain);
            self.facts[entry].landed |= self.facts[entry].seen_absent || let_go;
        }
    }

    /// Ends a count of the table. It is assumed that no create and its removal arrive between the catalog's count and
    /// the gateway's look.
    fn cross(&mut self, entry: usize) {
        let lifted = self.setup.lifted == Some(Assumption::CountUncrossed);
        if let Counter::Counted { table, .. } = self.counter
            && table == self.place_of(entry).0
            && !lifted
        {
            self.counter = Counter::Done;
        }
    }

    /// Drops the answers that the gateway waits for. Requests that were on their way to a catalog may still arrive.
    pub fn abandon(&mut self) {
        for flight in std::mem::take(&mut self.flights) {
            match flight {
                Flight::Ask(Effect::Create { entry, .. }) => {
                    let late = Late::Create(self.setup.plan.together(entry)[0]);
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
        self.let_go = Default::default();
        self.strays = Strays::default();
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
        if matches!(self.writer, Writer::Came { .. }) {
            self.writer = Writer::Done;
        }
        if matches!(self.counter, Counter::Counted { .. }) {
            self.counter = Counter::Done;
        }
    }

    /// Starts the gateway again: it reads the log before it serves anything.
    pub fn recover(&mut self, protocol: Protocol) {
        self.gateway = Gateway::Idle;
        let known = self.log.intent || self.setup.flaw != Some(Flaw::StraysUnexpected);
        self.strays.anywhere = known && self.has_strays();
        if !self.log.intent {
            // The client was not answered, so it sends the batch again.
            if self.client.is_none() {
                self.ask();
            }
            return;
        }
        for entry in self.made() {
            if self.log.ended || self.log.settled[entry] == Some(Settled::Theirs) {
                self.forgo_writer(self.place_of(entry).0);
            }
        }
        if self.log.ended {
            return;
        }
        if self.log.decision == Some(Decision::Abort) {
            for (facts, proof) in self.facts.iter_mut().zip(self.log.proofs) {
                *facts = Facts { proof, ..*facts };
            }
        }
        for table in 0..self.setup.plan.shares().len() {
            self.locked[table] = true;
        }
        self.hide();
        if self.is_committed() {
            self.reveal();
        }
        self.knows = self.log.decision.is_some();
        self.log.by_recovery |= !self.knows;
        for (let_go, settled) in self.let_go.iter_mut().zip(self.log.settled) {
            let_go.contested = settled.is_some_and(|settled| settled.is_contested());
        }
        let (state, effects) = State::recovered(
            self.setup.plan.shape(),
            self.log.decision,
            &self.log.settled,
        );
        self.gateway = Gateway::Busy(state);
        self.begin(protocol.recovered(effects));
    }
}
