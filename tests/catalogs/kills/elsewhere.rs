//! Batches on tables of their own, at gateways that share a log, while one of these or the log fails: each is all or
//! nothing. Alone on its machine, none that begins then is refused at a gateway that has not failed. How long the slowest
//! took is printed.
//!
//! ```text
//! NSGATE_KILL_ROUNDS=200 NSGATE_KILL_KIND=kill cargo test --test catalogs kills::elsewhere -- --nocapture
//! ```

use std::collections::BTreeSet;
use std::env;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;

use super::{get, number, serves};
use crate::client::{Client, full};
use crate::harness::{Behind, Catalog, Gateway, Python, SharedLog, block_on, eventually};

const GATEWAYS: usize = 3;
const CATALOGS: [&str; 2] = ["warehouse", "archive"];
const COMMIT: &str = "/v1/table/batch-commit";
/// The default lease.
const LEASE: Duration = Duration::from_secs(5);
/// The longest time that a batch on tables of its own may take, as it is promised.
const BOUND: Duration = Duration::from_millis(6500);
/// The number of rounds after which everything is made anew: a directory catalog of many thousand tables is slow.
const FRESH: u64 = 20;
/// The pause of a client between two batches.
const PAUSE: Duration = Duration::from_millis(60);

/// The kinds of failures. The usual rounds are the first two.
const KINDS: [&str; 5] = ["kill", "cut", "stop", "restart", "fail over"];

/// The gateways, and what they share.
struct Scene {
    log: SharedLog,
    gateways: Vec<Gateway>,
    catalogs: [Catalog; 2],
}

/// The failure of a gateway, or of the log.
struct Failure {
    at: Instant,
    gateway: Option<usize>,
}

/// A batch, and what its client was told.
struct Told {
    /// The number of the gateway that was asked.
    gateway: usize,
    name: String,
    begun: Instant,
    took: Duration,
    /// The status and body of the answer, or why there is none.
    answer: Result<(u16, String), String>,
}

#[test]
fn batches_on_other_tables_are_all_or_nothing_when_a_gateway_fails() {
    let only = env::var("NSGATE_KILL_KIND").ok();
    let is_asked = |kind: &&str| only.as_ref().is_none_or(|only| only == kind);
    let kinds: Vec<&str> = KINDS.into_iter().filter(is_asked).collect();
    assert!(
        !kinds.is_empty(),
        "NSGATE_KILL_KIND: {only:?} is none of {KINDS:?}"
    );
    let Some(mut scene) = Scene::set() else {
        return;
    };
    let (mut slowest, mut refused) = (Vec::new(), 0);
    let rounds = number("NSGATE_KILL_ROUNDS").unwrap_or(2);
    for (round, kind) in (0..rounds).zip(kinds.iter().cycle()) {
        if round > 0 && round.is_multiple_of(FRESH) {
            scene = Scene::set().expect("the same as before");
        }
        let (failure, told) = scene.round(round, kind);
        scene.judge(round, &told);
        let others = told.iter().filter(|it| Some(it.gateway) != failure.gateway);
        let longest = others.clone().map(|batch| batch.took).max().unwrap();
        println!("round {round}, {kind}: the slowest batch took {longest:?}");
        slowest.push(longest);
        // An earlier one may be under way at the gateway that fails.
        let later = others.filter(|batch| batch.begun > failure.at);
        for batch in later.filter(|batch| !matches!(batch.answer, Ok((200, _)))) {
            let Told { gateway, took, .. } = batch;
            println!(
                "gateway {gateway} refused after {took:?}: {:?}",
                batch.answer
            );
            refused += 1;
        }
    }
    slowest.sort();
    let late = slowest.iter().filter(|took| **took > BOUND).count();
    println!(
        "the slowest batch of each of {rounds} failures: median {:?}, longest {:?}; {late} longer than {BOUND:?}",
        slowest[slowest.len() / 2],
        slowest[slowest.len() - 1],
    );
    // On a machine that runs other tests, a gateway may be cut off as if it had failed, too.
    let is_measured = number("NSGATE_KILL_ROUNDS").is_some();
    assert!(refused == 0 || !is_measured, "{refused} were refused");
}

