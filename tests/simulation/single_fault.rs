//! Single faults: one batch with every single fault at every message, and with one or two crashes at every point. With
//! `NSGATE_FAULTS=all` none is left out; otherwise the commit chooses one of eleven.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nsgate::metrics::Metrics;

use crate::catalog::Ways;
use crate::network::Fault;
use crate::part;
use crate::run::{Ended, simulate, watch_panics};
use crate::scenario::{At, Crash, Faults, Scenario};

/// The faults, and the delay in milliseconds of those that are late: within the caller's wait, after it, long after.
const FAULTS: [(Fault, u64); 25] = [
    (Fault::RequestLost, 0),
    (Fault::AnswerLost, 0),
    (Fault::Late, 3000),
    (Fault::Late, 30000),
    (Fault::Late, 300000),
    (Fault::SlowAnswer, 3000),
    (Fault::SlowAnswer, 30000),
    (Fault::ErrorBefore, 0),
    (Fault::ErrorAfter, 0),
    (Fault::Conflict, 0),
    (Fault::Duplicated, 20),
    (Fault::Duplicated, 30000),
    (Fault::Retried, 20),
    (Fault::Retried, 30000),
    (Fault::NotSent, 0),
    (Fault::ResetBefore, 0),
    (Fault::ResetAfter, 0),
    (Fault::LatePut, 30000),
    (Fault::LatePut, 300000),
    (Fault::LatePut, 850000),
    (Fault::Late, 850000),
    (Fault::RefusedAfter, 0),
    (Fault::Idle, 0),
    (Fault::ActsLater, 300000),
    (Fault::Stale, 0),
];

/// The kinds of catalogs, by name.
fn kinds() -> [(&'static str, Ways); 3] {
    let told = Ways {
        told: true,
        ..Ways::default()
    };
    [
        ("versions", told),
        (
            "read, then put",
            Ways {
                puts_later: true,
                ..told
            },
        ),
        (
            "atomic",
            Ways {
                atomic: true,
                ..told
            },
        ),
    ]
}

/// Simulates a scenario; `true` to trace it.
pub type Simulate<'a> = &'a (dyn Fn(Scenario, &Arc<Metrics>, bool) -> Ended + Sync);

/// Simulates the scenarios on all cores. Returns the results in their order.
pub fn all(scenarios: &[Scenario], simulate: Simulate<'_>) -> Vec<Ended> {
    let next = AtomicUsize::new(0);
    let ended = Mutex::new(Vec::with_capacity(scenarios.len()));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let metrics = Arc::new(Metrics::new());
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(scenario) = scenarios.get(place) else {
                        break;
                    };
                    let one = simulate(scenario.clone(), &metrics, false);
                    ended.lock().unwrap().push((place, one));
                }
            });
        }
    });
    let mut ended = ended.into_inner().unwrap();
    ended.sort_by_key(|(place, _)| *place);
    ended.into_iter().map(|(_, ended)| ended).collect()
}

/// Panics with the trace of the first scenario that broke a promise.
pub fn none_wrong(kind: &str, scenarios: &[Scenario], ended: &[Ended], simulate: Simulate<'_>) {
    assert_eq!(scenarios.len(), ended.len());
    let pairs = scenarios.iter().zip(ended);
    let broken: Vec<_> = pairs.filter(|(_, ended)| !ended.wrong.is_empty()).collect();
    let Some((scenario, first)) = broken.first() else {
        return;
    };
    let again = simulate((*scenario).clone(), &Arc::new(Metrics::new()), true);
    println!("{}", again.trace.join("\n"));
    for (scenario, ended) in &broken {
        println!("{kind}, {}: {}", planned(scenario), ended.wrong[0]);
    }
    panic!(
        "{kind}, {}, and {} others:\n{}",
        planned(scenario),
        broken.len() - 1,
        first.wrong.join("\n")
    );
}

/// Returns what was planned to happen in a scenario.
pub fn planned(scenario: &Scenario) -> String {
    let Scenario {
        faults,
        crashes,
        fleet,
        ..
    } = scenario;
    match fleet.as_ref().and_then(|plan| plan.single) {
        Some(single) => format!("{single:?}"),
        None => format!("{faults:?}, {crashes:?}"),
    }
}

/// Returns the reference scenarios. `goes_on`: after an abort come a competing batch, an insert, a batch with
/// a rename, and a version.
fn references(goes_on: bool) -> Vec<(String, Scenario)> {
    let cases = kinds().into_iter().flat_map(|(name, ways)| {
        [false, true].map(|aborts| {
            let ending = if aborts { "aborts" } else { "commits" };
            let goes_on = goes_on && aborts;
            let name = if goes_on {
                format!("{name}, goes on, {ending}")
            } else {
                format!("{name}, {ending}")
            };
            (name, Scenario::reference(ways, aborts, goes_on))
        })
    });
    cases.collect()
}

