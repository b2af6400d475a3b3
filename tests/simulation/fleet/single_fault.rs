//! Single faults of gateways that share a log: one batch, with every fault of every message on each of the three
//! networks, and every trouble at every point. With `NSGATE_FAULTS=all` none is left out; otherwise the commit chooses one
//! of eleven, of one batch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use nsgate::metrics::Metrics;
use nsgate::protocol::operation::Operation;

use super::{peers, store};
use crate::catalog::Tags;
use crate::clients::Client;
use crate::network::Fault;
use crate::part;
use crate::run::{Ended, Script, simulate_with, watch_panics};
use crate::scenario::{Faults, GATEWAYS, Planned, Scenario, Single, Trouble};
use crate::single_fault::{all, none_wrong, planned};

/// The lease of the gateways.
const LEASE: Duration = Duration::from_secs(1);
/// The delay of a late request to the log, or of its answer: longer than a heartbeat counts, and than a batch waits that
/// begins.
const LATE: Duration = Duration::from_secs(3);
/// The delay of a late message to a catalog: longer than a batch waits.
const FAR: Duration = Duration::from_secs(5);

/// A course of events, which one more event disturbs.
#[derive(Clone, Copy, Debug)]
enum Case {
    /// A batch, which is sent to the owner of the log or to another gateway.
    Batch { aborts: bool, at_owner: bool },
    /// A batch that meets a create of another gateway. Neither create gets an answer. Only the one that is no batch's is
    /// carried out, and nothing tells the two versions apart. If `is_dead`, that gateway is killed before the batch.
    Stray { is_dead: bool },
}

/// The gateway to which the create of [`Case::Stray`] is sent.
const FOLLOWER: usize = 1;

/// Returns the batches: the usual one, or all.
fn batches(usual: Case) -> Vec<Case> {
    if !part::has_every_fault() {
        return vec![usual];
    }
    let all = [(false, false), (true, true), (false, true), (true, false)];
    all.map(|(aborts, at_owner)| Case::Batch { aborts, at_owner })
        .to_vec()
}

