//! What one simulation is made of: catalogs, tables, clients, and what goes wrong. All of it follows from the seed.

mod chance;

use std::time::Duration;

use nsgate::config::BatchConfig;
use nsgate::protocol::identifier::Identifier;
use nsgate::protocol::operation::Operation;

use crate::catalog::{Question, Tags, Ways};
use crate::network::Fault;
use crate::random::Random;

#[derive(Clone)]
pub struct Scenario {
    pub seed: u64,
    pub catalogs: Vec<Ways>,
    pub tables: Vec<Table>,
    pub settings: BatchConfig,
    /// What each does, and when it begins.
    pub clients: Vec<(Role, Duration)>,
    pub faults: Faults,
    /// How long faults may happen; after it everything must settle.
    pub rough_for: Duration,
    /// A message that comes later than this comes never.
    pub latest_message: Duration,
    /// So many of a hundred batches cannot be prepared: a manifest is not there.
    pub aborts: u64,
    /// So many of a hundred requests are given up by their clients in the middle.
    pub leaves: u64,
    pub crashes: Vec<Crash>,
    /// How long a dead gateway stays dead.
    pub dead_for: (u64, u64),
    pub outages: Vec<Outage>,
    /// Milliseconds that a write to the log takes.
    pub writes: (u64, u64),
    pub staging: Staging,
    /// Goes on until nothing that may still land is watched for any more.
    pub to_the_end: bool,
}

/// One table of one catalog.
#[derive(Clone)]
pub struct Table {
    pub catalog: usize,
    /// As clients spell it.
    pub names: Vec<String>,
    /// As its catalog does, names joined by `$`.
    pub there: String,
    /// Whether the name leads anywhere at the beginning, and how many versions are there.
    pub exists: bool,
    pub latest: u64,
}

/// A message that is later than this is lost: a request that is 15 minutes old has been given up by everything that it
/// may be waiting in.
const LATEST: Duration = Duration::from_secs(890);

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Batches over several tables.
    Batches {
        count: u64,
    },
    /// Single versions, the way a table's own client writes them.
    Singles {
        count: u64,
    },
    /// Batches over few tables, one right after the other, whatever came of the last one.
    Rivals {
        count: u64,
    },
    /// Inserts, overwrites, updates and restores.
    Servers {
        count: u64,
    },
    /// Tables get other names, or second ones, or lose them, or go and come again.
    Names {
        count: u64,
    },
    /// Single versions on top of whatever raw storage shows.
    Raw {
        count: u64,
    },
    /// Single versions behind the gateway's back.
    Behind {
        count: u64,
    },
    Reads {
        count: u64,
    },
    /// Questions for transactions.
    Asks {
        count: u64,
    },
    /// One batch over every table, with a chain of two versions of the first one. It is to abort if the last entry's
    /// manifest is not there.
    Reference {
        aborts: bool,
        /// And then a batch that competes, an insert, a rename and another version.
        goes_on: bool,
    },
}

#[derive(Clone, Debug)]
pub enum Faults {
    Random {
        percent: u64,
        kinds: Vec<Fault>,
        /// Reads meet none.
        changes_only: bool,
        /// At least so many where something is taken back, or a name is given.
        removals: u64,
    },
    /// These, and no others.
    Planned(Vec<Planned>),
    /// Only this message, and only this fault; what comes late comes so late.
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
    /// Of those that the gateway sends on its own account, or those that it passes on.
    pub own: bool,
    /// Counted from 1.
    pub nth: u64,
    pub fault: Fault,
    /// How late it comes, if it is late.
    pub far: Duration,
}

impl Planned {
    /// Whether it may be this message.
    pub fn is_about(&self, question: &Question) -> bool {
        (self.operation, self.own) == (question.operation, question.own)
            && (question.table.is_empty() || self.table == question.table)
    }
}

/// The gateway dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    pub at: At,
    /// So many of the log's writes under way survive; `None`: by chance.
    pub keeps: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The points at which a crash makes a difference are counted from 1.
    Point(u64),
    Time(Duration),
}

/// A catalog stops and comes back.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    pub catalog: usize,
    pub at: Duration,
    pub lasts: Duration,
}

/// What writers say of their manifests.
#[derive(Clone, Copy, Debug)]
pub struct Staging {
    pub tells_size: bool,
    pub tells_tag: bool,
    /// Manifests of different writers may differ in size.
    pub sizes_vary: bool,
}

impl Scenario {
    /// One batch over two catalogs of a kind, perhaps others after it, and nothing that goes wrong.
    pub fn reference(kind: Ways, aborts: bool, goes_on: bool) -> Self {
        // The last name is one that a table gets.
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
            // Messages are counted from 1.
            faults: Faults::One {
                message: 0,
                fault: Fault::RequestLost,
                far: Duration::ZERO,
            },
            rough_for: Duration::ZERO,
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
            to_the_end: true,
        }
    }

    pub fn write_time(&self, random: &mut Random) -> Duration {
        random.millis(self.writes.0, self.writes.1)
    }

    /// Whether what a writer tells of its manifest can be found again in a version of this table.
    pub fn is_comparable(&self, table: usize) -> bool {
        let ways = self.catalogs[self.tables[table].catalog];
        let Staging {
            tells_size,
            tells_tag,
            ..
        } = self.staging;
        tells_size || (tells_tag && ways.tags == Tags::Kept)
    }

    /// Whether this is what the gateway calls a table of a backend.
    pub fn is_table(&self, table: usize, backend: &str, there: &Identifier) -> bool {
        let Table {
            catalog,
            there: name,
            ..
        } = &self.tables[table];
        backend == backend_name(*catalog) && there.names().eq(name.split('$'))
    }
}

/// The configured name of a catalog.
pub fn backend_name(catalog: usize) -> &'static str {
    ["c0", "c1", "c2"][catalog]
}

/// Where a catalog is mounted, and what is mounted there: every other one keeps the path.
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

    /// A name that leads nowhere yet.
    pub fn spare(catalog: usize, number: u64) -> Self {
        Self {
            exists: false,
            ..Self::new(catalog, number, 0)
        }
    }
}
