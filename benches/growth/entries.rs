//! A batch over its number of entries: processor time, connections, and time with slow catalogs.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::catalog::Catalog;
use crate::connection::{Connection, Message};
use crate::curve::{Bound, Curve};
use crate::program::{Program, Setup};
use crate::server::Server;
use crate::sizes;
use crate::stalls::Stalls;

/// The entries of each round, in as many batches as that takes, and the rounds, of which the cheapest counts.
const ENTRIES: usize = 2_000;
const ROUNDS: usize = 5;
/// The requests of batches to one catalog at a time (`batch.in_flight`), which is the default.
const IN_FLIGHT: usize = 32;
/// The time of a slow catalog for each answer.
const SLOW: Duration = Duration::from_millis(5);

pub async fn measure() {
    let mut used = Curve::new("a batch over entries: processor time of one entry", "µs");
    let mut opened = Curve::new(
        "a batch over entries: connections to both catalogs",
        "connections",
    );
    let mut took = Curve::new(
        "a batch over entries: time with catalogs that take 5 ms, over 5 ms × 2 calls × entries / 32",
        "times",
    );
    let mut stalls = Stalls::during("batches over entries");
    for size in sizes("entries", &[10, 32, 100, 316, 1_000]) {
        let site = Site::start(Catalog::default(), size).await;
        let mut connection = Connection::open(site.program.address).await.unwrap();
        let mut version = 1;
        let mut least = f64::MAX;
        for round in 0..=ROUNDS {
            let before = site.program.processor_time();
            let batches = ENTRIES.div_ceil(size);
            for _ in 0..batches {
                version += 1;
                site.batch(&mut connection, version).await;
            }
            let spent = site.program.processor_time() - before;
            // The first round opens connections.
            if round > 0 {
                least = least.min(spent.as_secs_f64() * 1e6 / (batches * size) as f64);
            }
        }
        used.add(size, least);
        stalls.add(&site.program).await;
        let connections = site.catalogs.iter().map(Server::connections).sum::<u64>();
        opened.add(size, connections as f64);
        if size >= 100 {
            let site = Site::start(Catalog::slow(SLOW, SLOW), size).await;
            let mut connection = Connection::open(site.program.address).await.unwrap();
            site.batch(&mut connection, 2).await;
            let began = Instant::now();
            site.batch(&mut connection, 3).await;
            let least = SLOW.as_secs_f64() * 2.0 * size as f64 / IN_FLIGHT as f64;
            took.add(size, began.elapsed().as_secs_f64() / least);
        }
    }
    used.end(&Bound::Exponent(0.1));
    opened.end(&Bound::Most(2.0 * IN_FLIGHT as f64));
    took.end(&Bound::Most(1.3));
    stalls.end();
}

/// Two catalogs with half of the tables each, and the program.
struct Site {
    catalogs: [Server; 2],
    program: Program,
    entries: usize,
}

impl Site {
    async fn start(catalog: Catalog, entries: usize) -> Self {
        let mut other = catalog.clone();
        other = Catalog::slow(other.validation, other.create);
        for table in 0..entries {
            catalog.seed(format!("t{table}"), 1);
            other.seed(format!("t{table}"), 1);
        }
        let catalogs = [Server::over(&catalog).await, Server::over(&other).await];
        let program = Setup::over(catalogs.iter().map(|server| server.address)).start();
        Self {
            catalogs,
            program,
            entries,
        }
    }

    async fn batch(&self, connection: &mut Connection, version: usize) {
        let entries = (0..self.entries).map(|table| {
            let id = [format!("c{}", table % 2), format!("t{table}")];
            json!({"id": id, "version": version, "manifest_path": format!("staged/{version}"), "manifest_size": 1000 + version})
        });
        let body = json!({ "entries": entries.collect::<Vec<_>>() }).to_string();
        let target = "/v1/table/version/batch-create".to_owned();
        let (status, body) = connection
            .send(Message::post(target, "", body))
            .await
            .unwrap();
        assert!(
            status.is_success(),
            "{status} {}",
            String::from_utf8_lossy(&body)
        );
    }
}