impl Case {
    fn script(self) -> Script {
        Box::new(move |client: Client| -> BoxFuture<'static, ()> {
            match self {
                Self::Batch { aborts, at_owner } => {
                    Box::pin(client.around_a_batch(aborts, at_owner))
                }
                Self::Stray { .. } => Box::pin(client.create_before_a_batch()),
            }
        })
    }

    fn scenario(self) -> Scenario {
        let mut scenario = Scenario::directed_fleet(LEASE);
        if let Self::Stray { is_dead } = self {
            scenario.catalogs[0].tags = Tags::Hidden;
            // After the batch has sent its create, and before it looks for it. A gateway that is dead delays the batch.
            let lands = if is_dead { 2_000 } else { 900 };
            let create = |own: bool, fault| Planned {
                catalog: 0,
                table: scenario.tables[0].there.clone(),
                operation: Operation::CreateTableVersion,
                own,
                nth: 1,
                fault,
                far: Duration::from_millis(lands),
            };
            let lost = create(true, Fault::RequestLost);
            scenario.faults = Faults::Planned(vec![create(false, Fault::ResetLate), lost]);
            if let Some(plan) = scenario.fleet.as_mut().filter(|_| is_dead) {
                let gateway = FOLLOWER;
                let killed = Duration::from_millis(200);
                plan.troubles.push((killed, Trouble::Kill { gateway }));
            }
        }
        scenario
    }

    /// Returns the scenario with one event.
    fn with(self, single: Single) -> Scenario {
        let mut scenario = self.scenario();
        // No message to a catalog is late by more, so the cool-down of numbers can be short.
        scenario.settings.slot_cooldown = Duration::from_secs(1);
        if let Some(plan) = &mut scenario.fleet {
            plan.single = Some(single);
        }
        scenario
    }

    /// Returns the scenario with a fault of one message to a catalog.
    fn with_fault(self, message: u64, fault: Fault) -> Scenario {
        let mut scenario = self.scenario();
        scenario.faults = Faults::One {
            message,
            fault,
            far: FAR,
        };
        if fault.may_be_late() {
            // What is late has arrived before the tables are looked at in the end.
            scenario.rough_for = 2 * FAR;
        }
        scenario
    }

    fn simulate(self, scenario: Scenario, metrics: &Arc<Metrics>, traced: bool) -> Ended {
        simulate_with(scenario, metrics, traced, Some(self.script()))
    }

    /// Simulates the scenarios. Fails if one breaks a promise. Returns the results.
    fn check(self, scenarios: &[Scenario]) -> Vec<Ended> {
        let simulate = |scenario: Scenario, metrics: &Arc<Metrics>, traced: bool| {
            self.simulate(scenario, metrics, traced)
        };
        let ended = all(scenarios, &simulate);
        none_wrong(&format!("{self:?}"), scenarios, &ended, &simulate);
        ended
    }

    /// Simulates the case without any other event.
    fn undisturbed(self) -> Ended {
        let ended = self.simulate(self.scenario(), &Arc::new(Metrics::new()), true);
        let expected = match self {
            Self::Batch { aborts: false, .. } => "batches committed",
            Self::Batch { aborts: true, .. } => "batches aborted",
            Self::Stray { .. } => "batches that wait for a person",
        };
        let counts = &ended.counts;
        let is_expected = counts.get(expected) == 1 && counts.get("batches begun") == 1;
        if !is_expected || !ended.wrong.is_empty() {
            println!("{}", ended.trace.join("\n"));
            panic!("{self:?}: {:?}\n{counts}", ended.wrong);
        }
        ended
    }

    /// Returns the scenarios with one of these faults of a request to the server of the log.
    fn faults_of_the_log(self, requests: u64, kinds: &[store::Fault]) -> Vec<Scenario> {
        let faults = (1..=requests).flat_map(|request| {
            kinds.iter().map(move |fault| Single::Store {
                request,
                fault: *fault,
                late: LATE,
            })
        });
        let faults = part::of(faults).into_iter();
        faults.map(|single| self.with(single)).collect()
    }

    fn faults_between_gateways(self, requests: u64) -> Vec<Scenario> {
        let faults = (1..=requests)
            .flat_map(|request| peers::Fault::ALL.map(|fault| Single::Peers { request, fault }));
        let faults = part::of(faults).into_iter();
        faults.map(|single| self.with(single)).collect()
    }

    fn faults_at_catalogs(self, messages: u64) -> Vec<Scenario> {
        let faults = (1..=messages).flat_map(|message| Fault::ALL.map(|fault| (message, fault)));
        let faults = part::of(faults).into_iter();
        faults
            .map(|(message, fault)| self.with_fault(message, fault))
            .collect()
    }

    fn troubles(self, points: u64, kinds: &[Trouble]) -> Vec<Scenario> {
        let troubles = (1..=points).flat_map(|point| {
            let at_point = move |trouble: &Trouble| Single::Trouble {
                point,
                trouble: *trouble,
            };
            kinds.iter().map(at_point)
        });
        let troubles = part::of(troubles).into_iter();
        troubles.map(|single| self.with(single)).collect()
    }
}

/// Checks the scenarios of one kind, in all of which the event must happen. Returns their number.
fn check(case: Case, kind: &str, scenarios: &[Scenario]) -> usize {
    let ended = case.check(scenarios);
    for (scenario, ended) in scenarios.iter().zip(&ended) {
        let is_met = met(scenario, ended);
        assert!(
            is_met,
            "{case:?}: {kind} are not met: {}",
            planned(scenario)
        );
    }
    let begun = ended
        .iter()
        .filter(|it| it.counts.get("batches begun") == 1);
    let (begun, all) = (begun.count(), ended.len());
    println!("{case:?}: {all} single faults {kind}, {begun} with a batch");
    // A batch that is refused before it begins meets nothing.
    let most = begun * 10 > all * 9;
    assert!(
        most || !part::has_every_fault(),
        "{case:?}: {kind}: {begun} of {all}"
    );
    all
}

