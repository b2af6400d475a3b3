//! The scenario of one simulation: its catalogs, tables, clients and faults. All of it follows from the seed.

mod chance;
mod fleet;

use std::time::Duration;

use nsgate::config::BatchConfig;
use nsgate::protocol::identifier::Identifier;
use nsgate::protocol::operation::Operation;

use crate::catalog::{Question, Tags, Ways};
use crate::network::Fault;
use crate::random::Random;
pub use fleet::{FleetPlan, GATEWAYS, Single, Trouble};

#[derive(Clone)]
pub struct Scenario {
    pub seed: u64,
    pub catalogs: Vec<Ways>,
    pub tables: Vec<Table>,
    pub settings: BatchConfig,
    /// The clients: the role of each, and when it begins.
    pub clients: Vec<(Role, Duration)>,
    pub faults: Faults,
    /// The time in which faults may happen. Afterwards everything must settle.
    pub rough_for: Duration,
    /// The longest pause of a client between two of its requests, in milliseconds.
    pub longest_pause: u64,
    /// The latest arrival of a message. A message that would come later never comes.
    pub latest_message: Duration,
    /// The percentage of batches that cannot be prepared, because a manifest is missing.
    pub aborts: u64,
    /// The percentage of requests that clients abandon in the middle.
    pub leaves: u64,
    pub crashes: Vec<Crash>,
    /// The time between the death of a gateway and its restart: least and most, in milliseconds.
    pub dead_for: (u64, u64),
    pub outages: Vec<Outage>,
    /// The time of one write to the log: least and most, in milliseconds.
    pub writes: (u64, u64),
    pub staging: Staging,
    /// The gateways that share a log; `None` for one gateway with a log on its disk.
    pub fleet: Option<FleetPlan>,
    /// True if the simulation runs until no watch for late arrivals is left.
    pub to_the_end: bool,
}

/// One table of one catalog.
#[derive(Clone)]
pub struct Table {
    pub catalog: usize,
    /// The name as clients spell it.
    pub names: Vec<String>,
    /// The name as its catalog spells it: parts joined by `$`.
    pub there: String,
    /// True if the name has a table at the beginning. `latest` is the number of its versions.
    pub exists: bool,
    pub latest: u64,
}

/// The delay after which a message is lost: a request that is 15 minutes old has been given up by everything that it
/// may be waiting in.
const LATEST: Duration = Duration::from_secs(890);
const LONGEST_PAUSE: u64 = 60_000;

/// The work of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends batches over several tables.
    Batches {
        count: u64,
    },
    /// Creates single versions, as a table's own client does.
    Singles {
        count: u64,
    },
    /// Sends batches over few tables, one right after the other, whatever the result of the last one.
    Rivals {
        count: u64,
    },
    /// Inserts, overwrites, updates and restores.
    Servers {
        count: u64,
    },
    /// Renames tables, gives them second names, and drops and registers them.
    Names {
        count: u64,
    },
    /// Creates single versions on top of the latest in storage.
    Raw {
        count: u64,
    },
    /// Creates single versions behind the gateway's back.
    Behind {
        count: u64,
    },
    Reads {
        count: u64,
    },
    /// Queries transactions.
    Asks {
        count: u64,
    },
    /// Sends one batch over every table, with a chain of two versions of the first one. The batch aborts if the last
    /// entry's manifest is missing.
    Reference {
        aborts: bool,
        /// True if it is followed by a competing batch, an insert, a batch with a rename, and another version.
        goes_on: bool,
    },
}

#[derive(Clone, Debug)]
pub enum Faults {
    Random {
        percent: u64,
        kinds: Vec<Fault>,
        /// True if reads meet no faults.
        changes_only: bool,
        /// The percentage of faults, at least, for removals and for giving a name.
        removals: u64,
    },
    /// The planned faults, and no others.
    Planned(Vec<Planned>),
    /// One fault of one message. A late arrival is late by `far`.
    One {
        message: u64,
        fault: Fault,
        far: Duration,
    },
}

/// One fault of one message.
#[derive(Clone, Debug)]
pub struct Planned {
    pub catalog: usize,
    pub table: String,
    pub operation: Operation,
    /// True for the messages of the gateway itself, false for those that it passes on.
    pub own: bool,
    /// The number of the message, counted from 1.
    pub nth: u64,
    pub fault: Fault,
    /// The delay of the message, if the fault is lateness.
    pub far: Duration,
}

