//! Tests for removals: they wait for the COMMIT, and one that was sent may still arrive.

use super::*;

/// A batch of three tables: one with a version and a removal, one with a version, one with a removal.
fn mixed() -> Shape {
    use Kind::{Made, Removed};
    Shape {
        shares: vec![vec![0, 2], vec![1], vec![3]],
        kinds: vec![Made, Made, Removed, Removed],
        groups: vec![None; 4],
    }
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
        Answer(super::super::Answer::Committed),
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

fn delete(entry: usize, again: bool) -> Effect {
    Delete { entry, again }
}

/// A batch whose first version is about to be deleted, and whose second was never sent.
fn deleting() -> State {
    let aborted = [
        Event::Created(0),
        Event::Unsent(1, no("no")),
        Event::Decided(Decision::Abort),
        Event::Noted(1),
    ];
    let (state, _) = run(preparing(), aborted);
    let (state, effects) = step(state, Event::Found(0, present(Match::Proven, true)));
    assert_eq!(effects, [delete(0, false)]);
    state
}

const ABSENT: Event = Event::Found(0, Finding::Absent);

#[test]
fn a_clear_delete_frees_at_once() {
    let (state, effects) = run(deleting(), [Event::Deleted(0), ABSENT]);
    assert_eq!(effects, [find(0), Reserve(0), Note(0, Settled::Gone)]);
    assert!(!state.is_leaving(0));
    assert_eq!(step(state, Event::Noted(0)).1, [Unlock(0), LogEnd]);
}

/// An operator must not keep one part of a batch while another part is being deleted.
#[test]
fn a_batch_is_deleting_until_its_delete_has_an_answer_and_it_is_gone() {
    assert!(deleting().is_deleting());
    let (state, _) = step(deleting(), Event::RemovalLost(0));
    assert!(state.is_deleting(), "it may arrive, and is looked for");
    let (state, _) = step(state, Event::Unanswered(0));
    assert!(state.is_deleting());
    let (state, _) = step(state, ABSENT);
    assert!(!state.is_deleting());
    let (state, _) = run(deleting(), [Event::NotDeleted(0), Event::Unanswered(0)]);
    assert!(!state.is_deleting(), "none was done, nor will be");
}

#[test]
fn a_delete_without_an_answer_keeps_its_number_until_it_cannot_arrive() {
    let (state, effects) = run(deleting(), [Event::RemovalLost(0), ABSENT]);
    assert_eq!(effects, [find(0), Reserve(0), Note(0, Settled::Leaving)]);
    let (state, effects) = step(state, Event::Noted(0));
    assert_eq!(effects, [Unlock(0), Watch(0)]);
    assert!(state.is_leaving(0) && state.is_watched(0) && state.is_watching());
    let over = [Event::WatchOver(0), Event::Noted(0)];
    let (state, effects) = run(state, over);
    assert_eq!(effects, [Note(0, Settled::Theirs), Free(0), LogEnd]);
    assert!(!state.is_leaving(0));
}

#[test]
fn a_second_delete_that_is_clear_does_not_make_up_for_the_first() {
    let there = Event::Found(0, present(Match::Proven, true));
    let events = [Event::RemovalLost(0), there, Event::Deleted(0), ABSENT];
    let (_, effects) = run(deleting(), events);
    let leaving = Note(0, Settled::Leaving);
    let expected = [find(0), delete(0, true), find(0), Reserve(0), leaving];
    assert_eq!(effects, expected);
}

#[test]
fn a_delete_that_was_only_said_to_be_done_may_be_done_yet() {
    let there = Event::Found(0, present(Match::Proven, true));
    let events = [Event::Deleted(0), there, Event::Deleted(0), ABSENT];
    let (state, effects) = run(deleting(), events);
    assert_eq!(effects.last(), Some(&Note(0, Settled::Leaving)));
    assert!(state.is_leaving(0));
}

#[test]
fn what_is_seen_to_be_there_counts_whatever_else_is_not_answered() {
    let events = [Event::Deleted(0), Event::Glimpsed(0), ABSENT];
    let (state, effects) = run(deleting(), events);
    let leaving = Note(0, Settled::Leaving);
    assert_eq!(effects, [find(0), find_again(0), Reserve(0), leaving]);
    assert!(state.is_leaving(0));
    let events = [Event::NotDeleted(0), ABSENT, Event::Glimpsed(0), ABSENT];
    let (_, effects) = run(deleting(), events);
    let again = find_again(0);
    assert_eq!(effects, [find(0), again.clone(), again.clone(), again]);
}

#[test]
fn a_refused_delete_is_asked_for_again_and_is_not_outstanding() {
    let there = Event::Found(0, present(Match::Proven, true));
    let events = [Event::NotDeleted(0), there, Event::Deleted(0), ABSENT];
    let (_, effects) = run(deleting(), events);
    assert_eq!(effects.last(), Some(&Note(0, Settled::Gone)));
}

/// A catalog that refuses a delete may have done it, or the lookup after it may show an old state.
#[test]
fn what_is_gone_although_its_delete_was_refused_is_watched_for() {
    let (state, effects) = run(deleting(), [Event::NotDeleted(0), ABSENT]);
    assert_eq!(effects, [find(0), find_again(0)]);
    let (_, effects) = step(state, ABSENT);
    assert_eq!(effects, [Reserve(0), Note(0, Settled::Unseen)]);
}

#[test]
fn what_was_created_and_is_not_there_is_looked_for_twice_and_watched_for() {
    let aborted = [
        Event::Created(0),
        Event::Unsent(1, no("no")),
        Event::Decided(Decision::Abort),
        Event::Noted(1),
    ];
    let (state, _) = run(preparing(), aborted);
    let (state, effects) = step(state, ABSENT);
    assert_eq!(effects, [find_again(0)], "a catalog may answer from before");
    let (_, effects) = step(state, ABSENT);
    assert_eq!(effects, [Reserve(0), Note(0, Settled::Unseen)]);
}

#[test]
fn what_a_catalog_made_instead_is_undone() {
    let events = [Event::Created(1), Event::Spoiled(0, no("other location"))];
    let (state, effects) = run(preparing(), events);
    assert_eq!(effects, [LogDecision(Decision::Abort)]);
    let (state, _) = step(state, Event::Decided(Decision::Abort));
    let (_, effects) = step(state, Event::Found(0, present(Match::Alike, true)));
    assert_eq!(effects, [delete(0, false)]);
}

/// Their client may have been told that no batch can begin.
#[test]
fn removals_that_an_earlier_life_has_not_decided_are_not_carried_out() {
    let shape = Shape {
        shares: vec![vec![0]],
        kinds: vec![Kind::Removed],
        groups: vec![None],
    };
    let (state, effects) = State::recovered(shape, None, &[None]);
    assert_eq!(effects, [StartClock, LogDecision(Decision::Abort)]);
    let (_, effects) = step(state, Event::Decided(Decision::Abort));
    let removes = |effect: &Effect| matches!(effect, Remove { .. });
    assert!(!effects.iter().any(removes), "{effects:?}");
}

#[test]
fn an_earlier_life_may_have_sent_a_delete() {
    let shape = Shape::versions(vec![vec![0]]);
    let (state, effects) = State::recovered(shape.clone(), Some(Decision::Abort), &[None]);
    assert_eq!(effects, [find(0)]);
    let (_, effects) = step(state, ABSENT);
    assert_eq!(effects, [Reserve(0), Note(0, Settled::Leaving)]);

    let (state, _) = State::recovered(shape.clone(), None, &[None]);
    let aborted = [ABSENT, Event::Decided(Decision::Abort), ABSENT];
    let (_, effects) = run(state, aborted);
    let unseen = Note(0, Settled::Unseen);
    assert_eq!(
        effects.last(),
        Some(&unseen),
        "nothing undecided is deleted"
    );

    for settled in [Settled::Leaving, Settled::LeavingContested] {
        let abort = Some(Decision::Abort);
        let (state, effects) = State::recovered(shape.clone(), abort, &[Some(settled)]);
        assert_eq!(effects, [Reserve(0), Unlock(0), Watch(0)]);
        assert!(state.is_leaving(0));
    }
}

/// Otherwise nobody could make the version for as long as a delete may arrive, although none was sent.
#[test]
fn an_earlier_life_has_sent_no_delete_of_what_its_log_calls_unseen() {
    for settled in [Settled::Unseen, Settled::Contested] {
        let shape = Shape::versions(vec![vec![0]]);
        let abort = Some(Decision::Abort);
        let (state, effects) = State::recovered(shape, abort, &[Some(settled)]);
        assert_eq!(effects, [Reserve(0), Unlock(0), Watch(0)]);
        assert!(!state.is_leaving(0) && state.is_watched(0));
        let (_, effects) = run(state, [Event::Landed(0), ABSENT]);
        assert_eq!(effects.last(), Some(&Note(0, Settled::Unseen)));
    }
}

#[test]
fn an_earlier_life_may_have_sent_a_delete_of_what_became_a_hazard() {
    let shape = Shape::versions(vec![vec![0]]);
    let hazard = [Some(Settled::Hazard(Hazard::BuiltOn))];
    let (state, _) = State::recovered(shape, Some(Decision::Abort), &hazard);
    let decided = [Event::Resolved(Decision::Abort), ABSENT];
    let (_, effects) = run(state, decided);
    assert_eq!(effects.last(), Some(&Note(0, Settled::Leaving)));
}

/// Another writer made the version that the removal may hit. It is neither shown nor unlocked, so that no one builds on
/// it.
#[test]
fn what_a_delete_may_still_hit_is_nobody_elses_to_build_on() {
    let theirs = Event::Found(0, present(Match::Unlike, true));
    let (_, effects) = run(deleting(), [Event::RemovalLost(0), theirs.clone()]);
    let hazard = Note(0, Settled::Hazard(Hazard::Unproven));
    assert_eq!(effects, [find(0), hazard]);
    let (_, effects) = run(deleting(), [Event::NotDeleted(0), theirs]);
    assert_eq!(effects, [find(0), Show(0), Note(0, Settled::Theirs)]);
}

/// A batch of one removal, committed.
fn removing() -> State {
    let shape = Shape {
        shares: vec![vec![0]],
        kinds: vec![Kind::Removed],
        groups: vec![None],
    };
    let (state, effects) = intended(shape);
    assert_eq!(effects.last(), Some(&LogDecision(Decision::Commit)));
    let (state, effects) = step(state, Event::Decided(Decision::Commit));
    let again = false;
    assert_eq!(effects.last(), Some(&Remove { entry: 0, again }));
    state
}

#[test]
fn a_removal_without_an_answer_keeps_its_name_until_it_cannot_arrive() {
    let (state, effects) = step(removing(), Event::RemovalLost(0));
    let again = true;
    assert_eq!(effects, [Remove { entry: 0, again }]);
    let (state, effects) = step(state, Event::Removed(0));
    assert_eq!(effects, [Reserve(0), Note(0, Settled::Leaving)]);
    let (state, effects) = step(state, Event::Noted(0));
    assert_eq!(effects, [Unlock(0), Watch(0)]);
    assert!(state.is_leaving(0));
    let (_, effects) = run(state, [Event::WatchOver(0), Event::Noted(0)]);
    assert_eq!(effects, [Note(0, Settled::Removed), Free(0), LogEnd]);
}

#[test]
fn a_refused_removal_is_not_outstanding() {
    let refused = [Event::NotRemoved(0), Event::Removed(0)];
    let (_, effects) = run(removing(), refused);
    assert_eq!(effects.last(), Some(&Note(0, Settled::Removed)));
}

#[test]
fn an_earlier_life_may_have_sent_a_removal() {
    let shape = Shape {
        shares: vec![vec![0]],
        kinds: vec![Kind::Removed],
        groups: vec![None],
    };
    let commit = Some(Decision::Commit);
    let (state, _) = State::recovered(shape.clone(), commit, &[None]);
    let (_, effects) = step(state, Event::Removed(0));
    assert_eq!(effects, [Reserve(0), Note(0, Settled::Leaving)]);
    let leaving = [Some(Settled::Leaving)];
    let (_, effects) = State::recovered(shape.clone(), commit, &leaving);
    assert_eq!(effects, [Reserve(0), Reveal, Unlock(0), Watch(0)]);
    let removed = [Some(Settled::Removed)];
    let (_, effects) = State::recovered(shape, commit, &removed);
    assert_eq!(effects, [Reveal, Unlock(0), LogEnd]);
}

#[test]
fn what_a_person_lets_be_waits_for_the_removal_that_is_under_way() {
    let decision = Event::Resolved(Decision::Commit);
    let cases = [
        (Event::NotRemoved(0), vec![Note(0, Settled::Kept)]),
        (Event::Removed(0), vec![Note(0, Settled::Removed)]),
        (
            Event::RemovalLost(0),
            vec![Reserve(0), Note(0, Settled::Leaving)],
        ),
    ];
    for (answer, expected) in cases {
        let (state, effects) = step(removing(), decision.clone());
        assert_eq!(effects, []);
        assert_eq!(step(state, answer).1, expected);
    }
    // A removal that was sent before may still arrive.
    let events = [Event::RemovalLost(0), decision, Event::NotRemoved(0)];
    let (_, effects) = run(removing(), events);
    assert_eq!(effects[1..], [Reserve(0), Note(0, Settled::Leaving)]);
}

/// A create of the version is still in flight when an operator has the version in its place deleted.
#[test]
fn what_a_person_has_deleted_may_land_still() {
    let alike = present(Match::Incomparable, true);
    let events = [
        Event::Lost(0),
        Event::Unsent(1, no("no")),
        Event::Found(0, alike),
        Event::Decided(Decision::Abort),
        Event::Noted(1),
        Event::Found(0, alike),
        Event::Noted(0),
        Event::Resolved(Decision::Abort),
        Event::Found(0, alike),
        Event::Deleted(0),
        ABSENT,
    ];
    let (_, effects) = run(preparing(), events);
    assert_eq!(effects.last(), Some(&Note(0, Settled::Unseen)));
}
