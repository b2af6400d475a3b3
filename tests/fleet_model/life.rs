//! The life of a gateway: it joins, shows that it lives, observes others, takes the log over, and ends.

use crate::database::Answer;
use crate::gateway::{Beat, Plan, Role, Standing};
use crate::moves::Next;
use crate::mutants::{Assumption, Bug};
use crate::world::{Call, GATEWAYS, Ids, World};

impl Next<'_> {
    /// Adds the events in the life of one gateway.
    pub fn life(&mut self, me: usize) {
        let gateway = &self.world.gateways[me];
        if gateway.is_leaving {
            self.goes(me, "its process ends", 0, |world| world.gateways[me].end());
            return;
        }
        if gateway.role == Role::Gone {
            if self.world.left.restarts > 0 {
                self.comes(me, "starts again", 0, |world| {
                    world.left.restarts -= 1;
                    world.gateways[me].begin_anew();
                });
            }
            return;
        }
        self.faults(me);
        let id = self.world.id(me);
        match gateway.standing {
            Standing::Outside => self.calls(
                me,
                "joins",
                Call::Join(id),
                |world, _| {
                    let gateway = &mut world.gateways[me];
                    gateway.standing = Standing::Joined;
                    gateway.has_lease = true;
                },
                |_| {},
            ),
            Standing::Joined => {}
            Standing::Knowing | Standing::Beating => {
                self.beats(me);
                if gateway.standing == Standing::Beating {
                    self.looks(me);
                }
                self.acts(me);
            }
        }
    }

    fn faults(&mut self, me: usize) {
        let gateway = &self.world.gateways[me];
        let left = self.world.left;
        if left.lapses > 0 && gateway.has_lease {
            self.comes(me, "its lease runs out", 0, |world| {
                world.left.lapses -= 1;
                world.gateways[me].lapse();
            });
        }
        if left.lapses > 0
            && matches!(
                gateway.beat,
                Beat::Sent { is_old: false } | Beat::Counted { is_old: false }
            )
        {
            self.comes(
                me,
                "its lease runs out, and the one of the heartbeat under way, too",
                0,
                |world| {
                    world.left.lapses -= 1;
                    let gateway = &mut world.gateways[me];
                    gateway.lapse();
                    match &mut gateway.beat {
                        Beat::Sent { is_old } | Beat::Counted { is_old } => *is_old = true,
                        Beat::None => {}
                    }
                },
            );
        }
        if left.crashes > 0 {
            self.comes(me, "crashes", 0, |world| {
                world.left.crashes -= 1;
                world.gateways[me].end();
            });
        }
        if left.leaves > 0 && gateway.standing == Standing::Beating {
            let (id, rules) = (self.world.id(me), self.rules);
            let leave = |world: &mut World| {
                world.left.leaves -= 1;
                let gateway = &mut world.gateways[me];
                gateway.is_leaving = true;
                if !rules.has(Bug::LeavesWithLease) {
                    gateway.lapse();
                    gateway.doom_all();
                    gateway.role = Role::Outside;
                }
            };
            self.comes(me, "leaves", 0, |world| {
                leave(world);
                world.carry_out(Call::Leave(id), rules);
            });
            if left.late > 0 && self.world.late.is_none() {
                self.comes(me, "leaves, and its farewell is held up", 0, |world| {
                    world.left.late -= 1;
                    leave(world);
                    world.late = Some(Call::Leave(id));
                });
            }
        }
    }

    fn beats(&mut self, me: usize) {
        let (gateway, rules) = (&self.world.gateways[me], self.rules);
        let id = self.world.id(me);
        match gateway.beat {
            Beat::None => {
                // With a lease, a heartbeat is only time that has not passed.
                if !gateway.has_lease || gateway.standing == Standing::Knowing {
                    self.goes(me, "sends a heartbeat", 0, |world| {
                        world.gateways[me].beat = Beat::Sent { is_old: false };
                    });
                }
            }
            Beat::Sent { is_old } => {
                self.goes(me, "its heartbeat is counted", 0, |world| {
                    if world.database.instances & id == 0 {
                        world.is_out(me, rules.has(Bug::RejoinKeepsRequests));
                    } else {
                        world.counted(id, rules);
                        world.gateways[me].beat = Beat::Counted { is_old };
                    }
                });
            }
            Beat::Counted { is_old } => {
                self.goes(me, "its heartbeat is answered", 0, |world| {
                    let gateway = &mut world.gateways[me];
                    gateway.beat = Beat::None;
                    gateway.has_lease |= !is_old || rules.has(Bug::LeaseCountsFromReply);
                    gateway.standing = Standing::Beating;
                });
                if self.world.left.lost > 0 {
                    self.comes(me, "the answer to its heartbeat is lost", 0, |world| {
                        world.left.lost -= 1;
                        world.gateways[me].beat = Beat::None;
                    });
                }
            }
        }
    }

    /// Returns the ids that an observer may have seen silent for longer than their leases.
    fn silent(&self, me: usize) -> Ids {
        let mut silent = self.world.database.instances & !self.world.id(me);
        if self.rules.lifts(Assumption::Leases) {
            return silent;
        }
        for other in 0..GATEWAYS {
            let gateway = &self.world.gateways[other];
            let lives = gateway.role != Role::Gone
                && (gateway.has_lease || gateway.beat == Beat::Counted { is_old: false });
            if lives {
                silent &= !self.world.id(other);
            }
        }
        silent
    }

    /// Looks at the gateways in the log. Which of the silent ones it takes for dead is open.
    fn looks(&mut self, me: usize) {
        let gateway = &self.world.gateways[me];
        if gateway.plan != Plan::None {
            return;
        }
        let (id, owner) = (self.world.id(me), self.world.database.owner);
        let may_look_again = owner == id && !self.rules.has(Bug::FollowsItself);
        let silent = self.silent(me);
        let mut dead = silent;
        loop {
            let owning = owner & self.world.database.instances;
            self.goes(me, "looks, and takes for dead", dead, |world| {
                let gateway = &mut world.gateways[me];
                if gateway.fence != 0 {
                    if owner != id {
                        world.is_out(me, false);
                    } else if dead != 0 {
                        gateway.plan = Plan::Expire(dead);
                    }
                    return;
                }
                gateway.role = Role::Follower;
                if may_look_again || owning & !dead == 0 {
                    gateway.plan = Plan::Take(dead);
                }
            });
            if dead == 0 {
                break;
            }
            dead = (dead - 1) & silent;
        }
    }

    fn acts(&mut self, me: usize) {
        let (gateway, rules) = (&self.world.gateways[me], self.rules);
        let id = self.world.id(me);
        let gives_up = |world: &mut World| world.gateways[me].plan = Plan::None;
        match gateway.plan {
            Plan::None => {}
            Plan::Take(dead) => {
                let call = Call::Take { me: id, dead };
                let taken = |world: &mut World, answer| {
                    let gateway = &mut world.gateways[me];
                    gateway.plan = Plan::None;
                    if let Answer::Number(fence) = answer {
                        gateway.fence = fence;
                        gateway.drain = crate::gateway::Drain::default();
                        gateway.is_released = false;
                        gateway.old_look = None;
                        gateway.role = if rules.has(Bug::ServesBeforeRecovery) {
                            Role::Owner
                        } else {
                            Role::Recovering
                        };
                    }
                };
                self.calls(me, "takes the log over", call, taken, gives_up);
            }
            Plan::Expire(dead) => {
                let call = Call::Expire {
                    me: id,
                    fence: gateway.fence,
                    dead,
                };
                let expired = |world: &mut World, _| gives_up(world);
                self.calls(me, "removes the dead", call, expired, gives_up);
            }
        }
    }
}

impl World {
    /// Ends the membership of a gateway that others took for dead.
    fn is_out(&mut self, me: usize, keeps_requests: bool) {
        let gateway = &mut self.gateways[me];
        if gateway.fence != 0 {
            return gateway.end();
        }
        gateway.lapse();
        if !keeps_requests {
            gateway.doom_all();
        }
        gateway.begin_anew();
    }
}
