//! The breadth-first search of all worlds within a bound. It keeps a number of 64 bits for each world.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::io::Write;
use std::time::Instant;

use crate::bounds::Bound;
use crate::moves::{Move, Next};
use crate::mutants::{Planted, Rules};
use crate::rest::REACHED;
use crate::world::{GATEWAYS, Promise, World};

/// The result of a search.
pub struct Found {
    pub states: usize,
    pub broken: BTreeSet<Promise>,
    pub reached: BTreeSet<&'static str>,
}

/// The worlds that were seen, in the order of their discovery.
#[derive(Default)]
struct Seen {
    places: HashMap<u64, u32, BuildHasherDefault<Place>>,
    numbers: Vec<u64>,
    parents: Vec<u32>,
    /// The events that help, each from a world to a later one or back.
    progress: Vec<(u32, u32)>,
    at_rest: Vec<u32>,
}

/// Hashes what comes in words of eight bytes.
#[derive(Default)]
struct Digest {
    state: u64,
    word: u64,
    length: u32,
}

/// A number is its own hash.
#[derive(Default)]
struct Place(u64);

impl Hasher for Place {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are hashed");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Digest {
    fn add(&mut self, byte: u8) {
        self.word = self.word << 8 | u64::from(byte);
        self.length += 1;
        if self.length.is_multiple_of(8) {
            self.mix();
        }
    }

    fn mix(&mut self) {
        const ODD: u128 = 0x9E37_79B9_7F4A_7C15;
        let mixed = u128::from(self.state ^ self.word ^ 0x5851_F42D_4C95_7F2D) * ODD;
        self.state = (mixed as u64 ^ (mixed >> 64) as u64).rotate_left(23);
        self.word = 0;
    }
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.add(*byte));
    }

    fn write_u8(&mut self, byte: u8) {
        self.add(byte);
    }

    fn write_u16(&mut self, number: u16) {
        self.add((number >> 8) as u8);
        self.add(number as u8);
    }

    // The lengths of arrays, and the numbers of variants, are small.
    fn write_usize(&mut self, number: usize) {
        self.add(number as u8);
    }

    fn write_isize(&mut self, number: isize) {
        self.add(number as u8);
    }

    fn finish(&self) -> u64 {
        let mut last = Self { ..*self };
        last.word ^= u64::from(self.length) << 56;
        last.mix();
        last.mix();
        last.state
    }
}

fn number(world: &World) -> u64 {
    let mut digest = Digest::default();
    world.hash(&mut digest);
    digest.finish()
}

impl Seen {
    /// Returns the place of a world, and true if it is new.
    fn add(&mut self, world: &World, parent: u32) -> (u32, bool) {
        let number = number(world);
        let next = u32::try_from(self.numbers.len()).unwrap();
        let place = *self.places.entry(number).or_insert(next);
        if place == next {
            self.numbers.push(number);
            self.parents.push(parent);
        }
        (place, place == next)
    }

    /// Returns a world from which no events lead to rest, faults left aside.
    fn never_rests(&self) -> Option<u32> {
        let count = self.numbers.len();
        let mut begins = vec![0_u32; count + 1];
        for (_, to) in &self.progress {
            begins[*to as usize + 1] += 1;
        }
        for index in 0..count {
            begins[index + 1] += begins[index];
        }
        let mut next = begins.clone();
        let mut before = vec![0_u32; self.progress.len()];
        for (from, to) in &self.progress {
            let place = &mut next[*to as usize];
            before[*place as usize] = *from;
            *place += 1;
        }
        let mut rests = vec![false; count];
        let mut open = self.at_rest.clone();
        open.iter().for_each(|place| rests[*place as usize] = true);
        while let Some(place) = open.pop() {
            let place = place as usize;
            for from in &before[begins[place] as usize..begins[place + 1] as usize] {
                if !std::mem::replace(&mut rests[*from as usize], true) {
                    open.push(*from);
                }
            }
        }
        rests
            .iter()
            .position(|rests| !rests)
            .map(|place| place as u32)
    }