fn undisturbed(name: &str, scenario: &Scenario) -> Ended {
    let ended = simulate(scenario.clone(), &Arc::new(Metrics::new()), false);
    assert!(ended.wrong.is_empty(), "{name}: {:?}", ended.wrong);
    let expected = if name.ends_with("commits") {
        "batches committed"
    } else {
        "batches aborted"
    };
    assert_eq!(ended.counts.get(expected), 1, "{name}");
    let others = if name.contains("goes on") { 2 } else { 0 };
    let begun = ended.counts.get("batches begun");
    assert_eq!(
        begun,
        1 + others,
        "{name}: a batch, another one and one with a rename"
    );
    ended
}

#[test]
fn every_message_may_meet_any_fault() {
    watch_panics();
    let began = Instant::now();
    let (mut checked, mut expected, mut particular) = (0, 0, 0);
    for (name, reference) in references(true) {
        let messages = undisturbed(&name, &reference).messages;
        expected += usize::try_from(messages).unwrap() * FAULTS.len();
        let cases = (1..=messages).flat_map(|message| FAULTS.map(|fault| (message, fault)));
        let scenarios: Vec<Scenario> = part::of(cases)
            .into_iter()
            .map(|(message, (fault, far))| Scenario {
                faults: Faults::One {
                    message,
                    fault,
                    far: Duration::from_millis(far),
                },
                ..reference.clone()
            })
            .collect();
        let ended = all(&scenarios, &simulate);
        none_wrong(&name, &scenarios, &ended, &simulate);
        let met = |ended: &Ended| {
            let mut kinds = FAULTS.iter();
            kinds.any(|(fault, _)| ended.counts.get(fault.name()) == 1)
        };
        for (scenario, ended) in scenarios.iter().zip(&ended) {
            if let Faults::One { fault, message, .. } = scenario.faults {
                let may_miss = fault.is_particular();
                assert!(met(ended) || may_miss, "{name}: {message} met {fault:?}");
                particular += usize::from(met(ended) && may_miss);
            }
        }
        checked += ended.len();
    }
    println!(
        "{checked} single faults of {expected}: all checked ({:.0?})",
        began.elapsed()
    );
    assert!(checked == expected || !part::has_every_fault());
    assert!(
        checked > part::least(500) && particular > part::least(50),
        "the batch is a small one"
    );
}

/// Adds one crash to a scenario, at every point after `from`, and with every number of surviving log writes under way.
fn one_more(base: &Scenario, from: u64, points: u64) -> (Vec<Scenario>, Vec<Ended>) {
    let crashing = |at: u64, keeps: usize| {
        let mut scenario = base.clone();
        scenario.crashes.push(Crash {
            at: At::Point(at),
            keeps: Some(keeps),
        });
        scenario
    };
    let mut scenarios: Vec<Scenario> = (from + 1..=points).map(|at| crashing(at, 0)).collect();
    let mut ended = all(&scenarios, &simulate);
    let mut more = Vec::new();
    for (at, ended) in (from + 1..=points).zip(&ended) {
        let under_way = *ended.lost.last().expect("it crashed");
        more.extend((1..=under_way).map(|keeps| crashing(at, keeps)));
    }
    ended.extend(all(&more, &simulate));
    scenarios.extend(more);
    (scenarios, ended)
}

#[test]
fn the_gateway_may_crash_anywhere_and_once_more_while_it_recovers() {
    watch_panics();
    let began = Instant::now();
    let (mut once, mut twice) = (0, 0);
    for (name, reference) in references(false) {
        let points = undisturbed(&name, &reference).points;
        // Nothing is late here, so the cool-down of numbers can be short.
        let mut reference = reference;
        reference.settings.slot_cooldown = Duration::from_secs(1);
        let (scenarios, ended) = one_more(&reference, 0, points);
        none_wrong(&name, &scenarios, &ended, &simulate);
        assert!(
            ended.iter().all(|ended| ended.lost.len() == 1),
            "{name}: each crashed once"
        );
        once += ended.len();
        for (scenario, ended) in part::of(scenarios.iter().zip(&ended)) {
            let At::Point(first) = scenario.crashes[0].at else {
                continue;
            };
            let mut scenario = scenario.clone();
            scenario.to_the_end = false;
            let (scenarios, ended) = one_more(&scenario, first, ended.points);
            none_wrong(&name, &scenarios, &ended, &simulate);
            assert!(
                ended.iter().all(|ended| ended.lost.len() == 2),
                "{name}: each crashed twice"
            );
            twice += ended.len();
        }
    }
    println!(
        "{once} crashes, {twice} double crashes: all checked ({:.0?})",
        began.elapsed()
    );
    let expected = part::least(once).max(1);
    assert!(once > 200 && twice > expected, "the batch is a small one");
}