impl Scene {
    /// Starts everything.
    fn set() -> Option<Self> {
        let python = Python::ready()?;
        let log = SharedLog::start(GATEWAYS)?;
        let catalogs = CATALOGS.map(|_| Catalog::start(python));
        let behind = [0, 1].map(|index: usize| {
            let name = &CATALOGS[index..=index];
            Behind::kept(name[0], catalogs[index].uri(), name)
        });
        let gateways = log.gateways(&behind, &json!({ "batch": {} }));
        for name in CATALOGS {
            let target = format!("/v1/namespace/{name}/create");
            eventually("the catalogs to be served", || {
                let made = block_on(gateways[0].client().send(Method::POST, &target, full("{}")));
                made.is_ok_and(|reply| reply.status == 200).then_some(())
            });
        }
        Some(Self {
            log,
            gateways,
            catalogs,
        })
    }

    /// Lets something fail under load, and mends it. Returns what failed, and what the clients were told.
    fn round(&mut self, round: u64, kind: &str) -> (Failure, Vec<Told>) {
        let clients: Vec<Client> = self.gateways.iter().map(Gateway::client).collect();
        let is_over = AtomicBool::new(false);
        thread::scope(|threads| {
            let writers: Vec<_> = clients
                .iter()
                .enumerate()
                .map(|(gateway, client)| {
                    let is_over = &is_over;
                    threads.spawn(move || block_on(write(client, gateway, round, is_over)))
                })
                .collect();
            let failure = self.fail(kind);
            eventually("every gateway to serve again", || {
                // An owner that has lost the log ends.
                for gateway in &mut self.gateways {
                    if gateway.ended().is_some() {
                        gateway.again();
                    }
                }
                self.gateways.iter().all(serves).then_some(())
            });
            sleep(LEASE / 5);
            is_over.store(true, Relaxed);
            let told = writers.into_iter().flat_map(|it| it.join().unwrap());
            (failure, told.collect())
        })
    }

    /// Lets the owner of the log, or the log, fail for two leases.
    fn fail(&mut self, kind: &str) -> Failure {
        let owner = eventually("a gateway to own the log", || self.log.owner());
        sleep(LEASE / 5);
        match kind {
            "kill" => self.gateways[owner].kill(),
            "stop" => self.gateways[owner].signal("STOP"),
            "cut" => self.log.cut(owner),
            "restart" => self.log.restart(),
            _ => self.log.fail_over(),
        }
        let at = Instant::now();
        sleep(LEASE * 2);
        match kind {
            "kill" => self.gateways[owner].again(),
            "stop" => {
                self.gateways[owner].signal("CONT");
                sleep(LEASE / 5);
            }
            "cut" => self.log.mend(owner),
            "restart" => {}
            _ => self.log.rejoin(),
        }
        Failure {
            at,
            gateway: ["kill", "stop", "cut"].contains(&kind).then_some(owner),
        }
    }

    /// Checks that each batch of a round is in both catalogs or in none, and in both if its client was told so.
    fn judge(&self, round: u64, told: &[Told]) {
        let made = eventually("every batch to be all or nothing", || {
            let [one, two] = [0, 1].map(|index| self.tables(index, round));
            (one == two).then_some(one)
        });
        for batch in told {
            if let Ok((200, _)) = batch.answer {
                assert!(made.contains(&batch.name), "{} is lost", batch.name);
            }
        }
    }

    /// The tables of a round in a catalog.
    fn tables(&self, catalog: usize, round: u64) -> BTreeSet<String> {
        let address = ([127, 0, 0, 1], self.catalogs[catalog].port()).into();
        let target = format!("/v1/namespace/{}/table/list", CATALOGS[catalog]);
        let listed = get(&Client::new(address), &target).unwrap().ok().json();
        let names = listed["tables"].as_array().unwrap().iter();
        let prefix = format!("r{round}_");
        names
            .map(|name| name.as_str().unwrap().to_owned())
            .filter(|name| name.starts_with(&prefix))
            .collect()
    }
}

/// Sends batches to a gateway, one after the other, each with two tables that nobody else uses.
async fn write(client: &Client, gateway: usize, round: u64, is_over: &AtomicBool) -> Vec<Told> {
    let mut told = Vec::new();
    while !is_over.load(Relaxed) {
        let name = format!("r{round}_{gateway}_{}", told.len());
        let operations = CATALOGS.map(|catalog| json!({"declare_table": {"id": [catalog, name]}}));
        let body = json!({ "operations": operations }).to_string();
        let begun = Instant::now();
        let keyed = client.header("idempotency-key", &name);
        let answer = keyed.send(Method::POST, COMMIT, full(body)).await;
        let answer =
            answer.map(|reply| (reply.status, String::from_utf8_lossy(&reply.body).into()));
        let took = begun.elapsed();
        told.push(Told {
            gateway,
            name,
            begun,
            took,
            answer,
        });
        tokio::time::sleep(PAUSE).await;
    }
    told
}
