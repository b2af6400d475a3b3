#![allow(clippy::unwrap_used, reason = "a test says what it expects")]
use std::time::Duration;

use super::*;

const SECOND: u64 = 1_000_000;

fn breaker() -> Breaker {
    Breaker::new(&config::Breaker {
        failures: 3,
        open_for: Duration::from_secs(10),
    })
}

fn fails(breaker: &Breaker, pass: BreakerPass, now: Moment) -> bool {
    breaker.failed(pass, FailureSource::Address, true, now) == FailureEffect::Opened
}

fn of(caller: u64, target: u64) -> FailureSource {
    FailureSource::Request {
        caller: Some(caller),
        target,
    }
}

fn opened(at: Moment) -> Breaker {
    let breaker = breaker();
    let opens: Vec<_> = (0..3)
        .map(|_| fails(&breaker, BreakerPass::Free, at))
        .collect();
    assert_eq!(opens, [false, false, true]);
    breaker
}

#[test]
fn only_failures_in_a_row_open_it() {
    let breaker = breaker();
    for _ in 0..9 {
        assert!(!fails(&breaker, BreakerPass::Free, 1));
        assert!(!fails(&breaker, BreakerPass::Free, 1));
        assert!(!breaker.succeeded(BreakerPass::Free));
    }
    assert!(breaker.is_closed());
    assert_eq!(breaker.probe(SECOND), None);
    assert_eq!(opened(5).state(6), State::Open(5 + 10 * SECOND));
}

#[test]
fn one_probe_goes_through_and_decides() {
    let breaker = opened(5);
    assert_eq!(breaker.probe(10 * SECOND), None);
    let now = 11 * SECOND;
    assert_eq!(breaker.state(now), State::Due);
    let probe = breaker.probe(now).unwrap();
    assert_eq!(breaker.probe(now), None, "one at a time");
    assert!(!fails(&breaker, probe, now + SECOND));
    assert_eq!(breaker.state(now + SECOND), State::Open(now + 11 * SECOND));

    let probe = breaker.probe(now + 11 * SECOND).unwrap();
    assert!(breaker.succeeded(probe));
    assert!(breaker.is_closed());
    assert!(
        !fails(&breaker, BreakerPass::Free, now),
        "the count began anew"
    );
}

#[test]
fn a_probe_that_hangs_or_goes_away_leaves_it_to_the_next() {
    let breaker = opened(5);
    let hung = breaker.probe(20 * SECOND).unwrap();
    assert_eq!(breaker.probe(29 * SECOND), None);
    let next = breaker.probe(30 * SECOND).unwrap();
    assert!(!breaker.succeeded(hung), "its time is over");
    assert!(!breaker.is_closed());
    breaker.abandoned(next, 31 * SECOND);
    assert!(breaker.probe(31 * SECOND).is_some());
}

#[test]
fn one_that_nobody_asks_is_closed_by_an_answer_to_a_health_question_and_opens_at_once() {
    let breaker = opened(5);
    let due = 5 + 10 * SECOND;
    assert!(!breaker.found_well(6), "it is open");
    assert!(!breaker.found_well(due + 99 * SECOND), "somebody may come");
    assert_eq!(breaker.state(due + 99 * SECOND), State::Due);
    assert!(breaker.found_well(due + 100 * SECOND));
    assert!(breaker.is_closed());
    let now = due + 101 * SECOND;
    assert!(
        fails(&breaker, BreakerPass::Free, now),
        "it was told how it stands"
    );

    assert!(breaker.found_well(now + 110 * SECOND));
    assert!(!breaker.found_well(now + 300 * SECOND), "it is closed");
    assert!(!breaker.succeeded(BreakerPass::Free));
    assert!(
        !fails(&breaker, BreakerPass::Free, now),
        "the count began anew"
    );
}

#[test]
fn one_that_is_asked_is_closed_by_nothing_but_the_probe() {
    let breaker = opened(5);
    let mut now = 5;
    for _ in 0..30 {
        now += 20 * SECOND;
        assert!(!breaker.found_well(now));
        let probe = breaker.probe(now).unwrap();
        fails(&breaker, probe, now);
    }
}

#[test]
fn what_was_sent_before_it_opened_changes_nothing() {
    let breaker = opened(5);
    assert!(!breaker.succeeded(BreakerPass::Free));
    assert!(!fails(&breaker, BreakerPass::Free, 9 * SECOND));
    assert_eq!(breaker.state(10), State::Open(5 + 10 * SECOND));
}

#[test]
fn the_gateways_own_questions_pass_at_their_pace_and_may_close_it() {
    let breaker = opened(5);
    let own = breaker.own(6).unwrap();
    assert_eq!(breaker.own(7), None);
    assert!(!fails(&breaker, own, 8));
    assert_eq!(breaker.state(9), State::Open(5 + 10 * SECOND));
    let own = breaker.own(2 * SECOND).unwrap();
    assert!(breaker.succeeded(own));
    assert!(breaker.is_closed());
}

#[test]
fn one_callers_failures_never_open_the_last_one() {
    let breaker = breaker();
    let failed = |source, last| breaker.failed(BreakerPass::Free, source, last, SECOND);
    let effects: Vec<_> = (0..5).map(|target| failed(of(1, target), true)).collect();
    let [counted, first, more] = [
        FailureEffect::Counted,
        FailureEffect::Spared(true),
        FailureEffect::Spared(false),
    ];
    assert_eq!(effects, [counted, counted, first, more, more]);
    assert!(breaker.is_closed());
    assert_eq!(
        failed(of(2, 7), true),
        FailureEffect::Opened,
        "another caller"
    );

    let breaker = self::breaker();
    let failed = |source, last| breaker.failed(BreakerPass::Free, source, last, SECOND);
    failed(of(1, 7), true);
    failed(of(1, 7), true);
    assert_eq!(
        failed(of(1, 7), false),
        FailureEffect::Opened,
        "there are other addresses"
    );
}

#[test]
fn a_success_ends_the_row_and_its_evidence() {
    let breaker = breaker();
    let failed = |source| breaker.failed(BreakerPass::Free, source, true, SECOND);
    failed(of(1, 1));
    failed(of(2, 2));
    breaker.succeeded(BreakerPass::Free);
    let effects: Vec<_> = (0..3).map(|_| failed(of(1, 1))).collect();
    assert_eq!(effects[2], FailureEffect::Spared(true));
}

#[test]
fn a_failed_health_check_makes_one_callers_failures_count() {
    let breaker = breaker();
    let failed = || breaker.failed(BreakerPass::Free, of(1, 1), true, SECOND);
    failed();
    failed();
    assert!(!breaker.found_ill(SECOND), "too few");
    failed();
    assert!(breaker.found_ill(SECOND));
    assert!(!breaker.found_ill(SECOND), "it is open");
}

#[test]
fn the_share_is_bounded_and_its_success_closes_it() {
    let breaker = opened(5);
    let shares: Vec<_> = std::iter::from_fn(|| breaker.share()).collect();
    assert_eq!(shares.len(), 3, "as many as failures open it");
    assert!(!fails(&breaker, BreakerPass::Share, 6));
    breaker.abandoned(BreakerPass::Share, 6);
    assert_eq!(breaker.state(6), State::Open(5 + 10 * SECOND));
    assert_eq!(std::iter::from_fn(|| breaker.share()).count(), 2);
    assert!(breaker.succeeded(BreakerPass::Share));
    assert!(breaker.is_closed());
}
