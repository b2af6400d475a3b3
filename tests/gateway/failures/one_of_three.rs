//! One of three addresses is killed, hangs, gets slow, resets or answers 500, while clients read and write.
//!
//! The run of `cargo test` checks only counts. To measure over a longer time:
//!
//! ```text
//! NSGATE_FAULT_SECONDS=20 cargo test --test gateway failures::one_of_three -- --nocapture
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::Method;

use crate::catalog::Catalog;
use crate::catalog::faults::{BROKEN, Fault, Gate};
use crate::client::{Client, full};
use crate::harness::{Setup, World};

const READ: &str = "table_exists";
const WRITE: &str = "restore_table";
/// A delay that is longer than anything takes that does not hang.
const SLOW: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug)]
enum Trouble {
    Killed,
    Hung,
    Slowed,
    Resetting,
    Answering500,
}

const TROUBLES: [Trouble; 5] = [
    Trouble::Killed,
    Trouble::Hung,
    Trouble::Slowed,
    Trouble::Resetting,
    Trouble::Answering500,
];

/// A gateway in front of one catalog with three addresses.
struct Scene {
    world: World,
    others: Vec<Catalog>,
    serials: AtomicUsize,
}

/// The outcome of one request.
struct Sample {
    serial: usize,
    read: bool,
    ok: bool,
    took: Duration,
}

impl Scene {
    async fn start(lines: &[&str]) -> Self {
        let first = Catalog::start().await;
        let others = vec![Catalog::start().await, Catalog::start().await];
        for catalog in others.iter().chain([&first]) {
            catalog.can(READ, 200, "application/json", b"{}");
            catalog.can(WRITE, 200, "application/json", b"{}");
        }
        let endpoints: Vec<String> = others.iter().map(Catalog::uri).collect();
        let mut setup = Setup::new()
            .mount("[west]", "west")
            .section("limits: { response_timeout: 1s }")
            .section("telemetry: { access_log: false }")
            .backend("west", &format!("endpoints: {endpoints:?}"))
            .backend("west", "retry: { attempts: 2, budget: 20% }");
        for line in lines {
            setup = setup.backend("west", line);
        }
        Self {
            world: setup.over(vec![("west", first)]).await,
            others,
            serials: AtomicUsize::new(0),
        }
    }

    fn catalogs(&self) -> impl Iterator<Item = &Catalog> {
        self.others.iter().chain([self.bad()])
    }

    fn bad(&self) -> &Catalog {
        self.world.catalog("west")
    }

    async fn make(&self, trouble: Trouble) {
        let fault = match trouble {
            Trouble::Killed => return self.bad().stop().await,
            Trouble::Hung => Fault::HoldBefore(Gate::new()),
            Trouble::Slowed => Fault::Late(SLOW),
            Trouble::Resetting => Fault::ResetBefore,
            Trouble::Answering500 => Fault::Instead(500, BROKEN),
        };
        for operation in [READ, WRITE, "health"] {
            self.bad().fail_always(operation, fault.clone());
        }
    }

    /// Sends three reads for each write, from `clients` clients, until `stop` is set or `most` requests
    /// were sent.
    async fn load(&self, clients: usize, most: usize, stop: &AtomicBool) -> Vec<Sample> {
        let last = self.serials.load(Ordering::Relaxed) + most;
        let client = self
            .world
            .client()
            .header("content-type", "application/json");
        let one = async |client: Client| {
            let mut samples = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let serial = self.serials.fetch_add(1, Ordering::Relaxed);
                if serial >= last {
                    break;
                }
                samples.push(ask(&client, serial).await);
            }
            samples
        };
        let all = futures_util::future::join_all((0..clients).map(|_| one(client.clone())));
        let samples = all.await.into_iter().flatten().collect();
        self.serials.fetch_min(last, Ordering::Relaxed);
        samples
    }

    /// The numbers of requests that were sent to the bad address, and to all addresses.
    fn asked(&self) -> (usize, usize) {
        let count = |catalog: &Catalog| catalog.seen_of(READ).len() + catalog.seen_of(WRITE).len();
        (count(self.bad()), self.catalogs().map(count).sum())
    }

    /// The number of times that each write arrived anywhere.
    fn writes(&self) -> BTreeMap<String, usize> {
        let mut writes = BTreeMap::new();
        for seen in self.catalogs().flat_map(|catalog| catalog.seen_of(WRITE)) {
            *writes.entry(seen.target).or_default() += 1;
        }
        writes
    }

    /// Checks that no write arrived twice, and that every write that succeeded arrived.
    fn assert_writes(&self, samples: &[Sample], trouble: Trouble) {
        let writes = self.writes();
        let twice: Vec<_> = writes.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "{trouble:?}: {twice:?}");
        for sample in samples.iter().filter(|sample| !sample.read && sample.ok) {
            let target = target(sample.serial);
            assert!(writes.contains_key(&target), "{trouble:?}: {target}");
        }
    }
}

