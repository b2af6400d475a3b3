#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use super::*;
use Effect::*;

mod operator;
mod recovery;
mod removals;
mod undo;

/// A batch of two tables, brought to the point where both creates are in flight.
fn preparing() -> State {
    let (state, effects) = run(
        State::new(Shape::versions(vec![vec![0], vec![1]])),
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

fn intended(shape: Shape) -> (State, Vec<Effect>) {
    let shares = shape.shares.len();
    let (state, _) = run(State::new(shape), [Event::Begin, Event::Locked]);
    let (state, _) = run(state, (0..shares).map(valid));
    step(state, Event::IntentDurable)
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

fn find_again(entry: usize) -> Effect {
    let again = true;
    Find { entry, again }
}

fn no(message: &str) -> Refusal {
    Refusal::conflict(message)
}

fn present(likeness: Match, latest: bool) -> Finding {
    let obstacle = (!latest).then_some(Hazard::BuiltOn);
    Finding::Present { likeness, obstacle }
}

/// A version whose table has no other one any more.
fn alone(likeness: Match) -> Finding {
    let obstacle = Some(Hazard::OnlyVersion);
    Finding::Present { likeness, obstacle }
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
    let state = State::new(Shape::versions(vec![vec![0], vec![1]]));
    let refusal = Some(no("taken"));
    let validated = Event::Validated { share: 1, refusal };
    let (state, effects) = run(state, [Event::Begin, Event::Locked, validated, valid(0)]);
    assert!(state.is_ended());
    assert!(!effects.contains(&LogIntent));
    assert!(effects.contains(&Answer(super::Answer::Refused(no("taken")))));
}

#[test]
fn a_lost_create_is_settled_by_looking() {
    let lost = [Event::Created(1), Event::Lost(0)];
    let cases = [
        (present(Match::Alike, true), LogDecision(Decision::Commit)),
        (present(Match::Proven, true), LogDecision(Decision::Commit)),
        (
            Finding::Absent,
            Create {
                entry: 0,
                again: true,
            },
        ),
        (present(Match::Unlike, true), LogDecision(Decision::Abort)),
        (
            present(Match::Incomparable, true),
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
    let (_, effects) = step(state, Event::Found(0, present(Match::Alike, true)));
    assert_eq!(effects, [LogDecision(Decision::Abort)]);
}

#[test]
fn a_refusal_after_a_lost_create_is_looked_into() {
    // The first attempt was lost but acted, and consumed the staged manifest. The second is refused because the
    // manifest is missing.
    let events = [
        Event::Created(1),
        Event::Lost(0),
        Event::Found(0, Finding::Absent),
        Event::Refused(0, no("no staged manifest")),
    ];
    let (state, effects) = run(preparing(), events);
    assert_eq!(effects.last(), Some(&find(0)));
    let (_, effects) = step(state, Event::Found(0, present(Match::Alike, true)));
    assert_eq!(effects, [LogDecision(Decision::Commit)]);
}

#[test]
fn what_is_committed_keeps_its_name_while_another_create_of_it_may_act() {
    let created = Event::Found(0, Finding::Absent);
    let (state, _) = run(
        preparing(),
        [
            Event::Lost(0),
            created,
            Event::Created(0),
            Event::Created(1),
        ],
    );
    let (state, effects) = step(state, Event::Decided(Decision::Commit));
    let answered = Answer(super::Answer::Committed);
    assert_eq!(effects, [Reveal, answered, Unlock(0), Watch(0), Unlock(1)]);
    assert!(state.is_kept(0) && !state.is_kept(1) && state.is_watching());
    // The version stays, even if its create lands again.
    let (state, effects) = step(state, Event::Landed(0));
    assert_eq!(effects, []);
    let (state, effects) = step(state, Event::WatchOver(0));
    assert_eq!(effects, [Free(0), LogEnd]);
    assert!(step(state, Event::Ended).0.is_ended());
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

#[test]
fn a_catalog_that_makes_all_or_nothing_is_asked_for_all_at_once() {
    let shape = Shape {
        groups: vec![Some(0), Some(0), Some(0), None],
        ..Shape::versions(vec![vec![0, 1], vec![2], vec![3]])
    };
    let (state, effects) = intended(shape);
    let all = [create(0), create(1), create(2), create(3)];
    assert_eq!(effects[2..], all, "a chain of the group, too");
    let refused = (0..3).map(|entry| Event::Refused(entry, no("no")));
    let (_, effects) = run(state, refused.chain([Event::Created(3)]));
    assert_eq!(effects, [LogDecision(Decision::Abort)]);
}

/// The create before it in its share keeps the whole group waiting, and is answered in another share than the rest of it.
#[test]
fn a_group_over_several_shares_is_sent_once_the_last_create_before_it_is_answered() {
    let shape = Shape {
        groups: vec![None, Some(0), Some(0)],
        ..Shape::versions(vec![vec![0, 1], vec![2]])
    };
    let (state, effects) = intended(shape);
    assert_eq!(effects[2..], [create(0)]);
    let (state, effects) = step(state, Event::Created(0));
    assert_eq!(effects, [create(1), create(2)]);
    let (_, effects) = run(state, [Event::Created(1), Event::Created(2)]);
    assert_eq!(effects, [LogDecision(Decision::Commit)]);
}
