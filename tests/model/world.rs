//! The world around one batch: its catalogs, its log, what the gateway holds in memory, and who else is at work.
//!
//! Two tables, each in a catalog of its own. A world is one state of the search, so it is kept small, and two worlds
//! that cannot be told apart by what may follow are equal.

use std::hash::{DefaultHasher, Hash, Hasher};

use nsgate::batch::step::{Decision, Effect, Event, Kind, Refusal, Settled, Shape, State};
use nsgate::protocol::error::Code;

use crate::catalog::{Maker, Table};
use crate::invariants::Invariant;

/// The batch's entries, table by table, in the order of their versions.
pub const SHARES: [&[usize]; 2] = [&[0, 1], &[2]];
/// Its entries.
pub const ENTRIES: usize = 3;

/// What the batch consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plan {
    /// Three versions.
    Versions,
    /// The same; the first table's catalog makes both of its own, or none.
    Grouped,
    /// Two versions; and the first table loses the version that it had (entry 1).
    Mixed,
}

/// One state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub plan: Plan,
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
    pub slots: [Slot; ENTRIES],
    pub client: Option<Told>,
    pub writer: Writer,
    pub reader: Reader,
    /// Somebody writes behind the gateway's back.
    pub stranger: bool,
    /// A person looks after what waits for one.
    pub person: bool,
    pub faults: Faults,
    /// What the entries' histories were: nobody in the world knows it, the invariants do.
    pub facts: [Facts; ENTRIES],
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
}

/// What is durable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Log {
    pub intent: bool,
    pub decision: Option<Decision>,
    /// Objects that creates were answered with, as an ABORT keeps them.
    pub proofs: [bool; ENTRIES],
    /// Recovery found it undecided.
    pub by_recovery: bool,
    pub settled: [Option<Settled>; ENTRIES],
    pub ended: bool,
}

/// What the gateway knows of a version's visibility.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Slot {
    #[default]
    Open,
    Hidden,
    /// Hidden from the reveal on: it is to be removed.
    Armed,
    /// Hidden, and the number may not be used.
    Resting,
}

/// A definite answer to the batch's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    Committed,
    Refused,
}

/// A client that adds one version to one table, through the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Writer {
    #[default]
    Idle,
    /// It has built on `on` and will ask for the version at `place`.
    Built {
        table: usize,
        place: usize,
        on: Maker,
    },
    Done,
}

/// A client that reads one table and then the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reader {
    #[default]
    Idle,
    /// The catalog has answered with these entries (a bit each), and the filter is still to come.
    Listed {
        table: usize,
        entries: u8,
        earlier: Option<bool>,
    },
    /// The first table showed the batch, or not.
    Between {
        table: usize,
        earlier: bool,
    },
    Done,
}

/// Faults that are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Faults {
    pub crashes: u8,
    /// Messages lost, doubled or delayed.
    pub messages: u8,
    /// Definite refusals and bounds that passed.
    pub refusals: u8,
}

/// The true history of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// What was staged is still there.
    pub consumed: bool,
    /// This life, or the log, knows the object that the create was answered with.
    pub proof: bool,
    /// An answer was lost or the gateway crashed: what looks like ours may be taken for ours.
    pub unclear: bool,
    /// The last look showed what may be deleted: ours, and the latest.
    pub deletable: bool,
    /// The last look showed nothing.
    pub seen_absent: bool,
    /// A late create acted after that look.
    pub landed: bool,
    /// It was late, and undo removed it.
    pub late_undone: bool,
    /// A person said to delete what looks like it.
    pub told: bool,
    /// A person said that it stays.
    pub kept: bool,
}

impl World {
    /// A batch about to begin.
    pub fn new(plan: Plan, faults: Faults) -> Self {
        Self {
            plan,
            gateway: Gateway::Busy(State::new(plan.shape())),
            flights: vec![Flight::Say(Event::Begin)],
            clock: false,
            late: Vec::new(),
            tables: Default::default(),
            log: Log::default(),
            locked: [false; 2],
            slots: Default::default(),
            client: None,
            writer: Writer::Idle,
            reader: Reader::Idle,
            stranger: false,
            person: false,
            faults,
            facts: Default::default(),
            asked: None,
            knows: false,
            moves: 0,
            broken: None,
        }
    }

    pub fn is_up(&self) -> bool {
        self.gateway != Gateway::Down
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

    /// What the catalogs know of the entry's place.
    pub fn maker(&self, entry: usize) -> Option<Maker> {
        let (table, place) = place_of(entry);
        self.tables[table].at(place)
    }

    pub fn is_ours(&self, entry: usize) -> bool {
        self.maker(entry) == Some(Maker::Entry(entry))
    }

    /// What looks like ours, and no gateway could know better.
    pub fn passes_for_ours(&self, entry: usize) -> bool {
        let Facts { unclear, told, .. } = self.facts[entry];
        let taken = self.maker(entry) == Some(Maker::Stranger { alike: true });
        self.is_ours(entry) || taken && (told || unclear)
    }

    /// A catalog's bare answer has this part of the batch in it.
    pub fn is_done(&self, entry: usize) -> bool {
        match self.plan.removes(entry) {
            true => self.tables[place_of(entry).0].has_lost_base(),
            false => self.is_ours(entry),
        }
    }

    /// A reader through the gateway, to whom the catalog answers so, sees this part of the batch.
    pub fn shows(&self, entry: usize, done: bool) -> bool {
        match self.plan.removes(entry) {
            true => done || self.slots[entry] == Slot::Hidden,
            false => done && self.slots[entry] == Slot::Open,
        }
    }

    /// Such a reader would see it now.
    pub fn is_visible(&self, entry: usize) -> bool {
        self.is_up() && self.shows(entry, self.is_done(entry))
    }

    /// The version at this place may not be made now: its number, or one below it, was freed by the batch.
    pub fn rests(&self, table: usize, place: usize) -> bool {
        let below = &SHARES[table][..SHARES[table].len().min(place + 1)];
        below
            .iter()
            .any(|entry| self.slots[*entry] == Slot::Resting)
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

impl Plan {
    pub fn shape(self) -> Shape {
        let mut shape = Shape::versions(SHARES.iter().map(|share| share.to_vec()).collect());
        match self {
            Self::Versions => {}
            Self::Grouped => shape.groups = vec![Some(0), Some(0), None],
            Self::Mixed => shape.kinds[1] = Kind::Removed,
        }
        shape
    }

    /// This entry removes something.
    pub fn removes(self, entry: usize) -> bool {
        self == Self::Mixed && entry == 1
    }

    /// Its catalog makes them all or none.
    pub fn together(self, entry: usize) -> &'static [usize] {
        match (self, entry) {
            (Self::Grouped, 0 | 1) => &[0, 1],
            (_, 0) => &[0],
            (_, 1) => &[1],
            _ => &[2],
        }
    }
}

/// The entry's table, and its place in the table's line.
pub fn place_of(entry: usize) -> (usize, usize) {
    for (table, share) in SHARES.iter().enumerate() {
        if let Some(place) = share.iter().position(|other| *other == entry) {
            return (table, place);
        }
    }
    unreachable!("entry {entry} is in no share")
}

pub fn refusal() -> Refusal {
    Refusal {
        status: 409,
        code: Code::ConcurrentModification,
        message: String::new(),
    }
}
