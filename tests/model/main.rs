//! The model of the batch protocol: every order of the events around one batch. The protocol is the real `step`.
//!
//! The batch creates one to three versions in one or two catalogs, or creates one and removes another. The gateway may
//! stop at any moment and starts again from its log. Messages, creates and removals, are lost, doubled or late.
//! Catalogs refuse after they have acted, say once what is false, and keep staged manifests or entity tags or not.
//! Others use the same numbers and names through the gateway: a writer who names his version, one who has the catalog
//! choose it, another batch, a client that renames tables, readers. One client writes behind the gateway's back. All
//! versions have the same size, except some of that client's.
//!
//! `visibility` models what the gateway does around `step`. `setup::Assumption` lists what is assumed of the world; a
//! search without each of them shows that it is needed.
//!
//! `cargo test --test model` searches small bounds to their end. The large bounds take minutes; all are in `bounds`:
//!
//! ```text
//! NSGATE_MODEL=full cargo test --release --test model
//! ```
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "tests say what they expect; nobody links against them"
)]

mod bounds;
mod catalog;
mod effects;
mod faults;
mod invariants;
mod moves;
mod mutants;
mod others;
mod readers;
mod search;
mod setup;
mod visibility;
mod world;

use std::collections::BTreeSet;

use bounds::{ASSUMED, bounds};
use mutants::{BUGS, around, early_intent};
use search::{REACHED, broken, is_caught, search, tell};

#[test]
fn the_protocol_keeps_its_invariants_whatever_happens() {
    let mut reached = BTreeSet::new();
    let (mut states, mut broken) = (0, false);
    for bound in bounds() {
        let found = search(bound);
        states += found.states;
        broken |= !found.broken.is_empty();
        reached.extend(found.reached);
    }
    tell(&format!("{states} distinct states in all"));
    assert!(!broken, "an invariant is broken: the trace is above");
    // A search that does not reach these states proves nothing.
    let missed = |(name, _): &&(&'static str, _)| !reached.contains(name);
    let missed: Vec<_> = REACHED
        .iter()
        .filter(missed)
        .map(|(name, _)| name)
        .collect();
    assert!(missed.is_empty(), "never reached: {missed:?}");
}

#[test]
fn what_is_assumed_is_needed() {
    let mut wrong = Vec::new();
    for (bound, breaks) in ASSUMED {
        let broken = broken(bound);
        let expected: BTreeSet<_> = breaks.iter().map(|breaks| breaks.name()).collect();
        if broken != expected {
            wrong.push((bound.name(), broken));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_planted_bug_is_caught() {
    let bugs = BUGS.iter().chain(&around::BUGS).chain(&early_intent::BUGS);
    let missed = bugs.filter(|bug| !is_caught(bug));
    let missed: Vec<_> = missed.map(|bug| bug.name).collect();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
