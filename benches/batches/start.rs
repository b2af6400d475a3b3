//! The start over a log of finished batches that are still remembered.

use std::time::Instant;

use nsgate::config::BatchConfig;
use tempfile::TempDir;

use crate::catalog::Catalog;
use crate::house::House;
use crate::table::Table;
use crate::{memory, processor, remembered};

/// The number of batches; the variable `NSGATE_REMEMBERED` overrides it.
const BATCHES: usize = 100_000;

pub async fn measure(table: &mut Table) {
    let asked = std::env::var("NSGATE_REMEMBERED");
    let batches = asked.map_or(BATCHES, |number| number.parse().unwrap());
    let (folder, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = folder.path().join("batches.redb");
    remembered::write(&path, batches).await;
    let size = std::fs::metadata(&path).unwrap().len() >> 20;
    // The pages of a copy are compared with their checksums, as after a crash.
    for name in ["batches.redb", "batches.redb.mark"] {
        std::fs::copy(folder.path().join(name), copied.path().join(name)).unwrap();
    }
    table.note(
        &format!("a log of {batches} batches that are over"),
        format!("{size} MiB"),
    );
    measure_one(table, "as it was closed", folder).await;
    measure_one(table, "every page compared", copied).await;
}

async fn measure_one(table: &mut Table, what: &str, folder: TempDir) {
    memory::forget_most();
    let (before, used, began) = (memory::resident(), processor_time(), Instant::now());
    let house = House::within(folder, &[Catalog::default()], BatchConfig::default());
    let opened = began.elapsed();
    let found = house.batches.recover(&house.backends).await;
    let served = began.elapsed();
    assert_eq!(found.unwrap(), 0);
    let used = processor_time() - used;
    table.note(
        &format!("{what}: opened in"),
        format!("{:.2} s", opened.as_secs_f64()),
    );
    table.note(
        "    until requests are served, and the processor's time",
        format!("{:.2}, {used:.2} s", served.as_secs_f64()),
    );
    let (now, most) = (memory::resident(), memory::most());
    table.note(
        "    memory: more than before, and at its most",
        format!("{:.0}, {:.0} MiB", now - before, most - before),
    );
    house.close().await;
}

fn processor_time() -> f64 {
    processor::of_process(std::process::id()).as_secs_f64()
}
