//! Tests for the decisions of operators about batches that are stuck.

use super::*;

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
fn a_person_has_a_hazard_deleted_but_never_what_was_built_on_or_is_all_that_is_left() {
    let decision = Event::Resolved(Decision::Abort);
    let (state, effects) = step(hazardous(), decision);
    assert_eq!(effects, [find(1)]);
    let unlike = Event::Found(1, present(Match::Unlike, true));
    let (_, effects) = step(state.clone(), unlike);
    assert_eq!(effects, [Note(1, Settled::Hazard(Hazard::Unproven))]);
    let (_, effects) = step(state.clone(), Event::Found(1, alone(Match::Incomparable)));
    assert_eq!(effects, [Note(1, Settled::Hazard(Hazard::OnlyVersion))]);
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
    let refused = |effect: &Effect| matches!(effect, Answer(super::super::Answer::Refused(_)));
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
