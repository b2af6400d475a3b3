#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use super::*;
use Effect::*;

mod removals;

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
    let state = State::new(Shape::versions(vec![vec![0], vec![1]]));
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
    assert_eq!(
        effects,
        [answer, find(0), find(1)],
        "a refusal may have acted"
    );
    let (state, effects) = step(state, Event::Found(1, Finding::Absent));
    assert_eq!(effects, [find_again(1)], "one look may be an old one");
    let (state, effects) = step(state, Event::Found(1, Finding::Absent));
    assert_eq!(effects, [Show(1), Note(1, Settled::Theirs)]);
    let (state, effects) = step(state, Event::Noted(1));
    assert_eq!(
        effects,
        [Unlock(1)],
        "only when it is durable that nothing there is ours"
    );
    let ours = present(Match::Proven, true);
    let (state, effects) = step(state, Event::Found(0, ours));
    assert_eq!(
        effects,
        [Delete {
            entry: 0,
            again: false
        }]
    );
    let (state, effects) = step(state, Event::Deleted(0));
    assert_eq!(effects, [find(0)], "it is seen to be gone");
    let (state, effects) = step(state, Event::Found(0, Finding::Absent));
    assert_eq!(effects, [Reserve(0), Note(0, Settled::Gone)]);
    let (_, effects) = step(state, Event::Noted(0));
    assert_eq!(effects, [Unlock(0), LogEnd]);
}

