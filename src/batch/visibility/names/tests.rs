#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use super::*;
use crate::protocol::data_scope::DataScope;
use crate::protocol::identifier::Identifier;

fn key(name: &str) -> TableKey {
    TableKey {
        scope: DataScope::default(),
        backend: "lake".into(),
        table: Identifier::from_names(["ns", name]).unwrap(),
    }
}

fn hidden(names: &Names) -> Vec<String> {
    let hidden = names.hidden_in(names.moment(), |_| true).unwrap();
    let last = |key: &TableKey| key.table.last().unwrap().to_owned();
    let mut hidden: Vec<_> = hidden.iter().map(last).collect();
    hidden.sort();
    hidden
}

#[test]
fn what_is_made_appears_when_what_is_removed_goes() {
    let (names, commit_flag) = (Names::default(), CommitFlag::default());
    let (old, new) = (key("old"), key("new"));
    names.hide_made(new.clone(), &commit_flag);
    names.hide_removed(old.clone(), &commit_flag);
    assert_eq!(hidden(&names), ["new"]);
    assert!(names.is_hidden(|| new.clone()) && !names.is_hidden(|| old.clone()));
    names.reveal(&commit_flag, [&old, &new]);
    assert_eq!(hidden(&names), ["old"]);
    assert!(!names.is_hidden(|| new.clone()) && names.is_hidden(|| old.clone()));
    names.forget(&new, &commit_flag);
    names.gone(&old, &commit_flag);
    assert!(hidden(&names).is_empty());
    assert!(!names.moment().has_some(), "nothing is left behind");
    assert!(names.read().slots.is_empty());
}

#[test]
fn who_asked_before_a_name_went_away_does_not_see_it() {
    let (names, commit_flag) = (Names::default(), CommitFlag::default());
    names.hide_made(key("undone"), &commit_flag);
    let since = names.moment();
    names.gone(&key("undone"), &commit_flag);
    assert_eq!(
        names.check(since, || key("undone")),
        Err(StaleAnswer::Absent)
    );
    assert_eq!(names.check(since, || key("other")), Ok(()));
    assert_eq!(names.check(names.moment(), || key("undone")), Ok(()));
    // A listing from before may have the name; one from afterwards may not.
    assert_eq!(names.hidden_in(since, |_| true), None);
    assert!(
        names
            .hidden_in(since, |table| *table == key("other"))
            .is_some()
    );
    assert!(names.hidden_in(names.moment(), |_| true).is_some());
}

#[test]
fn a_reveal_matters_to_listings_and_not_to_one_name() {
    let (names, commit_flag) = (Names::default(), CommitFlag::default());
    names.hide_made(key("new"), &commit_flag);
    let since = names.moment();
    names.reveal(&commit_flag, [&key("new")]);
    assert_eq!(names.check(since, || key("new")), Ok(()));
    assert_eq!(names.hidden_in(since, |_| true), None);
    let since = names.moment();
    names.forget(&key("new"), &commit_flag);
    assert!(names.hidden_in(since, |_| true).is_some());
}

#[test]
fn what_a_person_keeps_appears() {
    let (names, commit_flag) = (Names::default(), CommitFlag::default());
    names.hide_made(key("kept"), &commit_flag);
    let since = names.moment();
    names.forget(&key("kept"), &commit_flag);
    assert_eq!(names.check(since, || key("kept")), Ok(()));
    assert_eq!(names.hidden_in(since, |_| true), None);
}

/// A batch that was refused before it was written has hidden nothing.
#[test]
fn what_was_never_hidden_does_not_go_away() {
    let (names, commit_flag) = (Names::default(), CommitFlag::default());
    let since = names.moment();
    names.gone(&key("there"), &commit_flag);
    names.forget(&key("there"), &commit_flag);
    assert_eq!(names.moment(), since);
    assert_eq!(names.check(since, || key("there")), Ok(()));
}

#[test]
fn memory_is_bounded_and_says_when_it_does_not_know() {
    let (names, commit_flag) = (Names::default(), CommitFlag::default());
    let since = names.moment();
    for _ in 0..=RECENT {
        names.hide_made(key("busy"), &commit_flag);
        names.gone(&key("busy"), &commit_flag);
    }
    assert_eq!(names.read().recent.len(), RECENT);
    assert_eq!(
        names.check(since, || key("busy")),
        Err(StaleAnswer::Unknown)
    );
    assert_eq!(names.check(since, || key("other")), Ok(()));
    assert_eq!(names.hidden_in(since, |_| true), None);
    assert_eq!(names.check(names.moment(), || key("busy")), Ok(()));
}

/// A reader of another name does not wait until a change is complete.
#[test]
fn a_name_that_no_batch_has_a_say_in_is_told_without_the_lock() {
    let (names, commit_flag) = (Names::default(), CommitFlag::default());
    let since = names.moment();
    names.hide_made(key("made"), &commit_flag);
    let state = names.write();
    assert!(!names.is_hidden(|| key("other")));
    assert_eq!(names.check(since, || key("other")), Ok(()));
    drop(state);
    assert!(names.is_hidden(|| key("made")));
    assert_eq!(names.check(since, || key("made")), Err(StaleAnswer::Absent));
    names.gone(&key("made"), &commit_flag);
    let state = names.write();
    assert_eq!(names.check(names.moment(), || key("made")), Ok(()));
    drop(state);
    assert_eq!(names.check(since, || key("made")), Err(StaleAnswer::Absent));
}

#[test]
fn each_place_of_a_batch_has_the_origin_that_its_own_rename_removes() {
    let (names, commit_flag) = (Names::default(), CommitFlag::default());
    for (old, new) in [("a", "x"), ("b", "y")] {
        let origin = Some(key(old));
        names.hide_registered(key(new), &format!("at {old}"), origin, &commit_flag);
        names.hide_removed(key(old), &commit_flag);
    }
    let second = |old| names.second_name(|place| place.origin == Some(key(old)));
    assert_eq!((second("a"), second("b")), (Some(key("x")), Some(key("y"))));
}
