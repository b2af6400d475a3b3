//! The set-up that the directed simulations share, each with one fault that once broke a promise; they are in the files of its folder.
//!
//! Random scenarios reach most of these cases, but seldom all of them in one run.

mod answers;
mod assumptions;
mod clean;
mod identity;
mod names;
mod removals;
mod seen;

use std::sync::Arc;
use std::time::Duration;

use nsgate::metrics::Metrics;
use nsgate::protocol::operation::Operation;
use tokio::time::sleep;

use crate::catalog::Ways;
use crate::clients::{Change, Client, Wanted};
use crate::history::Outcome;
use crate::network::Fault;
use crate::run::{Ended, Script, simulate_with, watch_panics};
use crate::scenario::{At, Crash, Faults, Planned, Scenario};

/// The tables of all tests: two of the first catalog with two versions each, one of the second catalog, and a name of
/// the first catalog that leads nowhere.
const T0: usize = 0;
const T1: usize = 1;
const OTHER: usize = 2;
const SPARE: usize = 3;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Makes a fault of the gateway's own `nth` message of this kind about `c0$t0`.
fn own(operation: Operation, nth: u64, fault: Fault, late: u64) -> Planned {
    Planned {
        catalog: 0,
        table: "c0$t0".into(),
        operation,
        own: true,
        nth,
        fault,
        far: seconds(late),
    }
}

/// Makes faults for a create that arrives late while all of its repetitions are lost: the batch gives up after 20 s.
fn late_create(late: u64) -> Vec<Planned> {
    let create = Operation::CreateTableVersion;
    vec![
        own(create, 1, Fault::Late, late),
        own(create, 2, Fault::RequestLost, 0),
        own(create, 3, Fault::RequestLost, 0),
    ]
}

/// Makes faults for a create that never arrives, however often it is repeated.
fn lost_create() -> Vec<Planned> {
    let creates = (1..=3).map(|nth| own(Operation::CreateTableVersion, nth, Fault::RequestLost, 0));
    creates.collect()
}

/// Makes a fault of the `nth` message of this kind that the gateway passes on.
fn passed_on(operation: Operation, nth: u64, fault: Fault, late: u64) -> Planned {
    Planned {
        own: false,
        ..own(operation, nth, fault, late)
    }
}

fn scenario(ways: Ways, faults: Vec<Planned>) -> Scenario {
    let ways = Ways { told: true, ..ways };
    Scenario {
        faults: Faults::Planned(faults),
        clients: Vec::new(),
        ..Scenario::reference(ways, false, false)
    }
}

/// Runs the script, and fails with its trace if a promise is broken.
fn keeps<F>(scenario: Scenario, script: impl FnOnce(Client) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let faults = match &scenario.faults {
        Faults::Planned(planned) => planned.len(),
        _ => 0,
    };
    let ended = plays(scenario, script);
    let met = ended
        .trace
        .iter()
        .filter(|line| line.contains("** "))
        .count();
    assert!(met >= faults, "not every planned fault was met");
}

/// Runs the script as `keeps` does, whether or not it meets every planned fault.
fn plays<F>(scenario: Scenario, script: impl FnOnce(Client) -> F + Send + 'static) -> Ended
where
    F: Future<Output = ()> + Send + 'static,
{
    let ended = ends(scenario, script);
    assert!(ended.wrong.is_empty(), "{}", ended.wrong.join("\n"));
    ended
}

/// Runs the script and prints its trace, whether or not a promise is broken.
fn ends<F>(scenario: Scenario, script: impl FnOnce(Client) -> F + Send + 'static) -> Ended
where
    F: Future<Output = ()> + Send + 'static,
{
    watch_panics();
    let script: Script = Box::new(move |client| Box::pin(script(client)));
    let metrics = Arc::new(Metrics::new());
    let ended = simulate_with(scenario, &metrics, true, Some(script));
    println!("{}", ended.trace.join("\n"));
    ended
}

impl Client {
    /// Sends a batch over these tables and returns its number. `aborts`: the manifest of its last entry is missing.
    async fn batch_over(&mut self, tables: &[(usize, bool)], aborts: bool) -> usize {
        let mut wanted = Vec::new();
        for (table, branch) in tables {
            wanted.push(self.wants(*table, *branch).await);
        }
        let op = self.plan(&wanted, true);
        if aborts {
            self.lose_last_manifest(op);
        }
        self.send_once(op).await;
        op
    }

    /// Sends a batch with the next versions of one table. `aborts`: the manifest of the last one is missing.
    async fn chain_on(&mut self, table: usize, length: u64, aborts: bool) {
        let first = self.wants(table, false).await;
        let mut wanted = vec![first.clone()];
        wanted.extend((1..length).map(|above| Wanted {
            version: first.version + above,
            base: None,
            ..first.clone()
        }));
        let op = self.plan(&wanted, true);
        if aborts {
            self.lose_last_manifest(op);
        }
        self.send_once(op).await;
    }

    /// Returns the next version of the table.
    async fn wants(&mut self, table: usize, branch: bool) -> Wanted {
        let found = self.latest(table, branch).await;
        let (latest, base, place) = found.expect("a table that can be read");
        Wanted {
            table,
            branch,
            version: latest + 1,
            base,
            place,
        }
    }

    /// Creates one version as its own writer does. Returns its outcome.
    async fn append(&mut self, table: usize) -> Option<Outcome> {
        let (latest, base, place) = self.latest(table, false).await?;
        let wanted = Wanted {
            table,
            branch: false,
            version: latest + 1,
            base,
            place,
        };
        let op = self.plan(&[wanted], false);
        self.send(op, false).await;
        self.outcome(op)
    }
}

const BOTH: [(usize, bool); 2] = [(T0, false), (OTHER, false)];
