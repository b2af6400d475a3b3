#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use super::*;
use crate::protocol::identifier::Identifier;

const REST: Duration = Duration::from_secs(60);

fn only(version: u64) -> Hidden {
    Hidden(vec![version..=version])
}

fn line(name: &str) -> Line {
    let table = TableKey {
        backend: "lake".into(),
        table: Identifier::from_names([name]).unwrap(),
    };
    Line::new(table, None)
}

#[tokio::test(start_paused = true)]
async fn a_batch_becomes_visible_in_one_step() {
    let (visibility, fate) = (Visibility::default(), Fate::default());
    visibility.hide(line("a"), 2, &fate);
    visibility.hide(line("b"), 5, &fate);
    assert_eq!(visibility.hidden(&line("a")), only(2));
    assert_eq!(visibility.hidden(&line("b")), only(5));
    fate.reveal();
    assert!(visibility.hidden(&line("a")).is_empty() && visibility.hidden(&line("b")).is_empty());
    for name in ["a", "b"] {
        visibility.forget(&line(name), None, &fate);
    }
    assert!(visibility.is_empty());
}

#[test]
fn what_is_hidden_is_hidden_under_every_name_that_is_one_when_joined() {
    let (visibility, fate) = (Visibility::default(), Fate::default());
    let line = |names: &[&str]| {
        let table = TableKey {
            backend: "lake".into(),
            table: Identifier::from_names(names).unwrap(),
        };
        Line::new(table, None)
    };
    visibility.hide(line(&["a", "b", "t"]), 2, &fate);
    for names in [&["a", "b$t"][..], &["a$b", "t"], &["a$b$t"]] {
        assert_eq!(visibility.hidden(&line(names)), only(2), "{names:?}");
        let name = || line(names).table;
        visibility
            .names
            .hide_made(line(&["a", "b", "t"]).table, &fate);
        assert!(visibility.names.is_hidden(name), "{names:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_freed_number_rests_and_nothing_is_built_on_it() {
    let (visibility, fate) = (Visibility::default(), Fate::default());
    visibility.hide(line("a"), 2, &fate);
    visibility.release(&line("a"), 2, &fate, REST, None);
    assert_eq!(
        visibility.hidden(&line("a")),
        only(2),
        "a late create would stay hidden"
    );
    assert_eq!(visibility.may_create(&line("a"), 1), Ok(()));
    assert_eq!(
        visibility.may_create(&line("a"), 2),
        Err(Forbidden::Reserved(REST))
    );
    let built = Err(Forbidden::BuiltOnGone { version: 2 });
    assert_eq!(visibility.may_create(&line("a"), 3), built);
    assert_eq!(visibility.may_create(&line("b"), 3), Ok(()));
    tokio::time::advance(REST).await;
    assert_eq!(visibility.may_create(&line("a"), 2), Ok(()));
    visibility.sweep(&line("a"));
    assert!(visibility.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_may_still_land_stays_hidden_until_somebody_has_made_that_version() {
    let (visibility, fate, line) = (Visibility::default(), Fate::default(), line("a"));
    visibility.hide(line.clone(), 2, &fate);
    visibility.release(&line, 2, &fate, REST, None);
    visibility.watch(&line, 2, &fate);
    tokio::time::advance(REST).await;
    visibility.sweep(&line);
    assert_eq!(visibility.hidden(&line), only(2));
    assert_eq!(
        visibility.may_create(&line, 2),
        Ok(()),
        "the number is free"
    );
    let built = Err(Forbidden::BuiltOnGone { version: 2 });
    assert_eq!(visibility.may_create(&line, 3), built);
    assert_eq!(visibility.watched(&line, 2, &fate), Watched::Alone);
    visibility.contest(&line, 2);
    assert_eq!(visibility.watched(&line, 2, &fate), Watched::Contested);
    assert_eq!(visibility.hidden(&line), only(2));
    visibility.taken(&line, 2);
    assert_eq!(visibility.watched(&line, 2, &fate), Watched::Taken);
    assert_eq!(visibility.may_create(&line, 3), Ok(()));
    assert!(visibility.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_removed_is_hidden_from_the_step_in_which_what_was_made_is_shown() {
    let (visibility, fate, line) = (Visibility::default(), Fate::default(), line("a"));
    visibility.hide(line.clone(), 9, &fate);
    visibility.hide_removed(line.clone(), 1..=8, &fate);
    assert_eq!(visibility.hidden(&line), only(9));
    fate.reveal();
    assert_eq!(visibility.hidden(&line), Hidden(vec![1..=8]));
    visibility.forget(&line, Some(1), &fate);
    assert!(visibility.hidden(&line).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_reader_learns_that_its_answer_is_overtaken() {
    let (visibility, fate) = (Visibility::default(), Fate::default());
    visibility.hide(line("a"), 2, &fate);
    visibility.hide_removed(line("b"), 1..=1, &fate);
    let before = ["a", "b"].map(|name| visibility.moment(&line(name)));
    fate.reveal();
    visibility.forget(&line("a"), None, &fate);
    let passed = before.map(|moment| visibility.has_passed(moment));
    assert_eq!(passed, [false; 2], "one version is there or not");
    // What was hidden as removed is not hidden any more: who listed it before would show it again.
    visibility.forget(&line("b"), None, &fate);
    assert!(visibility.has_passed(before[1]));
}

/// A reader whose catalog answered before the undo, and who filters when the number rests no more.
#[tokio::test(start_paused = true)]
async fn an_answer_from_before_an_undo_is_asked_for_again_however_short_the_rest() {
    let (visibility, fate, line) = (Visibility::default(), Fate::default(), line("a"));
    visibility.hide(line.clone(), 2, &fate);
    let asked = visibility.moment(&line);
    visibility.release(&line, 2, &fate, Duration::ZERO, None);
    assert!(visibility.hidden(&line).is_empty());
    assert!(visibility.has_passed(asked));
}

/// Lines that share a counter ask their catalogs once more than others: a simulation would not repeat itself.
#[test]
fn the_same_lines_share_a_counter_every_time() {
    let counters = || {
        let shown = Shown::default();
        let lines = (0..100).map(|number| line(&number.to_string()));
        lines.map(|line| shown.counter(&line)).collect::<Vec<_>>()
    };
    assert_eq!(counters(), counters());
}
