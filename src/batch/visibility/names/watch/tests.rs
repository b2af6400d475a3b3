#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use bytes::BytesMut;
use serde_json::Value;

use super::*;
use crate::batch::visibility::commit_flag::CommitFlag;
use crate::batch::visibility::list_filter::{ListFilter, Unlistable};
use crate::protocol::name_scanner::random_answer::Author;
use crate::util::dice::Dice;

fn id(names: &[&str]) -> Identifier {
    Identifier::from_names(names).unwrap()
}

fn key(names: &[&str]) -> TableKey {
    TableKey {
        scope: DataScope::default(),
        backend: "lake".into(),
        table: id(names),
    }
}

fn begin(names: &Names) -> ListedNames {
    ListedNames::of(
        names,
        &"lake".into(),
        &DataScope::default(),
        Level::Below(id(&["ns"])),
    )
}

/// Returns which of the names `old` and `new` a listing may show now.
fn shown(listed: &mut ListedNames) -> Result<[bool; 2], NamesChanged> {
    listed.look()?;
    Ok([&b"\"old\""[..], b"\"new\""].map(|name| listed.judge(name).unwrap().is_shown))
}

/// Has a batch begin that renames `old` to `new`.
fn rename(names: &Names) -> (CommitFlag, [TableKey; 2]) {
    let (flag, [old, new]) = (CommitFlag::default(), [["ns", "old"], ["ns", "new"]]);
    names.hide_removed(key(&old), &flag);
    names.hide_made(key(&new), &flag);
    (flag, [key(&old), key(&new)])
}

#[test]
fn a_name_that_a_batch_makes_while_a_listing_streams_stays_out_of_it() {
    let names = Names::default();
    let mut before = begin(&names);
    assert_eq!(shown(&mut before), Ok([true, true]));
    let flag = CommitFlag::default();
    names.hide_made(key(&["ns", "new"]), &flag);
    let mut meanwhile = begin(&names);
    for listed in [&mut before, &mut meanwhile] {
        assert_eq!(shown(listed), Ok([true, false]));
    }
    names.reveal(&flag, [&key(&["ns", "new"])]);
    names.forget(&key(&["ns", "new"]), &flag);
    for listed in [&mut before, &mut meanwhile] {
        assert_eq!(shown(listed), Ok([true, false]));
    }
    assert_eq!(shown(&mut begin(&names)), Ok([true, true]));
    assert!(!begin(&names).hides_some());
}

/// The batch begins and ends between two pieces of the listing, which never saw the name hidden.
#[test]
fn a_batch_between_two_pieces_of_a_listing_stays_out_of_it_however_it_ends() {
    for commits in [true, false] {
        let (names, new) = (Names::default(), key(&["ns", "new"]));
        let mut listed = begin(&names);
        let flag = CommitFlag::default();
        names.hide_made(new.clone(), &flag);
        if commits {
            names.reveal(&flag, [&new]);
            names.forget(&new, &flag);
        } else {
            names.gone(&new, &flag);
        }
        assert_eq!(shown(&mut listed), Ok([true, false]), "{commits}");
    }
}

#[test]
fn a_listing_ends_when_a_batch_removes_a_name_of_it() {
    let names = Names::default();
    let (flag, tables) = rename(&names);
    let mut before = begin(&names);
    assert_eq!(shown(&mut before), Ok([true, false]), "it is not decided");
    names.reveal(&flag, &tables);
    assert_eq!(shown(&mut before), Err(NamesChanged));
    // One that begins after the commit has the new name, and goes on when the old one goes away at its catalog.
    let mut after = begin(&names);
    assert_eq!(shown(&mut after), Ok([false, true]));
    names.forget(&tables[1], &flag);
    names.gone(&tables[0], &flag);
    assert_eq!(shown(&mut after), Ok([false, true]));
}

/// The name may have been at its catalog before the batch hid it.
#[test]
fn a_listing_ends_when_a_hidden_name_is_given_back() {
    let names = Names::default();
    let flag = CommitFlag::default();
    names.hide_made(key(&["ns", "new"]), &flag);
    let mut listed = begin(&names);
    names.forget(&key(&["ns", "new"]), &flag);
    assert_eq!(shown(&mut listed), Err(NamesChanged));
}

#[test]
fn names_that_a_listing_cannot_have_do_not_end_it() {
    let names = Names::default();
    let others = [
        key(&["ns", "below", "old"]),
        key(&["old"]),
        key(&["ns", "__nsgate_new_1"]),
        TableKey {
            scope: DataScope::default(),
            backend: "pond".into(),
            table: id(&["ns", "old"]),
        },
    ];
    let mut listed = begin(&names);
    for other in others {
        let flag = CommitFlag::default();
        names.hide_removed(other.clone(), &flag);
        names.reveal(&flag, [&other]);
        names.gone(&other, &flag);
        assert_eq!(shown(&mut listed), Ok([true, true]), "{other:?}");
    }
    let mut all = ListedNames::of(&names, &"lake".into(), &DataScope::default(), Level::All);
    let flag = CommitFlag::default();
    // The listing has the second one as `a$b$c`, which is another table.
    for hidden in [&["a", "b"][..], &["a$b", "c"]] {
        names.hide_made(key(hidden), &flag);
    }
    all.look().unwrap();
    let is_shown = |name: &[u8]| all.judge(name).unwrap().is_shown;
    assert!(!is_shown(b"\"a$b\"") && is_shown(b"\"a$b$c\""));
    assert!(!is_shown(b"\"a$__nsgate_new_1\"") && is_shown(b"\"__nsgate_new_1$a\""));
}

