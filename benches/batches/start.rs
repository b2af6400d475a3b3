//! The start over a log of finished batches that are still remembered.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use nsgate::batch::log::disk::DiskLog;
use nsgate::batch::log::{BatchId, Log as _, Verdict};
use nsgate::config::BatchConfig;
use serde_json::value::RawValue;

use crate::catalog::Catalog;
use crate::house::House;
use crate::recovery::intent;
use crate::table::Table;
use crate::{memory, processor};

/// The number of batches; the variable `NSGATE_REMEMBERED` overrides it.
const BATCHES: usize = 100_000;
/// The number of batches that are written at a time.
const GROUP: usize = 1000;

pub async fn measure(table: &mut Table) {
    let asked = std::env::var("NSGATE_REMEMBERED");
    let batches = asked.map_or(BATCHES, |number| number.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("batches.redb");
    write(&path, batches).await;
    let size = std::fs::metadata(&path).unwrap().len() >> 20;

    memory::forget_most();
    let (before, used, began) = (memory::resident(), processor_time(), Instant::now());
    let house = House::within(folder, &[Catalog::default()], BatchConfig::default());
    let opened = began.elapsed();
    let found = house.batches.recover(&house.backends).await;
    let served = began.elapsed();
    assert_eq!(found.unwrap(), 0);
    let used = processor_time() - used;
    table.note(
        &format!("a log of {batches} batches that are over ({size} MiB): opened in"),
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

async fn write(path: &Path, batches: usize) {
    let log = DiskLog::open(path, |error| panic!("{error}")).unwrap();
    let version = "{\"version\":2,\"manifest_path\":\"warehouse/events.lance/_versions/18446744073709551613.manifest\",\
        \"manifest_size\":1002,\"e_tag\":\"\\\"5d41402abc4b2a76b9719d911017c592\\\"\",\"timestamp_millis\":1763700000000}";
    let answer = || RawValue::from_string(version.to_owned()).unwrap();
    for first in (0..batches).step_by(GROUP) {
        let ids: Vec<BatchId> = (0..GROUP.min(batches - first))
            .map(|_| BatchId::now_v7())
            .collect();
        let intents = ids
            .iter()
            .enumerate()
            .map(|(at, id)| log.intend(*id, Arc::new(intent(first + at))));
        join_all(intents).await.into_iter().for_each(Result::unwrap);
        let decisions = ids
            .iter()
            .map(|id| log.decide(*id, Verdict::Commit(vec![answer(), answer()])));
        for decided in join_all(decisions).await {
            decided.unwrap();
        }
        let ends = ids.iter().map(|id| log.end(*id, 1));
        join_all(ends).await.into_iter().for_each(Result::unwrap);
    }
    log.close().await.unwrap();
}