fn target(serial: usize) -> String {
    let tail = if serial.is_multiple_of(4) {
        "restore"
    } else {
        "exists"
    };
    format!("/v1/table/west%24t{serial}/{tail}")
}

async fn ask(client: &Client, serial: usize) -> Sample {
    let began = Instant::now();
    let reply = client.send(Method::POST, &target(serial), full("{}")).await;
    Sample {
        serial,
        read: !serial.is_multiple_of(4),
        ok: reply.is_ok_and(|reply| reply.status == 200),
        took: began.elapsed(),
    }
}

fn failed(samples: &[Sample], read: bool) -> usize {
    let failed = samples
        .iter()
        .filter(|sample| sample.read == read && !sample.ok);
    failed.count()
}

#[tokio::test]
async fn one_in_trouble_costs_readers_nothing_but_what_hangs() {
    const CLIENTS: usize = 16;
    const REQUESTS: usize = 800;
    let never = AtomicBool::new(false);
    for trouble in TROUBLES {
        let began = Instant::now();
        let scene = Scene::start(&["breaker: { failures: 5, open_for: 1h }"]).await;
        let mut samples = scene.load(CLIENTS, 200, &never).await;
        assert_eq!(failed(&samples, true) + failed(&samples, false), 0);
        assert!(
            !scene.bad().seen_of(READ).is_empty(),
            "asked like the others"
        );
        let before = scene.asked();

        scene.make(trouble).await;
        let after = scene.load(CLIENTS, REQUESTS, &never).await;
        assert_eq!(after.len(), REQUESTS);
        let (reads, writes) = (failed(&after, true), failed(&after, false));
        let asked = scene.asked().0 - before.0;
        println!(
            "{trouble:?}: {reads} reads and {writes} writes failed, {asked} sent to it, {:?}",
            began.elapsed()
        );
        // The most that can be lost are the requests under way when five have failed: one for each client,
        // and five.
        let most = match trouble {
            Trouble::Hung => CLIENTS + 5,
            _ => 0,
        };
        assert!(reads <= most, "{trouble:?}: {reads} reads failed");
        assert!(writes <= CLIENTS + 5, "{trouble:?}: {writes} writes failed");
        let share = match trouble {
            Trouble::Killed => 0,
            Trouble::Slowed => REQUESTS / 10,
            _ => CLIENTS + 5 + writes,
        };
        assert!(asked <= share, "{trouble:?}: it was sent {asked}");
        samples.extend(after);
        scene.assert_writes(&samples, trouble);
    }
}

