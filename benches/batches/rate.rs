//! Batches a second from many clients at a time, over two catalogs that answer at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nsgate::config::BatchConfig;

use crate::catalog::Catalog;
use crate::house::House;
use crate::table::{Table, Times, millis};

const CLIENTS: [usize; 2] = [64, 256];
const WARM_UP: Duration = Duration::from_secs(1);
const RUN: Duration = Duration::from_secs(8);

pub async fn measure(table: &mut Table) {
    for clients in CLIENTS {
        let catalogs = [Catalog::default(), Catalog::default()];
        let house = Arc::new(House::new(&catalogs, BatchConfig::default()));
        let begin = Instant::now() + WARM_UP;
        let tasks: Vec<_> = (0..clients)
            .map(|client| {
                let name = format!("t{client}");
                for catalog in &catalogs {
                    catalog.seed(&name, 1);
                }
                tokio::spawn(client_loop(Arc::clone(&house), name, begin))
            })
            .collect();
        let mut times = Times::default();
        for task in tasks {
            times.extend(task.await.unwrap());
        }
        house.close().await;
        let rate = times.len() as f64 / RUN.as_secs_f64();
        table.at_least(
            &format!("batches of 2 entries in 2 catalogs, {clients} clients at a time"),
            rate,
            2000.0,
            "a second",
        );
        table.note(
            "    each: median, of a hundred the slowest",
            format!(
                "{:.1}, {:.1} ms",
                millis(times.median()),
                millis(times.quantile(0.99))
            ),
        );
    }
}

/// Runs one batch after the other on a table of its own in each catalog.
async fn client_loop(house: Arc<House>, table: String, begin: Instant) -> Times {
    let mut times = Times::default();
    let end = begin + RUN;
    for version in 2.. {
        let began = Instant::now();
        if began >= end {
            break;
        }
        house.batch(2, &table, version).await;
        if began >= begin {
            times.add(began.elapsed());
        }
    }
    times
}
