//! INTENT that is durable before the tables are validated, and the ways in which a start can read such an INTENT.
//!
//! Each of them breaks a promise. A start knows only the log, and cannot tell a batch that was being validated from one
//! whose creates were under way. `decisions` has the reasons.

use nsgate::batch::step::{Effect, Event, Finding, Match};

use super::{Bug, CRASH, Protocol, ask};
use crate::bounds::Bound;
use crate::invariants::Invariant::{self, *};
use crate::setup::Plan;
use crate::world::Flight;

/// Makes a bug of the order, with a start that takes what it finds as `hear` says.
const fn early(name: &'static str, breaks: Invariant, plan: Plan, hear: fn(Event) -> Event) -> Bug {
    let protocol = Protocol {
        hear,
        ask: before_validation,
    };
    let bound: Bound = CRASH.plan(plan).writer().protocol(protocol);
    Bug {
        name,
        breaks,
        bound,
    }
}

/// Writes INTENT when the first table is validated. The right one still follows; a second line changes nothing here.
fn before_validation(_: Option<&Event>, effect: Effect) -> Vec<Flight> {
    match effect {
        Effect::Validate(0) => ask([Effect::LogIntent, effect]),
        other => ask([other]),
    }
}

/// Replaces the comparison of every version that is found.
fn taken_for(event: Event, likeness: Match) -> Event {
    match event {
        Event::Found(entry, Finding::Present { obstacle, .. }) => {
            Event::Found(entry, Finding::Present { likeness, obstacle })
        }
        other => other,
    }
}

pub const BUGS: [Bug; 4] = [
    early(
        "INTENT before validation: another writer's version is committed",
        CommitIsProven,
        Plan::One,
        |event| event,
    ),
    early(
        "INTENT before validation: another writer's version is undone",
        NothingIsLost,
        Plan::Pair,
        |event| event,
    ),
    early(
        "INTENT before validation: nothing is taken for ours, and another writer's version is hidden",
        WhatIsToldIsShown,
        Plan::One,
        |event| taken_for(event, Match::Incomparable),
    ),
    early(
        "INTENT before validation: everything is taken for another writer's, and ours is shown",
        UndecidedIsHidden,
        Plan::Pair,
        |event| taken_for(event, Match::Unlike),
    ),
];
