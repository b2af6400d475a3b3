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
//! `cargo test --test model` searches small bounds to their end. The large bounds take minutes:
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

use invariants::Invariant;
use mutants::{BUGS, around};
use search::{Bound, REACHED, broken, is_caught, search, tell};
use setup::{Assumption, Plan, Tags};
use world::Faults;

const fn faults(crashes: u8, messages: u8, refusals: u8, lies: u8) -> Faults {
    Faults {
        crashes,
        messages,
        refusals,
        lies,
    }
}

/// The bounds of an ordinary run. Each adds something to a batch alone; together they reach every state in `REACHED`.
const SMALL: [Bound; 15] = [
    Bound::of("a crash", Plan::Versions, faults(1, 0, 0, 0)),
    Bound::of("a reader", Plan::Versions, faults(0, 0, 0, 0)).reader(),
    Bound::of("a removal, a message", Plan::Mixed, faults(0, 1, 0, 0)),
    Bound::of("a group, a reader", Plan::Grouped, faults(0, 0, 0, 0)).reader(),
    Bound::of(
        "a chain, a message, a stranger",
        Plan::Chain,
        faults(0, 1, 0, 0),
    )
    .stranger(),
    Bound::of(
        "a chain, a message, a writer",
        Plan::Chain,
        faults(0, 1, 0, 0),
    )
    .writer(),
    Bound::of(
        "a refusal, a stranger, a person",
        Plan::One,
        faults(0, 0, 1, 0),
    )
    .stranger()
    .person(),
    Bound::of("a lie, a crash, a writer", Plan::One, faults(1, 0, 0, 1)).writer(),
    Bound::of(
        "a crash, a message, a writer",
        Plan::One,
        faults(1, 1, 0, 0),
    )
    .writer(),
    Bound::of(
        "two messages, a change of the catalog's",
        Plan::One,
        faults(0, 2, 0, 0),
    )
    .server(),
    Bound::of(
        "a crash, two messages, another batch",
        Plan::One,
        faults(1, 2, 0, 0),
    )
    .rival()
    .tags(Tags::None),
    Bound::of(
        "two messages, another table, a count",
        Plan::One,
        faults(0, 2, 0, 0),
    )
    .renamer()
    .counter(),
    Bound::of(
        "kept manifests, two messages, a writer",
        Plan::One,
        faults(0, 2, 0, 0),
    )
    .writer()
    .keeps()
    .tags(Tags::Kept),
    Bound::of(
        "a move, a message, a crash, a name",
        Plan::Moved,
        faults(1, 1, 0, 0),
    )
    .renamer(),
    Bound::of(
        "a chain, a message, a crash, a name",
        Plan::Chain,
        faults(1, 1, 0, 0),
    )
    .renamer(),
];

