//! Random scenarios.

use std::time::Duration;

use nsgate::config::BatchConfig;

use super::{At, Crash, Faults, LATEST, LONGEST_PAUSE, Outage, Role, Scenario, Staging, Table};
use crate::catalog::{Tags, Ways};
use crate::network::Fault;
use crate::random::Random;

/// The main work of a scenario's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavor {
    /// A little of everything.
    Mixed,
    /// Few tables, many batches, and faults of changes only.
    Rivals,
    /// Changes for which catalogs choose the versions.
    Servers,
    /// Changes of names.
    Names,
}

impl Scenario {
    /// Returns the random scenario of a seed.
    pub fn of(seed: u64) -> Self {
        let random = &mut Random::new(seed, 0);
        let flavor = *random.pick(&[
            Flavor::Mixed,
            Flavor::Mixed,
            Flavor::Rivals,
            Flavor::Servers,
            Flavor::Names,
        ]);
        let catalogs: Vec<Ways> = (0..random.between(2, 3)).map(|_| ways(random)).collect();
        let tables = tables(random, flavor, catalogs.len());
        let rough_for = random.millis(20_000, 90_000);
        let faults = faults(random, flavor);
        // Some clients act long after the others, when the cool-down is over and undone versions are only watched.
        let afterwards = random.chance(if flavor == Flavor::Rivals { 50 } else { 25 });
        let crashes = crashes(random, afterwards);
        let outages = outages(random, catalogs.len());
        Self {
            seed,
            faults,
            rough_for,
            longest_pause: LONGEST_PAUSE,
            latest_message: LATEST,
            leaves: *random.pick(&[0, 5, 20]),
            aborts: match flavor {
                Flavor::Rivals => 35,
                _ => 10,
            },
            crashes,
            dead_for: *random.pick(&[(3, 20), (500, 5_000)]),
            outages,
            writes: *random.pick(&[(0, 2), (1, 20), (50, 800)]),
            staging: Staging {
                tells_size: random.chance(90),
                tells_tag: random.chance(60),
                sizes_vary: random.chance(10),
            },
            clients: clients(random, flavor, afterwards),
            settings: BatchConfig::default(),
            fleet: None,
            to_the_end: afterwards || random.chance(40),
            catalogs,
            tables,
        }
    }
}

fn ways(random: &mut Random) -> Ways {
    Ways {
        puts_later: random.chance(40),
        tags: *random.pick(&[
            Tags::Kept,
            Tags::Kept,
            Tags::Changed,
            Tags::Changed,
            Tags::Mixed,
            Tags::Hidden,
        ]),
        atomic: random.chance(20),
        told: random.chance(50),
        keeps_staged: random.chance(40),
        renames: random.chance(30),
        relative: random.chance(30),
        // A manifest that is staged for one table and used in another is the doing of the client that renames them.
        takes_any_staged: false,
        skips: false,
    }
}

fn tables(random: &mut Random, flavor: Flavor, catalogs: usize) -> Vec<Table> {
    let mut tables = Vec::new();
    for catalog in 0..catalogs {
        let count = match flavor {
            Flavor::Rivals => 1,
            _ => random.between(1, 2),
        };
        for table in 0..count {
            let latest = if random.chance(10) {
                0
            } else {
                random.between(1, 2)
            };
            tables.push(Table::new(catalog, table, latest));
        }
        if flavor == Flavor::Names || random.chance(20) {
            tables.push(Table::spare(catalog, count));
        }
    }
    tables
}

fn faults(random: &mut Random, flavor: Flavor) -> Faults {
    let calm = random.chance(15);
    let changes_only = match flavor {
        Flavor::Rivals => true,
        Flavor::Names => random.chance(50),
        _ => random.chance(20),
    };
    let kinds = random.between(1, Fault::ALL.len() as u64);
    let kinds = random.some(&Fault::ALL, usize::try_from(kinds).expect("a small number"));
    let percent = if changes_only {
        *random.pick(&[5, 15, 30, 50])
    } else {
        *random.pick(&[2, 5, 10, 25])
    };
    let removals = *random.pick(&[0, 20, 50]);
    Faults::Random {
        percent: if calm { 0 } else { percent },
        kinds,
        changes_only,
        removals: if calm { 0 } else { removals },
    }
}

fn crashes(random: &mut Random, afterwards: bool) -> Vec<Crash> {
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
    if afterwards && random.chance(50) {
        crashes.push(Crash {
            at: At::Time(random.millis(60_000, 800_000)),
            keeps: None,
        });
    }
    crashes
}

fn outages(random: &mut Random, catalogs: usize) -> Vec<Outage> {
    let outages = if random.chance(30) {
        random.between(1, 2)
    } else {
        0
    };
    let outages = (0..outages).map(|_| Outage {
        catalog: usize::try_from(random.below(catalogs as u64)).expect("an index"),
        at: random.millis(1, 15_000),
        lasts: random.millis(10, 30_000),
    });
    outages.collect()
}

fn clients(random: &mut Random, flavor: Flavor, afterwards: bool) -> Vec<(Role, Duration)> {
    let mut roles = Vec::new();
    let mut some = |random: &mut Random, clients: (u64, u64), role: fn(u64) -> Role| {
        for _ in 0..random.between(clients.0, clients.1) {
            let count = random.between(1, 2);
            roles.push(role(count));
        }
    };
    let main = |flavored: Flavor| if flavor == flavored { (2, 3) } else { (0, 1) };
    some(random, (1, 3), |count| Role::Batches { count });
    some(random, (0, 2), |count| Role::Singles { count });
    some(random, (1, 2), |count| Role::Reads { count: count + 2 });
    some(random, main(Flavor::Rivals), |count| Role::Rivals {
        count: count + 2,
    });
    some(random, main(Flavor::Servers), |count| Role::Servers {
        count: count + 1,
    });
    some(random, main(Flavor::Names), |count| Role::Names { count });
    if random.chance(20) {
        some(random, (1, 1), |_| Role::Raw { count: 1 });
    }
    if random.chance(10) {
        some(random, (1, 1), |_| Role::Behind { count: 1 });
    }
    if random.chance(40) {
        some(random, (1, 1), |count| Role::Asks { count });
    }
    let mut clients: Vec<_> = roles
        .into_iter()
        .map(|role| (role, Duration::ZERO))
        .collect();
    if afterwards {
        for _ in 0..random.between(2, 4) {
            let count = random.between(1, 2);
            let role = match random.below(5) {
                0 => Role::Batches { count },
                1 => Role::Servers { count },
                2 => Role::Names { count },
                _ => Role::Singles { count },
            };
            clients.push((role, random.millis(10_000, 600_000)));
        }
        for _ in 0..2 {
            let reads = Role::Reads { count: 2 };
            clients.push((reads, random.millis(61_000, 900_000)));
        }
    }
    clients
}
