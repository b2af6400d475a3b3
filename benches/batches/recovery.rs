//! Undecided batches of an earlier run: finished without other load, and while clients send requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nsgate::batch::log::disk::DiskLog;
use nsgate::batch::log::{BatchId, Log as _};
use nsgate::config::BatchConfig;
use nsgate::metrics::BatchState;
use tokio::task::JoinSet;

use crate::catalog::Catalog;
use crate::house::House;
use crate::remembered::intent;
use crate::table::Table;

const BATCHES: usize = 10_000;
/// The clients that send requests meanwhile, and the interval of each: the rate leaves one core free.
const CLIENTS: usize = 64;
const EVERY: Duration = Duration::from_millis(64);

pub async fn measure(table: &mut Table) {
    finished(table, 0).await;
    finished(table, CLIENTS).await;
}

async fn finished(table: &mut Table, clients: usize) {
    let folder = tempfile::tempdir().unwrap();
    let catalogs = [Catalog::default(), Catalog::default()];
    let log = DiskLog::open(&folder.path().join("batches.redb"), |error| {
        panic!("{error}")
    });
    let log = log.unwrap();
    let written = (0..BATCHES).map(|number| {
        for (place, catalog) in catalogs.iter().enumerate() {
            // Half of the batches were completely prepared, and are committed; the others are rolled
            // back.
            let prepared = number % 2 == 0 || place == 0;
            catalog.seed(format!("t{number}"), 1 + u64::from(prepared));
        }
        log.intend(BatchId::now_v7(), Arc::new(intent(number)))
    });
    for written in futures_util::future::join_all(written).await {
        written.unwrap();
    }
    drop(log);

    let began = Instant::now();
    let house = Arc::new(House::within(folder, &catalogs, BatchConfig::default()));
    let found = house.batches.recover(&house.backends).await;
    let served = began.elapsed();
    assert_eq!(found.unwrap(), BATCHES);
    let mut asking = JoinSet::new();
    for client in 0..clients {
        catalogs[0].seed(format!("other{client}"), 3);
        asking.spawn(ask(Arc::clone(&house), client));
    }
    // A version that was requested and never seen is watched for, after its batch is rolled back.
    while house
        .batches
        .open()
        .iter()
        .any(|batch| batch.state != BatchState::Watching)
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let ended = began.elapsed();
    asking.shutdown().await;
    house.close().await;
    if clients > 0 {
        table.at_most(
            &format!("the same while {clients} clients ask for lists of other tables"),
            ended.as_secs_f64(),
            5.0,
            "s",
        );
        return;
    }
    table.note(
        "until requests are served",
        format!("{:.2} s", served.as_secs_f64()),
    );
    table.at_most(
        &format!("until {BATCHES} undecided batches of 2 entries are committed or undone"),
        ended.as_secs_f64(),
        5.0,
        "s",
    );
}

async fn ask(house: Arc<House>, client: usize) {
    let first = Instant::now() + EVERY * client as u32 / CLIENTS as u32;
    let mut turns = tokio::time::interval_at(first.into(), EVERY);
    let target = format!("/v1/table/c0%24other{client}/version/list");
    loop {
        turns.tick().await;
        house.list(&target).await;
    }
}
