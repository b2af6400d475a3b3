#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use super::*;
use Effect::*;

/// A batch of two tables, brought to the point where both creates are under way.
fn preparing() -> State {
    let (state, effects) = run(
        State::new(vec![vec![0], vec![1]]),
        [Event::Begin, Event::Locked, valid(0), valid(1)],
    );
    assert_eq!(effects, [Lock, Validate(0), Validate(1), LogIntent]);
    let (state, effects) = step(state, Event::IntentDurable);
    assert_eq!(effects, [Hide, StartClock, create(0), create(1)]);
    state
}

fn run(mut state: State, events: impl IntoIterator<Item = Event>) -> (State, Vec<Effect>) {
    let mut all = Vec::new();
    for event in events {
        let (next, effects) = step(state, event);
        state = next;
        all.extend(effects);
    }
    (state, all)
}

fn valid(share: usize) -> Event {
    let refusal = None;
    Event::Validated { share, refusal }
}

fn create(entry: usize) -> Effect {
    let again = false;
    Create { entry, again }
}

fn find(entry: usize) -> Effect {
    let again = false;
    Find { entry, again }
}

fn no(message: &str) -> Refusal {
    Refusal {
        status: 409,
        code: Code::ConcurrentModification,
        message: message.into(),
    }
}

fn present(likeness: Likeness, latest: bool) -> Finding {
    Finding::Present { likeness, latest }
}

#[test]
fn all_created_commits_and_answers_only_after_the_record() {
    let (state, effects) = run(preparing(), [Event::Created(0), Event::Created(1)]);
    assert_eq!(effects, [LogDecision(Decision::Commit)]);
    let (state, effects) = step(state, Event::Decided(Decision::Commit));
    let expected = [
        Reveal,
        Answer(super::Answer::Committed),
        Unlock(0),
        Unlock(1),
        LogEnd,
    ];
    assert_eq!(effects, expected);
    assert!(step(state, Event::Ended).0.is_ended());
}

#[test]
fn a_refusal_before_intent_writes_nothing() {
    let state = State::new(vec![vec![0], vec![1]]);
    let refusal = Some(no("taken"));
    let validated = Event::Validated { share: 1, refusal };
    let (state, effects) = run(state, [Event::Begin, Event::Locked, validated, valid(0)]);
    assert!(state.is_ended());
    assert!(!effects.contains(&LogIntent));
    assert!(effects.contains(&Answer(super::Answer::Refused(no("taken")))));
}

#[test]
fn a_refused_create_aborts_then_undoes_only_what_was_created() {
    let (state, effects) = run(preparing(), [Event::Refused(1, no("gone"))]);
    assert_eq!(effects, [], "the create under way is waited for");
    let (state, effects) = step(state, Event::Created(0));
    assert_eq!(effects, [LogDecision(Decision::Abort)]);
    let (state, effects) = step(state, Event::Decided(Decision::Abort));
    let answer = Answer(super::Answer::Refused(no("gone")));
    assert_eq!(effects, [answer, find(0), Unlock(1)]);
    let ours = present(Likeness::Proven, true);
    let (state, effects) = step(state, Event::Found(0, ours));
    assert_eq!(
        effects,
        [Delete {
            entry: 0,
            again: false
        }]
    );
    let (state, effects) = step(state, Event::DeleteAsked(0));
    assert_eq!(effects, [find(0)], "it is seen to be gone");
    let (state, effects) = step(state, Event::Found(0, Finding::Absent));
    assert_eq!(effects, [Reserve(0), Note(0, Settled::Gone)]);
    let (_, effects) = step(state, Event::Noted(0));
    assert_eq!(effects, [Unlock(0), LogEnd]);
}

#[test]
fn a_lost_create_is_settled_by_looking() {
    let lost = [Event::Created(1), Event::Lost(0)];
    let cases = [
        (
            present(Likeness::Alike, true),
            LogDecision(Decision::Commit),
        ),
        (
            present(Likeness::Proven, true),
            LogDecision(Decision::Commit),
        ),
        (
            Finding::Absent,
            Create {
                entry: 0,
                again: true,
            },
        ),
        (
            present(Likeness::Unlike, true),
            LogDecision(Decision::Abort),
        ),
        (
            present(Likeness::Incomparable, true),
            LogDecision(Decision::Abort),
        ),
    ];
    for (finding, expected) in cases {
        let (state, effects) = run(preparing(), lost.clone());
        assert_eq!(effects, [find(0)]);
        assert_eq!(
            step(state, Event::Found(0, finding)).1,
            [expected],
            "{finding:?}"
        );
    }
}

#[test]
fn a_clean_conflict_is_not_taken_for_ours_however_alike_it_looks() {
    let events = [Event::Created(1), Event::Conflicted(0, no("exists"))];
    let (state, _) = run(preparing(), events);
    let (_, effects) = step(state, Event::Found(0, present(Likeness::Alike, true)));
    assert_eq!(effects, [LogDecision(Decision::Abort)]);
}

