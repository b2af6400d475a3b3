//! The state of one gateway process.

use crate::world::{BATCHES, Ids, Set, TABLES, has};

/// The number of times that one gateway can take part.
const LIVES: u8 = 4;

/// The role of a gateway, as the gateway itself sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    #[default]
    Outside,
    Follower,
    Recovering,
    Owner,
    /// The process has ended.
    Gone,
}

/// The progress of a gateway that joins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    #[default]
    Outside,
    Joined,
    /// A gateway that has read the guards.
    Knowing,
    /// A gateway whose first heartbeat was answered.
    Beating,
}

/// The heartbeat that is under way. `is_old` is true once a lease that counts from its sending is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Beat {
    #[default]
    None,
    Sent {
        is_old: bool,
    },
    /// The database has counted it; the answer is on its way.
    Counted {
        is_old: bool,
    },
}

/// The call that follows from a look at the gateways in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Plan {
    #[default]
    None,
    /// Take the log over, and remove these.
    Take(Ids),
    /// Remove these, as the owner.
    Expire(Ids),
}

/// A claim that a follower has yet to acknowledge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Drain {
    /// The ticket; 0 if there is none.
    pub ticket: u8,
    /// True once its guards were read.
    pub is_read: bool,
    pub tables: Set,
    pub has_names: bool,
    pub is_done: bool,
}

/// The guard of one table, as its owner remembers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Owned {
    #[default]
    None,
    /// Claimed, or released, and not known to be granted.
    Unsure,
    Granted {
        names: bool,
    },
}

/// The progress of a batch at the gateway that runs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stage {
    /// A batch that is not begun here, refused, or over.
    #[default]
    None,
    /// A batch whose tables are locked at this gateway.
    Locked,
    /// A batch whose guards wait for acknowledgements of this ticket.
    Claimed(u8),
    Granted,
    /// A batch whose INTENT is in the log; the versions are created.
    Intent,
    /// Found in the log without a decision.
    Recovered,
    Committed,
    /// The versions are deleted again.
    Aborted,
    /// The versions are shown, and the tables are free.
    Revealed,
}

/// A read of a table or of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Read {
    /// The table, or [`NAMES`].
    pub subject: u8,
    pub stage: ReadStage,
    pub is_doomed: bool,
    /// False for the owner of the log, where drains do not wait for it.
    pub is_counted: bool,
    /// The batches that were shown to others before this read began.
    pub must_see: Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadStage {
    /// A read that has looked for a guard, and not yet at the role of the gateway; with a planted bug only.
    Looked,
    Entered,
    /// The catalog has answered, with the versions of these batches.
    Answered(Set),
}

/// A plain write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    pub table: u8,
    pub stage: WriteStage,
    pub is_doomed: bool,
    /// True if the lease of its gateway ended after the write was checked: then it is a writer behind the gateway's
    /// back.
    pub is_lapsed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteStage {
    Entered,
    /// A write that has its lock, and was checked after that.
    Checked,
    Sent,
}

/// One gateway process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gateway {
    pub role: Role,
    pub life: u8,
    pub standing: Standing,
    /// True while the lease lasts, on the clock of the gateway.
    pub has_lease: bool,
    pub beat: Beat,
    /// True once it has given the log up, and before its process ends.
    pub is_leaving: bool,
    pub plan: Plan,
    /// The highest ticket that it has seen.
    pub ticket: u8,
    /// The guarded tables that it knows, and those with names.
    pub guarded: Set,
    pub naming: Set,
    /// True if guards were released since it last read them all.
    pub is_released: bool,
    /// An older look at the guards. Only with a planted bug.
    pub old_look: Option<Set>,
    pub drain: Drain,
    /// The number of its ownership; 0 if it has none.
    pub fence: u8,
    pub has_scanned: bool,
    /// The ticket with which it claimed the guards of recovered batches.
    pub replaced: u8,
    pub owned: [Owned; TABLES],
    pub stages: [Stage; BATCHES],
    /// The gateways that a claim has seen too early. Only with a planted bug.
    pub seen: Ids,
    /// The creates and deletes that were checked against the lease and not sent yet: for each batch its tables.
    pub creating: [Set; BATCHES],
    pub deleting: [Set; BATCHES],
    /// The creates that were sent.
    pub sent: [Set; BATCHES],
    pub read: Option<Read>,
    pub write: Option<Write>,
}

impl Gateway {
    /// True while the process runs and takes part, or wants to.
    pub fn is_alive(&self) -> bool {
        self.role != Role::Gone && !self.is_leaving
    }

    /// Returns the tables that batches hold at this gateway.
    pub fn locked(&self, tables: &[Set; BATCHES]) -> Set {
        let held = self.stages.iter().zip(tables);
        let held = held.filter(|(stage, _)| !matches!(stage, Stage::None | Stage::Revealed));
        held.fold(0, |all, (_, tables)| all | tables)
    }

    /// Returns the batches whose versions this gateway hides.
    pub fn hidden(&self) -> Set {
        let hides = |stage: &Stage| !matches!(stage, Stage::None | Stage::Revealed);
        let stages = self.stages.iter().enumerate();
        stages.fold(0, |all, (batch, stage)| {
            all | (Set::from(hides(stage)) << batch)
        })
    }

    /// True if a plain write holds its lock on one of these tables.
    pub fn writes_to(&self, tables: Set) -> bool {
        self.write.is_some_and(|write| {
            has(tables, write.table)
                && matches!(write.stage, WriteStage::Checked | WriteStage::Sent)
        })
    }

    /// Gives up every request that is served at the moment.
    pub fn doom_all(&mut self) {
        self.read.iter_mut().for_each(|read| read.is_doomed = true);
        self.write
            .iter_mut()
            .for_each(|write| write.is_doomed = true);
    }

    /// Ends the lease. A write that was checked before is behind the gateway's back from now on.
    pub fn lapse(&mut self) {
        self.has_lease = false;
        if let Some(write) = &mut self.write
            && write.stage != WriteStage::Entered
        {
            write.is_lapsed = true;
        }
    }

    /// Ends the process.
    pub fn end(&mut self) {
        *self = Self {
            role: Role::Gone,
            life: self.life,
            ..Self::default()
        };
    }

    /// Begins to join under a new id.
    pub fn begin_anew(&mut self) {
        assert!(self.life + 1 < LIVES, "the bounds allow too many rejoins");
        *self = Self {
            life: self.life + 1,
            read: self.read,
            write: self.write,
            ..Self::default()
        };
    }
}
