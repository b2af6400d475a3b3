//! The protocol model-checked: `step` itself, with everything that can happen around one batch, in every order.
//!
//! A batch of three versions in two catalogs, two of them a chain; a gateway that may stop at any instant and comes back
//! with what its log holds; messages that are lost, doubled or delayed; a writer and a reader who go through the gateway,
//! and somebody who writes behind its back.
//!
//! `cargo test --test model` searches small bounds to their end. The large ones, minutes and gigabytes:
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

mod catalog;
mod doings;
mod faults;
mod invariants;
mod moves;
mod others;
mod planted;
mod search;
mod setup;
mod visibility;
mod world;

use std::collections::BTreeSet;

use planted::{BUGS, around};
use search::{Bound, REACHED, is_caught, search, tell};
use setup::Plan;
use world::Faults;

const fn faults(crashes: u8, messages: u8, refusals: u8, lies: u8) -> Faults {
    Faults {
        crashes,
        messages,
        refusals,
        lies,
    }
}

/// Each has something more than a batch alone; together they meet everything.
const SMALL: [Bound; 1] = [Bound::of("a crash", Plan::Versions, faults(1, 0, 0, 0))];

const FULL: [Bound; 1] = [Bound::of("a crash", Plan::Versions, faults(1, 0, 0, 0))];

/// The bounds that are asked for: `full`, or the words of one, such as `crashes=2,messages=1,mixed,reader`.
fn bounds() -> Vec<Bound> {
    match std::env::var("NSGATE_MODEL").as_deref() {
        Err(_) => SMALL.into(),
        Ok("full") => FULL.into(),
        Ok(words) => vec![words.split(',').fold(
            Bound::of("one bound", Plan::One, faults(0, 0, 0, 0)),
            Bound::with,
        )],
    }
}

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
    // A search that goes nowhere finds nothing.
    let missed = |(name, _): &&(&'static str, _)| !reached.contains(name);
    let missed: Vec<_> = REACHED
        .iter()
        .filter(missed)
        .map(|(name, _)| name)
        .collect();
    assert!(missed.is_empty(), "never reached: {missed:?}");
}

#[test]
fn every_planted_bug_is_caught() {
    let bugs = BUGS.iter().chain(&around::BUGS);
    let missed = bugs.filter(|bug| !is_caught(bug));
    let missed: Vec<_> = missed.map(|bug| bug.name).collect();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
