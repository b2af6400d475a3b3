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
mod world;

use std::collections::BTreeSet;

use planted::BUGS;
use search::{Bound, REACHED, is_caught, search, tell};
use world::{Faults, Plan};

const fn faults(crashes: u8, messages: u8, refusals: u8) -> Faults {
    Faults {
        crashes,
        messages,
        refusals,
    }
}

/// Each has something more than a batch alone; together they meet everything.
const SMALL: [Bound; 7] = [
    Bound::of("a crash", faults(1, 0, 0)),
    Bound::of("a reader", faults(0, 0, 0)).reader(),
    Bound::of("a writer", faults(0, 0, 1)).writer(),
    Bound::of("a stranger", faults(0, 0, 1)).stranger(),
    Bound::of("a removal, a message", faults(0, 1, 0)).plan(Plan::Mixed),
    Bound::of("a removal, a crash, a person", faults(1, 0, 0))
        .plan(Plan::Mixed)
        .person(),
    Bound::of("a group, a reader", faults(0, 0, 1))
        .plan(Plan::Grouped)
        .reader(),
];

/// Each is searched to its end, but the one with everything.
const FULL: [Bound; 11] = [
    Bound::of("two crashes", faults(2, 0, 1)),
    Bound::of("two messages", faults(0, 2, 0)),
    Bound::of("a crash, a message", faults(1, 1, 0)),
    Bound::of("a crash, a reader and a writer", faults(1, 0, 0))
        .reader()
        .writer(),
    Bound::of("a crash, a refusal, a writer", faults(1, 0, 1)).writer(),
    Bound::of("a message, a stranger", faults(0, 1, 0)).stranger(),
    Bound::of("a message, a person", faults(0, 1, 0)).person(),
    Bound::of("a group, a message, a reader", faults(0, 1, 0))
        .plan(Plan::Grouped)
        .reader(),
    Bound::of("a group, a crash, a stranger", faults(1, 0, 0))
        .plan(Plan::Grouped)
        .stranger(),
    Bound::of("a removal, a crash, a message, a person", faults(1, 1, 0))
        .plan(Plan::Mixed)
        .person(),
    Bound::of("everything", faults(2, 2, 1))
        .reader()
        .writer()
        .stranger()
        .enough(60_000_000),
];

/// The bounds that are asked for: `full`, or the words of one, such as `crashes=2,messages=1,mixed,reader`.
fn bounds() -> Vec<Bound> {
    match std::env::var("NSGATE_MODEL").as_deref() {
        Err(_) => SMALL.into(),
        Ok("full") => FULL.into(),
        Ok(words) => vec![
            words
                .split(',')
                .fold(Bound::of("one bound", faults(0, 0, 0)), Bound::with),
        ],
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
    let missed = BUGS.iter().filter(|bug| !is_caught(bug));
    let missed: Vec<_> = missed.map(|bug| bug.name).collect();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
