//! A list of the versions of a table with a hidden one, compared with the same list of a table without.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nsgate::config::BatchConfig;

use crate::catalog::Catalog;
use crate::house::{House, batch};
use crate::processor;
use crate::table::{Table, Times, micros};

const ROUNDS: usize = 2000;
const SIZES: [u64; 3] = [1, 100, 1000];
/// The number of clients at a time for the second figure.
const CLIENTS: usize = 64;
const EACH: usize = 40;
const NEVER: Duration = Duration::from_secs(3600);

pub async fn measure(table: &mut Table) {
    // The first catalog has prepared its part of a batch; the second never will.
    let catalogs = [Catalog::default(), Catalog::slow(Duration::ZERO, NEVER)];
    for size in SIZES {
        catalogs[0].seed(format!("plain{size}"), size + 1);
        catalogs[0].seed(format!("hidden{size}"), size);
        catalogs[1].seed(format!("hidden{size}"), size);
    }
    let settings = BatchConfig {
        prepare_timeout: NEVER,
        ..BatchConfig::default()
    };
    let house = Arc::new(House::new(&catalogs, settings));
    for size in SIZES {
        let tables = ["c0", "c1"].map(|catalog| format!("{catalog}\",\"hidden{size}"));
        let body = batch(tables.into_iter(), size + 1);
        let asking = Arc::clone(&house);
        tokio::spawn(async move {
            asking.post("/v1/table/version/batch-create", body).await;
        });
        let [plain, hidden] =
            ["plain", "hidden"].map(|name| format!("/v1/table/c0%24{name}{size}/version/list"));
        let longer = house.list(&plain).await.len();
        while catalogs[0].latest(&format!("hidden{size}")) == size {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let shorter = house.list(&hidden).await.len();
        assert!(shorter < longer, "the version is not hidden");
        let (mut without, mut with) = (Times::default(), Times::default());
        for _ in 0..ROUNDS {
            for (target, times) in [(&plain, &mut without), (&hidden, &mut with)] {
                let began = Instant::now();
                house.list(target).await;
                times.add(began.elapsed());
            }
        }
        table.at_most(
            &format!("a list of {size} versions ({longer} bytes), one more hidden, over none"),
            micros(with.median()) - micros(without.median()),
            50.0,
            "µs",
        );
        let [plain, hidden] = [&plain, &hidden].map(|target| (target.clone(), Vec::new()));
        let mut both = [plain, hidden];
        for _ in 0..9 {
            for (target, costs) in &mut both {
                costs.push(at_a_time(&house, target).await);
            }
        }
        let [without, with] = both.map(|(_, mut costs)| {
            costs.sort_by(f64::total_cmp);
            costs[costs.len() / 2]
        });
        table.at_most(
            &format!("    {CLIENTS} clients at a time: processor time of one over none"),
            with - without,
            50.0,
            "µs",
        );
    }
    house.close().await;
}

/// Returns the processor time of a list in microseconds, with many clients at a time: the time that each waits for
/// the others is not counted.
async fn at_a_time(house: &Arc<House>, target: &str) -> f64 {
    let before = processor::of_process(std::process::id());
    let clients = (0..CLIENTS).map(|_| {
        let (house, target) = (Arc::clone(house), target.to_owned());
        tokio::spawn(async move {
            for _ in 0..EACH {
                house.list(&target).await;
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    let used = processor::of_process(std::process::id()) - before;
    micros(used) / (CLIENTS * EACH) as f64
}
