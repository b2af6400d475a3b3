//! The moves: everything that can happen next in a world.

use nsgate::batch::step::{Decision, Effect, Event};

use crate::catalog::Maker;
use crate::faults::Fault;
use crate::mutants::Protocol;
use crate::setup::Assumption;
use crate::visibility::Strays;
use crate::world::{Flight, Gateway, Late, World, refusal};

/// One step of the batch, the gateway, a message, or a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// The message is carried out and answered, or the answer arrives.
    Goes(usize),
    /// The message goes wrong.
    Fails(usize, Fault),
    /// The time limit of prepare passes.
    TimesOut,
    /// A message whose sender has stopped waiting reaches its catalog.
    Lands(usize),
    Crashes,
    Recovers,
    /// An operator decides.
    Resolves(Decision),
    /// A client behind the gateway's back adds a version.
    Stranger {
        table: usize,
        alike: bool,
    },
    /// A client behind the gateway's back takes the highest version in storage for the latest one, and deletes the base.
    Cleans(usize),
    /// The writer chooses its base: the latest version through the gateway, or the latest in storage (`raw`).
    Builds {
        table: usize,
        raw: bool,
    },
    /// The writer sends its create to the gateway.
    Comes,
    /// The writer's create reaches the catalog.
    Writes,
    /// The writer's create goes wrong: its result is not told.
    LosesWrite(Fault),
    /// A client has the catalog choose the version.
    Inserts(usize),
    LosesInsert(usize, Fault),
    /// Another batch commits the next version of a table.
    Competes(usize),
    /// Another batch is aborted, and its create is still under way.
    LosesRival(usize),
    /// The other batch looks for a version that landed late, or its watch ends.
    RivalLooks,
    /// The creates of others that got no answer cannot land any more.
    StraysOver,
    /// Another table gets the name.
    Renames(usize),
    /// The reader's list request reaches this catalog.
    Lists(usize),
    /// The answer to the reader goes through the gateway's filter.
    Reads,
    /// The catalog answers with its latest version.
    Counts(usize),
    /// The gateway checks whether that answer may be passed on.
    CountEnds,
}

impl World {
    /// Adds every move that may happen next.
    pub fn moves(&self, moves: &mut Vec<Move>) {
        for (index, flight) in self.flights.iter().enumerate() {
            if self.can_go(flight) {
                moves.push(Move::Goes(index));
            }
            let fails = flight.faults().iter().copied();
            let fails = fails.filter(|fault| self.may_fail(flight, *fault));
            moves.extend(fails.map(|fault| Move::Fails(index, fault)));
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
        if self.person && self.state().is_some() {
            moves.extend([Decision::Commit, Decision::Abort].map(Move::Resolves));
        }
        self.moves_of_others(moves);
    }

    /// Describes a move, for a trace.
    pub fn tell(&self, next: &Move) -> String {
        match next {
            Move::Goes(index) => format!("{:?}", self.flights[*index]),
            Move::Fails(index, fault) => format!("{fault:?}: {:?}", self.flights[*index]),
            Move::Lands(index) => format!("lands late: {:?}", self.late[*index]),
            other => format!("{other:?}"),
        }
    }

    /// Returns the world after a move; `None` if the move does not apply.
    pub fn after(mut self, next: &Move, protocol: Protocol) -> Option<Self> {
        match next {
            Move::Goes(index) => {
                self.moves = self.moves.saturating_add(1);
                match self.flights.remove(*index) {
                    Flight::Ask(Effect::Create { entry, again }) => {
                        let made = self.create(self.setup.plan.together(entry));
                        self.answer_create(entry, again, |entry| made.answer(entry));
                    }
                    Flight::Ask(effect) => self.carry_out(effect, protocol),
                    Flight::Say(event) => self.hear(&event, protocol),
                }
            }
            Move::Fails(index, fault) => {
                self.moves = 0;
                *self.faults.of(*fault) -= 1;
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
            Move::RivalLooks => return self.rival_looks().then_some(self),
            other => self.others_move(other),
        }
        Some(self)
    }

    fn others_move(&mut self, next: &Move) {
        if matches!(
            next,
            Move::LosesWrite(_) | Move::LosesInsert(..) | Move::LosesRival(_)
        ) {
            self.faults.messages -= 1;
        }
        match *next {
            Move::Stranger { table, alike } => {
                self.stranger = false;
                let place = self.tables[table].next();
                self.tables[table].create(place, Maker::Stranger { alike });
            }
            Move::Cleans(table) => {
                self.cleaner = false;
                self.tables[table].clean();
            }
            Move::Builds { table, raw } => self.build(table, raw),
            Move::Comes => self.come(),
            Move::Writes => self.write(None),
            Move::LosesWrite(fault) => self.write(Some(fault)),
            Move::Inserts(table) => self.insert(table, None),
            Move::LosesInsert(table, fault) => self.insert(table, Some(fault)),
            Move::Competes(table) => self.compete(table, false),
            Move::LosesRival(table) => self.compete(table, true),
            Move::StraysOver => self.strays = Strays::default(),
            Move::Renames(table) => self.rename(table),
            Move::Lists(table) => self.list(table),
            Move::Reads => self.read(),
            Move::Counts(table) => self.count(table),
            Move::CountEnds => self.end_count(),
            ref other => unreachable!("{other:?} is the batch's"),
        }
    }

    /// Lets an operator decide. Returns `None` if nothing waits for the decision, which the gateway refuses.
    fn resolve(mut self, decision: Decision, protocol: Protocol) -> Option<Self> {
        let state = self.state()?;
        let (_, effects) = protocol.step(state.clone(), &Event::Resolved(decision));
        if effects.is_empty() {
            return None;
        }
        let hazards: Vec<usize> = state.hazards().map(|(entry, _)| entry).collect();
        for entry in hazards {
            self.facts[entry].told |= decision == Decision::Abort;
        }
        self.person = false;
        if self.setup.lifted != Some(Assumption::PersonWaits) {
            let removal = |late: &Late| matches!(late, Late::Delete(_) | Late::Remove(_));
            self.late.retain(|late| !removal(late));
        }
        self.hear(&Event::Resolved(decision), protocol);
        Some(self)
    }

    /// Sends an event to the protocol, and begins what the protocol asks for.
    pub fn hear(&mut self, event: &Event, protocol: Protocol) {
        let Gateway::Busy(state) = std::mem::replace(&mut self.gateway, Gateway::Idle) else {
            return;
        };
        match event {
            Event::Created(entry) | Event::Spoiled(entry, _) => self.facts[*entry].proof = true,
            Event::Lost(entry) | Event::RemovalLost(entry) | Event::NotDeleted(entry) => {
                self.facts[*entry].unclear = true;
            }
            Event::Decided(_) => self.knows = true,
            // The undo has the entry in hand, or has released it: nothing is left to do.
            Event::Landed(entry) | Event::WatchOver(entry) if !state.is_watched(*entry) => {
                self.gateway = Gateway::Busy(state);
                return;
            }
            Event::Landed(entry) => self.locked[self.place_of(*entry).0] = true,
            _ => {}
        }
        let (state, effects) = protocol.step(state, event);
        let ended = state.is_ended();
        self.gateway = Gateway::Busy(state);
        self.begin(effects);
        if ended {
            // The answers of a batch that has ended are of no interest.
            self.gateway = Gateway::Idle;
            self.abandon();
        }
    }
}
