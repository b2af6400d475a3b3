//! The model of gateways that share one batch log: who owns it, which tables are guarded, who may serve what.
//!
//! Three gateways (two in some bounds), two tables, up to two batches. A batch locks its tables, claims their guards,
//! waits for the acknowledgements, writes its INTENT, creates a version in each table, decides, shows or undoes, and
//! ends; the owner releases the guards. Every gateway gets reads of a table or of a listing, and plain writes. A
//! request that a follower passes on is one that the owner gets.
//!
//! Each function of the database happens at one moment; between any two steps of a process anything else may happen.
//! So a process pauses wherever one likes, is cut off from the database, and hears no notification, just by not going
//! on. The faults that are counted by a [`Budget`](world::Budget): a lease ends although its gateway lives; a crash,
//! and a start after it; a gateway that gives the log up while it has work; an answer of the database that is lost
//! after the call was carried out; a call that is held up, and carried out when its caller has long gone on; a create
//! that a catalog refuses. Which of the silent gateways an observer takes for dead, and when, is open; creates arrive
//! at catalogs at any time.
//!
//! A lease is true or false at its holder. An observer may count it as over once it is over there, and once every
//! lease is over that a counted heartbeat may still bring, counted from when that heartbeat was sent. This is
//! [`Assumption::Leases`](mutants::Assumption); [`Assumption::Creates`](mutants::Assumption) is the other one.
//!
//! The promises are in [`Promise`](world::Promise). `ComesToRest` is checked for every state: from it, a state in
//! which everything is done can be reached without another fault or request; and no state without a next step is any
//! other.
//!
//! Not modelled: what one gateway does for its own requests (`tests/model` does), so a read at the owner is filtered
//! by what the owner hides, and is sent again when that changes; the cool-down of numbers and deletes that arrive
//! late; changes without an answer; `batch.without_log: serve`; a crash of the database; writes to the log that are
//! held up, which `write_1` refuses by their numbers; gateways whose configurations differ. A gateway drains one
//! ticket after the other.
//!
//! `cargo test --test fleet_model` searches small bounds to their end. The large bounds take minutes and gigabytes:
//!
//! ```text
//! NSGATE_MODEL=full cargo test --release --test fleet_model
//! ```
//!
//! With `NSGATE_MODEL=traces`, the events that lead to each planted bug are printed.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "tests say what they expect; nobody links against them"
)]

mod batches;
mod bounds;
mod database;
mod gateway;
mod guards;
mod life;
mod moves;
mod mutants;
mod requests;
mod rest;
mod search;
mod world;

use std::collections::BTreeSet;

use bounds::{ASSUMED, bounds};
use mutants::BUGS;
use rest::REACHED;
use search::{broken, is_caught, search, tell};

#[test]
fn the_gateways_keep_their_promises_whatever_happens() {
    let mut reached = BTreeSet::new();
    let (mut states, mut broken) = (0, false);
    for bound in bounds() {
        let found = search(&bound);
        states += found.states;
        broken |= !found.broken.is_empty();
        reached.extend(found.reached);
    }
    tell(&format!("{states} distinct states in all"));
    assert!(!broken, "a promise is broken: the trace is above");
    // A search that does not reach these states proves nothing.
    let names = REACHED.iter().map(|(name, _)| *name);
    let missed: Vec<_> = names.filter(|name| !reached.contains(name)).collect();
    assert!(missed.is_empty(), "never reached: {missed:?}");
}

#[test]
fn what_is_assumed_is_needed() {
    let mut wrong = Vec::new();
    for (bound, breaks) in ASSUMED {
        let broken = broken(bound);
        let expected: BTreeSet<_> = breaks.iter().copied().collect();
        tell(&format!("{}: breaks {broken:?}", bound.name));
        if broken != expected {
            wrong.push((bound.name, broken));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_planted_bug_is_caught() {
    let missed = BUGS.iter().filter(|planted| !is_caught(planted));
    let missed: Vec<_> = missed.map(|planted| planted.name).collect();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
