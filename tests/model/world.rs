//! The world around one batch: its catalogs, its log, the memory of the gateway, and the other clients.
//!
//! A world has two tables, each in a catalog of its own. A version has a *place*: 0 is the next one after the base. A
//! world is one state of the search, so it is small. Two worlds are equal if the same can follow from both.

use std::hash::{DefaultHasher, Hash, Hasher};

use nsgate::batch::step::{Decision, Effect, Event, Refusal, Settled, State};

use crate::catalog::{Maker, Table};
use crate::invariants::Invariant;
use crate::others::{Rival, Writer};
use crate::readers::{Counter, Reader};
use crate::setup::{MOST, Setup};
use crate::visibility::{Slot, Strays};

/// One state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub setup: Setup,
    pub gateway: Gateway,
    /// The requests and writes under way, and the answers on their way back; sorted.
    pub flights: Vec<Flight>,
    /// True while the time limit of prepare runs.
    pub clock: bool,
    /// The messages that may reach a catalog at any time although their answer is not waited for; sorted.
    pub late: Vec<Late>,
    pub tables: [Table; 2],
    pub log: Log,
    /// True, by table, while the batch holds the lock.
    pub locked: [bool; 2],
    pub slots: [Slot; MOST],
    /// The memory of the running batch about the versions that it releases, by entry.
    pub let_go: [LetGo; MOST],
    pub strays: Strays,
    pub client: Option<Told>,
    pub writer: Writer,
    pub rival: Rival,
    pub reader: Reader,
    pub counter: Counter,
    /// True until a client has had the catalog choose a version.
    pub server: bool,
    /// True until a client has given a table's name to another table, or the name of a removed one to a new one.
    pub renamer: bool,
    /// True until a client has written behind the gateway's back.
    pub stranger: bool,
    /// True until a client has cleaned up a table behind the gateway's back.
    pub cleaner: bool,
    /// True until an operator has decided what waits for a decision.
    pub person: bool,
    pub faults: Faults,
    /// The true history of each entry. Only the invariants know it.
    pub facts: [Facts; MOST],
    /// The decision that this life asked the log to record. `knows`: true once it knows the result.
    pub asked: Option<Decision>,
    pub knows: bool,
    /// The number of steps since the last fault. It shows a batch that goes round in circles.
    pub moves: u8,
    /// The first invariant that was broken on the way to this world; `None` if none was.
    pub broken: Option<Invariant>,
}

/// The gateway process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every world has the large one"
)]
pub enum Gateway {
    Down,
    /// The gateway runs the batch.
    Busy(State),
    /// The batch has ended, or the gateway has never heard of it.
    Idle,
}

/// One message or write that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Flight {
    /// A request on its way to the catalog or the log.
    Ask(Effect),
    /// An answer on its way back.
    Say(Event),
}

/// A message whose sender has stopped waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Late {
    /// The batch's create, which has not reached the catalog.
    Create(usize),
    /// The batch's create: the catalog has read the staged manifest and found the number free, and has not written yet.
    Put(usize),
    Delete(usize),
    Remove(usize),
    /// A writer's create of this version.
    Write {
        table: usize,
        place: usize,
    },
    /// A change for which the catalog chooses the version.
    Insert(usize),
    /// The other batch's create.
    Rival {
        table: usize,
        place: usize,
    },
}

/// The durable records of the batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Log {
    pub intent: bool,
    pub decision: Option<Decision>,
    /// True, by entry, if the ABORT keeps the object that the create was answered with.
    pub proofs: [bool; MOST],
    /// True if recovery found the batch undecided.
    pub by_recovery: bool,
    pub settled: [Option<Settled>; MOST],
    pub ended: bool,
}

/// The memory of a running batch about an entry that it releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LetGo {
    /// True if its version is gone, and free when the table is unlocked.
    pub reserved: bool,
    /// True once that has happened.
    pub resting: bool,
    /// True if another client's create of it was let through.
    pub contested: bool,
}

/// A definite answer to the batch's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    Committed,
    Refused,
}

/// The number of faults that are left, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Faults {
    pub crashes: u8,
    /// The number of messages that may still be lost, doubled or delayed.
    pub messages: u8,
    /// The number of definite refusals, and of time limits that may still pass.
    pub refusals: u8,
    /// The number of false answers.
    pub lies: u8,
}

