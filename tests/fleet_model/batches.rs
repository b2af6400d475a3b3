//! Batches: run by the owner of the log, and recovered by the next one.

use crate::database::{Answer, Line};
use crate::gateway::{Gateway, Owned, ReadStage, Role, Stage, WriteStage};
use crate::moves::Next;
use crate::mutants::{Assumption, Bug};
use crate::world::{BATCHES, Call, Promise, Set, World, each, has, only};

impl Next<'_> {
    /// Adds the events of the batches at one gateway.
    pub fn batches(&mut self, me: usize) {
        let gateway = &self.world.gateways[me];
        if gateway.fence == 0 || gateway.role == Role::Gone {
            return;
        }
        for batch in 0..BATCHES {
            self.sends(me, batch);
            // The log of a gateway that leaves is closed.
            if gateway.is_alive() {
                self.begins(me, batch);
                self.decides(me, batch);
                self.ends(me, batch);
            }
        }
    }

    fn begins(&mut self, me: usize, batch: usize) {
        let (gateway, rules) = (&self.world.gateways[me], self.rules);
        let tables = rules.tables[batch];
        let is_free = gateway.locked(&rules.tables) & tables == 0 && !gateway.writes_to(tables);
        if gateway.role == Role::Owner
            && tables != 0
            && !has(self.world.begun, batch as u8)
            && is_free
        {
            self.comes(
                me,
                "locks the tables of a new batch",
                batch as u16,
                |world| {
                    world.begun |= only(batch);
                    let seen = world.database.instances;
                    let gateway = &mut world.gateways[me];
                    gateway.stages[batch] = Stage::Locked;
                    if rules.has(Bug::ClaimMissesNewcomer) {
                        gateway.seen = seen;
                    }
                },
            );
        }
        if gateway.stages[batch] == Stage::Granted {
            let writes = |world: &mut World| world.write(me, batch, Line::Intent, rules);
            self.writes(me, "writes the INTENT of batch", batch, writes, |world| {
                world.gateways[me].stages[batch] = Stage::Intent;
                world.finds_writes_under_way(tables);
            });
        }
    }

    /// Sends creates and deletes: first each is checked against the lease, then it leaves.
    fn sends(&mut self, me: usize, batch: usize) {
        let gateway = &self.world.gateways[me];
        let may_send = gateway.has_lease || self.rules.has(Bug::RequestsWithoutLease);
        let stage = gateway.stages[batch];
        let breaks = |world: &mut World| {
            if !world.gateways[me].has_lease {
                world.breaks(Promise::OneOwner);
            }
        };
        for table in each(self.rules.tables[batch]) {
            let about = (batch * 10 + usize::from(table)) as u16;
            let this = 1 << table;
            if has(gateway.creating[batch], table) {
                self.goes(me, "sends a create", about, |world| {
                    world.gateways[me].creating[batch] &= !this;
                    world.in_flight[batch] |= this;
                });
            } else if stage == Stage::Intent && may_send && !has(gateway.sent[batch], table) {
                self.goes(me, "may send a create", about, |world| {
                    breaks(world);
                    let gateway = &mut world.gateways[me];
                    gateway.creating[batch] |= this;
                    gateway.sent[batch] |= this;
                });
            }
            let is_there = has(self.world.present[batch], table);
            if has(gateway.deleting[batch], table) {
                self.goes(me, "deletes a version", about, |world| {
                    world.gateways[me].deleting[batch] &= !this;
                    world.present[batch] &= !this;
                });
            } else if stage == Stage::Aborted && may_send && is_there {
                self.goes(me, "may send a delete", about, |world| {
                    breaks(world);
                    world.gateways[me].deleting[batch] |= this;
                });
            }
        }
    }

    fn decides(&mut self, me: usize, batch: usize) {
        let (gateway, rules) = (&self.world.gateways[me], self.rules);
        let stage = gateway.stages[batch];
        if !matches!(stage, Stage::Intent | Stage::Recovered) {
            return;
        }
        let is_all_there = self.world.present[batch] == rules.tables[batch];
        let decided = |world: &mut World| {
            let is_commit = has(world.database.commits, batch as u8);
            let stage = if is_commit {
                Stage::Committed
            } else {
                Stage::Aborted
            };
            world.gateways[me].stages[batch] = stage;
        };
        if is_all_there {
            let writes = |world: &mut World| world.write(me, batch, Line::Commit, rules);
            self.writes(me, "writes the COMMIT of batch", batch, writes, decided);
        }
        let writes = |world: &mut World| world.write(me, batch, Line::Abort, rules);
        if stage == Stage::Recovered {
            self.writes(
                me,
                "writes the ABORT of recovered batch",
                batch,
                writes,
                decided,
            );
        } else if self.world.left.refusals > 0 {
            self.comes(
                me,
                "is refused by a catalog, and writes the ABORT of batch",
                batch as u16,
                |world| {
                    world.left.refusals -= 1;
                    if writes(world) {
                        decided(world);
                    } else {
                        world.gateways[me].end();
                    }
                },
            );
        }
    }

    fn ends(&mut self, me: usize, batch: usize) {
        let (gateway, rules) = (&self.world.gateways[me], self.rules);
        let stage = gateway.stages[batch];
        if stage == Stage::Committed {
            self.goes(me, "shows batch", batch as u16, |world| {
                world.shown |= only(batch);
                world.gateways[me].now_shows(batch, Stage::Revealed);
            });
        }
        let is_undone = stage == Stage::Aborted
            && self.world.present[batch] == 0
            && gateway.deleting[batch] == 0
            && (self.world.is_still(batch) || rules.lifts(Assumption::Creates));
        if stage == Stage::Revealed || is_undone {
            let writes = |world: &mut World| world.write(me, batch, Line::End, rules);
            self.writes(me, "writes the end of batch", batch, writes, |world| {
                world.gateways[me].now_shows(batch, Stage::None);
                world.gateways[me].sent[batch] = 0;
            });
        }
    }

    /// Adds the events of a gateway that has just got the log.
    pub fn recovery(&mut self, me: usize) {
        let (gateway, rules) = (&self.world.gateways[me], self.rules);
        if gateway.fence == 0 || !gateway.is_alive() {
            return;
        }
        if !gateway.has_scanned {
            self.goes(me, "reads the log", 0, |world| {
                let database = world.database;
                let gateway = &mut world.gateways[me];
                gateway.has_scanned = true;
                for batch in each(database.intents & !database.ended) {
                    gateway.stages[usize::from(batch)] = if has(database.commits, batch) {
                        // Never hidden here: others may have been shown it.
                        if rules.has(Bug::RecoveryHidesCommitted) {
                            Stage::Committed
                        } else {
                            Stage::Revealed
                        }
                    } else if has(database.aborts, batch) {
                        Stage::Aborted
                    } else {
                        Stage::Recovered
                    };
                }
            });
            return;
        }
        if gateway.role != Role::Recovering {
            return;
        }
        let held = gateway.locked(&rules.tables);
        if gateway.replaced == 0 {
            let names = (0..BATCHES).filter(|batch| {
                has(rules.naming, *batch as u8) && gateway.stages[*batch] != Stage::None
            });
            let naming = names.fold(0, |all, batch| all | rules.tables[batch]) & held;
            let tables = if rules.has(Bug::NoClaimAnew) { 0 } else { held };
            let call = Call::Replace {
                me: self.world.id(me),
                fence: gateway.fence,
                tables,
                naming,
            };
            let claimed = |world: &mut World, answer| {
                let gateway = &mut world.gateways[me];
                match answer {
                    Answer::Number(ticket) => {
                        gateway.replaced = ticket;
                        for table in each(tables) {
                            let names = has(naming, table);
                            gateway.owned[usize::from(table)] = Owned::Granted { names };
                        }
                    }
                    _ => gateway.end(),
                }
            };
            // A gateway that cannot claim them ends.
            self.calls(
                me,
                "claims the guards of recovered batches",
                call,
                claimed,
                |world| {
                    world.gateways[me].end();
                },
            );
        } else if self.world.database.owed[usize::from(gateway.replaced)] == 0 {
            self.goes(me, "serves as the owner", 0, |world| {
                world.gateways[me].role = Role::Owner;
                world.gateways[me].replaced = 0;
            });
        }
    }
}

impl Gateway {
    /// Hides a batch no longer. The catalogs are asked again by reads that they have answered before.
    fn now_shows(&mut self, batch: usize, stage: Stage) {
        self.stages[batch] = stage;
        if let Some(read) = &mut self.read
            && matches!(read.stage, ReadStage::Answered(_))
        {
            read.stage = ReadStage::Entered;
        }
    }
}

impl World {
    /// True if no create of this batch is on its way, or about to leave.
    fn is_still(&self, batch: usize) -> bool {
        let about_to = self
            .gateways
            .iter()
            .any(|gateway| gateway.creating[batch] != 0);
        self.in_flight[batch] == 0 && !about_to
    }

    /// Checks, at an INTENT, that no plain write of these tables is under way.
    fn finds_writes_under_way(&mut self, tables: Set) {
        let is_under_way = self.gateways.iter().any(|gateway| {
            gateway.write.is_some_and(|write| {
                has(tables, write.table) && write.stage == WriteStage::Sent && !write.is_lapsed
            })
        });
        if is_under_way {
            self.breaks(Promise::NoWriteBeside);
        }
    }
}
