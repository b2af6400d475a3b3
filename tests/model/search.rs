//! The search through all worlds within a bound, and what it found.

use std::io::Write;
use std::time::Instant;

use nsgate::batch::step::Decision;
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::invariants::Invariant;
use crate::moves::Move;
use crate::planted::{Bug, Protocol};
use crate::world::{ENTRIES, Faults, Plan, Reader, World, Writer};

/// What may happen in a search.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    name: &'static str,
    protocol: Protocol,
    plan: Plan,
    faults: Faults,
    person: bool,
    writer: bool,
    reader: bool,
    stranger: bool,
    /// So many steps are enough, where there is no end in sight.
    enough: Option<usize>,
}

/// What a search came to.
pub struct Found {
    pub states: usize,
    pub reached: Vec<&'static str>,
    pub broken: Vec<&'static str>,
}

type Holds = fn(&Bound, &World) -> bool;

/// Where the searches must go to mean anything.
pub const REACHED: [(&str, Holds); 5] = [
    ("a commit", |_, world| {
        world.log.decision == Some(Decision::Commit)
    }),
    ("an abort that deletes", |_, world| {
        (0..ENTRIES).any(|entry| world.facts[entry].consumed && world.maker(entry).is_none())
    }),
    ("a hazard", |_, world| world.waits_for_a_person()),
    ("a commit by recovery", |_, world| {
        world.log.by_recovery && world.log.decision == Some(Decision::Commit)
    }),
    ("a late create undone", |_, world| {
        world.facts.iter().any(|facts| facts.late_undone)
    }),
];

impl Bound {
    pub const fn of(name: &'static str, faults: Faults) -> Self {
        Self {
            name,
            protocol: Protocol::TRUE,
            plan: Plan::Versions,
            faults,
            person: false,
            writer: false,
            reader: false,
            stranger: false,
            enough: None,
        }
    }

    pub const fn writer(mut self) -> Self {
        self.writer = true;
        self
    }

    /// With one thing more.
    pub fn with(self, word: &str) -> Self {
        let mut bound = self;
        let (word, count) = word.split_once('=').unwrap_or((word, "1"));
        let count = count.parse().unwrap();
        match word {
            "crashes" => bound.faults.crashes = count,
            "messages" => bound.faults.messages = count,
            "refusals" => bound.faults.refusals = count,
            "grouped" => return self.plan(Plan::Grouped),
            "mixed" => return self.plan(Plan::Mixed),
            "reader" => return self.reader(),
            "writer" => return self.writer(),
            "stranger" => return self.stranger(),
            "person" => return self.person(),
            other => panic!("no bound has `{other}`"),
        }
        bound
    }

    pub const fn enough(mut self, steps: usize) -> Self {
        self.enough = Some(steps);
        self
    }

    pub const fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    pub const fn plan(mut self, plan: Plan) -> Self {
        self.plan = plan;
        self
    }

    pub const fn person(mut self) -> Self {
        self.person = true;
        self
    }

    pub const fn stranger(mut self) -> Self {
        self.stranger = true;
        self
    }

    pub const fn reader(mut self) -> Self {
        self.reader = true;
        self
    }
}

impl Model for Bound {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        let mut world = World::new(self.plan, self.faults);
        world.stranger = self.stranger;
        world.person = self.person;
        if !self.writer {
            world.writer = Writer::Done;
        }
        if !self.reader {
            world.reader = Reader::Done;
        }
        vec![world]
    }

    fn actions(&self, world: &World, moves: &mut Vec<Move>) {
        // What follows a broken promise is not looked at.
        if world.broken.is_none() {
            world.moves(moves);
        }
    }

    fn next_state(&self, world: &World, next: Move) -> Option<World> {
        world.clone().after(&next, self.protocol)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn holds<const I: usize>(_: &Bound, world: &World) -> bool {
            Invariant::ALL[I].holds(world)
        }
        let holds: [Holds; Invariant::ALL.len()] = [
            holds::<0>,
            holds::<1>,
            holds::<2>,
            holds::<3>,
            holds::<4>,
            holds::<5>,
            holds::<6>,
            holds::<7>,
            holds::<8>,
            holds::<9>,
            holds::<10>,
        ];
        let always = Invariant::ALL.iter().zip(holds);
        always
            .map(|(invariant, holds)| Property::always(invariant.name(), holds))
            .chain(REACHED.map(|(name, reached)| Property::sometimes(name, reached)))
            .collect()
    }
}

/// Searches a bound to its end, and tells what it found.
pub fn search(bound: Bound) -> Found {
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut checker = bound.checker().threads(threads);
    if let Some(steps) = bound.enough {
        checker = checker.target_state_count(steps);
    }
    let checker = checker.spawn_dfs().join();
    let states = checker.unique_state_count();
    let seconds = began.elapsed().as_secs_f64();
    let end = match bound.enough {
        None => "all of them",
        Some(_) => "there are more",
    };
    let Bound { name, faults, .. } = bound;
    tell(&format!(
        "{name}: {faults:?}, {states} distinct states, {end}, {seconds:.1} s"
    ));
    let (mut reached, mut broken) = (Vec::new(), Vec::new());
    for (name, path) in checker.discoveries() {
        if REACHED.iter().any(|(other, _)| *other == name) {
            reached.push(name);
            continue;
        }
        broken.push(name);
        tell(&format!("broken: {name}"));
        for (world, next) in path.into_vec() {
            if let Some(next) = next {
                tell(&format!("  {}", world.tell(&next)));
            }
        }
    }
    Found {
        states,
        reached,
        broken,
    }
}

/// Whether a bug is found as what it breaks.
pub fn is_caught(bug: &Bug) -> bool {
    let breaks = bug.breaks.name();
    let found = HasDiscoveries::AllOf([breaks].into());
    let checker = bug.bound.checker().finish_when(found).spawn_bfs().join();
    let caught = checker.discovery(breaks).is_some();
    let states = checker.unique_state_count();
    match caught {
        true => tell(&format!("caught: {} by {breaks}", bug.name)),
        false => tell(&format!("NOT caught in {states} states: {}", bug.name)),
    }
    caught
}

/// Past the test harness, which would keep it to itself.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
