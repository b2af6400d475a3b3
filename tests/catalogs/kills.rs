//! Kill -9 at random moments under load: of the gateway, of catalogs, or of both. Every batch is all or nothing.
//!
//! Real writers stage real versions over three catalogs and send them as batches. Others append through the gateway,
//! also to branches; have the catalog append; rename tables; or leave before the answer. Readers watch. Relays delay
//! every kind of request and answer. Each round kills something, starts it again, and compares what everyone was told
//! and saw with what is there. A few rounds by default; many rounds, with a summary:
//!
//! ```text
//! NSGATE_KILL_ROUNDS=200 cargo test --test catalogs kills -- --nocapture
//! ```
//!
//! `NSGATE_KILL_SEED` repeats the choices of a run. The moment within the protocol at which a kill comes depends on the
//! machine.

mod delays;
mod elsewhere;
mod fleet;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime};

use http::Method;
use serde_json::{Value, json};

use crate::client::{Client, Reply, empty};
use crate::harness::{Behind, Catalog, Clients, Gateway, Python, Relay, block_on, eventually};
use delays::{Late, Random, delays};
use fleet::Fleet;

const CATALOGS: [&str; 3] = ["warehouse", "lake", "archive"];
const TABLES_EACH: usize = 3;
/// The number of rounds on the same tables. After the last of them no request is under way to a catalog any more.
const ROUNDS_ON_TABLES: u64 = 5;

/// The count of hazards: a request that outlived its gateway has built on an undecided version.
const HAZARD: &str = "batches that need a person";
/// The count of requests that were too late for their round.
const DELAYED: &str = "requests on their way when a round was judged";
/// The log line of a gateway for each batch that it finds unfinished.
const UNFINISHED: &str = "recovering an unfinished batch";

/// The processes that are killed and started again, and the clients.
struct Scene {
    catalogs: [Catalog; 3],
    relays: [Relay; 3],
    gateways: Vec<Gateway>,
    /// The log that the gateways share; `None` for one gateway with its log in a file.
    fleet: Option<Fleet>,
    /// The writers and readers.
    world: Clients,
    random: Random,
    counts: BTreeMap<String, u64>,
    /// The number of requests, by kind, that were delayed by seconds.
    late: Late,
    /// The batches that have become hazards.
    hazards: BTreeSet<String>,
}

