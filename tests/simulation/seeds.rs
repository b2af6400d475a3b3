//! Runs many seeds on all cores.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use nsgate::metrics::Metrics;

use crate::history::Counts;
use crate::network::Fault;
use crate::part;
use crate::run::{simulate, watch_panics};
use crate::scenario::{Faults, Scenario};
use crate::trace::with_log;

/// The events that must happen at least once in a run, besides every kind of fault.
const HAPPENS: [&str; 20] = [
    "batches begun",
    "batches committed",
    "batches aborted",
    "batches that wait for a person",
    "batches taken over",
    "crashes of the gateway",
    "crashes of a catalog",
    "names given by clients",
    "names given by the gateway",
    "names taken by clients",
    "names taken by the gateway",
    "reads checked",
    "reads without an answer",
    "transactions asked for",
    "versions created without a lock",
    "versions deleted",
    "writes answered 200",
    "writes answered with a definite error",
    "writes behind the gateway's back",
    "writes without a definite answer",
];

/// The number of seeds of an ordinary run.
const USUAL: u64 = 250;

#[test]
fn every_seed_keeps_the_promises() {
    check(scenario, part::seeds("NSGATE_SEEDS", USUAL), &HAPPENS);
}

/// Runs the seeds, or the one that `NSGATE_SEED` names. Fails if one breaks a promise, or if something of `happens` never
/// happens.
pub fn check(scenario: fn(u64) -> Scenario, seeds: Range<u64>, happens: &[&str]) {
    watch_panics();
    println!("seeds {seeds:?}");
    if let Ok(seed) = std::env::var("NSGATE_SEED") {
        return replay(scenario(seed.parse().expect("NSGATE_SEED is a number")));
    }
    // A survey runs all seeds and counts the promises that break.
    let survey = std::env::var_os("NSGATE_SURVEY").is_some();
    let kinds: Mutex<BTreeMap<String, Vec<u64>>> = Mutex::default();
    let began = Instant::now();
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new((Counts::default(), None));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let metrics = Arc::new(Metrics::new());
                let mut counts = Counts::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || found.lock().unwrap().1.is_some() {
                        break;
                    }
                    let ended = simulate(scenario(seed), &metrics, false);
                    counts.merge(&ended.counts);
                    if survey {
                        let mut kinds = kinds.lock().unwrap();
                        let broken = ended.wrong.iter().map(|it| kind(it));
                        let broken: BTreeSet<_> = broken.collect();
                        for kind in broken {
                            kinds.entry(kind).or_default().push(seed);
                        }
                    } else if !ended.wrong.is_empty() {
                        let first = &mut found.lock().unwrap().1;
                        first.get_or_insert((seed, ended.wrong));
                    }
                }
                found.lock().unwrap().0.merge(&counts);
            });
        }
    });
    let kinds = kinds.into_inner().unwrap();
    for (kind, seeds) in &kinds {
        let first = &seeds[..seeds.len().min(5)];
        println!("{:>8}  {kind}  {first:?}", seeds.len());
    }
    let (counts, failed) = found.into_inner().unwrap();
    println!("{counts}{:>10.0}  seconds", began.elapsed().as_secs_f64());
    if let Some((seed, wrong)) = failed {
        println!("seed {seed} breaks a promise; NSGATE_SEED={seed} replays it:");
        panic!("{}", wrong.join("\n"));
    }
    assert!(kinds.is_empty(), "seeds break promises");
    let kinds = Fault::ALL.map(Fault::name);
    let never = happens
        .iter()
        .chain(&kinds)
        .filter(|what| counts.get(what) == 0);
    let never: Vec<_> = never.collect();
    assert!(
        seeds.end - seeds.start < 1_000 || never.is_empty(),
        "never happened: {never:?}"
    );
}

fn scenario(seed: u64) -> Scenario {
    without(Scenario::of(seed))
}

/// Leaves out the faults that `NSGATE_WITHOUT` names.
pub fn without(mut scenario: Scenario) -> Scenario {
    if let (Ok(without), Faults::Random { kinds, .. }) =
        (std::env::var("NSGATE_WITHOUT"), &mut scenario.faults)
    {
        kinds.retain(|kind| !without.split(',').any(|it| it == format!("{kind:?}")));
    }
    scenario
}

/// Returns the kind of a broken promise: its text without the numbers.
fn kind(wrong: &str) -> String {
    let wrong = wrong.lines().next().unwrap_or_default();
    let until = wrong.find(['{', '[']).unwrap_or(wrong.len());
    let mut kind = String::new();
    for char in wrong[..until].chars() {
        match char.is_ascii_digit() {
            true if kind.ends_with('#') => {}
            true => kind.push('#'),
            false => kind.push(char),
        }
    }
    kind
}

fn replay(scenario: Scenario) {
    let ended = with_log(|| simulate(scenario, &Arc::new(Metrics::new()), true));
    println!("{}\n{}", ended.trace.join("\n"), ended.counts);
    assert!(ended.wrong.is_empty(), "{}", ended.wrong.join("\n"));
}

#[test]
fn a_seed_is_the_same_every_time() {
    check_repeats(Scenario::of, 0..50);
}

/// Runs seeds twice. Fails if a seed does not do the same again.
pub fn check_repeats(scenario: fn(u64) -> Scenario, seeds: Range<u64>) {
    let metrics = Arc::new(Metrics::new());
    for seed in seeds {
        let (one, other) = (
            simulate(scenario(seed), &metrics, true),
            simulate(scenario(seed), &metrics, true),
        );
        let lines = one.trace.iter().zip(&other.trace);
        let differs = lines.enumerate().find(|(_, (one, other))| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(one.hash, other.hash, "seed {seed}");
        assert!(one.trace.len() > 20, "seed {seed} does nothing");
    }
}
