//! Bugs about messages that may still arrive, and about clients that use a number or a name again.

use nsgate::batch::step::{Decision, Effect, Event, Finding, Settled};

use super::{Bug, Protocol, ask, asks, hears};
use crate::bounds::Bound;
use crate::invariants::Invariant::{self, *};
use crate::setup::{Flaw, Plan};
use crate::world::{Faults, Flight, refusal};

const fn one(crashes: u8, messages: u8, refusals: u8, lies: u8) -> Bound {
    let faults = Faults {
        crashes,
        messages,
        refusals,
        lies,
    };
    Bound::of("planted", Plan::One, faults)
}

const CALM: Bound = one(0, 0, 0, 0);
const MESSAGE: Bound = one(0, 1, 0, 0);

/// Makes a bug in what the gateway does around the protocol.
const fn flawed(name: &'static str, breaks: Invariant, bound: Bound, flaw: Flaw) -> Bug {
    let bound = bound.protocol(Protocol::TRUE).flaw(flaw);
    Bug {
        name,
        breaks,
        bound,
    }
}

pub const BUGS: [Bug; 22] = [
    hears(
        "a lost delete is taken for a refused one",
        RemovalsMissOthers,
        MESSAGE.server(),
        |event| match event {
            Event::RemovalLost(entry) => Event::NotDeleted(entry),
            other => other,
        },
    ),
    hears(
        "a lost removal is taken for a refused one",
        RemovalsMissOthers,
        MESSAGE.plan(Plan::Moved).renamer(),
        |event| match event {
            Event::RemovalLost(entry) => Event::NotRemoved(entry),
            other => other,
        },
    ),
    hears(
        "a refusal is believed without a look",
        UnlocksUndone,
        one(0, 0, 1, 0),
        |event| match event {
            Event::Refused(entry, refusal) => Event::Unsent(entry, refusal),
            other => other,
        },
    ),
    hears(
        "what a catalog made instead is taken for nothing",
        UnlocksUndone,
        one(0, 0, 1, 0),
        |event| match event {
            Event::Spoiled(entry, _) => Event::Unsent(entry, refusal()),
            other => other,
        },
    ),
    asks(
        "a delete's 200 is believed without a look",
        UnlocksUndone,
        one(0, 0, 0, 1),
        |event, effect| match (event, effect) {
            (Some(Event::Deleted(_)), Effect::Find { entry, .. }) => {
                vec![Flight::Say(Event::Found(entry, Finding::Absent))]
            }
            (_, other) => ask([other]),
        },
    ),
    asks(
        "what was not there once is not watched for",
        UnlocksUndone,
        one(1, 0, 0, 1),
        |_, effect| match effect {
            Effect::Watch(entry) => vec![Flight::Say(Event::WatchOver(entry))],
            other => ask([other]),
        },
    ),
    asks(
        "the end of a watch is not written",
        WhatIsToldIsShown,
        one(1, 1, 0, 0).server(),
        |event, effect| match (event, effect) {
            (Some(Event::WatchOver(_)), Effect::Note(entry, _)) => {
                vec![Flight::Say(Event::Noted(entry))]
            }
            (_, other) => ask([other]),
        },
    ),
    asks(
        "that a removal may arrive is not written",
        RemovalsMissOthers,
        one(1, 1, 0, 0).writer(),
        |_, effect| match effect {
            Effect::Note(entry, Settled::Leaving) => ask([Effect::Note(entry, Settled::Gone)]),
            other => ask([other]),
        },
    ),
    asks(
        "a removal is asked for before the batch is revealed to be committed",
        DeletesOnlyOurs,
        CALM.plan(Plan::Moved),
        |_, effect| match effect {
            Effect::LogDecision(Decision::Commit) => {
                let remove = Effect::Remove {
                    entry: 0,
                    again: false,
                };
                ask([remove, effect])
            }
            other => ask([other]),
        },
    ),
    flawed(
        "the watch ends while a removal is under way",
        RemovalsMissOthers,
        MESSAGE.server(),
        Flaw::WatchShort,
    ),
    flawed(
        "a number that a removal may hit is free at once",
        RemovalsMissOthers,
        MESSAGE.writer(),
        Flaw::LeavingPasses,
    ),
    flawed(
        "another batch's create is taken for ours by size",
        CommitIsProven,
        one(0, 2, 0, 0).rival(),
        Flaw::RivalsForgotten,
    ),
    flawed(
        "a writer's lost create is taken for ours by size",
        CommitIsProven,
        one(0, 2, 0, 0).writer(),
        Flaw::StraysForgotten,
    ),
    flawed(
        "what an earlier life had let through is forgotten",
        CommitIsProven,
        one(1, 2, 0, 0).server(),
        Flaw::StraysUnexpected,
    ),
    flawed(
        "what stands on a hidden version is shown",
        UndecidedIsHidden,
        CALM.stranger(),
        Flaw::AboveShown,
    ),
    flawed(
        "a version that may land is not hidden",
        UndecidedIsHidden,
        MESSAGE,
        Flaw::LandingShown,
    ),
    flawed(
        "a server-side change goes through while a create may land",
        NothingIsLost,
        MESSAGE.server(),
        Flaw::ChangesPass,
    ),
    flawed(
        "a table gets a name while a create may land there",
        NothingIsLost,
        MESSAGE.renamer(),
        Flaw::RenamesPass,
    ),
    flawed(
        "a table gives its name away while a create of what is committed may act again",
        CreatesMissOthers,
        MESSAGE.plan(Plan::Chain).renamer(),
        Flaw::KeptRenamed,
    ),
    flawed(
        "who has made a number that was let go does not have it",
        WhatIsToldIsShown,
        MESSAGE.writer(),
        Flaw::TakenForgotten,
    ),
    flawed(
        "a create goes through that waited while its base was made again",
        NothingOnWhatIsGone,
        CALM.writer().server(),
        Flaw::WaitedPasses,
    ),
    flawed(
        "what a catalog counted is not checked",
        UndecidedIsHidden,
        MESSAGE.counter(),
        Flaw::CountUnchecked,
    ),
];
