//! What the protocol asks for is done: at once where it takes no time, otherwise by whoever is asked.

use nsgate::batch::step::{Answer, Decision, Effect, Event, Settled};

use crate::catalog::Maker;
use crate::invariants::Invariant;
use crate::world::{ENTRIES, Flight, Late, Reader, SHARES, Slot, Told, World, place_of, refusal};

impl World {
    /// What takes no time is done at once, in its order; the rest is under way.
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
    pub fn hide(&mut self) {
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
    pub fn carry_out(&mut self, effect: Effect) {
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
    pub fn decide(&mut self, decision: Decision) -> Decision {
        if self.log.decision.is_none() {
            self.log.decision = Some(decision);
            self.log.proofs = self.facts.map(|facts| facts.proof);
        }
        self.log.decision.unwrap_or(decision)
    }

    /// The watch outlives whatever may land.
    fn watch(&mut self, entry: usize) -> Event {
        if self.maker(entry).is_some() {
            return Event::Landed(entry);
        }
        let group = self.plan.together(entry)[0];
        let over = [Late::Create(group), Late::Put(group)];
        self.late.retain(|late| !over.contains(late));
        Event::WatchOver(entry)
    }

    pub fn delete(&mut self, entry: usize) {
        self.check_delete(entry);
        let (table, place) = place_of(entry);
        let deleted = self.tables[table].delete(place);
        let facts = &mut self.facts[entry];
        facts.late_undone |= facts.landed && deleted == Some(Maker::Entry(entry));
    }

    /// Everyone who waits for this create hears what came of it.
    pub fn answer_create(&mut self, entry: usize, again: bool, answer: impl Fn(usize) -> Event) {
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
}