/// The bounds of a full run. Each is searched to its end.
const FULL: [Bound; 24] = [
    Bound::of("two crashes", Plan::Versions, faults(2, 0, 0, 0)),
    Bound::of("a message", Plan::Versions, faults(0, 1, 0, 0)),
    Bound::of("a message, a group", Plan::Grouped, faults(0, 1, 1, 0)),
    Bound::of(
        "a crash, a removal, a message",
        Plan::Mixed,
        faults(1, 1, 0, 0),
    )
    .renamer(),
    Bound::of(
        "a crash, a message, a reader",
        Plan::Pair,
        faults(1, 1, 0, 0),
    )
    .reader(),
    Bound::of(
        "a refusal, a reader, a writer",
        Plan::Pair,
        faults(0, 0, 1, 0),
    )
    .reader()
    .writer(),
    Bound::of("a lie, a writer, a change", Plan::Pair, faults(0, 0, 0, 1))
        .writer()
        .server(),
    Bound::of(
        "a message, a stranger, a person",
        Plan::Chain,
        faults(0, 1, 1, 0),
    )
    .stranger()
    .person(),
    Bound::of(
        "a chain, a crash, a writer, a change",
        Plan::Chain,
        faults(1, 1, 1, 0),
    )
    .writer()
    .server(),
    Bound::of(
        "a chain, a crash, two messages, a change",
        Plan::Chain,
        faults(1, 2, 0, 0),
    )
    .server()
    .keeps(),
    Bound::of(
        "a chain, a lie, another batch, a stranger",
        Plan::Chain,
        faults(1, 1, 0, 1),
    )
    .rival()
    .stranger()
    .tags(Tags::None),
    Bound::of(
        "a chain, two messages, a lie, a count",
        Plan::Chain,
        faults(0, 2, 0, 1),
    )
    .writer()
    .counter(),
    Bound::of(
        "a chain, another batch, a change, a name",
        Plan::Chain,
        faults(1, 1, 0, 0),
    )
    .rival()
    .server()
    .renamer(),
    Bound::of(
        "all faults, a writer, a change",
        Plan::One,
        faults(1, 2, 1, 1),
    )
    .writer()
    .server(),
    Bound::of(
        "sizes, a writer, another batch, a change",
        Plan::One,
        faults(1, 2, 1, 0),
    )
    .writer()
    .rival()
    .server()
    .tags(Tags::None),
    Bound::of(
        "a lie, a writer, a name, a count",
        Plan::One,
        faults(1, 2, 0, 1),
    )
    .writer()
    .renamer()
    .counter(),
    Bound::of("two crashes, kept manifests", Plan::One, faults(2, 2, 0, 0))
        .server()
        .renamer()
        .keeps()
        .tags(Tags::Kept),
    Bound::of(
        "three messages, a change, a person",
        Plan::One,
        faults(1, 3, 0, 0),
    )
    .server()
    .person(),
    Bound::of(
        "a stranger, a writer, kept manifests",
        Plan::One,
        faults(1, 2, 1, 0),
    )
    .stranger()
    .writer()
    .keeps(),
    Bound::of(
        "two crashes, a writer, another batch",
        Plan::One,
        faults(2, 1, 1, 0),
    )
    .writer()
    .rival(),
    Bound::of("a writer, a person, sizes", Plan::One, faults(1, 2, 1, 0))
        .writer()
        .person()
        .tags(Tags::None),
    Bound::of(
        "a move, all faults, a name, a person",
        Plan::Moved,
        faults(1, 2, 1, 0),
    )
    .renamer()
    .person(),
    Bound::of(
        "a move, two crashes, a name, a reader",
        Plan::Moved,
        faults(2, 1, 1, 0),
    )
    .renamer()
    .reader(),
    Bound::of(
        "a move, a message, a writer, another batch",
        Plan::Moved,
        faults(1, 1, 0, 0),
    )
    .writer()
    .rival(),
];

/// The assumptions: for each, a bound that lacks it, and the invariants that break there. No other invariant breaks.
const ASSUMED: [(Bound, &[Invariant]); 8] = [
    (
        Bound::of(
            "an answered delete comes again",
            Plan::One,
            faults(0, 1, 0, 0),
        )
        .writer()
        .without(Assumption::AnsweredOnce),
        &[Invariant::RemovalsMissOthers],
    ),
    (
        Bound::of(
            "what was sent comes after the watch",
            Plan::One,
            faults(0, 1, 0, 0),
        )
        .server()
        .without(Assumption::WatchOutlives),
        &[
            Invariant::UndecidedIsHidden,
            Invariant::UnlocksUndone,
            Invariant::RemovalsMissOthers,
            Invariant::NothingOnWhatIsGone,
        ],
    ),
    (
        Bound::of(
            "a writer's create comes when it is forgotten",
            Plan::One,
            faults(0, 2, 0, 0),
        )
        .server()
        .without(Assumption::StraysRemembered),
        &[Invariant::CommitIsProven],
    ),
    (
        Bound::of("a person decides at once", Plan::One, faults(0, 1, 0, 0))
            .stranger()
            .person()
            .without(Assumption::PersonWaits),
        &[Invariant::DeletesOnlyOurs],
    ),
    (
        Bound::of("who saw storage asks late", Plan::One, faults(0, 0, 0, 0))
            .writer()
            .server()
            .without(Assumption::RawAsksSoon),
        &[Invariant::NothingOnWhatIsGone],
    ),
    (
        Bound::of("a count is crossed", Plan::One, faults(0, 2, 0, 0))
            .counter()
            .without(Assumption::CountUncrossed),
        &[Invariant::UndecidedIsHidden],
    ),
    (
        Bound::of(
            "a stranger where a delete is under way",
            Plan::One,
            faults(1, 2, 0, 0),
        )
        .stranger()
        .without(Assumption::StrangersKeepOff),
        &[Invariant::UndecidedIsHidden, Invariant::UnlocksUndone],
    ),
    (
        Bound::of("a catalog lies twice", Plan::One, faults(0, 0, 0, 2)).writer(),
        &[Invariant::UndecidedIsHidden],
    ),
];

/// The bounds that `NSGATE_MODEL` names: `full`, or the words of one, such as `crashes=2,messages=1,mixed,reader`.
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
    let bugs = BUGS.iter().chain(&around::BUGS);
    let missed = bugs.filter(|bug| !is_caught(bug));
    let missed: Vec<_> = missed.map(|bug| bug.name).collect();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
