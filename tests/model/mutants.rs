//! Bugs that are planted in the protocol. The model must find each of them.

use nsgate::batch::step::{
    Answer, Decision, Effect, Event, Finding, Hazard, Match, Settled, State, step,
};

use crate::bounds::Bound;
use crate::invariants::Invariant::{self, *};
use crate::setup::Plan;
use crate::world::{Faults, Flight, refusal};

pub mod around;
pub mod early_intent;

/// The protocol as it is, or with a bug in the events that it hears or in the effects that it asks for.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    hear: fn(Event) -> Event,
    ask: fn(Option<&Event>, Effect) -> Vec<Flight>,
}

/// A bug, the invariant that it breaks, and a bound within which it does.
pub struct Bug {
    pub name: &'static str,
    pub breaks: Invariant,
    pub bound: Bound,
}

impl Protocol {
    /// The protocol without a bug.
    pub const TRUE: Self = Self {
        hear: |event| event,
        ask: |_, effect| vec![Flight::Ask(effect)],
    };

    pub fn step(self, state: State, event: &Event) -> (State, Vec<Flight>) {
        let heard = (self.hear)(event.clone());
        let (state, effects) = step(state, heard);
        let ask = |effect| (self.ask)(Some(event), effect);
        (state, effects.into_iter().flat_map(ask).collect())
    }

    /// Returns the flights for the effects of a recovered batch.
    pub fn recovered(self, effects: Vec<Effect>) -> Vec<Flight> {
        let ask = |effect| (self.ask)(None, effect);
        effects.into_iter().flat_map(ask).collect()
    }
}

const fn faults(crashes: u8, messages: u8) -> Bound {
    let refusals = 0;
    let lies = 0;
    Bound::of(
        "planted",
        Plan::Versions,
        Faults {
            crashes,
            messages,
            refusals,
            lies,
        },
    )
}

const CALM: Bound = faults(0, 0);
const CRASH: Bound = faults(1, 0);
const MESSAGE: Bound = faults(0, 1);
const STRANGER: Bound = CALM.stranger();
const REMOVAL: Bound = CALM.plan(Plan::Mixed);

/// Makes a bug in the events that the protocol hears.
const fn hears(
    name: &'static str,
    breaks: Invariant,
    bound: Bound,
    hear: fn(Event) -> Event,
) -> Bug {
    let ask = Protocol::TRUE.ask;
    let bound = bound.protocol(Protocol { hear, ask });
    Bug {
        name,
        breaks,
        bound,
    }
}

/// Makes a bug in the effects that the protocol asks for.
const fn asks(
    name: &'static str,
    breaks: Invariant,
    bound: Bound,
    ask: fn(Option<&Event>, Effect) -> Vec<Flight>,
) -> Bug {
    let hear = Protocol::TRUE.hear;
    let bound = bound.protocol(Protocol { hear, ask });
    Bug {
        name,
        breaks,
        bound,
    }
}

fn ask(effects: impl IntoIterator<Item = Effect>) -> Vec<Flight> {
    effects.into_iter().map(Flight::Ask).collect()
}

fn seen(entry: usize, likeness: Match, latest: bool) -> Event {
    let obstacle = (!latest).then_some(Hazard::BuiltOn);
    Event::Found(entry, Finding::Present { likeness, obstacle })
}

fn refused() -> Effect {
    Effect::Answer(Answer::Refused(refusal()))
}

fn is_aborted(event: Option<&Event>) -> bool {
    matches!(event, Some(Event::Decided(Decision::Abort)))
}

