//! The search of all worlds within a bound, and its result.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Instant;

use nsgate::batch::step::{Hazard, Settled};
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::bounds::Bound;
use crate::catalog::Maker;
use crate::invariants::Invariant;
use crate::moves::Move;
use crate::mutants::Bug;
use crate::others::{Rival, Writer};
use crate::readers::{Counter, Reader};
use crate::visibility::Slot;
use crate::world::World;

/// The result of a search.
pub struct Found {
    pub states: usize,
    pub reached: Vec<&'static str>,
    pub broken: Vec<&'static str>,
}

type Holds = fn(&Bound, &World) -> bool;

/// The states that the searches must reach, so that they prove something.
pub const REACHED: [(&str, Holds); 12] = [
    ("a commit", |_, world| world.is_committed()),
    ("an abort that deletes", |_, world| {
        let mut entries = world.entries();
        entries.any(|entry| world.facts[entry].consumed && world.maker(entry).is_none())
    }),
    ("a hazard", |_, world| world.waits_for_a_person()),
    ("all that is left of a table", |_, world| {
        let hazard = Some(Settled::Hazard(Hazard::OnlyVersion));
        world.log.settled.contains(&hazard)
    }),
    ("a commit by recovery", |_, world| {
        world.log.by_recovery && world.is_committed()
    }),
    ("a late create undone", |_, world| {
        world.facts.iter().any(|facts| facts.late_undone)
    }),
    ("a removal that may still arrive", |_, world| {
        let leaving = |slot: &Slot| matches!(slot, Slot::Leaving { .. });
        world.slots.iter().any(leaving) && !world.late.is_empty()
    }),
    ("a number made again by a writer", |_, world| {
        let made = |entry| world.maker(entry) == Some(Maker::Writer);
        world
            .entries()
            .any(|entry| made(entry) && world.facts[entry].consumed)
    }),
    ("a number made again by another batch", |_, world| {
        let rival = Some(Maker::Rival { committed: true });
        let mut entries = world.entries();
        entries.any(|entry| world.maker(entry) == rival && world.facts[entry].consumed)
    }),
    ("a contested number", |_, world| {
        let settled = world.log.settled.iter().flatten();
        settled.copied().any(Settled::is_contested)
    }),
    ("another table under the name", |_, world| {
        let mut entries = world.entries();
        entries.any(|entry| world.maker(entry) == Some(Maker::Alien) && world.facts[entry].consumed)
    }),
    ("a stray in our place", |_, world| {
        world
            .entries()
            .any(|entry| world.maker(entry) == Some(Maker::Stray))
    }),
];

impl Model for Bound {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        let mut world = World::new(self.setup, self.faults);
        let others = self.others;
        world.stranger = others.stranger;
        world.cleaner = others.cleaner;
        world.person = others.person;
        world.server = others.server;
        world.renamer = others.renamer;
        if others.writer {
            world.writer = Writer::Idle;
        }
        if others.rival {
            world.rival = Rival::Idle;
        }
        if others.reader {
            world.reader = Reader::Idle;
        }
        if others.counter {
            world.counter = Counter::Idle;
        }
        vec![world]
    }

    fn actions(&self, world: &World, moves: &mut Vec<Move>) {
        // A trace ends at its first broken invariant.
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
            holds::<11>,
            holds::<12>,
            holds::<13>,
            holds::<14>,
        ];
        let always = Invariant::ALL.iter().zip(holds);
        always
            .map(|(invariant, holds)| Property::always(invariant.name(), holds))
            .chain(REACHED.map(|(name, reached)| Property::sometimes(name, reached)))
            .collect()
    }
}

/// Searches a bound to its end, and prints the result.
pub fn search(bound: Bound) -> Found {
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let checker = bound.checker().threads(threads).spawn_dfs().join();
    let states = checker.unique_state_count();
    let seconds = began.elapsed().as_secs_f64();
    let Bound { name, faults, .. } = bound;
    tell(&format!(
        "{name}: {faults:?}, {states} distinct states, all of them, {seconds:.1} s"
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

/// Returns the invariants that break within a bound.
pub fn broken(bound: Bound) -> BTreeSet<&'static str> {
    let checker = bound.checker().spawn_dfs().join();
    let found = checker.discoveries().into_keys();
    let reached = |name: &&str| REACHED.iter().any(|(other, _)| other == name);
    found.filter(|name| !reached(name)).collect()
}

/// Returns true if the invariant that a bug breaks is found broken.
pub fn is_caught(bug: &Bug) -> bool {
    let breaks = bug.breaks.name();
    let found = HasDiscoveries::AllOf([breaks].into());
    let checker = bug.bound.checker().finish_when(found).spawn_bfs().join();
    let caught = checker.discovery(breaks).is_some();
    let states = checker.unique_state_count();
    if caught {
        tell(&format!("caught: {} by {breaks}", bug.name));
    } else {
        tell(&format!("NOT caught in {states} states: {}", bug.name));
    }
    caught
}

/// Prints past the test harness, which captures the output of tests that pass.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
