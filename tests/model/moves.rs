//! What can happen next in a world: the batch goes on, a message goes astray, the gateway stops and comes back, and
//! others read and write.

use nsgate::batch::step::{Answer, Decision, Effect, Event, Settled, State};

use crate::catalog::{Made, Maker};
use crate::invariants::Invariant;
use crate::world::{
    ENTRIES, Facts, Flight, Gateway, Late, Reader, SHARES, Slot, Told, World, Writer, place_of,
    refusal,
};

/// The protocol, or what takes its place.
pub trait Step: Fn(State, Event) -> (State, Vec<Effect>) {}
impl<F: Fn(State, Event) -> (State, Vec<Effect>)> Step for F {}

/// One step of somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// Whoever was asked does it, and answers; or the answer arrives.
    Goes(usize),
    /// It goes wrong.
    Fails(usize, Fault),
    /// The clock of prepare strikes.
    TimesOut,
    /// A message that nobody waits for reaches its catalog.
    Lands(usize),
    Crashes,
    Recovers,
    /// A person decides.
    Resolves(Decision),
    /// Somebody behind the gateway's back adds a version.
    Stranger {
        table: usize,
        alike: bool,
    },
    /// The writer builds on what it sees: through the gateway, or in storage.
    Builds {
        table: usize,
        raw: bool,
    },
    /// It asks the gateway for its version.
    Writes,
    /// The reader's question reaches this catalog.
    Lists(usize),
    /// The answer goes through the filter.
    Reads,
}

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
    fn faults(&self) -> &'static [Fault] {
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
    /// Everything that may happen next.
    pub fn moves(&self, moves: &mut Vec<Move>) {
        for (index, flight) in self.flights.iter().enumerate() {
            moves.push(Move::Goes(index));
            for fault in flight.faults() {
                let left = match fault {
                    Fault::Refused => self.faults.refusals,
                    _ => self.faults.messages,
                };
                if left > 0 {
                    moves.push(Move::Fails(index, *fault));
                }
            }
        }
        moves.extend((0..self.late.len()).map(Move::Lands));
        if self.clock {
            moves.push(Move::TimesOut);
        }
        if !self.is_up() {
            moves.push(Move::Recovers);
        } else if self.faults.crashes > 0 && self.gateway != Gateway::Idle {
            moves.push(Move::Crashes);
        }
        if self.person && matches!(self.gateway, Gateway::Busy(_)) {
            moves.extend([Decision::Commit, Decision::Abort].map(Move::Resolves));
        }
        self.moves_of_others(moves);
    }

    fn moves_of_others(&self, moves: &mut Vec<Move>) {
        for table in 0..2 {
            if self.stranger {
                moves.extend([true, false].map(|alike| Move::Stranger { table, alike }));
            }
            if self.writer == Writer::Idle {
                moves.push(Move::Builds { table, raw: true });
                if self.is_up() {
                    moves.push(Move::Builds { table, raw: false });
                }
            }
            if self.is_up() && self.reader == Reader::Idle {
                moves.push(Move::Lists(table));
            }
        }
        match self.writer {
            Writer::Built { table, .. } if self.is_up() && !self.locked[table] => {
                moves.push(Move::Writes);
            }
            _ => {}
        }
        match self.reader {
            Reader::Between { table, .. } if self.is_up() => moves.push(Move::Lists(1 - table)),
            Reader::Listed { .. } => moves.push(Move::Reads),
            _ => {}
        }
    }

    /// A move in words, for a trace.
    pub fn tell(&self, next: &Move) -> String {
        match next {
            Move::Goes(index) => format!("{:?}", self.flights[*index]),
            Move::Fails(index, fault) => format!("{fault:?}: {:?}", self.flights[*index]),
            Move::Lands(index) => format!("lands late: {:?}", self.late[*index]),
            other => format!("{other:?}"),
        }
    }

    /// The world after a move; `None`: it does not come to it.
    pub fn after(mut self, next: &Move, step: impl Step) -> Option<Self> {
        match next {
            Move::Goes(index) => {
                self.moves = self.moves.saturating_add(1);
                match self.flights.remove(*index) {
                    Flight::Ask(Effect::Create { entry, again }) => {
                        let made = self.create(self.plan.together(entry));
                        self.answer_create(entry, again, |entry| made.answer(entry));
                    }
                    Flight::Ask(effect) => self.carry_out(effect),
                    Flight::Say(event) => self.hear(event, &step),
                }
            }
            Move::Fails(index, fault) => {
                self.moves = 0;
                match fault {
                    Fault::Refused => self.faults.refusals -= 1,
                    _ => self.faults.messages -= 1,
                }
                if let Flight::Ask(effect) = self.flights.remove(*index) {
                    self.fail(effect, *fault);
                }
            }
            Move::TimesOut => {
                self.clock = false;
                self.hear(Event::PrepareTimedOut(refusal()), &step);
            }
            Move::Lands(index) => self.land(*index),
            Move::Crashes => self.crash(),
            Move::Recovers => self.recover(),
            Move::Resolves(decision) => return self.resolve(*decision, &step),
            Move::Stranger { table, alike } => {
                self.stranger = false;
                let place = self.tables[*table].next();
                self.tables[*table].create(place, Maker::Stranger { alike: *alike });
            }
            Move::Builds { table, raw } => self.build(*table, *raw),
            Move::Writes => self.write(),
            Move::Lists(table) => {
                let listed = |entry: &&usize| self.is_done(**entry);
                let entries = SHARES[*table].iter().filter(listed);
                let entries = entries.map(|entry| 1 << entry).sum();
                let earlier = match self.reader {
                    Reader::Between { earlier, .. } => Some(earlier),
                    _ => None,
                };
                self.reader = Reader::Listed {
                    table: *table,
                    entries,
                    earlier,
                };
            }
            Move::Reads => self.read(),
        }
        Some(self)
    }

    /// A decision that nothing waits for is refused.
    fn resolve(mut self, decision: Decision, step: &impl Step) -> Option<Self> {
        let Gateway::Busy(state) = &self.gateway else {
            return None;
        };
        let (_, effects) = step(state.clone(), Event::Resolved(decision));
        if effects.is_empty() {
            return None;
        }
        for (entry, _) in state.hazards() {
            self.facts[entry].told |= decision == Decision::Abort;
        }
        self.person = false;
        // A delete of an earlier life is not under way any more by the time a person comes.
        self.late.retain(|late| !matches!(late, Late::Delete(_)));
        self.hear(Event::Resolved(decision), step);
        Some(self)
    }

    /// The protocol is told, and what it asks for begins.
    fn hear(&mut self, event: Event, step: &impl Step) {
        let Gateway::Busy(state) = std::mem::replace(&mut self.gateway, Gateway::Idle) else {
            return;
        };
        match &event {
            Event::Created(entry) => self.facts[*entry].proof = true,
            Event::Lost(entry) => self.facts[*entry].unclear = true,
            Event::Decided(_) => self.knows = true,
            _ => {}
        }
        let (state, effects) = step(state, event);
        let ended = state.is_ended();
        self.gateway = Gateway::Busy(state);
        self.begin(effects);
        if ended {
            // Whoever ran the batch stops listening.
            self.gateway = Gateway::Idle;
            self.abandon();
        }
    }

    /// What takes no time is done at once, in its order; the rest is under way.
    fn begin(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.check_effect(&effect);
            match effect {
                Effect::Hide => self.hide(),
                Effect::StartClock => self.clock = true,
                Effect::Reveal => self.reveal(),
                Effect::Answer(answer) => self.answer(&answer),
                Effect::Show(entry) => {
                    self.slots[entry] = Slot::Open;
                    self.overtake(place_of(entry).0);
                }
                Effect::Reserve(entry) => self.slots[entry] = Slot::Resting,
                Effect::Unlock(share) => {
                    self.locked[share] = false;
                    for entry in SHARES[share] {
                        if self.slots[*entry] != Slot::Resting {
                            self.slots[*entry] = Slot::Open;
                        }
                        if self.plan.removes(*entry) {
                            self.overtake(share);
                        }
                    }
                }
                Effect::LogDecision(_) => {
                    self.clock = false;
                    self.fly(Flight::Ask(effect));
                }
                _ => self.fly(Flight::Ask(effect)),
            }
            // Readers look between any two of them.
            for invariant in [Invariant::UndecidedIsHidden, Invariant::AllAtOnce] {
                let holds = invariant.holds(self);
                self.must(invariant, holds);
            }
        }
    }

    /// What is made is hidden from now on; what is to be removed, once the batch is revealed.
    fn hide(&mut self) {
        for entry in 0..ENTRIES {
            self.slots[entry] = match self.plan.removes(entry) {
                true => Slot::Armed,
                false => Slot::Hidden,
            };
        }
    }

    fn reveal(&mut self) {
        for slot in &mut self.slots {
            *slot = match *slot {
                Slot::Hidden => Slot::Open,
                Slot::Armed => Slot::Hidden,
                other => other,
            };
        }
        for table in (0..2).filter(|table| SHARES[*table].len() > 1) {
            self.overtake(table);
        }
    }

    /// A reader to whom the catalog of this table has answered already asks again: what is not hidden any more may not be
    /// what it was answered with, or only a part of it.
    fn overtake(&mut self, overtaken: usize) {
        if let Reader::Listed { table, earlier, .. } = self.reader
            && table == overtaken
        {
            self.reader = match earlier {
                None => Reader::Idle,
                Some(earlier) => Reader::Between {
                    table: 1 - table,
                    earlier,
                },
            };
        }
    }

    fn answer(&mut self, answer: &Answer) {
        let told = match answer {
            Answer::Committed => Told::Committed,
            Answer::Refused(_) => Told::Refused,
            Answer::Unknown => return,
        };
        let before = self.client.replace(told);
        self.must(
            Invariant::AnswersAreRecorded,
            before.is_none_or(|before| before == told),
        );
    }

    /// Whoever is asked does what is asked.
    fn carry_out(&mut self, effect: Effect) {
        let event = match effect {
            Effect::Lock => {
                self.locked = [true; 2];
                Event::Locked
            }
            Effect::Validate(share) => {
                let next = place_of(SHARES[share][0]).1 == self.tables[share].next();
                let valid = next && !self.rests(share, 0);
                let refusal = (!valid).then(refusal);
                Event::Validated { share, refusal }
            }
            Effect::LogIntent => {
                self.log.intent = true;
                Event::IntentDurable
            }
            Effect::Find { entry, .. } => {
                self.note_look(entry);
                Event::Found(entry, self.find(entry))
            }
            Effect::LogDecision(decision) => Event::Decided(self.decide(decision)),
            Effect::Delete { entry, .. } => {
                self.delete(entry);
                Event::DeleteAsked(entry)
            }
            Effect::Remove { entry, .. } => {
                self.tables[place_of(entry).0].remove_base();
                Event::Removed(entry)
            }
            Effect::Watch(entry) => self.watch(entry),
            Effect::Note(entry, settled) => {
                self.log.settled[entry] = Some(settled);
                self.facts[entry].kept |= settled == Settled::Kept;
                Event::Noted(entry)
            }
            Effect::LogEnd => {
                self.log.ended = true;
                Event::Ended
            }
            other => unreachable!("{other:?} takes no time"),
        };
        self.fly(Flight::Say(event));
    }

    /// The first decision wins.
    fn decide(&mut self, decision: Decision) -> Decision {
        if self.log.decision.is_none() {
            self.log.decision = Some(decision);
            self.log.proofs = self.facts.map(|facts| facts.proof);
        }
        self.log.decision.unwrap_or(decision)
    }

    /// The watch outlives whatever may land. A table with something that did is locked again.
    fn watch(&mut self, entry: usize) -> Event {
        if self.maker(entry).is_some() {
            self.locked[place_of(entry).0] = true;
            return Event::Landed(entry);
        }
        let group = self.plan.together(entry)[0];
        let over = [Late::Create(group), Late::Put(group)];
        self.late.retain(|late| !over.contains(late));
        Event::WatchOver(entry)
    }

    fn delete(&mut self, entry: usize) {
        self.check_delete(entry);
        let (table, place) = place_of(entry);
        let deleted = self.tables[table].delete(place);
        let facts = &mut self.facts[entry];
        facts.late_undone |= facts.landed && deleted == Some(Maker::Entry(entry));
    }

    fn fail(&mut self, effect: Effect, fault: Fault) {
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

    /// Everyone who waits for this create hears what came of it.
    fn answer_create(&mut self, entry: usize, again: bool, answer: impl Fn(usize) -> Event) {
        for &other in self.plan.together(entry) {
            let asked = Flight::Ask(Effect::Create {
                entry: other,
                again,
            });
            let waits = self.flights.iter().position(|flight| *flight == asked);
            waits.map(|index| self.flights.remove(index));
            if waits.is_some() || other == entry {
                self.fly(Flight::Say(answer(other)));
            }
        }
    }

    fn land(&mut self, index: usize) {
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
    fn abandon(&mut self) {
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

    fn crash(&mut self) {
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
    fn recover(&mut self) {
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
        self.begin(effects);
    }

    /// What the writer takes for the latest version.
    fn build(&mut self, table: usize, raw: bool) {
        let hidden = |place: &usize| {
            let entry = SHARES[table].get(*place);
            entry.is_some_and(|entry| self.slots[*entry] != Slot::Open)
        };
        let next = self.tables[table].next();
        let seen = |place: &usize| raw || !hidden(&(place - 1));
        let place = (1..=next).rev().find(seen).unwrap_or(0);
        self.writer = match self.tables[table].before(place) {
            Some(on) => Writer::Built { table, place, on },
            None => Writer::Done,
        };
    }

    fn write(&mut self) {
        let Writer::Built { table, place, on } = std::mem::replace(&mut self.writer, Writer::Done)
        else {
            return;
        };
        if self.rests(table, place) {
            return;
        }
        let below = self.tables[table].before(place);
        if self.tables[table].create(place, Maker::Writer) {
            self.must(Invariant::NothingOnWhatIsGone, below == Some(on));
        }
    }

    fn read(&mut self) {
        let Reader::Listed {
            table,
            entries,
            earlier,
        } = self.reader
        else {
            return;
        };
        let shown = self.check_read(table, entries, earlier);
        self.reader = match earlier {
            None => Reader::Between {
                table,
                earlier: shown,
            },
            Some(_) => Reader::Done,
        };
    }
}
