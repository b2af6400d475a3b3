//! Plain requests: reads of a table or of a listing, and writes.

use crate::gateway::{Gateway, Read, ReadStage, Role, Write, WriteStage};
use crate::moves::Next;
use crate::mutants::Bug;
use crate::world::{BATCHES, NAMES, Promise, Set, TABLES, World, has};

impl Next<'_> {
    /// Adds the events of the requests at one gateway.
    pub fn requests(&mut self, me: usize) {
        let gateway = &self.world.gateways[me];
        if gateway.role == Role::Gone {
            return;
        }
        match gateway.read {
            None => {
                let subjects = TABLES as u8 + u8::from(self.rules.naming != 0);
                if self.world.left.reads > 0 {
                    (0..subjects).for_each(|subject| self.reads(me, subject));
                }
            }
            Some(read) => self.goes_on(me, read),
        }
        match gateway.write {
            None => {
                if self.world.left.writes > 0 {
                    (0..TABLES as u8).for_each(|table| self.changes(me, table));
                }
            }
            Some(write) => self.goes_on_changing(me, write),
        }
    }

    fn reads(&mut self, me: usize, subject: u8) {
        let (gateway, rules) = (&self.world.gateways[me], self.rules);
        let is_split = rules.has(Bug::RoleAfterGuards) && gateway.role != Role::Owner;
        let is_admitted = if is_split {
            !gateway.is_guarded(subject)
        } else {
            gateway.admits(subject)
        };
        if !is_admitted {
            return;
        }
        let is_counted = gateway.role != Role::Owner;
        let must_see = self.world.shown & about(subject, rules.tables, rules.naming);
        self.comes(me, "gets a read", subject.into(), |world| {
            world.left.reads -= 1;
            let stage = if is_split {
                ReadStage::Looked
            } else {
                ReadStage::Entered
            };
            world.gateways[me].read = Some(Read {
                subject,
                stage,
                is_doomed: false,
                is_counted,
                must_see,
            });
            if !is_split {
                world.finds_batch(me, subject, rules.tables, rules.naming);
            }
        });
    }

    fn goes_on(&mut self, me: usize, read: Read) {
        let rules = self.rules;
        let about = about(read.subject, rules.tables, rules.naming);
        match read.stage {
            ReadStage::Looked => self.goes(
                me,
                "looks at its role for a read",
                read.subject.into(),
                |world| {
                    let gateway = &mut world.gateways[me];
                    gateway.read = (gateway.serves() && gateway.has_lease).then_some(Read {
                        stage: ReadStage::Entered,
                        ..read
                    });
                },
            ),
            ReadStage::Entered => {
                let mut content = 0;
                for batch in 0..BATCHES {
                    let there = self.world.present[batch];
                    let is_there = if read.subject == NAMES {
                        there != 0
                    } else {
                        has(there, read.subject)
                    };
                    content |= Set::from(is_there) << batch;
                }
                self.goes(
                    me,
                    "a catalog answers a read",
                    read.subject.into(),
                    |world| {
                        let stage = ReadStage::Answered(content & about);
                        world.gateways[me].read = Some(Read { stage, ..read });
                    },
                );
            }
            ReadStage::Answered(content) => {
                self.goes(me, "answers a read", read.subject.into(), |world| {
                    let gateway = &mut world.gateways[me];
                    gateway.read = None;
                    let has_lease = gateway.has_lease || rules.has(Bug::LeaseCheckedBeforeAnswer);
                    if (read.is_doomed && read.is_counted) || !has_lease {
                        return;
                    }
                    let shown = content & !gateway.hidden();
                    if shown & !world.database.commits != 0 {
                        world.breaks(Promise::OnlyCommitted);
                    }
                    if read.must_see & !shown != 0 {
                        world.breaks(Promise::AllOfIt);
                    }
                    world.shown |= shown;
                });
            }
        }
    }

    fn changes(&mut self, me: usize, table: u8) {
        let rules = self.rules;
        if self.world.gateways[me].admits(table) {
            self.comes(me, "gets a write", table.into(), |world| {
                world.left.writes -= 1;
                world.gateways[me].write = Some(Write {
                    table,
                    stage: WriteStage::Entered,
                    is_doomed: false,
                    is_lapsed: false,
                });
                world.finds_batch(me, table, rules.tables, 0);
            });
        }
    }

    fn goes_on_changing(&mut self, me: usize, write: Write) {
        let (gateway, rules) = (&self.world.gateways[me], self.rules);
        let table = write.table.into();
        match write.stage {
            WriteStage::Entered => {
                if has(gateway.locked(&rules.tables), write.table) {
                    return;
                }
                self.goes(me, "locks and checks a write", table, |world| {
                    let gateway = &mut world.gateways[me];
                    let is_doomed = write.is_doomed && !rules.has(Bug::DoomedWriteIsSent);
                    gateway.write = (!is_doomed && gateway.has_lease).then_some(Write {
                        stage: WriteStage::Checked,
                        ..write
                    });
                });
            }
            WriteStage::Checked => self.goes(me, "sends a write", table, |world| {
                world.gateways[me].write = Some(Write {
                    stage: WriteStage::Sent,
                    ..write
                });
                let unsettled = world.unsettled();
                let is_beside = (0..BATCHES).any(|batch| {
                    has(unsettled & !world.database.aborts, batch as u8)
                        && has(rules.tables[batch], write.table)
                });
                if is_beside && !write.is_lapsed {
                    world.breaks(Promise::NoWriteBeside);
                }
            }),
            WriteStage::Sent => self.goes(me, "acknowledges a write", table, |world| {
                world.gateways[me].write = None;
            }),
        }
    }
}

impl Gateway {
    fn serves(&self) -> bool {
        matches!(self.role, Role::Follower | Role::Recovering | Role::Owner)
    }

    fn is_guarded(&self, subject: u8) -> bool {
        if subject == NAMES {
            self.naming != 0
        } else {
            has(self.guarded, subject)
        }
    }

    /// True if a request for this subject is served here.
    fn admits(&self, subject: u8) -> bool {
        let is_free = self.role == Role::Owner || !self.is_guarded(subject);
        self.serves() && self.has_lease && is_free
    }
}

impl World {
    /// Checks that no batch is on the subject of a request that a follower has admitted.
    fn finds_batch(&mut self, me: usize, subject: u8, tables: [Set; BATCHES], naming: Set) {
        let is_follower = self.gateways[me].fence == 0;
        let on = self.unsettled() & about(subject, tables, naming);
        if is_follower && on != 0 {
            self.breaks(Promise::Guarded);
        }
    }
}

/// Returns the batches that change the answer to a read.
fn about(subject: u8, tables: [Set; BATCHES], naming: Set) -> Set {
    let changes = |batch: usize| {
        if subject == NAMES {
            has(naming, batch as u8)
        } else {
            has(tables[batch], subject)
        }
    };
    (0..BATCHES).fold(0, |all, batch| all | (Set::from(changes(batch)) << batch))
}
