//! Compares the fast path with the parser, which reads the whole body.
#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use bytes::Bytes;
use serde_json::Value;

use super::super::Hidden;
use super::super::filter::{FilteredPage, Page};
use super::without;
use crate::util::dice::Dice;

fn hidden(versions: &[u64]) -> Hidden {
    Hidden(versions.iter().map(|version| *version..=*version).collect())
}

fn quick(body: &str, versions: &[u64]) -> Option<String> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let shown = without(body, &hidden(versions)).ok()?;
    Some(String::from_utf8(shown.into()).unwrap())
}

#[test]
fn what_is_hidden_is_cut_out_with_one_comma() {
    let cases: [(&str, &[u64], &str); 7] = [
        (
            r#"{"versions":[{"version":3},{"version":2},{"version":1}]}"#,
            &[3],
            r#"{"versions":[{"version":2},{"version":1}]}"#,
        ),
        (
            r#"{"versions":[{"version":3},{"version":2},{"version":1}]}"#,
            &[2],
            r#"{"versions":[{"version":3},{"version":1}]}"#,
        ),
        (
            r#"{"versions":[{"version":3},{"version":2},{"version":1}]}"#,
            &[1, 2],
            r#"{"versions":[{"version":3}]}"#,
        ),
        (
            r#"{"versions":[{"version":3},{"version":2},{"version":1}]}"#,
            &[1, 3],
            r#"{"versions":[{"version":2}]}"#,
        ),
        (
            r#"{"versions":[{"version":3},{"version":2},{"version":1}]}"#,
            &[30, 4],
            r#"{"versions":[{"version":3},{"version":2},{"version":1}]}"#,
        ),
        (
            r#"{ "versions" : [ {"e_tag":"\"}\\","version" : 12 , "metadata":{"a":"b"}} , {"version":1,"manifest_size":12}] , "page_token":null}"#,
            &[12],
            r#"{ "versions" : [  {"version":1,"manifest_size":12}] , "page_token":null}"#,
        ),
        (
            r#"{"versions":[{"metadata":{"version":7},"version":1},{"version":7}]}"#,
            &[7],
            r#"{"versions":[{"metadata":{"version":7},"version":1}]}"#,
        ),
    ];
    for (body, hidden, shown) in cases {
        assert_eq!(quick(body, hidden).as_deref(), Some(shown), "{body}");
    }
}

