//! Tests for the undo of an aborted batch: what is deleted, in which order, and what never is.

use super::*;

#[test]
fn a_refused_create_aborts_then_undoes_only_what_was_created() {
    let (state, effects) = run(preparing(), [Event::Refused(1, no("gone"))]);
    assert_eq!(effects, [], "the create under way is waited for");
    let (state, effects) = step(state, Event::Created(0));
    assert_eq!(effects, [LogDecision(Decision::Abort)]);
    let (state, effects) = step(state, Event::Decided(Decision::Abort));
    let answer = Answer(super::super::Answer::Refused(no("gone")));
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
fn what_was_built_on_or_is_all_that_is_left_or_is_not_proven_ours_is_never_deleted() {
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
        (alone(Match::Proven), Settled::Hazard(Hazard::OnlyVersion)),
        (alone(Match::Alike), Settled::Hazard(Hazard::OnlyVersion)),
        (alone(Match::Unlike), Settled::Theirs),
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
        Some(&Answer(super::super::Answer::Refused(no("late"))))
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
    let (state, effects) = run(state, [found.clone(), Event::Noted(0)]);
    assert_eq!(effects, [Note(0, Settled::Leaving), find(0)]);
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

/// So the log says of what lands late that it is deleted, before it is.
#[test]
fn what_lands_late_is_deleted_once_the_log_says_so() {
    let (again, absent) = (false, Event::Found(0, Finding::Absent));
    let aborted = [
        Event::Lost(0),
        Event::Unsent(1, no("no")),
        absent.clone(),
        Event::Decided(Decision::Abort),
        Event::Noted(1),
        absent.clone(),
        Event::Noted(0),
    ];
    let (lived, _) = run(preparing(), aborted);
    assert!(lived.is_watched(0));
    let shape = Shape::versions(vec![vec![0]]);
    let settled = [Some(Settled::Unseen)];
    let (recovered, _) = State::recovered(shape, Some(Decision::Abort), &settled);
    for state in [lived, recovered] {
        let landed = [
            Event::Landed(0),
            Event::Found(0, present(Match::Alike, true)),
        ];
        let (state, effects) = run(state, landed);
        assert_eq!(effects.last(), Some(&Note(0, Settled::Leaving)));
        assert!(state.is_deleting());
        let (state, effects) = step(state, Event::Noted(0));
        assert_eq!(
            effects,
            [find(0)],
            "somebody may have built on it meanwhile"
        );
        let alike = present(Match::Alike, true);
        let (state, effects) = step(state, Event::Found(0, alike));
        assert_eq!(effects, [Delete { entry: 0, again }]);
        let (state, effects) = run(state, [Event::Deleted(0), absent.clone()]);
        assert_eq!(effects.last(), Some(&Note(0, Settled::Unseen)));
        // It may land once more.
        let (state, _) = step(state, Event::Noted(0));
        let landed = [
            Event::Landed(0),
            Event::Found(0, present(Match::Alike, true)),
        ];
        let (_, effects) = run(state, landed);
        assert_eq!(effects.last(), Some(&Note(0, Settled::Leaving)));
    }
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
    assert_eq!(effects, [Note(1, Settled::Leaving)]);
    let (gone, effects) = step(gone, Event::Noted(1));
    assert_eq!(effects, [find(1)]);
    let (gone, effects) = step(gone, found(1));
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

/// Covers a writer who builds on the version between the look and the delete.
#[test]
fn what_is_buried_twice_is_a_hazard_and_stays_one_until_it_is_dug_out() {
    let aborted = [
        Event::Created(0),
        Event::Unsent(1, no("no")),
        Event::Decided(Decision::Abort),
        Event::Noted(1),
        Event::Found(0, present(Match::Proven, true)),
        Event::Deleted(0),
    ];
    let (state, _) = run(preparing(), aborted);
    let buried = Event::Found(0, Finding::Buried);
    let (state, effects) = step(state, buried.clone());
    assert_eq!(effects, [find_again(0)], "one look may be an old one");
    let (_, effects) = step(state.clone(), Event::Found(0, Finding::Absent));
    assert_eq!(effects, [Reserve(0), Note(0, Settled::Gone)]);
    let (state, effects) = step(state, buried.clone());
    assert_eq!(effects, [Note(0, Settled::Hazard(Hazard::BuiltOn))]);
    let (state, _) = step(state, Event::Noted(0));
    let (state, effects) = step(state, Event::Resolved(Decision::Abort));
    assert_eq!(effects, [find(0)]);
    let (state, effects) = run(state, [buried.clone(), buried]);
    assert_eq!(
        effects,
        [find_again(0), Note(0, Settled::Hazard(Hazard::BuiltOn))]
    );
    let (state, _) = step(state, Event::Noted(0));
    let (_, effects) = step(state, Event::Resolved(Decision::Commit));
    assert_eq!(effects, [Note(0, Settled::Kept)]);
}
