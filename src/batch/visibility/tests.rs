#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use super::*;
use crate::batch::log::BatchId;
use crate::protocol::data_scope::DataScope;
use crate::protocol::identifier::Identifier;

const REST: Duration = Duration::from_secs(60);
const PAUSE: Pause = Pause {
    number: Duration::from_millis(500),
    above: REST,
};

/// The hidden versions from this one on.
fn from(version: u64) -> Hidden {
    Hidden(vec![version..=u64::MAX])
}

fn version(version: u64) -> Subject {
    Subject::version(None, version)
}

fn line(name: &str) -> TableBranch {
    let table = TableKey {
        scope: DataScope::default(),
        backend: "lake".into(),
        table: Identifier::from_names([name]).unwrap(),
    };
    TableBranch::new(table, None)
}

#[tokio::test(start_paused = true)]
async fn a_batch_becomes_visible_in_one_step() {
    let (visibility, commit_flag) = (Visibility::default(), CommitFlag::default());
    visibility.hide(line("a"), 2, &commit_flag);
    visibility.hide(line("b"), 5, &commit_flag);
    assert_eq!(visibility.hidden(&line("a")), from(2));
    assert_eq!(visibility.hidden(&line("b")), from(5));
    commit_flag.reveal();
    assert!(visibility.hidden(&line("a")).is_empty() && visibility.hidden(&line("b")).is_empty());
    for name in ["a", "b"] {
        visibility.forget(&line(name), None, &commit_flag);
    }
    assert!(visibility.is_empty());
}

#[test]
fn what_is_hidden_is_hidden_under_every_name_that_is_one_when_joined() {
    let (visibility, commit_flag) = (Visibility::default(), CommitFlag::default());
    let line = |names: &[&str]| {
        let table = TableKey {
            scope: DataScope::default(),
            backend: "lake".into(),
            table: Identifier::from_names(names).unwrap(),
        };
        TableBranch::new(table, None)
    };
    visibility.hide(line(&["a", "b", "t"]), 2, &commit_flag);
    for names in [&["a", "b$t"][..], &["a$b", "t"], &["a$b$t"]] {
        assert_eq!(visibility.hidden(&line(names)), from(2), "{names:?}");
        let name = || line(names).table;
        visibility
            .names
            .hide_made(line(&["a", "b", "t"]).table, &commit_flag);
        assert!(visibility.names.is_hidden(name), "{names:?}");
    }
}

#[test]
fn a_deleted_number_that_was_made_again_is_shown_and_the_others_are_not() {
    let (visibility, commit_flag, line) = (Visibility::default(), CommitFlag::default(), line("a"));
    let branch = TableBranch::new(line.table.clone(), Some("dev".into()));
    for line in [&line, &branch] {
        visibility.hide_removed(line.clone(), 1..=5, &commit_flag);
    }
    visibility.taken(&line, 3, REST);
    commit_flag.reveal();
    let shown = |line: &TableBranch| {
        let hidden = visibility.hidden(line);
        let shown = (1..=5).filter(|version| !hidden.contains(*version));
        shown.collect::<Vec<u64>>()
    };
    assert!(shown(&line).is_empty(), "it was there before the batch");
    for version in [3, 1, 5, 3] {
        let moment = visibility.moment(&line);
        visibility.taken(&line, version, REST);
        let is_new = version != 3 || shown(&line) == [3];
        assert_eq!(visibility.has_passed(moment), is_new, "{version}");
    }
    assert_eq!(shown(&line), [1, 3, 5]);
    assert!(shown(&branch).is_empty());
    visibility.forget_removed(&branch, &commit_flag);
    assert_eq!(shown(&branch), [1, 2, 3, 4, 5]);
    assert_eq!(shown(&line), [1, 3, 5]);
    visibility.renumbered(&line.table);
    assert_eq!(shown(&line), [1, 2, 3, 4, 5]);
    assert!(visibility.is_empty());
}

const BUILT: Result<(), Forbidden> = Err(Forbidden::BuiltOnGone { version: 2 });

