//! The world around one batch: its catalogs, its log, what the gateway holds in memory, and who else is at work.
//!
//! Two tables, each in a catalog of its own. A world is one state of the search, so it is kept small, and two worlds
//! that cannot be told apart by what may follow are equal.

use std::hash::{DefaultHasher, Hash, Hasher};

use nsgate::batch::step::{Decision, Effect, Event, Refusal, Settled, State};
use nsgate::error::code::Code;

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
    /// Questions and writes under way, and answers on their way back; sorted.
    pub flights: Vec<Flight>,
    /// The clock of prepare runs.
    pub clock: bool,
    /// What may reach a catalog at any time, although nobody waits for an answer; sorted.
    pub late: Vec<Late>,
    pub tables: [Table; 2],
    pub log: Log,
    /// The batch holds the table's lock.
    pub locked: [bool; 2],
    pub slots: [Slot; MOST],
    /// What the running batch remembers of what it lets go.
    pub let_go: [LetGo; MOST],
    pub strays: Strays,
    pub client: Option<Told>,
    pub writer: Writer,
    pub rival: Rival,
    pub reader: Reader,
    pub counter: Counter,
    /// Somebody has the catalog choose a version.
    pub server: bool,
    /// Somebody gives a table's name to another one, or a removed one's to a new one.
    pub renamer: bool,
    /// Somebody writes behind the gateway's back.
    pub stranger: bool,
    /// A person looks after what waits for one.
    pub person: bool,
    pub faults: Faults,
    /// What the entries' histories were: nobody in the world knows it, the invariants do.
    pub facts: [Facts; MOST],
    /// What this life asked the log to decide, and whether it knows the decision.
    pub asked: Option<Decision>,
    pub knows: bool,
    /// Steps since the last fault: a batch that goes round in circles is seen by it.
    pub moves: u8,
    /// The first invariant that was broken on the way here.
    pub broken: Option<Invariant>,
}

/// The process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every world has the large one"
)]
pub enum Gateway {
    Down,
    /// It has the batch in hand.
    Busy(State),
    /// The batch is over, or was never heard of.
    Idle,
}

/// Something under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Flight {
    /// On its way to whoever does it.
    Ask(Effect),
    /// Done; the answer is on its way back.
    Say(Event),
}

/// A message whose answer nobody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Late {
    /// It has not reached the catalog.
    Create(usize),
    /// The catalog has read what was staged and found the number free; it has not written yet.
    Put(usize),
    Delete(usize),
    Remove(usize),
    /// A writer's create of this version.
    Write {
        table: usize,
        place: usize,
    },
    /// A change of which the catalog chooses the version.
    Insert(usize),
    /// The other batch's create.
    Rival {
        table: usize,
        place: usize,
    },
}

/// What is durable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Log {
    pub intent: bool,
    pub decision: Option<Decision>,
    /// Objects that creates were answered with, as an ABORT keeps them.
    pub proofs: [bool; MOST],
    /// Recovery found it undecided.
    pub by_recovery: bool,
    pub settled: [Option<Settled>; MOST],
    pub ended: bool,
}

/// What a running batch remembers of an entry that it lets go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LetGo {
    /// It is gone, and free when the table is unlocked.
    pub reserved: bool,
    /// That has begun.
    pub resting: bool,
    /// Somebody else's create of it was let through.
    pub contested: bool,
}

/// A definite answer to the batch's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    Committed,
    Refused,
}

/// Faults that are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Faults {
    pub crashes: u8,
    /// Messages lost, doubled or delayed.
    pub messages: u8,
    /// Definite refusals and bounds that passed.
    pub refusals: u8,
    /// Answers that are not true.
    pub lies: u8,
}

/// The true history of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// What was staged is not there any more.
    pub consumed: bool,
    /// This life, or the log, knows the object that the create was answered with.
    pub proof: bool,
    /// An answer was lost or the gateway crashed: a stranger's that looks like ours may be taken for ours.
    pub unclear: bool,
    /// The last look showed what may be deleted: ours, and the latest.
    pub deletable: bool,
    /// The last look showed nothing.
    pub seen_absent: bool,
    /// A late create acted after that look, or that look was at an old copy.
    pub landed: bool,
    /// It was late, and undo removed it.
    pub late_undone: bool,
    /// A person said to delete what looks like it.
    pub told: bool,
    /// A person said that it stays.
    pub kept: bool,
}

impl World {
    /// A batch about to begin; nobody else is there.
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

    /// The batch's client asks for it.
    pub fn ask(&mut self) {
        self.gateway = Gateway::Busy(State::new(self.setup.plan.shape()));
        self.flights = vec![Flight::Say(Event::Begin)];
    }

    pub fn is_up(&self) -> bool {
        self.gateway != Gateway::Down
    }

    /// The batch that is in hand.
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

    /// Where an entry is: its table, and its place in the table's line.
    pub fn place_of(&self, entry: usize) -> (usize, usize) {
        self.setup.plan.place_of(entry)
    }

    pub fn entries(&self) -> std::ops::Range<usize> {
        0..self.setup.plan.entries()
    }

    /// The entry removes something.
    pub fn removes(&self, entry: usize) -> bool {
        self.setup.plan.removes(entry)
    }

    /// What the catalogs know of the entry's place.
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

    /// A catalog's bare answer has this part of the batch in it.
    pub fn is_done(&self, entry: usize) -> bool {
        if self.removes(entry) {
            self.tables[self.place_of(entry).0].has_lost_base()
        } else {
            self.is_ours(entry)
        }
    }

    /// What was made here must not be seen, nor built on: it is undecided, or was to be undone.
    pub fn is_tainted(&self, maker: Maker) -> bool {
        match maker {
            Maker::Entry(entry) => !self.is_committed() && !self.facts[entry].kept,
            Maker::Rival { committed } => !committed,
            _ => false,
        }
    }
}

impl Flight {
    /// An order, so that equal sets of flights are equal lists.
    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

pub fn refusal() -> Refusal {
    Refusal {
        status: 409,
        code: Code::ConcurrentModification,
        message: String::new(),
    }
}
