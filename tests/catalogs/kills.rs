//! Kill -9 at random moments under load: gateway, catalogs, or both, and every batch is all or nothing.
//!
//! Real writers stage real versions over three catalogs and send them as batches, others append through the gateway,
//! readers look on. Each round kills something, starts it again, and compares what everyone was told and saw with what
//! is there. A few rounds by default; many, with what they came to:
//!
//! ```text
//! NSGATE_KILL_ROUNDS=200 cargo test --test catalogs kills -- --nocapture
//! ```
//!
//! `NSGATE_KILL_SEED` repeats the choices of a run; the moment within the protocol that a kill meets is the machine's.

use std::collections::BTreeMap;
use std::env;
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use crate::client::Client;
use crate::harness::{Behind, Catalog, Clients, Gateway, Python, block_on, eventually};

const CATALOGS: [&str; 3] = ["warehouse", "lake", "archive"];
const TABLES_EACH: usize = 3;
/// Rounds on the same tables.
const ROUNDS_ON_TABLES: u64 = 5;

/// What a gateway says of each batch that it finds in its log.
const UNFINISHED: &str = "an unfinished batch is being finished";

/// What is killed, started again, and asked.
struct Scene {
    catalogs: [Catalog; 3],
    gateway: Gateway,
    /// The writers and readers.
    world: Clients,
    random: Random,
    counts: BTreeMap<String, u64>,
}

/// What is killed and started again.
enum Victim<'a> {
    Gateway(&'a mut Gateway),
    Catalog(&'a mut Catalog),
}

#[test]
fn whatever_is_killed_every_batch_is_all_or_nothing() {
    let rounds = number("NSGATE_KILL_ROUNDS").unwrap_or(6);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = number("NSGATE_KILL_SEED").unwrap_or(now.unwrap().as_secs());
    println!("kills: {rounds} rounds, NSGATE_KILL_SEED={seed}");
    let Some(mut scene) = Scene::set(seed) else {
        return;
    };
    let start = Instant::now();
    for round in 0..rounds {
        if round % ROUNDS_ON_TABLES == 0 {
            scene.make_tables(round / ROUNDS_ON_TABLES);
        }
        let killed = scene.round();
        println!("round {round}: {killed}");
    }
    let ever = scene.world.order(&json!(["remember"]));
    assert_eq!(ever["wrong"], json!([]), "of {}", ever["tables"]);
    println!("{rounds} rounds in {:?}:", start.elapsed());
    for (what, count) in &scene.counts {
        println!("  {what}: {count}");
    }
    let count = |what| scene.counts.get(what).copied().unwrap_or_default();
    assert!(
        count("batch committed: 200") >= rounds,
        "few batches commit"
    );
    assert!(count("append: done") >= rounds, "few appends are done");
    assert!(count("read: done") >= rounds, "few reads are done");
}

impl Scene {
    fn set(seed: u64) -> Option<Self> {
        let python = Python::ready()?;
        let catalogs = CATALOGS.map(|_| Catalog::start(python));
        let [warehouse, lake, archive] = CATALOGS;
        let gateway = Gateway::with(
            &[
                Behind::kept(warehouse, catalogs[0].uri(), &[warehouse]),
                Behind::rerooted(lake, catalogs[1].uri(), &["research", lake]),
                Behind::kept(archive, catalogs[2].uri(), &[archive]),
            ],
            &json!({
                // Longer than any writer holds on to a version that it built on one that is not decided.
                "slot_cooldown": "5s",
                "lock_timeout": "1s",
                "prepare_timeout": "3s",
                "remember_outcomes": "10m",
            }),
        );
        let mut command = python.script("kills.py");
        command.arg(gateway.uri()).arg(admin(&gateway));
        command.arg(gateway.token()).arg(seed.to_string());
        let world = Clients::start(&mut command);
        Some(Self {
            catalogs,
            gateway,
            world,
            random: Random(seed),
            counts: BTreeMap::new(),
        })
    }

    /// New tables in every catalog.
    fn make_tables(&mut self, generation: u64) {
        let mut tables = Vec::new();
        for (backend, catalog) in CATALOGS.iter().zip(&self.catalogs) {
            for number in 0..TABLES_EACH {
                let name = format!("t{generation}_{number}");
                let (shown, there) = match *backend {
                    "lake" => (format!("research$lake${name}"), name),
                    _ => (format!("{backend}${name}"), format!("{backend}${name}")),
                };
                tables.push(json!([shown, backend, catalog.uri(), there]));
            }
        }
        self.world.order(&json!(["make", tables]));
    }

    /// Load, kills and new starts in the middle of it; then everything is as it must be. Answers what was killed.
    fn round(&mut self) -> String {
        self.world.order(&json!(["load"]));
        sleep(self.random.between(100, 1000));
        if self.random.below(3) > 0 {
            self.meet();
        }
        let killed = self.kill();
        sleep(self.random.between(100, 300));
        self.world.order(&json!(["rest"]));
        let unfinished = self.gateway.log().matches(UNFINISHED).count() as u64;
        self.settle();
        let report = self.world.order(&json!(["judge"]));
        let wrong = report["wrong"].as_array().unwrap();
        assert!(wrong.is_empty(), "after {killed}: {wrong:#?}");
        for (what, count) in report["counts"].as_object().unwrap() {
            *self.counts.entry(what.clone()).or_default() += count.as_u64().unwrap();
        }
        *self.counts.entry(format!("killed: {killed}")).or_default() += 1;
        let taken_over = "batches that a gateway took over from the one before";
        if killed.contains("gateway") {
            *self.counts.entry(taken_over.to_owned()).or_default() += unfinished;
        }
        self.settle();
        killed
    }

    /// Waits, not for ever, until some batch is under way, and then until a moment of it: most of the time none is.
    fn meet(&mut self) {
        let start = Instant::now();
        while self.at_rest() && start.elapsed() < Duration::from_secs(1) {}
        sleep(self.random.between(0, 10));
    }

    /// Whether no batch is under way; one that is only watched for what may still land is over. None may need a person.
    fn at_rest(&self) -> bool {
        let client = Client::new(self.gateway.admin().parse().unwrap());
        let page = block_on(client.get("/batches")).json();
        let batches = page["batches"].as_array().unwrap().iter();
        let states: Vec<_> = batches.map(|batch| &batch["state"]).collect();
        let hazard = states.iter().any(|state| **state == "hazard");
        assert!(!hazard, "a batch needs a person: {page:#}");
        states.iter().all(|state| **state == "watching")
    }

    /// Kills some at almost the same moment, and starts each again a little later.
    fn kill(&mut self) -> String {
        let random = &mut self.random;
        let kinds = [(true, false), (false, true), (true, true)];
        let (of_gateway, of_catalogs) = kinds[random.below(kinds.len())];
        let mut victims = Vec::new();
        if of_gateway {
            victims.push(Victim::Gateway(&mut self.gateway));
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

    /// Waits until nothing is left to do of any batch.
    fn settle(&self) {
        eventually("every batch to be over", || self.at_rest().then_some(()));
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

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }

    /// Milliseconds.
    fn between(&mut self, least: usize, most: usize) -> Duration {
        Duration::from_millis((least + self.below(most - least + 1)) as u64)
    }
}

fn admin(gateway: &Gateway) -> String {
    format!("http://{}", gateway.admin())
}

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}: {value} is not a number")))
}