#[tokio::test(start_paused = true)]
async fn a_number_that_nothing_can_hit_any_more_is_free_at_once_and_nothing_is_built_on_what_is_gone()
 {
    let (visibility, commit_flag, line) = (Visibility::default(), CommitFlag::default(), line("a"));
    visibility.hide(line.clone(), 2, &commit_flag);
    let before = Instant::now();
    tokio::time::advance(Duration::from_secs(1)).await;
    for _ in 0..2 {
        visibility.release(&line, version(2), &commit_flag, Release::Clean(PAUSE), None);
    }
    assert!(visibility.hidden(&line).is_empty());
    let may_create = |number| visibility.may_create(&line, number, Instant::now());
    assert_eq!(may_create(1), Ok(()));
    assert_eq!(may_create(2), Ok(()));
    assert_eq!(may_create(3), BUILT);
    assert_eq!(visibility.may_change(&line.table), Ok(()));
    assert!(visibility.rests(&line.table, Some((&line, 2))).is_some());
    assert!(visibility.rests(&line.table, Some((&line, 3))).is_none());
    assert!(visibility.rests(&line.table, None).is_some());
    tokio::time::advance(PAUSE.number).await;
    assert!(visibility.rests(&line.table, None).is_none());
    visibility.taken(&line, 2, REST);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(may_create(3), Ok(()), "it stands on what was made since");
    assert_eq!(visibility.may_create(&line, 3, before), BUILT, "it cannot");
    tokio::time::advance(REST).await;
    visibility.sweep_all();
    assert!(visibility.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_change_of_which_the_catalog_chose_the_version_makes_freed_versions_again() {
    let (visibility, commit_flag, line) = (Visibility::default(), CommitFlag::default(), line("a"));
    visibility.release(&line, version(2), &commit_flag, Release::Clean(PAUSE), None);
    visibility.attempted(&line.table, None, REST);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(visibility.may_create(&line, 3, Instant::now()), Ok(()));
}

/// A change whose version the catalog chooses may be refused. Then the freed version is made later, by somebody else.
#[tokio::test(start_paused = true)]
async fn what_came_before_a_version_was_made_again_was_not_built_on_it_although_changes_were_tried()
{
    let (visibility, commit_flag, line) = (Visibility::default(), CommitFlag::default(), line("a"));
    visibility.release(&line, version(2), &commit_flag, Release::Clean(PAUSE), None);
    visibility.attempted(&line.table, None, REST);
    tokio::time::advance(Duration::from_millis(1)).await;
    let came = Instant::now();
    tokio::time::advance(Duration::from_millis(1)).await;
    visibility.taken(&line, 2, REST);
    assert_eq!(visibility.may_create(&line, 3, came), BUILT);
}

/// A request for the name may be refused. So what is known of freed versions is kept until the name is gone.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_about_to_go_keeps_what_is_known_of_its_table() {
    let (visibility, commit_flag, line) = (Visibility::default(), CommitFlag::default(), line("a"));
    let claim = (BatchId::from_u128(1), 0);
    let release = Release::Clean(PAUSE);
    visibility.release(&line, version(2), &commit_flag, release, Some(claim));
    visibility.hide_removed(line.clone(), 1..=1, &commit_flag);
    assert_eq!(visibility.unclaim(&line.table), [claim]);
    assert_eq!(visibility.unclaim(&line.table), []);
    assert_eq!(visibility.may_create(&line, 3, Instant::now()), BUILT);
    // A batch that is not decided has yet to remove its versions.
    visibility.renamed(&line.table);
    assert_eq!(visibility.may_create(&line, 3, Instant::now()), Ok(()));
    assert!(!visibility.is_empty());
    commit_flag.reveal();
    visibility.renamed(&line.table);
    assert!(visibility.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_may_still_land_stays_hidden_until_somebody_has_made_that_version() {
    let (visibility, commit_flag, line) = (Visibility::default(), CommitFlag::default(), line("a"));
    visibility.hide(line.clone(), 2, &commit_flag);
    visibility.release(
        &line,
        version(2),
        &commit_flag,
        Release::Landing(REST),
        None,
    );
    tokio::time::advance(2 * REST).await;
    visibility.sweep_all();
    assert_eq!(visibility.hidden(&line), from(2), "until the watch says so");
    let may_create = |number| visibility.may_create(&line, number, Instant::now());
    assert_eq!(may_create(2), Ok(()), "its writer names it");
    assert_eq!(may_create(3), BUILT);
    assert!(visibility.may_change(&line.table).is_err());
    let watched = || visibility.watched(&line.table, &version(2), &commit_flag);
    assert_eq!(watched(), LateArrival::Alone);
    assert!(visibility.may_be_anothers(&line, 2) && !visibility.may_be_anothers(&line, 3));
    visibility.contest(&line, 2);
    assert_eq!(watched(), LateArrival::Contested);
    assert_eq!(visibility.hidden(&line), from(2));
    visibility.taken(&line, 2, REST);
    assert_eq!(watched(), LateArrival::Taken);
    assert!(visibility.hidden(&line).is_empty());
    assert_eq!(visibility.may_change(&line.table), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn what_a_removal_may_still_hit_nobody_makes_or_changes_on_any_branch() {
    let (visibility, commit_flag, main) = (Visibility::default(), CommitFlag::default(), line("a"));
    let branch = TableBranch::new(main.table.clone(), Some("b".into()));
    visibility.release(
        &branch,
        Subject::version(Some("b"), 2),
        &commit_flag,
        Release::Leaving(REST),
        None,
    );
    let may_create =
        |line: &TableBranch, number| visibility.may_create(line, number, Instant::now());
    assert_eq!(may_create(&branch, 2), Err(Forbidden::Uncertain(REST)));
    assert_eq!(may_create(&branch, 3), BUILT);
    assert_eq!(may_create(&main, 2), Ok(()), "another line of versions");
    let may_follow = |line: &TableBranch, number| visibility.may_follow(line, number);
    assert_eq!(may_follow(&branch, 2), Err(Forbidden::Uncertain(REST)));
    assert_eq!(may_follow(&branch, 3), Ok(()), "what is below is its own");
    assert_eq!(may_follow(&main, 2), Ok(()));
    let uncertain = Err(Forbidden::Uncertain(REST));
    assert_eq!(visibility.may_change(&main.table), uncertain);
    assert_eq!(visibility.may_rename(&main.table), uncertain);
    assert_eq!(visibility.may_drop(|_| true), uncertain);
    assert_eq!(visibility.may_drop(|_| false), Ok(()));
    visibility.unwatch(&main.table, &Subject::version(Some("b"), 2), &commit_flag);
    assert!(visibility.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_name_and_a_table_that_a_removal_may_still_hit_go_to_no_other() {
    for (subject, changes) in [(Subject::Name, false), (Subject::Table, true)] {
        let (visibility, commit_flag, line) =
            (Visibility::default(), CommitFlag::default(), line("a"));
        visibility.release(
            &line,
            subject.clone(),
            &commit_flag,
            Release::Leaving(REST),
            None,
        );
        assert!(visibility.may_rename(&line.table).is_err());
        assert_eq!(visibility.may_change(&line.table).is_ok(), changes);
        let created = visibility.may_create(&line, 9, Instant::now());
        assert_eq!(created.is_ok(), changes);
        assert!(visibility.hidden(&line).is_empty());
        visibility.unwatch(&line.table, &subject, &commit_flag);
        assert!(visibility.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn creates_of_others_that_got_no_answer_may_land_for_so_long() {
    let (visibility, line) = (Visibility::default(), line("a"));
    let branch = TableBranch::new(line.table.clone(), Some("b".into()));
    visibility.add_stray(&line.table, Some((&branch, 2)), REST);
    assert!(visibility.may_be_anothers(&branch, 2));
    assert!(!visibility.may_be_anothers(&branch, 3) && !visibility.may_be_anothers(&line, 2));
    visibility.add_stray(&line.table, None, REST);
    assert!(visibility.may_be_anothers(&line, 7));
    tokio::time::advance(REST).await;
    assert!(!visibility.may_be_anothers(&line, 7) && !visibility.may_be_anothers(&branch, 2));
    visibility.expect_strays(REST);
    assert!(visibility.may_be_anothers(&line, 1));
    tokio::time::advance(REST).await;
    assert!(!visibility.may_be_anothers(&line, 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_removed_is_hidden_from_the_step_in_which_what_was_made_is_shown() {
    let (visibility, commit_flag, line) = (Visibility::default(), CommitFlag::default(), line("a"));
    visibility.hide(line.clone(), 9, &commit_flag);
    visibility.hide_removed(line.clone(), 1..=8, &commit_flag);
    assert_eq!(visibility.hidden(&line), from(9));
    commit_flag.reveal();
    assert_eq!(visibility.hidden(&line), Hidden(vec![1..=8]));
    visibility.forget(&line, Some(1), &commit_flag);
    assert!(visibility.hidden(&line).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_reader_learns_that_its_answer_is_overtaken() {
    let (visibility, commit_flag) = (Visibility::default(), CommitFlag::default());
    visibility.hide(line("a"), 2, &commit_flag);
    visibility.hide_removed(line("b"), 1..=1, &commit_flag);
    let before = ["a", "b"].map(|name| visibility.moment(&line(name)));
    commit_flag.reveal();
    visibility.forget(&line("a"), None, &commit_flag);
    let passed = before.map(|moment| visibility.has_passed(moment));
    assert_eq!(passed, [false; 2], "one version is there or not");
    // The removed version is not hidden any more: a reader that listed it before would show it again.
    visibility.forget(&line("b"), None, &commit_flag);
    assert!(visibility.has_passed(before[1]));
}

/// The reader's catalog answers before the undo, and the reader filters when the number is free.
#[tokio::test(start_paused = true)]
async fn an_answer_from_before_an_undo_is_asked_for_again() {
    let (visibility, commit_flag, line) = (Visibility::default(), CommitFlag::default(), line("a"));
    visibility.hide(line.clone(), 2, &commit_flag);
    let asked = visibility.moment(&line);
    visibility.release(&line, version(2), &commit_flag, Release::Clean(PAUSE), None);
    assert!(visibility.hidden(&line).is_empty());
    assert!(visibility.has_passed(asked));
}

/// Branches that share a counter send more requests to their catalogs. With other sharing, a simulation would not be
/// repeatable.
#[test]
fn the_same_lines_share_a_counter_every_time() {
    let counters = || {
        let shown = ReadEpochs::default();
        let lines = (0..100).map(|number| line(&number.to_string()));
        lines.map(|line| shown.counter(&line)).collect::<Vec<_>>()
    };
    assert_eq!(counters(), counters());
}
