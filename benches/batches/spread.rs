//! A batch over 2, 4 and 8 catalogs of which one is slower than the others.

use std::time::{Duration, Instant};

use nsgate::config::BatchConfig;

use crate::catalog::Catalog;
use crate::house::House;
use crate::table::{Table, Times, millis};

const ROUNDS: u64 = 40;
const QUICK: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(30)];
const SLOW: [Duration; 2] = [Duration::from_millis(35), Duration::from_millis(50)];
const SIZES: [usize; 3] = [2, 4, 8];

pub async fn measure(table: &mut Table) {
    let catalogs: Vec<Catalog> = (0..8)
        .map(|number| {
            let [validation, create] = if number == 1 { SLOW } else { QUICK };
            Catalog::slow(validation, create)
        })
        .collect();
    for catalog in &catalogs {
        catalog.seed("alone", 1);
        for size in SIZES {
            catalog.seed(format!("t{size}"), 1);
            catalog.seed(format!("m{size}"), 1);
        }
    }
    let house = House::new(&catalogs, BatchConfig::default());
    let diskless = House::in_memory(&catalogs, BatchConfig::default());
    let (mut validations, mut creates) = (Times::default(), Times::default());
    let mut batches = SIZES.map(|_| Times::default());
    let mut in_memory = SIZES.map(|_| Times::default());
    for round in 0..ROUNDS {
        let version = 2 + round;
        let began = Instant::now();
        house
            .list("/v1/table/c1%24alone/version/list?limit=1&descending=true")
            .await;
        validations.add(began.elapsed());
        let began = Instant::now();
        let create = format!("{{\"version\":{version},\"manifest_path\":\"staged\"}}");
        house
            .post("/v1/table/c1%24alone/version/create", create)
            .await;
        creates.add(began.elapsed());
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
    let slowest = millis(validations.median()) + millis(creates.median());
    table.note(
        "the slowest catalog's validation and create, medians",
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
