//! The processor time of a thread that only sends plain requests, while batches run in other threads of the same
//! gateway. It shows the cost of shared state: locks, counters, and lines of the processor's cache.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nsgate::config::BatchConfig;

use super::plain::{CLIENTS, Plain, VERSIONS};
use super::steady::{Ask, Steady, Work};
use super::{MORE, median, more, plain};
use crate::catalog::Catalog;
use crate::house::House;
use crate::processor;
use crate::table::Table;

const ROUNDS: usize = 15;
const WARM_UP: Duration = Duration::from_millis(30);
const RUN: Duration = Duration::from_millis(250);
/// The batches: none; on other tables of the plain requests' catalog and of another one; on other catalogs only; and
/// such that change the names of tables.
const BATCHES: [(&str, Option<Work>); 4] = [
    ("", None),
    ("on tables of their catalog", Some(Work::Versions([0, 1]))),
    ("on tables of other catalogs", Some(Work::Versions([1, 2]))),
    (
        "that make and remove tables of their catalog",
        Some(Work::Names([0, 1])),
    ),
];

/// Returns three catalogs with the tables of all clients.
pub fn catalogs() -> Vec<Catalog> {
    let catalogs: Vec<Catalog> = (0..3).map(|_| Catalog::default()).collect();
    for client in 0..CLIENTS {
        catalogs[0].seed(plain::table(client), VERSIONS);
    }
    for work in BATCHES.into_iter().filter_map(|(_, work)| work) {
        work.prepare(&catalogs);
    }
    catalogs
}

pub async fn measure(table: &mut Table) {
    let catalogs = catalogs();
    let house = Arc::new(House::new(&catalogs, BatchConfig::default()));
    let asked = Arc::clone(&house);
    let ask: Ask = Arc::new(move |_, target, body| {
        let house = Arc::clone(&asked);
        Box::pin(async move {
            house.post(target, body).await;
        })
    });
    let mut rates = Vec::new();
    let mut costs = Plain::ALL.map(|_| BATCHES.map(|_| Vec::new()));
    for _ in 0..ROUNDS {
        for (costs, kind) in costs.iter_mut().zip(Plain::ALL) {
            for (costs, (_, work)) in costs.iter_mut().zip(BATCHES) {
                let batches = work.map(|work| Steady::begin(&catalogs, work, &ask));
                let house = Arc::clone(&house);
                let cost = tokio::task::spawn_blocking(move || alone(&house, kind));
                costs.push(cost.await.unwrap());
                if let Some(batches) = batches {
                    rates.push(batches.end().await);
                }
            }
        }
    }
    house.close().await;
    table.note(
        "batches that ran beside",
        format!("{:.0} a second", median(rates)),
    );
    for (costs, kind) in costs.into_iter().zip(Plain::ALL) {
        let without = costs[0].clone();
        let name = kind.name();
        let figure = format!("{:.2} µs", median(without.clone()));
        table.note(
            &format!("{name} without batches, of its own thread"),
            figure,
        );
        for (costs, (place, _)) in costs.into_iter().zip(BATCHES).skip(1) {
            let each = without
                .iter()
                .zip(&costs)
                .map(|(without, with)| more(*without, *with));
            let what = format!("    with batches {place}: more");
            table.at_most(&what, median(each.collect()), MORE, "%");
        }
    }
}

/// Returns the processor time of a request of this kind, in microseconds, with all clients at a time.
fn alone(house: &Arc<House>, kind: Plain) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run(house, kind, WARM_UP));
    let before = processor::of_this_thread();
    let done = runtime.block_on(run(house, kind, RUN));
    (processor::of_this_thread() - before).as_secs_f64() * 1e6 / done as f64
}

/// Sends requests for the given time; returns the number of answers.
async fn run(house: &Arc<House>, kind: Plain, time: Duration) -> usize {
    let end = Instant::now() + time;
    let clients = (0..CLIENTS).map(|client| {
        let house = Arc::clone(house);
        tokio::spawn(async move {
            let target = kind.target(client);
            let mut done = 0;
            while Instant::now() < end {
                house.send(&target, kind.content_type(), kind.body()).await;
                done += 1;
            }
            done
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut done = 0;
    for client in clients {
        done += client.await.unwrap();
    }
    done
}
