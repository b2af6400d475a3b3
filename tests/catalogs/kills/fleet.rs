//! Three gateways that share a log in PostgreSQL, which has a standby: each of them is killed, stopped, cut off from the
//! log or from the others, the log is restarted and fails over, and the gateways are replaced one by one, under the same
//! load and the same checks.
//!
//! ```text
//! NSGATE_KILL_ROUNDS=200 NSGATE_KILL_KIND=stop cargo test --test catalogs kills::fleet -- --nocapture
//! ```
//!
//! `NSGATE_OTHER_BIN` names another build of the program: `replace` goes from one to the other and back.

use std::env;
use std::os::unix::process::ExitStatusExt as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Scene, Victim};
use crate::harness::{Behind, Gateway, PATIENCE, SharedLog};

const GATEWAYS: usize = 3;
const LEASE: Duration = Duration::from_secs(1);
/// The time within which a batch is decided that was undecided when something failed.
const BOUND: Duration = Duration::from_millis(1200 + 2000);

/// The signal of the timer that ends a gateway at the end of its lease.
const SIGKILL: i32 = 9;

/// The kinds of failures, in the order of the rounds.
const KINDS: [(&str, Kind); 9] = [
    ("nothing", Kind::Nothing),
    ("kill", Kind::Kill),
    ("stop", Kind::Stop),
    ("cut", Kind::Cut),
    ("isolate", Kind::Isolate),
    ("restart", Kind::Restart),
    ("fail over", Kind::FailOver),
    ("silence", Kind::Silence),
    ("replace", Kind::Replace),
];

/// The usual number of rounds: each kind once.
pub(super) const ROUNDS: u64 = KINDS.len() as u64;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// No failure.
    Nothing,
    /// A gateway is killed, and stays away for up to two leases.
    Kill,
    /// A gateway is stopped for two leases.
    Stop,
    /// A gateway and the log do not reach each other for a part of a lease or several.
    Cut,
    /// The other gateways do not reach a gateway.
    Isolate,
    /// The primary loses power, and is started again.
    Restart,
    /// The primary loses power, and the standby is promoted.
    FailOver,
    /// The primary hangs, and the standby is promoted.
    Silence,
    /// Every gateway is stopped in order and started again, one after the other.
    Replace,
}

/// The log that gateways share, and how long its batches were undecided.
pub(super) struct Fleet {
    log: SharedLog,
    rounds: usize,
    only: Option<String>,
    /// The time until the undecided batches were decided, for each failure. With a catalog that is down as well, it begins
    /// when that is back: a batch waits until the catalog can be asked what it has made.
    decided: [Vec<Duration>; 2],
}

#[test]
fn whatever_fails_every_batch_of_gateways_that_share_a_log_is_all_or_nothing() {
    let only = env::var("NSGATE_KILL_KIND").ok();
    let is_known = |only: &String| KINDS.iter().any(|(name, _)| name == only);
    assert!(
        only.as_ref().is_none_or(is_known),
        "NSGATE_KILL_KIND: {only:?} is none of {:?}",
        KINDS.map(|it| it.0)
    );
    let Some(log) = SharedLog::start(GATEWAYS) else {
        return;
    };
    let fleet = Fleet {
        log,
        rounds: 0,
        only,
        decided: Default::default(),
    };
    if let Some(scene) = Scene::set(Some(fleet)) {
        scene.run();
    }
}

