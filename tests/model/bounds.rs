//! The bounds of the searches: those of an ordinary and of a full run, those that lift an assumption, and the words of
//! `NSGATE_MODEL`.

mod full;

use crate::invariants::Invariant;
use crate::mutants::Protocol;
use crate::setup::{Assumption, Flaw, Plan, Setup, Tags};
use crate::world::Faults;
use full::FULL;

/// The bounds of a search: the batch, its faults, and the clients around it.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub name: &'static str,
    pub protocol: Protocol,
    pub setup: Setup,
    pub faults: Faults,
    pub others: Others,
}

/// The clients and operators that act beside the batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Others {
    pub person: bool,
    pub writer: bool,
    pub server: bool,
    pub rival: bool,
    pub renamer: bool,
    pub reader: bool,
    pub counter: bool,
    pub stranger: bool,
    pub cleaner: bool,
}

/// The bounds of an ordinary run. Each adds something to a batch alone; together they reach every state in `REACHED`.
const SMALL: [Bound; 16] = [
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
    Bound::of(
        "a crash, a message, a cleanup, a person",
        Plan::One,
        faults(1, 1, 0, 0),
    )
    .cleaner()
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

/// The assumptions: for each, a bound that lacks it, and the invariants that break there. No other invariant breaks.
pub const ASSUMED: [(Bound, &[Invariant]); 8] = [
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
pub fn bounds() -> Vec<Bound> {
    match std::env::var("NSGATE_MODEL").as_deref() {
        Err(_) => SMALL.into(),
        Ok("full") => FULL.into(),
        Ok(words) => vec![words.split(',').fold(
            Bound::of("one bound", Plan::One, faults(0, 0, 0, 0)),
            Bound::with,
        )],
    }
}

impl Bound {
    pub const fn of(name: &'static str, plan: Plan, faults: Faults) -> Self {
        Self {
            name,
            protocol: Protocol::TRUE,
            setup: Setup {
                plan,
                tags: Tags::Answered,
                keeps: false,
                flaw: None,
                lifted: None,
            },
            faults,
            others: Others {
                person: false,
                writer: false,
                server: false,
                rival: false,
                renamer: false,
                reader: false,
                counter: false,
                stranger: false,
                cleaner: false,
            },
        }
    }

    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Adds what one word of `NSGATE_MODEL` names.
    pub fn with(self, word: &str) -> Self {
        let mut bound = self;
        let (word, count) = word.split_once('=').unwrap_or((word, "1"));
        let count = || count.parse().unwrap();
        match word {
            "crashes" => bound.faults.crashes = count(),
            "messages" => bound.faults.messages = count(),
            "refusals" => bound.faults.refusals = count(),
            "lies" => bound.faults.lies = count(),
            "one" => bound.setup.plan = Plan::One,
            "chain" => bound.setup.plan = Plan::Chain,
            "pair" => bound.setup.plan = Plan::Pair,
            "versions" => bound.setup.plan = Plan::Versions,
            "grouped" => bound.setup.plan = Plan::Grouped,
            "mixed" => bound.setup.plan = Plan::Mixed,
            "moved" => bound.setup.plan = Plan::Moved,
            "keeps" => return self.keeps(),
            "proofs" => return self.tags(Tags::Kept),
            "sizes" => return self.tags(Tags::None),
            "reader" => return self.reader(),
            "counter" => return self.counter(),
            "writer" => return self.writer(),
            "server" => return self.server(),
            "rival" => return self.rival(),
            "renamer" => return self.renamer(),
            "stranger" => return self.stranger(),
            "cleaner" => return self.cleaner(),
            "person" => return self.person(),
            other => panic!("no bound has `{other}`"),
        }
        bound
    }

    pub const fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    pub const fn plan(mut self, plan: Plan) -> Self {
        self.setup.plan = plan;
        self
    }

    pub const fn tags(mut self, tags: Tags) -> Self {
        self.setup.tags = tags;
        self
    }

    pub const fn keeps(mut self) -> Self {
        self.setup.keeps = true;
        self
    }

    pub const fn flaw(mut self, flaw: Flaw) -> Self {
        self.setup.flaw = Some(flaw);
        self
    }

    pub const fn without(mut self, assumption: Assumption) -> Self {
        self.setup.lifted = Some(assumption);
        self
    }

    pub const fn person(mut self) -> Self {
        self.others.person = true;
        self
    }

    pub const fn writer(mut self) -> Self {
        self.others.writer = true;
        self
    }

    pub const fn server(mut self) -> Self {
        self.others.server = true;
        self
    }

    pub const fn rival(mut self) -> Self {
        self.others.rival = true;
        self
    }

    pub const fn renamer(mut self) -> Self {
        self.others.renamer = true;
        self
    }

    pub const fn reader(mut self) -> Self {
        self.others.reader = true;
        self
    }

    pub const fn counter(mut self) -> Self {
        self.others.counter = true;
        self
    }

    pub const fn stranger(mut self) -> Self {
        self.others.stranger = true;
        self
    }

    pub const fn cleaner(mut self) -> Self {
        self.others.cleaner = true;
        self
    }
}

const fn faults(crashes: u8, messages: u8, refusals: u8, lies: u8) -> Faults {
    Faults {
        crashes,
        messages,
        refusals,
        lies,
    }
}