pub const BUGS: [Bug; 28] = [
    hears(
        "a lost create is taken for a refusal",
        UnlocksUndone,
        MESSAGE,
        |event| match event {
            Event::Lost(entry) => Event::Refused(entry, refusal()),
            other => other,
        },
    ),
    hears(
        "whoever was there first is taken for us",
        CommitIsProven,
        STRANGER,
        |event| match event {
            Event::Conflicted(entry, _) => Event::Lost(entry),
            other => other,
        },
    ),
    hears(
        "a lost create is taken for done",
        CommitIsProven,
        MESSAGE,
        |event| match event {
            Event::Lost(entry) => Event::Created(entry),
            other => other,
        },
    ),
    hears(
        "what is not there is taken for ours",
        CommitIsProven,
        MESSAGE,
        |event| match event {
            Event::Found(entry, Finding::Absent) => seen(entry, Match::Alike, true),
            other => other,
        },
    ),
    hears(
        "what was built on is deleted",
        DeletesOnlyOurs,
        STRANGER,
        |event| match event {
            Event::Found(entry, Finding::Present { likeness, .. }) => seen(entry, likeness, true),
            other => other,
        },
    ),
    hears(
        "all that is left of a table is deleted",
        DeletesOnlyOurs,
        CALM.plan(Plan::One).cleaner(),
        |event| match event {
            Event::Found(entry, Finding::Present { likeness, .. }) => seen(entry, likeness, true),
            other => other,
        },
    ),
    hears(
        "whatever is there is deleted",
        DeletesOnlyOurs,
        STRANGER,
        |event| match event {
            Event::Found(entry, Finding::Present { obstacle, .. }) => {
                seen(entry, Match::Proven, obstacle.is_none())
            }
            other => other,
        },
    ),
    hears(
        "a removal is given up",
        UnlocksUndone,
        MESSAGE.plan(Plan::Mixed),
        |event| match event {
            Event::RemovalLost(entry) => Event::Removed(entry),
            other => other,
        },
    ),
    hears(
        "a catalog is asked for ever",
        NoCircles,
        CALM,
        |event| match event {
            Event::Found(entry, Finding::Absent) => Event::Unanswered(entry),
            other => other,
        },
    ),
    asks(
        "200 before the record",
        AnswersAreRecorded,
        CALM,
        |_, effect| match effect {
            Effect::LogDecision(Decision::Commit) => {
                ask([Effect::Answer(Answer::Committed), effect])
            }
            other => ask([other]),
        },
    ),
    asks(
        "the error before the record",
        AnswersAreRecorded,
        CALM,
        |_, effect| match effect {
            Effect::LogDecision(Decision::Abort) => ask([refused(), effect]),
            other => ask([other]),
        },
    ),
    asks(
        "a create before INTENT",
        IntentFirst,
        CALM,
        |_, effect| match effect {
            Effect::LogIntent => ask([
                Effect::Create {
                    entry: 0,
                    again: false,
                },
                effect,
            ]),
            other => ask([other]),
        },
    ),
    asks(
        "a delete before the record",
        DeletesOnlyOurs,
        CALM,
        |_, effect| match effect {
            Effect::LogDecision(Decision::Abort) => ask([
                Effect::Delete {
                    entry: 0,
                    again: false,
                },
                effect,
            ]),
            other => ask([other]),
        },
    ),
    asks(
        "a delete without a look",
        DeletesOnlyOurs,
        CALM,
        |event, effect| match effect {
            Effect::Find { entry, .. } if is_aborted(event) => {
                vec![Flight::Say(seen(entry, Match::Proven, true))]
            }
            other => ask([other]),
        },
    ),
    asks(
        "a delete of more than the version",
        DeletesOnlyOurs,
        CALM,
        |_, effect| match effect {
            Effect::Delete { entry: 1, again } => ask([Effect::Delete { entry: 0, again }, effect]),
            other => ask([other]),
        },
    ),
    asks(
        "a removal before the record",
        DeletesOnlyOurs,
        REMOVAL,
        |_, effect| match effect {
            Effect::LogDecision(Decision::Commit) => ask([
                Effect::Remove {
                    entry: 1,
                    again: false,
                },
                effect,
            ]),
            other => ask([other]),
        },
    ),
    asks(
        "unlocked before the undo",
        UnlocksUndone,
        CALM,
        |event, effect| match effect {
            Effect::Answer(_) if is_aborted(event) => {
                ask([Effect::Unlock(0), Effect::Unlock(1), effect])
            }
            other => ask([other]),
        },
    ),
    asks(
        "unlocked before the removal",
        UnlocksUndone,
        REMOVAL,
        |_, effect| match effect {
            Effect::Reveal => ask([effect, Effect::Unlock(0)]),
            other => ask([other]),
        },
    ),
    asks(
        "unlocked with a hazard",
        UnlocksUndone,
        STRANGER,
        |_, effect| match effect {
            Effect::Note(entry, Settled::Hazard(Hazard::BuiltOn)) => {
                ask([Effect::Unlock(usize::from(entry > 1)), effect])
            }
            other => ask([other]),
        },
    ),
    asks("never unlocked", Ends, CALM, |_, effect| match effect {
        Effect::Unlock(0) => Vec::new(),
        other => ask([other]),
    }),
    asks(
        "revealed one by one",
        AllAtOnce,
        CALM,
        |_, effect| match effect {
            Effect::Reveal => ask([0, 1, 2].map(Effect::Show)),
            other => ask([other]),
        },
    ),
    asks(
        "revealed before the record",
        UndecidedIsHidden,
        CALM,
        |_, effect| match effect {
            Effect::LogDecision(Decision::Commit) => ask([Effect::Reveal, effect]),
            other => ask([other]),
        },
    ),
    asks(
        "not hidden",
        UndecidedIsHidden,
        CALM,
        |_, effect| match effect {
            Effect::Hide => Vec::new(),
            other => ask([other]),
        },
    ),
    asks(
        "freed numbers do not rest",
        NothingOnWhatIsGone,
        CALM.plan(Plan::One).writer().server(),
        |_, effect| match effect {
            Effect::Reserve(_) => Vec::new(),
            other => ask([other]),
        },
    ),
    asks(
        "no tombstones",
        UnlocksUndone,
        CRASH,
        |_, effect| match effect {
            Effect::Watch(entry) => vec![Flight::Say(Event::WatchOver(entry))],
            other => ask([other]),
        },
    ),
    asks(
        "another decision where one is unknown",
        OneDecision,
        MESSAGE,
        |event, effect| match effect {
            Effect::LogDecision(_) if event == Some(&Event::DecisionUnknown) => {
                ask([Effect::LogDecision(Decision::Abort)])
            }
            other => ask([other]),
        },
    ),
    asks(
        "decided again after a crash",
        OneDecision,
        CRASH,
        |event, effect| match effect {
            Effect::Find { .. } if event.is_none() => {
                ask([Effect::LogDecision(Decision::Abort), effect])
            }
            other => ask([other]),
        },
    ),
    asks(
        "what a person keeps is shown too early",
        UndecidedIsHidden,
        CALM.person(),
        |_, effect| match effect {
            Effect::Note(entry, Settled::Kept) => ask([Effect::Show(entry), effect]),
            other => ask([other]),
        },
    ),
];