/// A process that is killed and started again.
enum Victim<'a> {
    Gateway(&'a mut Gateway),
    Catalog(&'a mut Catalog),
}

#[test]
fn whatever_is_killed_every_batch_is_all_or_nothing() {
    if let Some(scene) = Scene::set(None) {
        scene.run();
    }
}

impl Scene {
    /// Starts everything: one gateway, or those of a fleet.
    fn set(fleet: Option<Fleet>) -> Option<Self> {
        let python = Python::ready()?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seed = number("NSGATE_KILL_SEED").unwrap_or(now.unwrap().as_secs());
        println!("kills: NSGATE_KILL_SEED={seed}");
        let catalogs = CATALOGS.map(|_| Catalog::start(python));
        let relays = [0, 1, 2].map(|index: usize| Relay::to(catalogs[index].port()));
        let behind = [
            Behind::kept("warehouse", relays[0].uri(), &["warehouse"]),
            Behind::rerooted("lake", relays[1].uri(), &["research", "lake"]),
            Behind::kept("archive", relays[2].uri(), &["archive"]),
        ];
        let more = json!({
            "batch": {
                // The limit is longer than any writer holds on to a version that it built on an undecided one.
                "undone_rest": "1500ms",
                "slot_cooldown": "4s",
                "lock_timeout": "700ms",
                "prepare_timeout": "1300ms",
                "remember_outcomes": "10m",
            },
            "limits": { "response_timeout": "4s", "data_timeout": "40s" },
        });
        let gateways = match &fleet {
            Some(fleet) => fleet.gateways(&behind, &more),
            None => vec![Gateway::configured(&behind, &more)],
        };
        let uris: Vec<String> = gateways.iter().map(Gateway::uri).collect();
        let admins = gateways.iter().map(|it| format!("http://{}", it.admin()));
        let admins: Vec<String> = admins.collect();
        let mut command = python.script("kills.py");
        command.arg(uris.join(",")).arg(admins.join(","));
        command.arg(gateways[0].token()).arg(seed.to_string());
        let world = Clients::start(&mut command);
        Some(Self {
            catalogs,
            relays,
            gateways,
            fleet,
            world,
            random: Random(seed),
            counts: BTreeMap::new(),
            late: Late::default(),
            hazards: BTreeSet::new(),
        })
    }

    /// Runs all rounds, and prints what was done.
    fn run(mut self) {
        let usual = match &self.fleet {
            Some(_) => fleet::ROUNDS,
            None => ROUNDS_ON_TABLES,
        };
        let rounds = number("NSGATE_KILL_ROUNDS").unwrap_or(usual);
        let start = Instant::now();
        for round in 0..rounds {
            if round % ROUNDS_ON_TABLES == 0 {
                self.make_tables(round / ROUNDS_ON_TABLES);
            }
            let last = round + 1 == rounds || (round + 1) % ROUNDS_ON_TABLES == 0;
            let killed = self.round(last);
            println!("round {round}, {:?}: {killed}", start.elapsed());
        }
        let ever = self.world.order(&json!(["remember"]));
        assert_eq!(ever["wrong"], json!([]), "of {}", ever["tables"]);
        println!("{rounds} rounds in {:?}:", start.elapsed());
        for (what, count) in self.counts.iter().chain(&*self.late.lock().unwrap()) {
            println!("  {what}: {count}");
        }
        if let Some(fleet) = &self.fleet {
            fleet.tell();
        }
        let count = |what| self.counts.get(what).copied().unwrap_or_default();
        assert!(
            count("batch committed: 200") >= rounds,
            "few batches commit"
        );
        for done in [
            "append: done",
            "append to a branch: done",
            "insert: 200",
            "left",
            "read: done",
        ] {
            assert!(count(done) >= rounds, "few times {done}");
        }
        assert!(count("rename: 200") >= rounds / 3, "few renames are done");
        assert!(
            count(HAZARD) <= 1 + rounds / 10,
            "many batches need a person"
        );
    }

    /// Creates new tables in every catalog.
    fn make_tables(&mut self, generation: u64) {
        let mut tables = Vec::new();
        for (backend, catalog) in CATALOGS.iter().zip(&self.catalogs) {
            for number in 0..TABLES_EACH {
                let name = format!("t{generation}_{number}");
                let (shown, there) = match *backend {
                    // A table at a catalog's root cannot be renamed.
                    "lake" => (vec![format!("research$lake${name}")], vec![name]),
                    _ => {
                        let names = ["", "_renamed"].map(|more| format!("{backend}${name}{more}"));
                        (names.to_vec(), names.to_vec())
                    }
                };
                tables.push(json!([shown, backend, catalog.uri(), there]));
            }
        }
        self.world.order(&json!(["make", tables]));
    }

    /// Runs one round: load, kills and restarts in the middle of it, then the checks. Returns what was killed. `last`:
    /// no delayed request is left for later rounds.
    fn round(&mut self, last: bool) -> String {
        for relay in &self.relays {
            relay.delay(delays(Random(self.random.next()), self.late.clone()));
        }
        self.world.order(&json!(["load"]));
        sleep(self.random.between(100, 1000));
        if self.random.below(3) > 0 {
            self.meet();
        }
        let killed = if self.fleet.is_some() {
            self.strike()
        } else {
            self.kill()
        };
        sleep(self.random.between(100, 300));
        let rested = self.world.order(&json!(["rest"]));
        for odd in rested["odd"].as_array().unwrap() {
            println!("  {odd}");
        }
        let slowest = rested["slowest"].as_f64().unwrap();
        self.restart_those_that_ended();
        let logs = self.gateways.iter().map(Gateway::log);
        let unfinished: usize = logs.map(|log| log.matches(UNFINISHED).count()).sum();
        let unfinished = unfinished as u64;
        self.settle();
        for relay in &self.relays {
            relay.hurry();
            if last {
                relay.wait_until_idle();
            }
        }
        let pending: usize = self.relays.iter().map(Relay::pending).sum();
        *self.counts.entry(DELAYED.to_owned()).or_default() += pending as u64;
        let stuck = self.settle();
        let report = self.world.order(&json!(["judge", last, stuck]));
        let wrong = report["wrong"].as_array().unwrap();
        if !wrong.is_empty() {
            self.tell(wrong);
            panic!("after {killed}: {wrong:#?}");
        }
        for (what, count) in report["counts"].as_object().unwrap() {
            *self.counts.entry(what.clone()).or_default() += count.as_u64().unwrap();
        }
        *self.counts.entry(format!("killed: {killed}")).or_default() += 1;
        let taken_over = "batches that a gateway took over from the one before";
        if killed.contains("gateway") {
            *self.counts.entry(taken_over.to_owned()).or_default() += unfinished;
        }
        self.settle();
        format!("{killed}; the slowest batch took {slowest:.1} s")
    }

    /// Prints the messages between gateway and catalogs about the tables that broken promises name.
    fn tell(&self, wrong: &[Value]) {
        let wrong = Value::from(wrong.to_vec()).to_string();
        let names = wrong.split(|it: char| !it.is_alphanumeric() && it != '_');
        let tables: BTreeSet<&str> = names
            .filter(|name| name.starts_with('t') && name.contains('_'))
            .collect();
        for (backend, relay) in CATALOGS.iter().zip(&self.relays) {
            for line in relay.seen() {
                if tables.iter().any(|table| line.contains(table)) {
                    println!("{backend}: {line}");
                }
            }
        }
    }

    /// Waits, for a limited time, until a batch is under way, and then for a random moment of it: mostly none is under
    /// way.
    fn meet(&mut self) {
        let start = Instant::now();
        while self.is_at_rest() == Some(true) && start.elapsed() < Duration::from_secs(1) {}
        sleep(self.random.between(0, 10));
    }

    /// Returns whether no batch is under way; `None` if no gateway knows. A batch that is only watched for late arrivals
    /// is over.
    fn is_at_rest(&self) -> Option<bool> {
        let over = ["watching", "hazard"];
        let mut batches = self.open()?.into_iter();
        Some(batches.all(|batch| over.iter().any(|state| batch["state"] == *state)))
    }

    /// Returns the open batches; `None` if no gateway knows them.
    fn open(&self) -> Option<Vec<Value>> {
        self.gateways.iter().find_map(|gateway| {
            let client = Client::new(gateway.admin().parse().unwrap());
            let page = get(&client, "/batches")?;
            (page.status == 200).then(|| page.json()["batches"].as_array().unwrap().clone())
        })
    }

    /// Starts gateways again that ended, as a supervisor does.
    fn restart_those_that_ended(&mut self) {
        for gateway in &mut self.gateways {
            if let Some(status) = gateway.ended() {
                *self.counts.entry(format!("ended: {status}")).or_default() += 1;
                gateway.again();
            }
        }
    }

    /// Kills some processes at almost the same moment, and starts each again a little later.
    fn kill(&mut self) -> String {
        let random = &mut self.random;
        let kinds = [(true, false), (false, true), (true, true)];
        let (of_gateway, of_catalogs) = kinds[random.below(kinds.len())];
        let mut victims = Vec::new();
        if of_gateway {
            victims.extend(self.gateways.iter_mut().map(Victim::Gateway));
        }
        if of_catalogs {
            let certain = random.below(CATALOGS.len());
            for (index, catalog) in self.catalogs.iter_mut().enumerate() {
                if index == certain || random.below(4) == 0 {
                    victims.push(Victim::Catalog(catalog));
                }
            }
        }
        let first = random.below(victims.len());
        victims.rotate_left(first);
        for victim in &mut victims {
            victim.falls();
            sleep(random.between(0, 20));
        }
        let catalogs = victims.len() - usize::from(of_gateway);
        thread::scope(|threads| {
            for mut victim in victims {
                let pause = random.between(0, 500);
                threads.spawn(move || {
                    sleep(pause);
                    victim.rises();
                });
            }
        });
        match (of_gateway, catalogs) {
            (true, 0) => "gateway".to_owned(),
            (true, _) => format!("gateway and {catalogs} of the catalogs"),
            (false, _) => format!("{catalogs} of the catalogs"),
        }
    }

    /// Waits until no batch has anything left to do. Returns the tables that wait for an operator.
    fn settle(&mut self) -> Vec<Value> {
        eventually("every gateway to serve tables", || {
            self.restart_those_that_ended();
            self.gateways.iter().all(serves).then_some(())
        });
        eventually("every batch to be over", || {
            self.is_at_rest().filter(|rest| *rest)
        });
        let mut stuck = Vec::new();
        for batch in self.open().unwrap() {
            for entry in batch["entries"].as_array().unwrap() {
                if !entry["hazard"].is_null() {
                    let why = format!("{}: {}", batch["id"], entry["hazard"]);
                    if self.hazards.insert(why) {
                        println!("a batch needs a person: {batch:#}");
                    }
                    stuck.push(json!([entry["backend"], entry["table"]]));
                }
            }
        }
        self.counts
            .insert(HAZARD.to_owned(), self.hazards.len() as u64);
        stuck
    }
}

impl Victim<'_> {
    fn falls(&mut self) {
        match self {
            Self::Gateway(gateway) => gateway.kill(),
            Self::Catalog(catalog) => catalog.kill(),
        }
    }

    fn rises(&mut self) {
        match self {
            Self::Gateway(gateway) => gateway.again(),
            Self::Catalog(catalog) => catalog.again(),
        }
    }
}

/// Returns true if a gateway serves tables: it knows what batches do.
fn serves(gateway: &Gateway) -> bool {
    let listed = get(&gateway.client(), "/v1/namespace/warehouse/table/list");
    listed.is_some_and(|listed| listed.status != 503)
}

/// Returns the answer; `None` if there is none, because the gateway has ended.
fn get(client: &Client, target: &str) -> Option<Reply> {
    block_on(client.send(Method::GET, target, empty())).ok()
}

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}: {value} is not a number")))
}