    /// Prints the events that lead to a world.
    fn trace(&self, mut place: u32, first: World, rules: &Rules) {
        let mut path = Vec::new();
        while place != 0 {
            path.push(self.numbers[place as usize]);
            place = self.parents[place as usize];
        }
        let mut world = first;
        for wanted in path.into_iter().rev() {
            let mut next = Next::of(&world, rules).into_iter();
            let (event, to) = next.find(|(_, to)| number(to) == wanted).unwrap();
            tell(&format!("  {event}"));
            world = to;
        }
    }
}

impl std::fmt::Display for Move {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.who {
            GATEWAYS => write!(f, "- {}", self.event)?,
            who => write!(f, "{} {}", ["A", "B", "C"][who], self.event)?,
        }
        write!(f, " [{}]{}", self.about, self.fault)
    }
}

/// Searches a bound until `until` is broken, or to its end. With `traces`, prints how each promise was broken.
fn run(bound: &Bound, until: Option<Promise>, traces: bool) -> Found {
    let rules = &bound.rules;
    let first = World::new(bound.budget, bound.gateways);
    let mut seen = Seen::default();
    let mut found = Found {
        states: 0,
        broken: BTreeSet::new(),
        reached: BTreeSet::new(),
    };
    let mut waiting = vec![(0, first)];
    seen.add(&first, 0);
    while !waiting.is_empty() {
        let mut later = Vec::new();
        for (place, world) in &waiting {
            for (name, reached) in &REACHED {
                if !found.reached.contains(name) && reached(world) {
                    found.reached.insert(name);
                }
            }
            let next = Next::of(world, rules);
            let mut broken = world.broken;
            if world.is_at_rest() || broken.is_some() {
                seen.at_rest.push(*place);
            } else if !next.iter().any(|(event, _)| event.is_progress) {
                broken = Some(Promise::ComesToRest);
            }
            if let Some(broken) = broken
                && found.broken.insert(broken)
                && traces
            {
                tell(&format!("{}: {broken:?} is broken:", bound.name));
                seen.trace(*place, first, rules);
            }
            if until.is_some_and(|until| found.broken.contains(&until)) {
                found.states = seen.numbers.len();
                return found;
            }
            for (event, to) in next {
                let (to_place, is_new) = seen.add(&to, *place);
                if is_new {
                    later.push((to_place, to));
                }
                if event.is_progress {
                    seen.progress.push((*place, to_place));
                }
            }
        }
        waiting = later;
    }
    found.states = seen.numbers.len();
    if !found.broken.contains(&Promise::ComesToRest)
        && let Some(place) = seen.never_rests()
    {
        found.broken.insert(Promise::ComesToRest);
        if traces {
            tell(&format!("{}: never comes to rest after:", bound.name));
            seen.trace(place, first, rules);
        }
    }
    found
}

/// Searches a bound to its end, and prints the result.
pub fn search(bound: &Bound) -> Found {
    let began = Instant::now();
    let found = run(bound, None, true);
    let seconds = began.elapsed().as_secs_f64();
    tell(&format!(
        "{}: {:?}, {} distinct states, all of them, {seconds:.1} s",
        bound.name, bound.budget, found.states
    ));
    found
}

/// Returns the promises that break within a bound.
pub fn broken(bound: &Bound) -> BTreeSet<Promise> {
    run(bound, None, false).broken
}

/// Returns true if the promise that a bug breaks is found broken.
pub fn is_caught(planted: &Planted) -> bool {
    let mut bound = planted.bound;
    bound.rules.bug = Some(planted.bug);
    let traces = std::env::var("NSGATE_MODEL").is_ok_and(|words| words == "traces");
    let found = run(&bound, Some(planted.breaks), traces);
    let is_caught = found.broken.contains(&planted.breaks);
    let (how, others) = if is_caught {
        ("caught", "")
    } else {
        ("NOT caught", ", but others are broken")
    };
    let others = if found.broken.is_empty() { "" } else { others };
    tell(&format!(
        "{how}: {}: {:?}{others}, after {} states",
        planted.name, planted.breaks, found.states
    ));
    is_caught
}

/// Prints past the test harness, which captures the output of tests that pass.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
