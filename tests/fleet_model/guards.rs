//! The guards: claimed and released by the owner of the log, acknowledged by the others.

use crate::database::Answer;
use crate::gateway::{Drain, Owned, Role, Stage, Standing};
use crate::moves::Next;
use crate::mutants::Bug;
use crate::world::{Call, Guard, NAMES, Set, TABLES, TICKETS, World, has, only};

impl Next<'_> {
    /// Adds the events of the guards at one gateway.
    pub fn guards(&mut self, me: usize) {
        let gateway = &self.world.gateways[me];
        if !gateway.is_alive() || gateway.standing == Standing::Outside {
            return;
        }
        if gateway.fence == 0 {
            self.learns(me);
            self.finds_owed(me);
            self.drains(me);
        } else {
            for batch in 0..gateway.stages.len() {
                self.claims(me, batch);
            }
            self.releases(me);
        }
    }

    fn learns(&mut self, me: usize) {
        let (gateway, database, rules) =
            (&self.world.gateways[me], &self.world.database, self.rules);
        let guards = database.guards;
        if rules.has(Bug::GuardRemovedByOlderLook)
            && gateway.is_released
            && gateway.old_look.is_none()
        {
            self.comes(me, "looks at the guards", 0, |world| {
                world.gateways[me].old_look = Some(tables_of(&guards));
            });
        }
        let ticket = database.ticket;
        if gateway.standing == Standing::Joined || ticket > gateway.ticket {
            self.goes(me, "reads new guards", 0, |world| {
                let gateway = &mut world.gateways[me];
                if gateway.standing == Standing::Joined {
                    gateway.standing = Standing::Knowing;
                    if rules.has(Bug::JoinsWithoutGuards) {
                        gateway.ticket = ticket;
                    }
                }
                let after = gateway.ticket;
                gateway.knows(
                    &guards,
                    |guard| guard.ticket > after,
                    rules.has(Bug::ListingForgetsNames),
                );
                gateway.ticket = ticket;
            });
        }
        if gateway.is_released && gateway.standing != Standing::Joined {
            let old_look = gateway.old_look;
            self.goes(me, "reads all guards, and forgets the others", 0, |world| {
                let gateway = &mut world.gateways[me];
                let kept = old_look.unwrap_or(tables_of(&guards));
                gateway.guarded &= kept;
                gateway.naming &= kept;
                gateway.is_released = false;
                gateway.old_look = None;
            });
        }
    }

    /// Finds a ticket that this gateway owes, and reads its guards. It handles one after the other.
    fn finds_owed(&mut self, me: usize) {
        let (gateway, database, rules) =
            (&self.world.gateways[me], &self.world.database, self.rules);
        let Drain {
            ticket, is_read, ..
        } = gateway.drain;
        if gateway.standing == Standing::Joined || is_read {
            return;
        }
        if ticket == 0 {
            let id = self.world.id(me);
            for ticket in
                (1..TICKETS as u8).filter(|ticket| database.owed[usize::from(*ticket)] & id != 0)
            {
                self.goes(me, "finds that it owes ticket", ticket.into(), |world| {
                    world.gateways[me].drain.ticket = ticket;
                });
            }
            return;
        }
        let guards = database.guards;
        let of_ticket = |guard: &Guard| guard.ticket == ticket;
        self.goes(me, "reads the guards of ticket", ticket.into(), |world| {
            let gateway = &mut world.gateways[me];
            if !rules.has(Bug::AcknowledgedBeforeGuard) {
                gateway.knows(&guards, of_ticket, rules.has(Bug::ListingForgetsNames));
            }
            let mine = guards
                .iter()
                .enumerate()
                .filter(|(_, guard)| of_ticket(guard));
            gateway.drain = Drain {
                ticket,
                is_read: true,
                tables: mine.clone().fold(0, |all, (table, _)| all | only(table)),
                has_names: mine.clone().any(|(_, guard)| guard.names),
                is_done: rules.has(Bug::AcknowledgedBeforeDrain),
            };
        });
    }

    fn drains(&mut self, me: usize) {
        let gateway = &self.world.gateways[me];
        let Drain {
            ticket,
            is_read,
            tables,
            has_names,
            is_done,
        } = gateway.drain;
        if !is_read {
            return;
        }
        if !is_done {
            // Waits for changes, and gives up the other requests that came before.
            if !gateway.writes_to(tables) {
                self.goes(me, "drains ticket", ticket.into(), |world| {
                    let gateway = &mut world.gateways[me];
                    gateway.drain.is_done = true;
                    let subjects = tables | (Set::from(has_names) << NAMES);
                    if let Some(read) = &mut gateway.read {
                        read.is_doomed |= has(subjects, read.subject);
                    }
                    if let Some(write) = &mut gateway.write {
                        write.is_doomed |= has(subjects, write.table);
                    }
                });
            }
            return;
        }
        let call = Call::Acknowledge {
            me: self.world.id(me),
            ticket,
        };
        let forgets = |world: &mut World| world.gateways[me].drain = Drain::default();
        self.calls(me, "acknowledges", call, |world, _| forgets(world), forgets);
    }

    fn claims(&mut self, me: usize, batch: usize) {
        let (gateway, rules) = (&self.world.gateways[me], self.rules);
        let (id, fence) = (self.world.id(me), gateway.fence);
        let (tables, names) = (rules.tables[batch], has(rules.naming, batch as u8));
        let refused = |world: &mut World| world.gateways[me].stages[batch] = Stage::None;
        match gateway.stages[batch] {
            Stage::Locked => {
                let is_granted = |owned: Owned| match owned {
                    Owned::Granted { names: known } => {
                        known || !names || rules.has(Bug::NamesAreNotClaimed)
                    }
                    _ => false,
                };
                let missing = (0..TABLES)
                    .filter(|table| has(tables, *table as u8) && !is_granted(gateway.owned[*table]))
                    .fold(0, |all, table| all | only(table));
                if missing == 0 {
                    self.goes(
                        me,
                        "has the guards already, for batch",
                        batch as u16,
                        |world| {
                            world.gateways[me].stages[batch] = Stage::Granted;
                        },
                    );
                    return;
                }
                let unsure = |world: &mut World, stage| {
                    let gateway = &mut world.gateways[me];
                    gateway.stages[batch] = stage;
                    for table in crate::world::each(missing) {
                        gateway.owned[usize::from(table)] = Owned::Unsure;
                    }
                };
                let among = if rules.has(Bug::ClaimMissesNewcomer) {
                    gateway.seen
                } else {
                    !0
                };
                let call = Call::Claim {
                    me: id,
                    fence,
                    tables: missing,
                    names,
                    among,
                };
                let claimed = |world: &mut World, answer| {
                    let stage = match answer {
                        Answer::Number(ticket) => Stage::Claimed(ticket),
                        _ => Stage::None,
                    };
                    unsure(world, stage);
                };
                self.calls(me, "claims guards", call, claimed, |world| {
                    unsure(world, Stage::None)
                });
            }
            Stage::Claimed(ticket) => {
                let owed = self.world.database.owed[usize::from(ticket)];
                if owed == 0 || rules.has(Bug::NoWaitForAcknowledgements) {
                    self.goes(
                        me,
                        "finds that nobody owes, for batch",
                        batch as u16,
                        |world| {
                            let gateway = &mut world.gateways[me];
                            gateway.stages[batch] = Stage::Granted;
                            for table in crate::world::each(tables) {
                                let owned = &mut gateway.owned[usize::from(table)];
                                if *owned == Owned::Unsure {
                                    *owned = Owned::Granted { names };
                                }
                            }
                        },
                    );
                }
                self.comes(
                    me,
                    "waits no longer for the guards of batch",
                    batch as u16,
                    refused,
                );
            }
            _ => {}
        }
    }

    fn releases(&mut self, me: usize) {
        let (gateway, rules) = (&self.world.gateways[me], self.rules);
        if gateway.role != Role::Owner {
            return;
        }
        let locked = if rules.has(Bug::ReleaseOfHeldTable) {
            0
        } else {
            gateway.locked(&rules.tables)
        };
        for table in 0..TABLES {
            if gateway.owned[table] == Owned::None || has(locked, table as u8) {
                continue;
            }
            let call = Call::Release {
                me: self.world.id(me),
                fence: gateway.fence,
                tables: only(table),
            };
            let failed = |world: &mut World| {
                if !rules.has(Bug::ReleaseStaysGranted) {
                    world.gateways[me].owned[table] = Owned::Unsure;
                }
            };
            let released = |world: &mut World, answer| match answer {
                Answer::Null => failed(world),
                _ => world.gateways[me].owned[table] = Owned::None,
            };
            self.calls(me, "releases a guard", call, released, failed);
        }
    }
}

impl crate::gateway::Gateway {
    /// Adds some of these guards to those that are known.
    fn knows(&mut self, guards: &[Guard], is_new: impl Fn(&Guard) -> bool, forgets_names: bool) {
        for (table, guard) in guards.iter().enumerate() {
            if guard.ticket == 0 || !is_new(guard) {
                continue;
            }
            self.guarded |= only(table);
            self.naming &= !only(table);
            if guard.names && !forgets_names {
                self.naming |= only(table);
            }
        }
    }
}

/// Returns the guarded tables.
pub fn tables_of(guards: &[Guard]) -> Set {
    let guarded = guards
        .iter()
        .enumerate()
        .filter(|(_, guard)| guard.ticket != 0);
    guarded.fold(0, |all, (table, _)| all | only(table))
}