#[test]
fn a_version_that_was_never_created_is_nothing_to_undo_after_a_crash() {
    let settled = [None, Some(Settled::Theirs)];
    let shape = Shape::versions(vec![vec![0], vec![1]]);
    let (_, effects) = State::recovered(shape, Some(Decision::Abort), &settled);
    assert!(effects.contains(&Unlock(1)), "{effects:?}");
    assert!(!effects.contains(&find(1)), "{effects:?}");
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
fn what_was_built_on_or_is_not_proven_ours_is_never_deleted() {
    let aborted = [
        Event::Created(0),
        Event::Refused(1, no("gone")),
        Event::Decided(Decision::Abort),
    ];
    let cases = [
        (
            present(Match::Proven, false),
            Settled::Hazard(Hazard::BuiltOn),
        ),
        (
            present(Match::Alike, false),
            Settled::Hazard(Hazard::BuiltOn),
        ),
        (
            present(Match::Incomparable, true),
            Settled::Hazard(Hazard::Unproven),
        ),
        (present(Match::Unlike, true), Settled::Theirs),
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
    let state = State::new(Shape::versions(vec![vec![0, 1]]));
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
    let gone = [
        Event::Found(1, present(Match::Proven, true)),
        Event::Deleted(1),
        Event::Found(1, Finding::Absent),
        Event::Noted(1),
    ];
    let (_, effects) = run(state, gone);
    assert_eq!(effects.last(), Some(&find(0)));
}

#[test]
fn recovery_commits_only_what_is_all_there() {
    let shape = Shape::versions(vec![vec![0], vec![1]]);
    let (state, effects) = State::recovered(shape.clone(), None, &[None, None]);
    assert_eq!(effects, [StartClock, find(0), find(1)]);
    let alike = present(Match::Alike, true);
    let both = [Event::Found(0, alike), Event::Found(1, alike)];
    assert_eq!(run(state.clone(), both).1, [LogDecision(Decision::Commit)]);
    let one = [Event::Found(0, alike), Event::Found(1, Finding::Absent)];
    assert_eq!(run(state, one).1, [LogDecision(Decision::Abort)]);

    let settled = [Some(Settled::Gone), None];
    let (_, effects) = State::recovered(shape.clone(), Some(Decision::Abort), &settled);
    assert_eq!(effects, [Reserve(0), Unlock(0), find(1)]);
    let (state, effects) = State::recovered(shape, Some(Decision::Commit), &[None, None]);
    assert_eq!(effects, [Reveal, Unlock(0), Watch(0), Unlock(1), Watch(1)]);
    assert!(state.is_watching() && state.is_kept(0) && state.is_kept(1));
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

/// A batch of three tables: one with a version and a removal, one with a version, one with a removal.
fn mixed() -> Shape {
    use Kind::{Made, Removed};
    Shape {
        shares: vec![vec![0, 2], vec![1], vec![3]],
        kinds: vec![Made, Made, Removed, Removed],
        groups: vec![None; 4],
    }
}

fn intended(shape: Shape) -> (State, Vec<Effect>) {
    let shares = shape.shares.len();
    let (state, _) = run(State::new(shape), [Event::Begin, Event::Locked]);
    let (state, _) = run(state, (0..shares).map(valid));
    step(state, Event::IntentDurable)
}

#[test]
fn what_cannot_be_undone_waits_for_the_commit_and_is_then_done_until_it_is() {
    let (state, effects) = intended(mixed());
    assert_eq!(effects, [Hide, StartClock, create(0), create(1)]);
    let created = [Event::Created(0), Event::Created(1)];
    let (state, effects) = run(state, created);
    assert_eq!(effects, [LogDecision(Decision::Commit)]);
    let (state, effects) = step(state, Event::Decided(Decision::Commit));
    let remove = |entry, again| Remove { entry, again };
    let expected = [
        Reveal,
        Answer(super::Answer::Committed),
        remove(2, false),
        Unlock(1),
        remove(3, false),
    ];
    assert_eq!(effects, expected);
    let (state, effects) = step(state, Event::NotRemoved(2));
    assert_eq!(effects, [remove(2, true)]);
    let (state, effects) = step(state, Event::Removed(2));
    assert_eq!(effects, [Note(2, Settled::Removed)]);
    let (state, effects) = step(state, Event::Noted(2));
    assert_eq!(effects, [Unlock(0)]);
    let (state, effects) = run(state, [Event::Removed(3), Event::Noted(3)]);
    assert_eq!(effects, [Note(3, Settled::Removed), Unlock(2), LogEnd]);
    assert!(step(state, Event::Ended).0.is_ended());
}

#[test]
fn an_aborted_batch_removes_nothing_and_recovery_goes_on_removing() {
    let (state, _) = intended(mixed());
    let refused = [Event::Refused(0, no("no")), Event::Created(1)];
    let (state, _) = run(state, refused);
    let (_, effects) = step(state, Event::Decided(Decision::Abort));
    assert!(!effects.iter().any(|effect| matches!(effect, Remove { .. })));

    let settled = [None, None, Some(Settled::Removed), None];
    let (_, effects) = State::recovered(mixed(), Some(Decision::Commit), &settled);
    let again = false;
    let removed = Remove { entry: 3, again };
    let expected = [Reveal, Unlock(0), Watch(0), Unlock(1), Watch(1), removed];
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

#[test]
fn a_create_that_lands_after_the_undo_is_undone_too() {
    let lost = [Event::Lost(0), Event::Unsent(1, no("no"))];
    let (state, _) = run(preparing(), lost);
    let absent = Event::Found(0, Finding::Absent);
    let (state, effects) = run(state, [absent.clone(), Event::Decided(Decision::Abort)]);
    assert!(effects.contains(&find(0)));
    let (state, _) = step(state, Event::Noted(1));
    let (state, effects) = step(state, absent.clone());
    assert_eq!(effects, [Reserve(0), Note(0, Settled::Unseen)]);
    let (state, effects) = step(state, Event::Noted(0));
    assert_eq!(effects, [Unlock(0), Watch(0)]);
    assert!(state.is_watching() && !state.is_ended());

    let (state, effects) = step(state, Event::Landed(0));
    assert_eq!(effects, [find(0)]);
    let found = Event::Found(0, present(Match::Alike, true));
    let (state, effects) = run(state, [found, Event::Deleted(0), absent]);
    let again = false;
    let note = Note(0, Settled::Unseen);
    let deleted = [Delete { entry: 0, again }, find(0), Reserve(0), note];
    assert_eq!(effects, deleted);
    let (state, effects) = step(state, Event::Noted(0));
    assert_eq!(effects, [Unlock(0), Watch(0)], "it may land again");
    let (state, effects) = step(state, Event::WatchOver(0));
    assert_eq!(effects, [Note(0, Settled::Theirs)]);
    let (_, effects) = step(state, Event::Noted(0));
    assert_eq!(effects, [Free(0), LogEnd], "free once that is durable");
}

/// A batch whose second table holds a version that another writer may have made.
fn hazardous() -> State {
    let conflict = Event::Conflicted(1, no("exists"));
    let alike = Event::Found(1, present(Match::Alike, true));
    let unsent = Event::Unsent(0, no("no"));
    let (state, _) = run(preparing(), [unsent, conflict, alike.clone()]);
    let (state, _) = run(state, [Event::Decided(Decision::Abort), alike]);
    let (state, _) = step(state, Event::Noted(0));
    let hazard = Settled::Hazard(Hazard::Unproven);
    let (state, effects) = step(state, Event::Noted(1));
    assert!(
        effects.is_empty() && state.hazards().count() == 1,
        "{hazard:?}"
    );
    state
}

#[test]
fn a_person_has_a_hazard_kept() {
    let (state, effects) = step(hazardous(), Event::Resolved(Decision::Commit));
    assert_eq!(effects, [Note(1, Settled::Kept)]);
    let (_, effects) = step(state, Event::Noted(1));
    let shown = [Show(1), Unlock(1), LogEnd];
    assert_eq!(effects, shown, "a crash cannot hide again what was seen");
}

#[test]
fn a_person_has_a_hazard_deleted_but_never_what_was_built_on() {
    let decision = Event::Resolved(Decision::Abort);
    let (state, effects) = step(hazardous(), decision);
    assert_eq!(effects, [find(1)]);
    let incomparable = |latest| Event::Found(1, present(Match::Incomparable, latest));
    let (_, effects) = step(state.clone(), incomparable(false));
    assert_eq!(effects, [Note(1, Settled::Hazard(Hazard::BuiltOn))]);
    let (state, effects) = step(state, incomparable(true));
    let again = false;
    assert_eq!(effects, [Delete { entry: 1, again }]);
    let gone = Event::Found(1, Finding::Absent);
    let (_, effects) = run(state, [Event::Deleted(1), gone]);
    assert_eq!(effects, [find(1), Reserve(1), Note(1, Settled::Gone)]);
}

#[test]
fn a_person_aborts_what_is_undecided_and_commits_nothing_unproven() {
    let commit = Event::Resolved(Decision::Commit);
    assert!(step(preparing(), commit).1.is_empty());
    let (state, effects) = step(preparing(), Event::Resolved(Decision::Abort));
    assert_eq!(effects, [LogDecision(Decision::Abort)]);
    let (_, effects) = step(state, Event::Decided(Decision::Abort));
    let refused = |effect: &Effect| matches!(effect, Answer(super::Answer::Refused(_)));
    assert!(effects.iter().any(refused));
}

#[test]
fn a_person_gives_up_what_undo_cannot_reach() {
    let unsent = [Event::Created(0), Event::Unsent(1, no("no"))];
    let (state, _) = run(preparing(), unsent);
    let (state, _) = run(state, [Event::Decided(Decision::Abort), Event::Noted(1)]);
    let (state, effects) = step(state, Event::Unanswered(0));
    assert_eq!(
        effects,
        [Find {
            entry: 0,
            again: true
        }]
    );
    let (state, effects) = step(state, Event::Resolved(Decision::Commit));
    assert_eq!(effects, [Note(0, Settled::Kept)]);
    let (state, effects) = step(state, Event::Unanswered(0));
    assert!(effects.is_empty(), "nobody asks any more");
    assert_eq!(step(state, Event::Noted(0)).1, [Show(0), Unlock(0), LogEnd]);
}

#[test]
fn a_find_of_prepare_that_comes_back_in_undo_is_asked_again() {
    let events = [
        Event::Lost(0),
        Event::Created(1),
        Event::PrepareTimedOut(no("late")),
        Event::Decided(Decision::Abort),
    ];
    for stale in [Event::Found(0, Finding::Absent), Event::Unanswered(0)] {
        let (state, _) = run(preparing(), events.clone());
        // The create may have acted since.
        let (state, effects) = step(state, stale);
        assert_eq!(effects, [find(0)]);
        let (_, effects) = step(state, Event::Found(0, Finding::Absent));
        assert_eq!(effects, [Reserve(0), Note(0, Settled::Unseen)]);
    }
}

#[test]
fn once_seen_for_certain_what_only_looks_like_it_is_not_deleted() {
    let events = [
        Event::Created(0),
        Event::Refused(1, no("gone")),
        Event::Decided(Decision::Abort),
        Event::Found(0, present(Match::Proven, true)),
        Event::Deleted(0),
        // Ours is gone, and a writer who bypasses the gateway has made that version since.
        Event::Found(0, present(Match::Alike, true)),
    ];
    let (_, effects) = run(preparing(), events);
    let unproven = Settled::Hazard(Hazard::Unproven);
    assert_eq!(effects.last(), Some(&Note(0, unproven)));
}

#[test]
fn recovery_shows_again_what_stays() {
    let hazard = Settled::Hazard(Hazard::BuiltOn);
    for stays in [Settled::Theirs, Settled::Kept] {
        let shape = Shape::versions(vec![vec![0, 1]]);
        let settled = [Some(hazard), Some(stays)];
        let (_, effects) = State::recovered(shape, Some(Decision::Abort), &settled);
        assert_eq!(effects, [Show(1)], "its table stays locked by the other");
    }
}

#[test]
fn recovery_watches_for_what_may_be_ours_or_anothers() {
    let shape = Shape::versions(vec![vec![0]]);
    let settled = [Some(Settled::Contested)];
    let (state, effects) = State::recovered(shape, Some(Decision::Abort), &settled);
    assert_eq!(effects, [Reserve(0), Unlock(0), Watch(0)]);
    assert!(state.is_watching() && !state.is_ended());
}

/// The last create of a chain lands while undo looks up the version before it.
#[test]
fn what_is_built_on_by_a_late_create_of_the_batch_is_undone_after_that() {
    let settled = [None, Some(Settled::Unseen)];
    let chain = Shape::versions(vec![vec![0, 1]]);
    let (state, effects) = State::recovered(chain, Some(Decision::Abort), &settled);
    assert_eq!(effects, [Reserve(1), find(0)]);
    let built_on = Event::Found(0, present(Match::Alike, false));
    let (state, effects) = step(state, built_on.clone());
    assert_eq!(effects, [find(1)], "it may be our own that came late");
    let found = |entry| Event::Found(entry, present(Match::Alike, true));
    let again = false;
    let (gone, effects) = step(state.clone(), found(1));
    assert_eq!(effects, [Delete { entry: 1, again }]);
    let absent = Event::Found(1, Finding::Absent);
    let (gone, _) = run(gone, [Event::Deleted(1), absent.clone()]);
    let (gone, effects) = step(gone, Event::Noted(1));
    assert_eq!(effects, [find(0)]);
    let (_, effects) = step(gone, found(0));
    assert_eq!(effects, [Delete { entry: 0, again }]);

    let (state, _) = run(state, [absent, Event::Noted(1)]);
    let (_, effects) = step(state, built_on);
    assert_eq!(
        effects,
        [Note(0, Settled::Hazard(Hazard::BuiltOn))],
        "it was somebody else"
    );
}