#[test]
fn what_is_not_of_the_usual_form_is_left_to_a_closer_look() {
    for body in [
        "",
        "null",
        r#"[{"version":7}]"#,
        r#"{"versions":[{"version":7}]}"#,
        r#"{"versions":[{"version":7},{"version":1,"tags":[1]}]}"#,
        r#"{"versions":[{"version":7},{"\u0076ersion":7}]}"#,
        r#"{"versions":[{"version":7.0},{"version":1}]}"#,
        r#"{"versions":[{"version":"7"},{"version":1}]}"#,
        r#"{"page_token":null,"versions":[{"version":7},{"version":1}]}"#,
        r#"{"versions":[{"version":7},{"version":1}],"versions":null}"#,
        r#"{"versions":[{"version":7"#,
    ] {
        assert_eq!(quick(body, &[7]), None, "{body}");
    }
    let many = Hidden(vec![1..=1000]);
    let body = Bytes::from_static(br#"{"versions":[{"version":7},{"version":1001}]}"#);
    assert!(without(body, &many).is_err());
}

/// A member that may stand beside `version`, or look like one.
const MEMBERS: [&str; 12] = [
    r#""manifest_path":"a/1.manifest""#,
    r#""e_tag":"\"2\"""#,
    r#""e_tag":"\\""#,
    r#""note":"\"version\":3""#,
    r#""note":"{\"version\":3}, {""#,
    r#""note":"}""#,
    r#""metadata":{"version":2}"#,
    r#""metadata":{"a":{"version":3},"b":"\\\""}"#,
    r#""manifest_size":3"#,
    r#""versions":1"#,
    r#""tags":[3]"#,
    r#""note":"]""#,
];

fn page(dice: &mut Dice) -> String {
    let space = |dice: &mut Dice| dice.one_of(&["", "", "", " ", "\n  "]).to_owned();
    let mut versions = Vec::new();
    for _ in 0..dice.below(6) {
        let number = dice.below(5);
        let mut members = vec![format!(
            "\"version\"{}:{}{number}{}",
            space(dice),
            space(dice),
            space(dice)
        )];
        for _ in 0..dice.below(3) {
            // The last two are rare, because they rule out the fast path.
            let kinds = if dice.below(10) == 0 { 12 } else { 10 };
            let member = MEMBERS[dice.below(kinds)].to_owned();
            members.insert(dice.below(members.len() + 1), member);
        }
        versions.push(format!("{}{{{}}}", space(dice), members.join(",")));
    }
    let tail = dice.one_of(&["", "", r#","page_token":null"#, r#", "page_token":"3""#]);
    format!(
        "{{\"versions\":[{}{}]{tail}}}",
        versions.join(","),
        space(dice)
    )
}

#[test]
fn quick_and_thorough_say_the_same() {
    let mut dice = Dice::new(0x9e37_79b9_7f4a_7c15);
    let (mut kept, mut cut) = (0, 0);
    for _ in 0..20_000 {
        let body = page(&mut dice);
        let versions = [dice.below(6) as u64, dice.below(6) as u64];
        let Some(shown) = quick(&body, &versions) else {
            continue;
        };
        let page = Page::parse(body.as_bytes()).unwrap();
        let value = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
        match page.without(&hidden(&versions), None, None) {
            FilteredPage::Untouched => {
                kept += 1;
                assert_eq!(shown, body, "{versions:?}");
            }
            FilteredPage::Shown(expected) => {
                cut += 1;
                let expected = value(std::str::from_utf8(&expected).unwrap());
                assert_eq!(value(&shown), expected, "{body} {versions:?}");
            }
            other => panic!("{body} {versions:?}: {other:?}"),
        }
    }
    assert!(kept > 1000 && cut > 1000, "{kept} {cut}");
}

/// The list without the given version and all above it, from the fast path.
fn quick_below(body: &str, start: u64) -> Option<String> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let shown = without(body, &Hidden(vec![start..=u64::MAX])).ok()?;
    Some(String::from_utf8(shown.into()).unwrap())
}

#[test]
fn what_stands_on_a_hidden_version_is_left_to_a_closer_look() {
    let shown = quick_below;
    let three = r#"{"versions":[{"version":3},{"version":2},{"version":1}],"page_token":null}"#;
    let two = r#"{"versions":[{"version":2},{"version":1}],"page_token":null}"#;
    assert_eq!(shown(three, 3).as_deref(), Some(two));
    assert_eq!(shown(three, 4).as_deref(), Some(three));
    assert_eq!(shown(three, 2), None, "there may be more above it");
    let paged = three.replace("null", "\"3\"");
    assert_eq!(shown(&paged, 3), None, "the next page may hold more");
}

#[test]
fn what_stands_beyond_a_gap_is_hidden_with_what_it_stands_on() {
    for body in [
        r#"{"versions":[{"version":3},{"version":4},{"version":6}]}"#,
        r#"{"versions":[{"version":6},{"version":4},{"version":3}]}"#,
        r#"{"versions":[{"version":6},{"version":3},{"version":2}]}"#,
        r#"{"versions":[{"version":3},{"version":2},{"version" : 10 }]}"#,
        r#"{"versions":[{"version":3},{"version":2},{"version":1e2}]}"#,
        r#"{"versions":[{"version":3},{"version":2},{"version":"9"}]}"#,
        r#"{"versions":[{"version":3},{"version":99999999999999999999}]}"#,
    ] {
        assert_eq!(quick_below(body, 4), None, "{body}");
    }
}

#[test]
fn all_above_a_version_are_hidden_from_quick_and_thorough_alike() {
    let mut dice = Dice::new(0x2545_f491_4f6c_dd1d);
    let mut quick = 0;
    for _ in 0..20_000 {
        let (body, start) = (page(&mut dice), dice.below(6) as u64);
        let Some(shown) = quick_below(&body, start) else {
            continue;
        };
        quick += 1;
        let page = Page::parse(shown.as_bytes()).unwrap();
        assert!(
            page.numbers().all(|number| number < start),
            "{body} {start}"
        );
        let before = Page::parse(body.as_bytes()).unwrap();
        let kept = before.numbers().filter(|number| *number < start);
        assert!(page.numbers().eq(kept), "{body} {start}");
    }
    assert!(quick > 1000, "{quick}");
}