#[test]
fn a_refusal_after_a_lost_create_is_looked_into() {
    // The first attempt was lost but acted, and consumed the staged manifest: the second is refused for want of it.
    let events = [
        Event::Created(1),
        Event::Lost(0),
        Event::Found(0, Finding::Absent),
        Event::Refused(0, no("no staged manifest")),
    ];
    let (state, effects) = run(preparing(), events);
    assert_eq!(effects.last(), Some(&find(0)));
    let (_, effects) = step(state, Event::Found(0, present(Likeness::Alike, true)));
    assert_eq!(effects, [LogDecision(Decision::Commit)]);
}

#[test]
fn what_was_built_on_or_is_not_proven_ours_is_never_deleted() {
    let aborted = [
        Event::Created(0),
        Event::Refused(1, no("gone")),
        Event::Decided(Decision::Abort),
    ];
    let cases = [
        (
            present(Likeness::Proven, false),
            Settled::Hazard(Hazard::BuiltOn),
        ),
        (
            present(Likeness::Alike, false),
            Settled::Hazard(Hazard::BuiltOn),
        ),
        (
            present(Likeness::Incomparable, true),
            Settled::Hazard(Hazard::Unproven),
        ),
        (present(Likeness::Unlike, true), Settled::Theirs),
    ];
    for (finding, settled) in cases {
        let (state, _) = run(preparing(), aborted.clone());
        let (state, effects) = run(state, [Event::Found(0, finding), Event::Noted(0)]);
        assert!(effects.contains(&Note(0, settled)), "{finding:?}");
        assert!(
            !effects.iter().any(|effect| matches!(effect, Delete { .. })),
            "{finding:?}"
        );
        let hazard = matches!(settled, Settled::Hazard(_));
        assert_eq!(
            effects.contains(&Unlock(0)),
            !hazard,
            "a hazard stays locked"
        );
        assert_eq!(state.hazards().count(), usize::from(hazard));
    }
}

#[test]
fn a_chain_is_created_upwards_and_undone_downwards() {
    let state = State::new(vec![vec![0, 1]]);
    let events = [
        Event::Begin,
        Event::Locked,
        valid(0),
        Event::IntentDurable,
        Event::Created(0),
    ];
    let (state, effects) = run(state, events);
    assert_eq!(effects.last(), Some(&create(1)));
    let late = Event::PrepareTimedOut(no("late"));
    let (state, effects) = run(state, [late, Event::Decided(Decision::Abort)]);
    assert_eq!(
        effects.last(),
        Some(&Answer(super::Answer::Refused(no("late"))))
    );
    let (state, effects) = step(state, Event::Created(1));
    assert_eq!(
        effects,
        [find(1)],
        "the latest first, once its create has been answered"
    );
    let (_, effects) = run(state, [Event::Found(1, Finding::Absent), Event::Noted(1)]);
    assert_eq!(effects.last(), Some(&find(0)));
}

#[test]
fn recovery_commits_only_what_is_all_there() {
    let shares = vec![vec![0], vec![1]];
    let (state, effects) = State::recovered(shares.clone(), None, &[None, None]);
    assert_eq!(effects, [StartClock, find(0), find(1)]);
    let alike = present(Likeness::Alike, true);
    let both = [Event::Found(0, alike), Event::Found(1, alike)];
    assert_eq!(run(state.clone(), both).1, [LogDecision(Decision::Commit)]);
    let one = [Event::Found(0, alike), Event::Found(1, Finding::Absent)];
    assert_eq!(run(state, one).1, [LogDecision(Decision::Abort)]);

    let settled = [Some(Settled::Gone), None];
    let (_, effects) = State::recovered(shares.clone(), Some(Decision::Abort), &settled);
    assert_eq!(effects, [Unlock(0), find(1)]);
    let (_, effects) = State::recovered(shares, Some(Decision::Commit), &[None, None]);
    assert!(effects.contains(&Reveal) && effects.contains(&LogEnd));
}

#[test]
fn the_decision_that_stands_is_the_logs() {
    let (state, _) = run(preparing(), [Event::Created(0), Event::Created(1)]);
    let (_, effects) = step(state, Event::Decided(Decision::Abort));
    assert!(matches!(effects[0], Answer(super::Answer::Refused(_))));
    assert!(!effects.contains(&Reveal));
}

#[test]
fn an_undecided_decision_is_told_as_unknown_and_asked_for_again() {
    let (state, _) = run(preparing(), [Event::Created(0), Event::Created(1)]);
    let (_, effects) = step(state, Event::DecisionUnknown);
    let expected = [
        Answer(super::Answer::Unknown),
        LogDecision(Decision::Commit),
    ];
    assert_eq!(effects, expected);
}
