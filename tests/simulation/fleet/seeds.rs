//! Runs many seeds of gateways that share a log.

use std::ops::Range;

use crate::scenario::Scenario;
use crate::seeds::{asked_for, check, check_repeats, without};

/// The seeds of an ordinary run.
const USUAL: Range<u64> = 0..1_000;

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
    check(scenario, asked_for("NSGATE_FLEET_SEEDS", USUAL), &HAPPENS);
}

#[test]
fn a_seed_of_three_gateways_is_the_same_every_time() {
    check_repeats(scenario, 0..20);
}
