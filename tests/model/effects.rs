//! Carries out the effects of the protocol: at once if they take no time, otherwise when the search chooses to.

use nsgate::batch::step::{Answer, Decision, Effect, Event, Settled};

use crate::catalog::Maker;
use crate::invariants::Invariant;
use crate::mutants::Protocol;
use crate::setup::{Assumption, Flaw};
use crate::visibility::Slot;
use crate::world::{Flight, Late, Told, World, refusal};

/// The invariants that a reader could see broken between two effects.
const OF_READERS: [Invariant; 2] = [Invariant::UndecidedIsHidden, Invariant::AllAtOnce];

impl World {
    /// Begins effects. Those that take no time are done at once, in their order; the others are under way.
    pub fn begin(&mut self, flights: Vec<Flight>) {
        for flight in flights {
            let Flight::Ask(effect) = flight else {
                self.fly(flight);
                continue;
            };
            self.check_effect(&effect);
            match effect {
                Effect::Hide => self.hide(),
                Effect::StartClock => self.clock = true,
                Effect::Reveal => self.reveal(),
                Effect::Answer(answer) => self.answer(&answer),
                Effect::Show(entry) => self.show(entry),
                Effect::Reserve(entry) => self.reserve(entry),
                Effect::Free(entry) => self.unwatch(entry),
                Effect::Unlock(share) => self.unlock(share),
                Effect::LogDecision(_) => {
                    self.clock = false;
                    self.fly(Flight::Ask(effect));
                }
                _ => self.fly(Flight::Ask(effect)),
            }
            // A reader may look between any two effects.
            for invariant in OF_READERS {
                let holds = invariant.holds(self);
                self.must(invariant, holds);
            }
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

    /// Returns true if the effect can be carried out now: locks, for example, must be free.
    pub fn can_go(&self, flight: &Flight) -> bool {
        match flight {
            Flight::Ask(Effect::Lock) => {
                let mut tables = 0..self.setup.plan.shares().len();
                tables.all(|table| self.is_free(table))
            }
            Flight::Ask(Effect::Watch(entry)) => {
                !self.has_landed(*entry) || self.is_free(self.place_of(*entry).0)
            }
            _ => true,
        }
    }

    /// Carries out an effect, and sends the answer on its way.
    pub fn carry_out(&mut self, effect: Effect, protocol: Protocol) {
        let event = match effect {
            Effect::Lock => {
                for table in 0..self.setup.plan.shares().len() {
                    self.locked[table] = true;
                }
                Event::Locked
            }
            Effect::Validate(share) => self.validate(share),
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
                self.delete(entry, Invariant::NothingIsLost);
                Event::Deleted(entry)
            }
            Effect::Remove { entry, .. } => {
                self.remove(entry);
                Event::Removed(entry)
            }
            Effect::Watch(entry) => return self.watch(entry, protocol),
            Effect::Note(entry, settled) => {
                let settled = self.as_noted(entry, settled);
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

    fn validate(&mut self, share: usize) -> Event {
        let first = self.setup.plan.shares()[share][0];
        let valid = if self.removes(first) {
            self.may_rename(share) && !self.tables[share].has_lost_base()
        } else {
            self.tables[share].next() == 0 && self.may_create(share, 0, false)
        };
        let refusal = (!valid).then(refusal);
        Event::Validated { share, refusal }
    }

    /// Records the decision, unless there is one already. Returns the decision that counts, which is the first.
    pub fn decide(&mut self, decision: Decision) -> Decision {
        if self.log.decision.is_none() {
            self.log.decision = Some(decision);
            self.log.proofs = self.facts.map(|facts| facts.proof);
        }
        self.log.decision.unwrap_or(decision)
    }

    /// Returns true if there is a version where one is watched for, and it is not known to be another client's.
    fn has_landed(&self, entry: usize) -> bool {
        let watched = self.slots[entry].is_uncertain() && !self.removes(entry);
        watched && self.maker(entry).is_some()
    }

    /// Runs the watch of an entry to its end. The watch outlasts everything that may arrive, so what has not arrived by
    /// its end never does.
    fn watch(&mut self, entry: usize, protocol: Protocol) {
        if self.has_landed(entry) {
            return self.hear(&Event::Landed(entry), protocol);
        }
        let lifted = self.setup.lifted == Some(Assumption::WatchOutlives);
        let short = self.setup.flaw == Some(Flaw::WatchShort) || lifted;
        let waits = self.slots[entry].is_uncertain() || self.slots[entry] == Slot::Kept;
        if !short && waits {
            let group = self.setup.plan.together(entry)[0];
            let over = [Late::Create(group), Late::Put(group)];
            let removals = [Late::Delete(entry), Late::Remove(entry)];
            self.late
                .retain(|late| !over.contains(late) && !removals.contains(late));
        }
        self.fly(Flight::Say(Event::WatchOver(entry)));
    }

    /// Deletes the entry's version. `breaks` is the invariant that is broken if another client loses by it.
    pub fn delete(&mut self, entry: usize, breaks: Invariant) {
        self.check_delete(entry, breaks);
        let (table, place) = self.place_of(entry);
        let deleted = self.tables[table].delete(place);
        let facts = &mut self.facts[entry];
        facts.late_undone |= facts.landed && deleted == Some(Maker::Entry(entry));
    }

    pub fn remove(&mut self, entry: usize) {
        let table = self.place_of(entry).0;
        let harmed = self.tables[table].remove_base();
        self.must(Invariant::RemovalsMissOthers, !harmed);
    }

    /// Answers a create, to every entry that waits for it: the entries of a group share one request.
    pub fn answer_create(&mut self, entry: usize, again: bool, answer: impl Fn(usize) -> Event) {
        for &other in self.setup.plan.together(entry) {
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
}
