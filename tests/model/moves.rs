//! What can happen next in a world: the batch goes on, a message goes astray, the gateway stops and comes back, and
//! others read and write.

use nsgate::batch::step::{Decision, Effect, Event};

use crate::catalog::Maker;
use crate::faults::Fault;
use crate::planted::Protocol;
use crate::world::{Flight, Gateway, Late, Reader, SHARES, World, place_of, refusal};

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
    pub fn after(mut self, next: &Move, protocol: Protocol) -> Option<Self> {
        match next {
            Move::Goes(index) => {
                self.moves = self.moves.saturating_add(1);
                match self.flights.remove(*index) {
                    Flight::Ask(Effect::Create { entry, again }) => {
                        let made = self.create(self.plan.together(entry));
                        self.answer_create(entry, again, |entry| made.answer(entry));
                    }
                    Flight::Ask(effect) => self.carry_out(effect),
                    Flight::Say(event) => self.hear(&event, protocol),
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
                self.hear(&Event::PrepareTimedOut(refusal()), protocol);
            }
            Move::Lands(index) => self.land(*index),
            Move::Crashes => self.crash(),
            Move::Recovers => self.recover(protocol),
            Move::Resolves(decision) => return self.resolve(*decision, protocol),
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
    fn resolve(mut self, decision: Decision, protocol: Protocol) -> Option<Self> {
        let Gateway::Busy(state) = &self.gateway else {
            return None;
        };
        let (_, effects) = protocol.step(state.clone(), &Event::Resolved(decision));
        if effects.is_empty() {
            return None;
        }
        for (entry, _) in state.hazards() {
            self.facts[entry].told |= decision == Decision::Abort;
        }
        self.person = false;
        // A delete of an earlier life is not under way any more by the time a person comes.
        self.late.retain(|late| !matches!(late, Late::Delete(_)));
        self.hear(&Event::Resolved(decision), protocol);
        Some(self)
    }

    /// The protocol is told, and what it asks for begins.
    fn hear(&mut self, event: &Event, protocol: Protocol) {
        let Gateway::Busy(state) = std::mem::replace(&mut self.gateway, Gateway::Idle) else {
            return;
        };
        match event {
            Event::Created(entry) => self.facts[*entry].proof = true,
            Event::Lost(entry) => self.facts[*entry].unclear = true,
            Event::Decided(_) => self.knows = true,
            // Its table is locked again; what undo has in hand, or has let go, is free without this.
            Event::Landed(entry) if state.is_watched(*entry) => {
                self.locked[place_of(*entry).0] = true;
            }
            _ => {}
        }
        let (state, effects) = protocol.step(state, event);
        let ended = state.is_ended();
        self.gateway = Gateway::Busy(state);
        self.begin(effects);
        if ended {
            // Whoever ran the batch stops listening.
            self.gateway = Gateway::Idle;
            self.abandon();
        }
    }
}