impl Fleet {
    pub(super) fn gateways(&self, catalogs: &[Behind<'_>], more: &Value) -> Vec<Gateway> {
        let mut more = more.clone();
        more["batch"]["lease"] = format!("{}ms", LEASE.as_millis()).into();
        // The least that goes with several gateways.
        more["batch"]["slot_cooldown"] = "10s".into();
        more["batch"]["lock_timeout"] = "3s".into();
        self.log.gateways(catalogs, &more)
    }

    /// Prints how long batches were undecided.
    pub(super) fn tell(&self) {
        for (decided, what) in self
            .decided
            .iter()
            .zip(["", " with a catalog that was back"])
        {
            let mut decided = decided.clone();
            decided.sort();
            let Some(longest) = decided.last() else {
                continue;
            };
            let at = |share: usize| decided[(decided.len() - 1) * share / 100];
            let late = decided.iter().filter(|time| **time > BOUND).count();
            println!(
                "  undecided batches of {} failures{what} were decided after: p50 {:?}, p99 {:?}, longest {longest:?}; {late} after more than {BOUND:?}",
                decided.len(),
                at(50),
                at(99),
            );
        }
    }

    /// The next kind of failure.
    fn kind(&mut self) -> (&'static str, Kind) {
        let kinds: Vec<_> = KINDS
            .into_iter()
            .filter(|(name, _)| self.only.as_deref().is_none_or(|only| only == *name))
            .collect();
        self.rounds += 1;
        kinds[(self.rounds - 1) % kinds.len()]
    }

    /// The ids of undecided batches, as an SQL array.
    fn undecided(&self) -> String {
        let ids = "SELECT array_agg(id) FROM nsgate.batch WHERE verdict IS NULL";
        self.log.sql(ids)
    }

    /// The number of these batches that are still undecided.
    fn still(&self, ids: &str) -> bool {
        let sql = format!(
            "SELECT EXISTS (SELECT FROM nsgate.batch WHERE verdict IS NULL AND id = ANY ('{ids}'))"
        );
        self.log.sql(&sql) == "t"
    }
}

impl Scene {
    /// Makes something fail, sometimes with a catalog, and mends it. Returns the words for it.
    pub(super) fn strike(&mut self) -> String {
        let mut fleet = self.fleet.take().unwrap();
        let (name, kind) = fleet.kind();
        let owner = fleet.log.owner();
        let hit = match owner {
            Some(owner) if self.random.below(2) == 0 => owner,
            _ => self.random.below(GATEWAYS),
        };
        let lasts = match kind {
            Kind::Nothing => LEASE * 5,
            Kind::Stop => LEASE * 2,
            _ => self.random.between(0, 2500),
        };
        let calm = [Kind::Nothing, Kind::Replace].contains(&kind);
        let mut catalog = (!calm && self.random.below(3) == 0).then(|| self.random.below(3));
        let with_catalog = usize::from(catalog.is_some());
        let falls = Instant::now();
        if let Some(catalog) = catalog {
            Victim::Catalog(&mut self.catalogs[catalog]).falls();
        }
        match kind {
            Kind::Nothing => {}
            Kind::Replace => self.replace_all(fleet.rounds),
            Kind::Kill => self.gateways[hit].kill(),
            Kind::Stop => self.gateways[hit].signal("STOP"),
            Kind::Cut => fleet.log.cut(hit),
            Kind::Isolate => fleet.log.isolate(hit),
            Kind::Restart => fleet.log.restart(),
            Kind::FailOver => fleet.log.fail_over(),
            Kind::Silence => fleet.log.fall_silent(),
        }
        let (mut failed, mut undecided) = (Instant::now(), fleet.undecided());
        let mut is_mended = false;
        while !is_mended || !undecided.is_empty() {
            // To make a standby takes as long as the disk needs, during which nobody would look at the batches.
            let needs_standby = [Kind::FailOver, Kind::Silence].contains(&kind);
            let may_mend = undecided.is_empty() || !needs_standby;
            if !is_mended && may_mend && falls.elapsed() >= lasts {
                is_mended = true;
                match kind {
                    Kind::Kill => self.gateways[hit].again(),
                    // The owner may have been ended by its timer.
                    Kind::Stop => self.gateways[hit].signal("CONT"),
                    Kind::Cut => fleet.log.mend(hit),
                    Kind::Isolate => fleet.log.join(hit),
                    Kind::Nothing | Kind::Restart | Kind::Replace => {}
                    Kind::FailOver | Kind::Silence => fleet.log.rejoin(),
                }
            }
            if let Some(down) = catalog.take_if(|_| falls.elapsed() > LEASE / 2) {
                Victim::Catalog(&mut self.catalogs[down]).rises();
                failed = Instant::now();
            }
            if !undecided.is_empty() && !fleet.still(&undecided) {
                if kind != Kind::Nothing {
                    fleet.decided[with_catalog].push(failed.elapsed());
                }
                undecided.clear();
            }
            assert!(
                undecided.is_empty() || falls.elapsed() < PATIENCE,
                "{name}: batches stay undecided: {undecided}"
            );
            self.restart_those_that_ended();
            sleep(Duration::from_millis(20));
        }
        if let Some(down) = catalog {
            Victim::Catalog(&mut self.catalogs[down]).rises();
        }
        self.fleet = Some(fleet);
        let whose = if owner == Some(hit) {
            ", of the owner"
        } else {
            ""
        };
        match kind {
            Kind::Kill | Kind::Stop | Kind::Cut | Kind::Isolate => format!("{name}{whose}"),
            _ => name.to_owned(),
        }
    }

    /// Replaces the gateways, each by the same build, or by another in every second of `rounds`.
    fn replace_all(&mut self, rounds: usize) {
        let other = env::var("NSGATE_OTHER_BIN")
            .ok()
            .filter(|_| rounds.is_multiple_of(2));
        let program = other.unwrap_or_else(|| env!("CARGO_BIN_EXE_nsgate").to_owned());
        let mut in_order = 0;
        for gateway in &mut self.gateways {
            let status = gateway.terminate();
            // On a busy machine its own timer may end it: it was silent for longer than its lease.
            let by_timer = status.signal() == Some(SIGKILL);
            assert!(status.success() || by_timer, "{status}");
            in_order += usize::from(status.success());
            gateway.use_program(&program);
            gateway.again();
            sleep(self.random.between(0, 500));
        }
        assert!(in_order > 0, "every gateway was ended by its timer");
    }
}