/// The true history of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// True if the staged manifest is consumed.
    pub consumed: bool,
    /// True if this life, or the log, knows the object that the create was answered with.
    pub proof: bool,
    /// True if an answer was lost or the gateway crashed. Then a stranger's version that looks alike may be taken for
    /// the batch's.
    pub unclear: bool,
    /// True if the last look showed a version that may be deleted: the batch's own, the latest, and not the only one.
    pub deletable: bool,
    /// True if the last look showed no version.
    pub seen_absent: bool,
    /// True if a late create acted after that look, or if that look was at an old copy.
    pub landed: bool,
    /// True if the create was late and undo removed it.
    pub late_undone: bool,
    /// True if an operator said to delete what looks like it.
    pub told: bool,
    /// True if an operator said that it stays.
    pub kept: bool,
}

impl World {
    /// Returns a world in which the batch is about to begin, with no other client.
    pub fn new(setup: Setup, faults: Faults) -> Self {
        let mut world = Self {
            setup,
            gateway: Gateway::Idle,
            flights: Vec::new(),
            clock: false,
            late: Vec::new(),
            tables: Default::default(),
            log: Log::default(),
            locked: [false; 2],
            slots: Default::default(),
            let_go: Default::default(),
            strays: Strays::default(),
            client: None,
            writer: Writer::Done,
            rival: Rival::Done,
            reader: Reader::Done,
            counter: Counter::Done,
            server: false,
            renamer: false,
            stranger: false,
            cleaner: false,
            person: false,
            faults,
            facts: Default::default(),
            asked: None,
            knows: false,
            moves: 0,
            broken: None,
        };
        world.ask();
        world
    }

    /// Lets the client send the batch.
    pub fn ask(&mut self) {
        self.gateway = Gateway::Busy(State::new(self.setup.plan.shape()));
        self.flights = vec![Flight::Say(Event::Begin)];
    }

    pub fn is_up(&self) -> bool {
        self.gateway != Gateway::Down
    }

    /// Returns the state of the batch that the gateway runs.
    pub fn state(&self) -> Option<&State> {
        match &self.gateway {
            Gateway::Busy(state) => Some(state),
            Gateway::Down | Gateway::Idle => None,
        }
    }

    pub fn fly(&mut self, flight: Flight) {
        let key = flight.key();
        let place = self.flights.partition_point(|other| other.key() <= key);
        self.flights.insert(place, flight);
    }

    pub fn linger(&mut self, late: Late) {
        let place = self.late.partition_point(|other| *other <= late);
        self.late.insert(place, late);
    }

    /// Returns the entry's table, and its place in that table.
    pub fn place_of(&self, entry: usize) -> (usize, usize) {
        self.setup.plan.place_of(entry)
    }

    pub fn entries(&self) -> std::ops::Range<usize> {
        0..self.setup.plan.entries()
    }

    /// Returns true if the entry removes something.
    pub fn removes(&self, entry: usize) -> bool {
        self.setup.plan.removes(entry)
    }

    /// Returns the author of the version at the entry's place in the catalog.
    pub fn maker(&self, entry: usize) -> Option<Maker> {
        let (table, place) = self.place_of(entry);
        self.tables[table].at(place)
    }

    pub fn is_ours(&self, entry: usize) -> bool {
        self.maker(entry) == Some(Maker::Entry(entry))
    }

    pub fn is_committed(&self) -> bool {
        self.log.decision == Some(Decision::Commit)
    }

    /// Returns true if this part of the batch is in a catalog's answer.
    pub fn is_done(&self, entry: usize) -> bool {
        if self.removes(entry) {
            self.tables[self.place_of(entry).0].has_lost_base()
        } else {
            self.is_ours(entry)
        }
    }

    /// Returns true if a version of this author must not be seen nor built on: undecided, or due to be undone.
    pub fn is_tainted(&self, maker: Maker) -> bool {
        match maker {
            Maker::Entry(entry) => !self.is_committed() && !self.facts[entry].kept,
            Maker::Rival { committed } => !committed,
            _ => false,
        }
    }
}

impl Flight {
    /// Returns an order of flights, so that equal sets of flights are equal lists.
    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

pub fn refusal() -> Refusal {
    Refusal::conflict("")
}
