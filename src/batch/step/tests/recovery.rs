//! Tests for the first effects of a batch that is recovered from the log.

use super::*;

#[test]
fn a_version_that_was_never_created_is_nothing_to_undo_after_a_crash() {
    let settled = [None, Some(Settled::Theirs)];
    let shape = Shape::versions(vec![vec![0], vec![1]]);
    let (_, effects) = State::recovered(shape, Some(Decision::Abort), &settled);
    assert!(effects.contains(&Unlock(1)), "{effects:?}");
    assert!(!effects.contains(&find(1)), "{effects:?}");
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