#[test]
fn every_message_of_three_gateways_may_meet_any_fault() {
    watch_panics();
    let began = Instant::now();
    let mut checked = 0;
    let usual = Case::Batch {
        aborts: false,
        at_owner: false,
    };
    for case in batches(usual) {
        let reference = case.undisturbed();
        let of_the_log = case.faults_of_the_log(reference.to_the_log, &store::Fault::ALL);
        checked += check(case, "at the server of the log", &of_the_log);
        let between = case.faults_between_gateways(reference.passed_on);
        checked += check(case, "between gateways", &between);
        let at_catalogs = case.faults_at_catalogs(reference.messages);
        checked += check(case, "at catalogs", &at_catalogs);
    }
    let took = began.elapsed();
    println!("{checked} single faults: all checked ({took:.0?})");
    assert!(checked > part::least(1_500), "the batch is a small one");
}

/// Returns true if the planned fault has happened, or need not.
fn met(scenario: &Scenario, ended: &Ended) -> bool {
    let name = match (
        &scenario.faults,
        scenario.fleet.as_ref().and_then(|it| it.single),
    ) {
        (_, Some(Single::Store { .. })) => "fault: at the server of the log",
        (_, Some(Single::Peers { .. })) => "fault: between gateways",
        (Faults::One { fault, .. }, None) if fault.is_particular() => return true,
        (Faults::One { fault, .. }, None) => fault.name(),
        _ => return true,
    };
    ended.counts.get(name) == 1
}

/// Returns the troubles that may come at a point: each once.
fn troubles() -> Vec<Trouble> {
    let of_each = (0..GATEWAYS).flat_map(|gateway| {
        let next = (gateway + 1) % GATEWAYS;
        let lasts = 2 * LEASE;
        [
            Trouble::Kill { gateway },
            Trouble::End { gateway },
            Trouble::Stop {
                gateway,
                lasts: LEASE / 2,
            },
            Trouble::Stop { gateway, lasts },
            Trouble::CutStore { gateway, lasts },
            Trouble::CutPeers {
                gateways: (gateway, next),
                lasts,
            },
        ]
    });
    let of_the_log = [
        Trouble::Restart { lasts: LEASE / 2 },
        Trouble::FailOver { hangs: LEASE },
    ];
    of_each.chain(of_the_log).collect()
}

#[test]
fn any_trouble_may_come_to_three_gateways_at_every_point() {
    watch_panics();
    let began = Instant::now();
    let (mut checked, mut missed) = (0, 0);
    let usual = Case::Batch {
        aborts: true,
        at_owner: true,
    };
    for case in batches(usual) {
        let points = case.undisturbed().points;
        let ended = case.check(&case.troubles(points, &troubles()));
        println!("{case:?}: {} troubles at {points} points", ended.len());
        missed += missing(&ended);
        checked += ended.len();
    }
    let took = began.elapsed();
    println!("{checked} single troubles: all checked, {missed} too early ({took:.0?})");
    assert!(
        checked > part::least(1_000) && is_small(missed * 20, checked),
        "the batch is a small one"
    );
}

#[test]
fn a_create_of_another_gateway_is_never_taken_for_a_batchs_whatever_happens() {
    watch_panics();
    let began = Instant::now();
    let case = Case::Stray { is_dead: true };
    let lost = [
        store::Fault::ResetAfter,
        store::Fault::Silent,
        store::Fault::LateBack,
    ];
    let of_the_log = case.faults_of_the_log(case.undisturbed().to_the_log, &lost);
    let faults = check(case, "at the server of the log", &of_the_log);
    let case = Case::Stray { is_dead: false };
    let mut of_processes = troubles();
    of_processes.retain(|trouble| trouble.gateway().is_some());
    let ended = case.check(&case.troubles(case.undisturbed().points, &of_processes));
    let (troubles, took) = (ended.len(), began.elapsed());
    println!("{faults} single faults, {troubles} single troubles: all checked ({took:.0?})");
    let is_met = is_small(missing(&ended) * 10, troubles);
    assert!(is_met, "the batch is a small one");
}

/// Returns true if a count is below another one, or if only a part of all is counted.
fn is_small(count: usize, than: usize) -> bool {
    count < than || !part::has_every_fault()
}

/// Returns in how many simulations the trouble came to a gateway that had not started.
fn missing(ended: &[Ended]) -> usize {
    let is_missing = |it: &&Ended| it.counts.get("troubles of a gateway that is not there") > 0;
    ended.iter().filter(is_missing).count()
}
