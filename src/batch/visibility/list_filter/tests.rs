//! Compares the filter with the parser, which reads the whole body.
#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use super::super::filter::{FilteredPage, Page, Verdict};
use super::*;

fn view(end: u64, removed: &[u64]) -> ListView {
    let removed = removed.iter().map(|version| *version..=*version).collect();
    ListView {
        end,
        removed: Hidden(removed),
    }
}

fn all() -> ListView {
    view(u64::MAX, &[])
}

/// Filters a body that comes in pieces of this size.
fn filtered(
    body: &[u8],
    view: &ListView,
    limit: Option<u64>,
    size: usize,
) -> Result<(Vec<u8>, Tally), Unlistable> {
    let (mut filter, mut out) = (ListFilter::new(&["versions"], limit), BytesMut::new());
    for piece in body.chunks(size) {
        filter.push(piece, view, &mut out)?;
    }
    let tally = filter.finish(view, &mut out)?.clone();
    Ok((out.to_vec(), tally))
}

/// Returns a number below `n` of a repeatable sequence.
fn below(state: &mut u64, n: u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    (*state >> 33) % n
}

fn random_list(state: &mut u64) -> String {
    let space = |state: &mut u64| ["", "", "", " ", "\n  "][below(state, 5) as usize];
    let count = below(state, 8);
    let mut versions: Vec<u64> = (1..=count).collect();
    if below(state, 2) == 0 {
        versions.reverse();
    }
    let versions = versions.iter().map(|version| {
        let odd = [
            r#""metadata":{"version":"3","a":[1,{"]":"}"}]},"#,
            r#""e_tag":"\"}],\\","#,
            r#""size":1.50e3,"b":true,"c":null,"#,
            "",
        ][below(state, 4) as usize];
        let (a, b) = (space(state), space(state));
        format!("{a}{{{odd}\"version\":{b}{version}}}{b}")
    });
    let versions = versions.collect::<Vec<_>>().join(",");
    let before = ["", r#""x":{"versions":[1]},"#, r#""\u0061":"]","#][below(state, 3) as usize];
    let token = [
        "",
        r#","page_token":null"#,
        r#","page_token":"7""#,
        r#","page_token": """#,
    ][below(state, 4) as usize];
    let (a, b) = (space(state), space(state));
    format!("{a}{{{before}\"versions\"{b}:{a}[{versions}]{token}{b}}}{a}")
}

#[test]
fn a_list_is_filtered_as_if_it_was_read_whole() {
    let mut state = 7;
    for round in 0..20_000 {
        let body = random_list(&mut state);
        let (end, gone) = (1 + below(&mut state, 9), below(&mut state, 9));
        let view = view(end, &[gone]);
        let limit = Some(below(&mut state, 9)).filter(|limit| *limit > 0);
        let size = 1 + below(&mut state, 30) as usize;
        let (shown, tally) = filtered(body.as_bytes(), &view, limit, size).unwrap();
        let hidden = Hidden(vec![end..=u64::MAX, gone..=gone]);
        let page = Page::parse(body.as_bytes()).unwrap();
        let whole = page.without(&hidden, limit, limit);
        let value = |body: &[u8]| serde_json::from_slice::<serde_json::Value>(body).unwrap();
        match (tally.verdict(limit, limit), whole) {
            (Verdict::Untouched, FilteredPage::Untouched) => assert_eq!(shown, body.as_bytes()),
            (Verdict::Shown, FilteredPage::Shown(whole)) => {
                assert_eq!(value(&shown), value(&whole), "{round}: {body}");
            }
            (Verdict::AskFor(one), FilteredPage::AskFor(other)) => assert_eq!(one, other),
            (Verdict::NextPage(one), FilteredPage::NextPage(other)) => assert_eq!(one, other),
            (Verdict::NothingVisible, FilteredPage::NothingVisible) => {
                assert_eq!(value(&shown), value(&page.emptied()), "{round}: {body}");
            }
            (one, other) => panic!("{round}: {one:?} {other:?} {body}"),
        }
    }
}

#[test]
fn nothing_changes_while_nothing_is_hidden() {
    let mut state = 11;
    let lists = (0..2000).map(|_| random_list(&mut state));
    let others = [
        "",
        "null",
        "[1,2",
        "{",
        r#"{"versions":null}"#,
        r#"{"versions":[{"version":"2"},{"version":2.0},{}]}"#,
        r#"{"versions":[1,],}"#,
        r#"{"versions":[{"version":1}],"versions":[{"version":2}]}"#,
        "rows",
        r#"{"versions":[{"version":1} {"version":2}]}"#,
        r#"{"versions":[{"version":1}]} and more"#,
        r#"{"versions":[{"ver"#,
        r#"{"page_token":7,"versions":[]}"#,
        "{\"ver",
        r#"{"versions":[[{"version":1}],"2",3 ]}"#,
    ];
    for body in lists.chain(others.map(str::to_owned)) {
        for size in [1, 2, 5, 1000] {
            let (shown, _) = filtered(body.as_bytes(), &all(), None, size).unwrap();
            assert_eq!(String::from_utf8(shown).unwrap(), body);
        }
    }
}

#[test]
fn what_is_no_list_is_not_shown_while_something_is_hidden() {
    for body in [
        "",
        "null",
        r#"{"versions":{}}"#,
        r#"{"versions":null}"#,
        r#"{"versions":[{"version":-1}]}"#,
        r#"{"versions":[{"version":"1"}]}"#,
        r#"{"versions":[{"version":1.0}]}"#,
        r#"{"versions":[{"version":1,"version":9}]}"#,
        r#"{"versions":[{"version":1,"versio\u006e":9}]}"#,
        r#"{"versions":[{"version":1}],"versions":[{"version":9}]}"#,
        r#"{"versions":[{"version":1}],"version\u0073":[{"version":9}]}"#,
        r#"{"versions":[{"version":1}]} [{"version":9}]"#,
        r#"{"versions":[{"version":1}"#,
        r#"{"versions":[{"version":1}]"#,
        r#"{"page_token":7,"versions":[]}"#,
    ] {
        for size in [1, 3, 1000] {
            let refused = filtered(body.as_bytes(), &view(5, &[]), None, size);
            assert_eq!(refused.unwrap_err(), Unlistable::NotAList, "{body}");
        }
    }
}

#[test]
fn a_version_that_is_hidden_after_it_was_shown_ends_the_list() {
    let (mut filter, mut out) = (ListFilter::new(&["versions"], None), BytesMut::new());
    let first = br#"{"versions":[{"version":1},{"version":2},{"ver"#;
    filter.push(first, &all(), &mut out).unwrap();
    let rest = br#"sion":3},{"version":4}]}"#;
    let overtaken = filter
        .clone()
        .push(rest, &view(2, &[]), &mut BytesMut::new());
    assert_eq!(overtaken, Err(Unlistable::Overtaken));
    filter.push(rest, &view(3, &[]), &mut out).unwrap();
    filter.finish(&view(3, &[]), &mut out).unwrap();
    assert_eq!(&out[..], br#"{"versions":[{"version":1},{"version":2}]}"#);
}

/// A client that has the last byte would take the list for complete, although its end may be an error.
#[test]
fn the_last_brace_waits_for_the_end_of_the_answer() {
    let (mut filter, mut out) = (ListFilter::new(&["versions"], None), BytesMut::new());
    filter
        .push(b"{\"versions\":[{\"version\":1}]} \n", &all(), &mut out)
        .unwrap();
    assert_eq!(&out[..], br#"{"versions":[{"version":1}]"#);
    filter.finish(&all(), &mut out).unwrap();
    assert_eq!(&out[..], b"{\"versions\":[{\"version\":1}]} \n");
}

#[test]
fn one_version_is_held_at_a_time() {
    let (mut filter, mut out) = (ListFilter::new(&["versions"], None), BytesMut::new());
    let view = view(1_000_000, &[]);
    filter
        .push(b"{\"versions\":[{\"version\":1}", &view, &mut out)
        .unwrap();
    let mut held = 0;
    for version in 2..100_000_u64 {
        let text = format!(",{{\"version\":{version},\"metadata\":{{}}}}");
        filter.push(text.as_bytes(), &view, &mut out).unwrap();
        held = held.max(filter.held.capacity() + filter.separator.capacity());
        out.clear();
    }
    assert!(held < 1024, "{held}");
    let endless = vec![b' '; HELD + 2];
    let (mut filter, mut out) = (ListFilter::new(&["versions"], None), BytesMut::new());
    let refused = filter.push(b"{\"versions\":[{", &view, &mut out);
    let refused = refused.and_then(|()| filter.push(&endless, &view, &mut out));
    assert_eq!(refused, Err(Unlistable::NotAList));
}
