//! The states in which everything is done, and the states that a search must reach to prove something.

use crate::gateway::{Beat, Drain, Plan, Role, Stage, Standing, WriteStage};
use crate::guards::tables_of;
use crate::world::World;

impl World {
    /// True if nothing is left to do: one gateway owns the log, the others follow it, every batch is over, and no
    /// guard stays. Also if no gateway is left.
    pub fn is_at_rest(&self) -> bool {
        let living = || {
            self.gateways
                .iter()
                .filter(|gateway| gateway.role != Role::Gone)
        };
        if living().next().is_none() {
            return true;
        }
        let mut owners = 0;
        for (me, gateway) in self.gateways.iter().enumerate() {
            if gateway.role == Role::Gone {
                continue;
            }
            let is_quiet = gateway.has_lease
                && !gateway.is_leaving
                && gateway.standing == Standing::Beating
                && gateway.beat == Beat::None
                && gateway.plan == Plan::None
                && gateway.drain == Drain::default()
                && gateway.read.is_none()
                && gateway.write.is_none()
                && gateway.creating == [0; 2]
                && gateway.deleting == [0; 2]
                && gateway.stages.iter().all(|stage| *stage == Stage::None);
            let knows_its_role = match gateway.role {
                Role::Owner => self.may_write(me),
                Role::Follower => gateway.guarded == 0,
                _ => false,
            };
            if !is_quiet || !knows_its_role {
                return false;
            }
            owners += usize::from(gateway.role == Role::Owner);
        }
        let database = &self.database;
        owners == 1
            && database.intents & !database.ended == 0
            && tables_of(&database.guards) == 0
            && self.in_flight == [0; 2]
    }
}

type Holds = fn(&World) -> bool;

/// The states that the searches must reach.
pub const REACHED: [(&str, Holds); 14] = [
    ("a commit that everyone may see", |world| {
        world.database.ended & world.database.commits != 0 && world.is_at_rest()
    }),
    ("two batches, one after the other", |world| {
        world.database.ended == 0b11 && world.is_at_rest()
    }),
    ("a late create of an aborted batch", |world| {
        let aborts = world.database.aborts;
        (0..2).any(|batch| aborts & (1 << batch) != 0 && world.in_flight[batch] != 0)
    }),
    ("a batch that a second owner finishes", |world| {
        world.database.fence > 1 && world.database.ended != 0 && world.is_at_rest()
    }),
    ("a batch that a third owner finishes", |world| {
        world.database.fence > 2 && world.database.ended != 0
    }),
    (
        "an owner that does not know that it was replaced",
        |world| {
            let is_replaced =
                |me: usize| world.gateways[me].role == Role::Owner && !world.may_write(me);
            (0..3).any(is_replaced)
        },
    ),
    ("two gateways that recover", |world| {
        let recovers = world
            .gateways
            .iter()
            .filter(|gateway| gateway.role == Role::Recovering);
        recovers.count() > 1
    }),
    ("a gateway that has joined again", |world| {
        let again =
            |gateway: &crate::gateway::Gateway| gateway.life > 0 && gateway.role == Role::Follower;
        world.gateways.iter().any(again)
    }),
    (
        "a gateway that has joined again, and owns the log",
        |world| {
            let again =
                |gateway: &crate::gateway::Gateway| gateway.life > 0 && gateway.role == Role::Owner;
            world.gateways.iter().any(again)
        },
    ),
    ("a read that is given up", |world| {
        let mut reads = world.gateways.iter().filter_map(|gateway| gateway.read);
        reads.any(|read| read.is_doomed)
    }),
    ("a drain that waits for a write", |world| {
        let waits = |gateway: &crate::gateway::Gateway| {
            gateway.drain.ticket != 0
                && !gateway.drain.is_done
                && gateway.writes_to(gateway.drain.tables)
        };
        world.gateways.iter().any(waits)
    }),
    (
        "a write behind its gateway's back, beside a batch",
        |world| {
            let mut writes = world.gateways.iter().filter_map(|gateway| gateway.write);
            writes.any(|write| write.is_lapsed && write.stage == WriteStage::Sent)
                && world.unsettled() != 0
        },
    ),
    ("a gateway that is removed while it lives", |world| {
        let is_removed = |me: usize| {
            let gateway = &world.gateways[me];
            gateway.is_alive()
                && gateway.standing == Standing::Beating
                && world.database.instances & world.id(me) == 0
        };
        (0..3).any(is_removed)
    }),
    ("nobody is left", |world| {
        world
            .gateways
            .iter()
            .all(|gateway| gateway.role == Role::Gone)
    }),
];
