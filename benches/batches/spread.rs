//! A batch over 2, 4 and 8 catalogs of which one is slower than the others: one at a time, and from many clients.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nsgate::config::BatchConfig;
use tokio::task::JoinSet;

use crate::catalog::Catalog;
use crate::house::House;
use crate::table::{Table, Times, millis};

const ROUNDS: u64 = 40;
const QUICK: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(30)];
const SLOW: [Duration; 2] = [Duration::from_millis(35), Duration::from_millis(50)];
const SIZES: [usize; 3] = [2, 4, 8];

const CLIENTS: usize = 64;
const TURNS: usize = 3;
/// The number of batches of each client, for each size, in a turn.
const EACH: u64 = 24;
/// The number of batches that are not counted, because the clients began together.
const WARM_UP: u64 = 4;

pub async fn measure(table: &mut Table) {
    one_client(table).await;
    many_clients(table).await;
}

async fn one_client(table: &mut Table) {
    let catalogs = catalogs();
    for catalog in &catalogs {
        catalog.seed("alone", 1);
        for size in SIZES {
            catalog.seed(format!("t{size}"), 1);
            catalog.seed(format!("m{size}"), 1);
        }
    }
    let house = House::new(&catalogs, BatchConfig::default());
    let diskless = House::in_memory(&catalogs, BatchConfig::default());
    let mut slowest = Times::default();
    let mut batches = SIZES.map(|_| Times::default());
    let mut in_memory = SIZES.map(|_| Times::default());
    for round in 0..ROUNDS {
        let version = 2 + round;
        slowest.add(itself(&house, version).await);
        for (times, size) in batches.iter_mut().zip(SIZES) {
            let began = Instant::now();
            house.batch(size, &format!("t{size}"), version).await;
            times.add(began.elapsed());
        }
        for (times, size) in in_memory.iter_mut().zip(SIZES) {
            let began = Instant::now();
            diskless.batch(size, &format!("m{size}"), version).await;
            times.add(began.elapsed());
        }
    }
    let slowest = millis(slowest.median());
    table.note(
        "the slowest catalog's validation and create, median",
        format!("{slowest:.2} ms"),
    );
    let phases = ["lock", "validate", "prepare", "decide"];
    let phases = phases.map(|phase| format!("{phase} {:.2}", millis(house.phase(phase))));
    table.note("    the phases of a batch, means in ms", phases.join(", "));
    for (times, size) in batches.iter().zip(SIZES) {
        let over = millis(times.median()) - slowest;
        table.at_most(
            &format!("a batch over {size} catalogs over that, median"),
            over,
            5.0,
            "ms",
        );
    }
    let over = in_memory.map(|times| format!("{:.2}", millis(times.median()) - slowest));
    table.note("    2, 4 and 8 with the log in memory, ms", over.join(", "));
    let grown = millis(batches[2].median()) - millis(batches[0].median());
    table.at_most("8 catalogs over 2, difference of medians", grown, 1.0, "ms");
    house.close().await;
    diskless.close().await;
}

/// Measures clients that send their next batch at once, while one more client sends requests directly to the
/// slowest catalog.
async fn many_clients(table: &mut Table) {
    let mut sizes = SIZES.map(|_| (Times::default(), Times::default()));
    // The sizes take turns, so that other load on the machine affects them alike.
    for _ in 0..TURNS {
        for ((batches, slowest), size) in sizes.iter_mut().zip(SIZES) {
            crowd(size, batches, slowest).await;
        }
    }
    let [two, .., eight] = sizes
        .each_ref()
        .map(|(batches, _)| millis(batches.median()));
    for ((batches, slowest), size) in sizes.iter().zip(SIZES) {
        let over = millis(batches.median()) - millis(slowest.median());
        table.at_most(
            &format!("a batch over {size} catalogs over that, {CLIENTS} clients at a time"),
            over,
            5.0,
            "ms",
        );
    }
    table.at_most(
        &format!("8 catalogs over 2, {CLIENTS} clients at a time"),
        eight - two,
        1.0,
        "ms",
    );
}

/// Measures the times of every client's batches over this number of catalogs, and the times of the slowest
/// catalog alone.
async fn crowd(size: usize, batches: &mut Times, slowest: &mut Times) {
    let catalogs = catalogs();
    for catalog in &catalogs {
        catalog.seed("alone", 1);
        (0..CLIENTS).for_each(|client| catalog.seed(format!("t{client}"), 1));
    }
    // A place for each client: what is measured is the gateway, not the wait for a catalog's places.
    let settings = BatchConfig {
        in_flight: CLIENTS,
        ..BatchConfig::default()
    };
    let house = Arc::new(House::new(&catalogs, settings));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let house = Arc::clone(&house);
        clients.spawn(async move {
            // The clients start at different times.
            tokio::time::sleep(SLOW[0] * client as u32 / 32).await;
            let mut times = Times::default();
            for round in 0..EACH {
                let began = Instant::now();
                house.batch(size, &format!("t{client}"), 2 + round).await;
                if round >= WARM_UP {
                    times.add(began.elapsed());
                }
            }
            times
        });
    }
    for round in 0..EACH {
        slowest.add(itself(&house, 2 + round).await);
    }
    for times in clients.join_all().await {
        batches.extend(times);
    }
    house.close().await;
}

/// Returns the time that the slowest catalog takes for a validation and a create.
async fn itself(house: &House, version: u64) -> Duration {
    let began = Instant::now();
    house
        .list("/v1/table/c1%24alone/version/list?limit=1&descending=true")
        .await;
    let create = format!("{{\"version\":{version},\"manifest_path\":\"staged\"}}");
    house
        .post("/v1/table/c1%24alone/version/create", create)
        .await;
    began.elapsed()
}

fn catalogs() -> Vec<Catalog> {
    let catalog = |number| {
        let [validation, create] = if number == 1 { SLOW } else { QUICK };
        Catalog::slow(validation, create)
    };
    (0..8).map(catalog).collect()
}
