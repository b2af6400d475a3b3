//! Runs many seeds of gateways that share a log.

use crate::part;
use crate::scenario::Scenario;
use crate::seeds::{check, check_repeats, without};

/// The number of seeds of an ordinary run.
const USUAL: u64 = 100;

/// The events that must happen at least once in a run, besides every kind of fault of a catalog.
const HAPPENS: [&str; 14] = [
    "batches committed",
    "batches aborted",
    "batches taken over",
    "cuts",
    "failovers",
    "fault: at the server of the log",
    "fault: between gateways",
    "gateways ended in order",
    "gateways stopped",
    "reads checked",
    "requests passed on",
    "restarts of the log's server",
    "takeovers",
    "writes answered 200",
];

fn scenario(seed: u64) -> Scenario {
    without(Scenario::of_fleet(seed))
}

#[test]
fn every_seed_of_three_gateways_keeps_the_promises() {
    check(scenario, part::seeds("NSGATE_FLEET_SEEDS", USUAL), &HAPPENS);
}

#[test]
fn a_seed_of_three_gateways_is_the_same_every_time() {
    check_repeats(scenario, 0..20);
}
