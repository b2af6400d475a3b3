#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::time::Duration;

use super::super::commit_flag::CommitFlag;
use super::super::{Pause, Release};
use super::*;
use crate::protocol::data_scope::DataScope;
use crate::protocol::identifier::Identifier;

fn line(branch: Option<&str>) -> TableBranch {
    let table = TableKey {
        scope: DataScope::default(),
        backend: "lake".into(),
        table: Identifier::from_names(["t"]).unwrap(),
    };
    TableBranch::new(table, branch.map(str::to_owned))
}

fn end(list: &mut ListWatch) -> u64 {
    list.view().unwrap().end
}

#[tokio::test(start_paused = true)]
async fn what_was_hidden_while_a_list_streams_stays_out_of_it() {
    let (visibility, main) = (Visibility::default(), line(None));
    let committed = CommitFlag::default();
    visibility.hide(main.clone(), 9, &committed);
    let mut before = visibility.watch_list(&main);
    committed.reveal();
    visibility.forget(&main, None, &committed);
    let mut list = visibility.watch_list(&main);
    let mut other = visibility.watch_list(&line(Some("dev")));
    assert_eq!((end(&mut before), end(&mut list)), (9, u64::MAX));
    // A batch that begins and commits, and a later one that begins and is undone, all between two pieces.
    for (version, commits) in [(10, true), (11, false)] {
        let flag = CommitFlag::default();
        visibility.hide(main.clone(), version, &flag);
        if commits {
            flag.reveal();
            visibility.forget(&main, None, &flag);
        } else {
            let pause = Pause {
                number: Duration::ZERO,
                above: Duration::ZERO,
            };
            let subject = Subject::version(None, version);
            visibility.release(&main, subject, &flag, Release::Clean(pause), None);
            visibility.sweep(&main.table);
        }
    }
    assert!(visibility.hidden(&main).is_empty());
    assert_eq!((end(&mut before), end(&mut list)), (9, 10));
    assert_eq!(end(&mut other), u64::MAX, "another branch");
}

#[test]
fn a_create_that_may_land_stays_out_of_a_list_that_knew_nothing_of_it() {
    let (visibility, main) = (Visibility::default(), line(None));
    let mut list = visibility.watch_list(&main);
    let flag = CommitFlag::default();
    let landing = Release::Landing(Duration::from_secs(900));
    visibility.release(&main, Subject::version(None, 4), &flag, landing, None);
    assert_eq!(end(&mut list), 4);
}

#[test]
fn a_list_of_which_versions_are_removed_is_cut() {
    let (visibility, main) = (Visibility::default(), line(None));
    let flag = CommitFlag::default();
    let mut before = visibility.watch_list(&main);
    let mut other = visibility.watch_list(&line(Some("dev")));
    visibility.hide_removed(main.clone(), 1..=2, &flag);
    assert!(before.view().is_ok(), "it is not decided");
    flag.reveal();
    visibility.cut_lists(&main);
    assert_eq!(before.view(), Err(ListCut));
    assert!(other.view().is_ok());
    // A list that begins after the commit shows none of them, even after they are gone at the catalog.
    let mut after = visibility.watch_list(&main);
    visibility.forget(&main, None, &flag);
    assert_eq!(after.view().unwrap().removed, Hidden(vec![1..=2]));
}

#[test]
fn nothing_is_left_of_a_list_that_is_over() {
    let (visibility, main) = (Visibility::default(), line(None));
    let lists = [(); 3].map(|()| visibility.watch_list(&main));
    assert_eq!(visibility.lists.0.count.load(Ordering::SeqCst), 3);
    drop(lists);
    assert_eq!(visibility.lists.0.count.load(Ordering::SeqCst), 0);
    assert!(visibility.lists.0.tables.is_empty());
}