impl Planned {
    /// Returns true if the message is of this kind. Its number is not checked.
    pub fn is_about(&self, question: &Question) -> bool {
        (self.operation, self.own) == (question.operation, question.own)
            && (question.table.is_empty() || self.table == question.table)
    }
}

/// A crash of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    pub at: At,
    /// The number of log writes under way that survive; `None`: random.
    pub keeps: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The point at which the crash makes a difference, counted from 1.
    Point(u64),
    Time(Duration),
}

/// An outage of a catalog: it stops and starts again.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    pub catalog: usize,
    pub at: Duration,
    pub lasts: Duration,
}

/// The details that writers tell about their manifests.
#[derive(Clone, Copy, Debug)]
pub struct Staging {
    pub tells_size: bool,
    pub tells_tag: bool,
    /// True if manifests of different writers may differ in size.
    pub sizes_vary: bool,
}

impl Scenario {
    /// Returns a scenario with one batch over two catalogs of a kind, perhaps others after it, and no faults.
    pub fn reference(kind: Ways, aborts: bool, goes_on: bool) -> Self {
        // The last name is free at first: a table gets it during the run.
        let plain = Ways {
            told: true,
            ..Ways::default()
        };
        Self {
            seed: 1,
            catalogs: vec![kind, plain],
            tables: vec![
                Table::new(0, 0, 1),
                Table::new(0, 1, 1),
                Table::new(1, 0, 1),
                Table::spare(0, 2),
            ],
            settings: BatchConfig::default(),
            clients: vec![(
                Role::Reference { aborts, goes_on },
                Duration::from_millis(100),
            )],
            // Messages are counted from 1, so this fault meets none.
            faults: Faults::One {
                message: 0,
                fault: Fault::RequestLost,
                far: Duration::ZERO,
            },
            rough_for: Duration::ZERO,
            longest_pause: LONGEST_PAUSE,
            latest_message: LATEST,
            leaves: 0,
            aborts: 0,
            crashes: Vec::new(),
            dead_for: (100, 100),
            outages: Vec::new(),
            writes: (5, 5),
            staging: Staging {
                tells_size: true,
                tells_tag: true,
                sizes_vary: false,
            },
            fleet: None,
            to_the_end: true,
        }
    }

    pub fn write_time(&self, random: &mut Random) -> Duration {
        random.millis(self.writes.0, self.writes.1)
    }

    /// Returns true if the details of a manifest can be compared with a version of this table.
    pub fn is_comparable(&self, table: usize) -> bool {
        let ways = self.catalogs[self.tables[table].catalog];
        let Staging {
            tells_size,
            tells_tag,
            ..
        } = self.staging;
        tells_size || (tells_tag && ways.tags == Tags::Kept)
    }

    /// Returns true if the gateway calls the table by this backend and this name.
    pub fn is_table(&self, table: usize, backend: &str, there: &Identifier) -> bool {
        let Table {
            catalog,
            there: name,
            ..
        } = &self.tables[table];
        backend == backend_name(*catalog) && there.names().eq(name.split('$'))
    }
}

/// Returns the configured name of a catalog.
pub fn backend_name(catalog: usize) -> &'static str {
    ["c0", "c1", "c2"][catalog]
}

/// Returns the path at which a catalog is mounted, and the path behind it. Every other catalog keeps the path.
pub fn mounted(catalog: usize) -> (Vec<&'static str>, Vec<&'static str>) {
    let name = backend_name(catalog);
    match catalog % 2 {
        0 => (vec![name], vec![name]),
        _ => (vec![name], Vec::new()),
    }
}

impl Table {
    pub fn new(catalog: usize, number: u64, latest: u64) -> Self {
        let (at, there) = mounted(catalog);
        let name = format!("t{number}");
        let below = |above: &[&str]| -> Vec<String> {
            let above = above.iter().map(ToString::to_string);
            above.chain([name.clone()]).collect()
        };
        Self {
            catalog,
            names: below(&at),
            there: below(&there).join("$"),
            exists: true,
            latest,
        }
    }

    /// Returns a name that has no table yet.
    pub fn spare(catalog: usize, number: u64) -> Self {
        Self {
            exists: false,
            ..Self::new(catalog, number, 0)
        }
    }
}
