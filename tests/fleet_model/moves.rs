//! The next states of a world. Any process may pause anywhere: then it just does not go on.

use crate::database::Answer;
use crate::mutants::{Bug, Rules};
use crate::world::{Call, GATEWAYS, Ids, World};

/// An event, for a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The gateway; `GATEWAYS` for the world around them.
    pub who: usize,
    pub event: &'static str,
    /// The table, batch, ticket or set that it is about.
    pub about: u16,
    /// True if things get on by it: no fault, and no new request.
    pub is_progress: bool,
    pub fault: &'static str,
}

/// Collects the next states of a world.
pub struct Next<'a> {
    pub world: &'a World,
    pub rules: &'a Rules,
    pub to: Vec<(Move, World)>,
}

impl<'a> Next<'a> {
    /// Returns all next states; none once a promise is broken.
    pub fn of(world: &'a World, rules: &'a Rules) -> Vec<(Move, World)> {
        let mut next = Next {
            world,
            rules,
            to: Vec::with_capacity(32),
        };
        if world.broken.is_some() {
            return next.to;
        }
        for gateway in 0..GATEWAYS {
            next.life(gateway);
            next.guards(gateway);
            next.batches(gateway);
            next.recovery(gateway);
            next.requests(gateway);
        }
        next.around();
        next.to
    }

    /// Adds an event that helps.
    pub fn goes(
        &mut self,
        who: usize,
        event: &'static str,
        about: u16,
        change: impl FnOnce(&mut World),
    ) {
        self.add(
            Move {
                who,
                event,
                about,
                is_progress: true,
                fault: "",
            },
            change,
        );
    }

    /// Adds a fault or a new request.
    pub fn comes(
        &mut self,
        who: usize,
        event: &'static str,
        about: u16,
        change: impl FnOnce(&mut World),
    ) {
        self.add(
            Move {
                who,
                event,
                about,
                is_progress: false,
                fault: "",
            },
            change,
        );
    }

    fn add(&mut self, event: Move, change: impl FnOnce(&mut World)) {
        let mut world = *self.world;
        change(&mut world);
        if world != *self.world {
            self.to.push((event, world));
        }
    }

    /// Adds a call to the database: answered; carried out without an answer; held up on its way.
    pub fn calls(
        &mut self,
        who: usize,
        event: &'static str,
        call: Call,
        answered: impl Fn(&mut World, Answer),
        failed: impl Fn(&mut World),
    ) {
        let (rules, left) = (self.rules, self.world.left);
        let name = Move {
            who,
            event,
            about: 0,
            is_progress: true,
            fault: "",
        };
        self.add(name, |world| {
            let answer = world.ask(call, rules);
            answered(world, answer);
        });
        if left.lost > 0 {
            let name = Move {
                is_progress: false,
                fault: ", and the answer is lost",
                ..name
            };
            self.add(name, |world| {
                world.left.lost -= 1;
                world.ask(call, rules);
                failed(world);
            });
        }
        if left.late > 0 && self.world.late.is_none() {
            let name = Move {
                is_progress: false,
                fault: ", which is held up",
                ..name
            };
            self.add(name, |world| {
                world.left.late -= 1;
                failed(world);
                world.late = Some(call);
            });
        }
    }

    /// Adds a write to the log, which is repeated until it is answered.
    pub fn writes(
        &mut self,
        who: usize,
        event: &'static str,
        batch: usize,
        write: impl Fn(&mut World) -> bool,
        written: impl Fn(&mut World),
    ) {
        let about = batch as u16;
        self.goes(who, event, about, |world| {
            if write(world) {
                written(world);
            } else {
                world.gateways[who].end();
            }
        });
        if self.world.left.lost > 0 {
            let name = Move {
                who,
                event,
                about,
                is_progress: false,
                fault: ", and the answer is lost",
            };
            self.add(name, |world| {
                world.left.lost -= 1;
                write(world);
            });
        }
    }

    /// Adds what happens between gateways: requests that arrive at catalogs, calls that arrive late.
    fn around(&mut self) {
        let rules = self.rules;
        for batch in 0..self.world.in_flight.len() {
            for table in crate::world::each(self.world.in_flight[batch]) {
                let about = (batch * 10 + usize::from(table)) as u16;
                self.goes(
                    GATEWAYS,
                    "a create arrives at its catalog",
                    about,
                    |world| {
                        world.in_flight[batch] &= !(1 << table);
                        world.present[batch] |= 1 << table;
                    },
                );
            }
        }
        if let Some(call) = self.world.late {
            self.comes(GATEWAYS, late_name(call), 0, |world| {
                world.late = None;
                world.carry_out(call, rules);
            });
        }
    }
}

impl World {
    /// Carries out a call at once. The calls of an owner for guards are numbered: an earlier one, which was held up,
    /// is not carried out any more.
    fn ask(&mut self, call: Call, rules: &Rules) -> Answer {
        let now = owner_of(&call);
        let is_overtaken = |late: &Call| {
            let may_come_later = match late {
                Call::Claim { .. } => rules.has(Bug::LateClaims),
                Call::Release { .. } => rules.has(Bug::LateReleases),
                _ => false,
            };
            now.is_some() && owner_of(late) == now && !may_come_later
        };
        self.late = self.late.filter(|late| !is_overtaken(late));
        self.carry_out(call, rules)
    }
}

/// Returns the owner who makes a call for guards, and the number of its ownership.
fn owner_of(call: &Call) -> Option<(Ids, u8)> {
    match *call {
        Call::Claim { me, fence, .. }
        | Call::Release { me, fence, .. }
        | Call::Replace { me, fence, .. } => Some((me, fence)),
        _ => None,
    }
}

fn late_name(call: Call) -> &'static str {
    match call {
        Call::Join(_) => "a late join arrives",
        Call::Leave(_) => "a late farewell arrives",
        Call::Take { .. } => "a late takeover arrives",
        Call::Expire { .. } => "a late expiry arrives",
        Call::Acknowledge { .. } => "a late acknowledgement arrives",
        Call::Claim { .. } => "a late claim arrives",
        Call::Release { .. } => "a late release arrives",
        Call::Replace { .. } => "a late replacement of guards arrives",
    }
}