#[test]
fn a_listing_that_cannot_know_what_changed_ends() {
    let (names, new) = (Names::default(), key(&["elsewhere", "new"]));
    let mut listed = begin(&names);
    for _ in 0..=super::super::RECENT {
        let flag = CommitFlag::default();
        names.hide_made(new.clone(), &flag);
        names.gone(&new, &flag);
    }
    assert_eq!(listed.look(), Err(NamesChanged));
}

#[test]
fn the_names_that_are_kept_out_of_a_listing_are_bounded() {
    let names = Names::default();
    let mut listed = begin(&names);
    let mut ended = None;
    for number in 0..=OUTDATED {
        let (new, flag) = (key(&["ns", &number.to_string()]), CommitFlag::default());
        names.hide_made(new.clone(), &flag);
        names.reveal(&flag, [&new]);
        names.forget(&new, &flag);
        ended = ended.or(listed.look().is_err().then_some(number));
    }
    assert_eq!(ended, Some(OUTDATED));
}

/// Returns the listing of all tables, with some of the names that the author writes hidden.
fn hiding() -> ListedNames {
    let names = Names::default();
    let mut listed = ListedNames::of(
        &names,
        &"lake".into(),
        &DataScope::default(),
        Level::Below(Identifier::root()),
    );
    for name in ["a", "t1", "A", "\u{e9}", "aa", "\u{1f600}", "]"] {
        names.hide_made(key(&[name]), &CommitFlag::default());
    }
    listed.look().unwrap();
    listed
}

/// Filters a body that comes in pieces of random sizes up to this.
fn filtered(
    body: &[u8],
    view: &ListedNames,
    dice: &mut Dice,
    size: usize,
) -> Result<Vec<u8>, Unlistable> {
    let (mut filter, mut out) = (ListFilter::new(&["tables"], None), BytesMut::new());
    let mut rest = body;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(1 + dice.below(size)));
        filter.push(piece, view, &mut out)?;
        rest = after;
    }
    filter.finish(view, &mut out)?;
    Ok(out.to_vec())
}

/// Reads a listing as a client does.
fn parsed(body: &[u8]) -> Option<(Vec<String>, Value)> {
    #[derive(Deserialize)]
    struct Whole {
        tables: Vec<String>,
        #[serde(rename = "page_token")]
        _page_token: Option<String>,
    }
    let first = body.iter().find(|byte| !b" \t\r\n".contains(byte));
    let whole: Whole = serde_json::from_slice(body)
        .ok()
        .filter(|_| first == Some(&b'{'))?;
    Some((whole.tables, serde_json::from_slice(body).ok()?))
}

#[test]
fn an_answer_is_filtered_as_if_it_was_parsed() {
    let (view, mut author) = (hiding(), Author(Dice::new(11)));
    let (mut read, mut refused, mut left_out) = (0, 0, 0);
    for round in 0..30_000 {
        let mut body = author.answer().into_bytes();
        if round % 2 == 1 {
            author.garble(&mut body);
        }
        let size = [1, 3, 20, 1000][round % 4];
        let text = String::from_utf8_lossy(&body);
        let shown = filtered(&body, &view, &mut author.0, size);
        let Some((mut tables, mut whole)) = parsed(&body) else {
            refused += 1;
            // What is not refused here is refused by the client.
            let shown = shown.ok().and_then(|shown| parsed(&shown));
            assert_eq!(shown, None, "{round}: {text}");
            continue;
        };
        read += 1;
        let count = tables.len();
        tables.retain(|name| !view.hidden.contains(name));
        left_out += count - tables.len();
        let (shown, value) = parsed(&shown.unwrap()).unwrap();
        assert_eq!(shown, tables, "{round}: {text}");
        whole["tables"] = tables.into();
        assert_eq!(value, whole, "{round}: {text}");
    }
    println!("{read} answers read, {refused} refused, {left_out} names left out");
    assert!(read > 2000 && refused > 5000 && left_out > 1000);
}

#[test]
fn an_answer_goes_on_as_it_came_while_nothing_is_hidden() {
    let (view, mut author) = (begin(&Names::default()), Author(Dice::new(13)));
    for round in 0..10_000 {
        let mut body = author.answer().into_bytes();
        if round % 2 == 1 {
            author.garble(&mut body);
        }
        let shown = filtered(&body, &view, &mut author.0, 20).unwrap();
        assert_eq!(shown, body, "{}", String::from_utf8_lossy(&body));
    }
}