#[tokio::test]
async fn it_is_asked_again_when_it_is_well() {
    let never = AtomicBool::new(false);
    let scene = Scene::start(&["breaker: { failures: 1, open_for: 100ms }"]).await;
    scene.make(Trouble::Resetting).await;
    assert_eq!(failed(&scene.load(8, 200, &never).await, true), 0);
    let open = "nsgate_backend_breaker_open{backend=\"west\"}";
    assert!((scene.world.metric(open).await - 1.0).abs() < f64::EPSILON);
    let page = scene.world.admin().get("/backends").await.ok().json();
    let shown = page["backends"][0]["endpoints"].as_array().unwrap().clone();
    let open_ones = shown.iter().filter(|shown| shown["breaker"] != "closed");
    assert_eq!((shown.len(), open_ones.count()), (3, 1));
    assert_eq!(page["backends"][0]["up"], true);
    // A write may have opened the breaker. Then a read is the probe, and it is retried on another address.
    let retries = "nsgate_backend_retries_total{backend=\"west\"}";
    let elsewhere = async {
        while scene.world.metric(retries).await < 1.0 {
            assert_eq!(failed(&scene.load(8, 50, &never).await, true), 0);
        }
    };
    tokio::time::timeout(crate::PATIENCE, elsewhere)
        .await
        .unwrap();

    scene.bad().behave();
    scene.bad().forget();
    let asked = async {
        while scene.bad().seen_of(READ).len() < 3 {
            scene.load(8, 50, &never).await;
        }
    };
    tokio::time::timeout(crate::PATIENCE, asked).await.unwrap();
    assert!(scene.world.metric(open).await.abs() < f64::EPSILON);
}

fn quantile(samples: &[Sample], share: f64) -> Duration {
    let mut times: Vec<_> = samples.iter().filter(|s| s.read).map(|s| s.took).collect();
    times.sort_unstable();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place in a list"
    )]
    let place = (times.len() as f64 * share) as usize;
    times[place.min(times.len() - 1)]
}

fn row(what: &str, samples: &[Sample], share: f64) {
    let reads = samples.iter().filter(|sample| sample.read).count();
    let errors = failed(samples, true);
    println!(
        "{what:<28} {reads:>8} {errors:>7} {:>8.4}% {:>8.1} {:>8.1} {:>8.1} {:>7} {:>7.2}%",
        100.0 * errors as f64 / reads as f64,
        quantile(samples, 0.5).as_secs_f64() * 1e3,
        quantile(samples, 0.99).as_secs_f64() * 1e3,
        quantile(samples, 1.0).as_secs_f64() * 1e3,
        failed(samples, false),
        100.0 * share,
    );
}

/// Prints error rates and latencies, and checks the stated limit: at most 0.5 % of the reads fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn measured() {
    const CLIENTS: usize = 64;
    let Ok(seconds) = std::env::var("NSGATE_FAULT_SECONDS") else {
        return;
    };
    let time = Duration::from_secs(seconds.parse().unwrap());
    println!(
        "{:<28} {:>8} {:>7} {:>9} {:>8} {:>8} {:>8} {:>7} {:>8}",
        "", "reads", "failed", "", "p50 ms", "p99 ms", "max ms", "writes", "share"
    );
    for trouble in TROUBLES {
        let lines = [
            "breaker: { failures: 5, open_for: 5s }",
            "health: { interval: 2s, timeout: 500ms }",
        ];
        let scene = Arc::new(Scene::start(&lines).await);
        let during = async |time| {
            let before = scene.asked();
            let stop = AtomicBool::new(false);
            let load = scene.load(CLIENTS, usize::MAX / 2, &stop);
            let end = async {
                tokio::time::sleep(time).await;
                stop.store(true, Ordering::Relaxed);
            };
            let (samples, ()) = tokio::join!(load, end);
            let after = scene.asked();
            (
                samples,
                (after.0 - before.0) as f64 / (after.1 - before.1) as f64,
            )
        };
        let (before, share) = during(time / 4).await;
        row(&format!("{trouble:?}: before"), &before, share);
        let (hit, ()) = tokio::join!(during(time), async {
            // The fault begins in the middle of the load, with requests under way.
            tokio::time::sleep(Duration::from_millis(100)).await;
            scene.make(trouble).await;
        });
        row(&format!("{trouble:?}: from the fault on"), &hit.0, hit.1);
        let reads = hit.0.iter().filter(|sample| sample.read).count();
        assert!(failed(&hit.0, true) * 200 <= reads, "{trouble:?}");
        let samples: Vec<_> = before.into_iter().chain(hit.0).collect();
        scene.assert_writes(&samples, trouble);
    }
}
