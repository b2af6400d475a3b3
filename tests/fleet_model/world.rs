//! The state of the model: the gateways, the database with the log, the catalogs, and what the faults have left.

use crate::gateway::{Gateway, Role, Standing};

/// The number of gateways.
pub const GATEWAYS: usize = 3;
/// The number of tables. Each is in a catalog of its own.
pub const TABLES: usize = 2;
/// The largest number of batches.
pub const BATCHES: usize = 2;
/// One more than the largest ticket of a claim.
pub const TICKETS: usize = 10;

/// A set of memberships: each time that a gateway joins, it has another id. Bit `4 * gateway + life`.
pub type Ids = u16;
/// A set of tables, or of batches: a bit for each.
pub type Set = u8;

/// The subject of listings, beside the numbers of tables.
pub const NAMES: u8 = 2;

/// A guard in the database; none if its ticket is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Guard {
    pub ticket: u8,
    pub names: bool,
}

/// The database with the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Database {
    /// The id of the owner as a set; empty if there is none.
    pub owner: Ids,
    pub fence: u8,
    pub ticket: u8,
    pub instances: Ids,
    pub guards: [Guard; TABLES],
    pub owed: [Ids; TICKETS],
    pub intents: Set,
    pub commits: Set,
    pub aborts: Set,
    pub ended: Set,
}

/// A call to the database that is held up on its way. Its caller has given it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    Join(Ids),
    Leave(Ids),
    Take {
        me: Ids,
        dead: Ids,
    },
    Expire {
        me: Ids,
        fence: u8,
        dead: Ids,
    },
    Acknowledge {
        me: Ids,
        ticket: u8,
    },
    Claim {
        me: Ids,
        fence: u8,
        tables: Set,
        names: bool,
        among: Ids,
    },
    Release {
        me: Ids,
        fence: u8,
        tables: Set,
    },
    Replace {
        me: Ids,
        fence: u8,
        tables: Set,
        naming: Set,
    },
}

/// The numbers of events that may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Leases of living gateways that end because the gateway is paused or cut off.
    pub lapses: u8,
    pub crashes: u8,
    pub restarts: u8,
    pub leaves: u8,
    /// Calls that are carried out, and whose answers are lost.
    pub lost: u8,
    /// Calls that are held up, and carried out after their callers have given them up.
    pub late: u8,
    /// Creates that a catalog refuses.
    pub refusals: u8,
    pub reads: u8,
    pub writes: u8,
}

/// A promise of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// P1: no read shows a version of a batch that is undecided or aborted.
    OnlyCommitted,
    /// P2: who asks after another was shown a batch is shown all of it.
    AllOfIt,
    /// P3: no plain write is sent to a table that an undecided batch is on, and none is under way when one begins. A
    /// write that its gateway had checked before its lease ended is a writer behind the gateway's back.
    NoWriteBeside,
    /// P4: only the owner writes to the log, and a create or a delete was checked while the lease lasted.
    OneOwner,
    /// P5: from every state, the gateways come to rest without another fault: every batch is decided, every request is
    /// answered, no guard stays.
    ComesToRest,
    /// P6: no follower admits a request for a table that a batch is on.
    Guarded,
}

/// The state of everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct World {
    pub gateways: [Gateway; GATEWAYS],
    pub database: Database,
    /// The versions in the catalogs: for each batch the tables that have its version.
    pub present: [Set; BATCHES],
    /// The creates that are on their way to catalogs.
    pub in_flight: [Set; BATCHES],
    /// The batches that were begun.
    pub begun: Set,
    /// The batches of which a client was shown something.
    pub shown: Set,
    pub late: Option<Call>,
    pub left: Budget,
    pub broken: Option<Promise>,
}

impl World {
    /// The first of `count` gateways owns the log, and the others follow it.
    pub fn new(left: Budget, count: usize) -> Self {
        let mut world = Self {
            left,
            ..Self::default()
        };
        world.gateways.iter_mut().for_each(Gateway::end);
        for me in 0..count {
            world.gateways[me] = Gateway {
                role: Role::Follower,
                standing: Standing::Beating,
                has_lease: true,
                ..Gateway::default()
            };
            world.database.instances |= world.id(me);
        }
        world.database.owner = world.id(0);
        world.database.fence = 1;
        let owner = &mut world.gateways[0];
        (owner.role, owner.fence, owner.has_scanned) = (Role::Owner, 1, true);
        world
    }

    /// Returns the current id of a gateway.
    pub fn id(&self, gateway: usize) -> Ids {
        1 << (4 * gateway + usize::from(self.gateways[gateway].life))
    }

    /// Notes a broken promise.
    pub fn breaks(&mut self, promise: Promise) {
        self.broken.get_or_insert(promise);
    }

    /// True if this gateway owns the log, and its writes are carried out.
    pub fn may_write(&self, gateway: usize) -> bool {
        let database = &self.database;
        database.owner == self.id(gateway) && database.fence == self.gateways[gateway].fence
    }

    /// Returns the batches that are neither over nor committed, and began to change catalogs.
    pub fn unsettled(&self) -> Set {
        let Database {
            intents,
            commits,
            ended,
            ..
        } = self.database;
        intents & !commits & !ended
    }
}

/// True if a set has this table or batch.
pub fn has(set: Set, one: u8) -> bool {
    set & (1 << one) != 0
}

/// Returns the set of one table or batch.
pub fn only(one: usize) -> Set {
    1 << one
}

/// Returns the members of a set.
pub fn each(set: Set) -> impl Iterator<Item = u8> {
    (0..8).filter(move |one| has(set, *one))
}
