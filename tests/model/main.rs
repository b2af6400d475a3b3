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
mod invariants;
mod moves;
mod search;
mod world;

use std::collections::BTreeSet;

use search::{Bound, REACHED, search, tell};
use world::Faults;

const fn faults(crashes: u8, messages: u8, refusals: u8) -> Faults {
    Faults {
        crashes,
        messages,
        refusals,
    }
}

/// Each has one thing more than a batch alone; together they meet everything.
const SMALL: [Bound; 4] = [
    Bound::of("one crash", faults(1, 0, 0)),
    Bound::of("one message", faults(0, 1, 0)),
    Bound::of("one refusal, a reader, a writer", faults(0, 0, 1))
        .reader()
        .writer(),
    Bound::of("one refusal, one crash", faults(1, 0, 1)),
];

const FULL: [Bound; 3] = [
    Bound::of("one crash and everybody", faults(1, 0, 1))
        .reader()
        .writer(),
    Bound::of("one message and everybody", faults(0, 1, 1))
        .reader()
        .writer(),
    Bound::of("two crashes, two messages", faults(2, 2, 0)),
];

#[test]
fn the_protocol_keeps_its_invariants_whatever_happens() {
    let bounds = match std::env::var("NSGATE_MODEL").as_deref() {
        Ok("full") => &FULL[..],
        _ => &SMALL,
    };
    let mut reached = BTreeSet::new();
    let (mut states, mut broken) = (0, false);
    for bound in bounds {
        let found = search(*bound);
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
