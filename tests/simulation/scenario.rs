//! What one simulation is made of: catalogs, tables, clients, and what goes wrong. All of it follows from the seed.

use std::time::Duration;

use nsgate::config::BatchConfig;
use nsgate::protocol::identifier::Identifier;

use crate::catalog::Ways;
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
    /// A delete that comes later than this comes never.
    pub latest_delete: Duration,
    /// And any other message.
    pub latest_message: Duration,
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
    pub latest: u64,
}

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
    },
}

#[derive(Clone, Debug)]
pub enum Faults {
    Random {
        percent: u64,
        kinds: Vec<Fault>,
    },
    /// Only this message, and only this fault; what comes late comes so late.
    One {
        message: u64,
        fault: Fault,
        far: Duration,
    },
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
    /// One batch over two catalogs of a kind, and nothing that goes wrong.
    pub fn reference(kind: Ways, aborts: bool) -> Self {
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
            ],
            settings: BatchConfig::default(),
            clients: vec![(Role::Reference { aborts }, Duration::from_millis(100))],
            // Messages are counted from 1.
            faults: Faults::One {
                message: 0,
                fault: Fault::RequestLost,
                far: Duration::ZERO,
            },
            rough_for: Duration::ZERO,
            latest_delete: Duration::from_secs(55),
            latest_message: Duration::from_secs(600),
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

    /// Everything by chance.
    pub fn of(seed: u64) -> Self {
        let random = &mut Random::new(seed, 0);
        let catalogs: Vec<Ways> = (0..random.between(2, 3))
            .map(|_| Ways {
                puts_later: random.chance(40),
                keeps_tags: random.chance(40),
                hides_tags: random.chance(15),
                atomic: random.chance(20),
                told: random.chance(50),
            })
            .collect();
        let mut tables = Vec::new();
        for catalog in 0..catalogs.len() {
            for table in 0..random.between(1, 2) {
                let latest = if random.chance(10) {
                    0
                } else {
                    random.between(1, 2)
                };
                tables.push(Table::new(catalog, table, latest));
            }
        }
        let calm = random.chance(15);
        let rough_for = random.millis(20_000, 90_000);
        let kinds = random.between(1, Fault::ALL.len() as u64);
        let kinds = random.some(&Fault::ALL, usize::try_from(kinds).expect("a small number"));
        let crashes = match random.below(10) {
            0..5 => 0,
            5..8 => 1,
            _ => 2,
        };
        let crashes = (0..crashes).map(|_| Crash {
            at: At::Point(random.between(1, 250)),
            keeps: None,
        });
        let mut crashes: Vec<Crash> = crashes.collect();
        // Long after: when numbers have rested, and what was undone is only watched for.
        let afterwards = random.chance(30);
        if afterwards && random.chance(50) {
            crashes.push(Crash {
                at: At::Time(random.millis(60_000, 800_000)),
                keeps: None,
            });
        }
        let outages = if random.chance(30) {
            random.between(1, 2)
        } else {
            0
        };
        let outages = (0..outages).map(|_| Outage {
            catalog: usize::try_from(random.below(catalogs.len() as u64)).expect("an index"),
            at: random.millis(1, 15_000),
            lasts: random.millis(10, 30_000),
        });
        let outages = outages.collect();
        Self {
            seed,
            faults: Faults::Random {
                percent: if calm {
                    0
                } else {
                    *random.pick(&[2, 5, 10, 25])
                },
                kinds,
            },
            rough_for,
            latest_delete: Duration::from_secs(55),
            latest_message: Duration::from_secs(600),
            crashes,
            dead_for: *random.pick(&[(3, 20), (500, 5_000)]),
            outages,
            writes: *random.pick(&[(0, 2), (1, 20), (50, 800)]),
            staging: Staging {
                tells_size: random.chance(90),
                tells_tag: random.chance(60),
                sizes_vary: random.chance(50),
            },
            clients: clients(random, afterwards),
            settings: BatchConfig::default(),
            to_the_end: afterwards || random.chance(40),
            catalogs,
            tables,
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
        tells_size || (tells_tag && ways.keeps_tags && !ways.hides_tags)
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
            latest,
        }
    }
}

fn clients(random: &mut Random, afterwards: bool) -> Vec<(Role, Duration)> {
    let mut clients = Vec::new();
    for _ in 0..random.between(1, 3) {
        let count = random.between(1, 2);
        clients.push(Role::Batches { count });
    }
    for _ in 0..random.between(0, 2) {
        let count = random.between(1, 2);
        clients.push(Role::Singles { count });
    }
    for _ in 0..random.between(1, 2) {
        let count = random.between(2, 4);
        clients.push(Role::Reads { count });
    }
    if random.chance(25) {
        clients.push(Role::Raw { count: 1 });
    }
    if random.chance(15) {
        clients.push(Role::Behind { count: 1 });
    }
    if random.chance(40) {
        let count = random.between(1, 3);
        clients.push(Role::Asks { count });
    }
    let mut clients: Vec<_> = clients
        .into_iter()
        .map(|role| (role, Duration::ZERO))
        .collect();
    if afterwards {
        for _ in 0..random.between(1, 2) {
            let singles = Role::Singles {
                count: random.between(1, 2),
            };
            clients.push((singles, random.millis(61_000, 300_000)));
        }
        for _ in 0..2 {
            let reads = Role::Reads { count: 2 };
            clients.push((reads, random.millis(61_000, 900_000)));
        }
    }
    clients
}
