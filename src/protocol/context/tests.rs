#![allow(clippy::unwrap_used, reason = "tests say what they expect")]

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{ClaimEntries, Context, ContextError, ContextRules, Source};

type Headers<'a> = &'a [(&'a str, &'a [u8])];

fn rules() -> Arc<ContextRules> {
    let prefixes = vec!["x-ns-ctx-".to_owned(), "x-lance-ctx-".to_owned()];
    Arc::new(ContextRules::new(prefixes, 3, 40))
}

fn headers(pairs: Headers<'_>) -> HeaderMap {
    let parsed = pairs.iter().map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        (name, HeaderValue::from_bytes(value).unwrap())
    });
    parsed.fold(HeaderMap::new(), |mut map, (name, value)| {
        map.append(name, value);
        map
    })
}

fn claims(pairs: &[(&str, Option<&str>)]) -> ClaimEntries {
    ClaimEntries::new(pairs.iter().map(|&(k, v)| (k, v.map(str::to_owned)))).unwrap()
}

fn pairs(context: &Context) -> Vec<(&str, &str, Source)> {
    context
        .iter()
        .map(|e| (e.key(), e.value(), e.source()))
        .collect()
}

/// A copy of one takes no memory then, however many tokens are remembered.
#[test]
fn the_values_of_a_token_are_parts_of_one_text() {
    let claims = claims(&[
        ("team", Some("red")),
        ("zone", None),
        ("tier", Some("gold")),
    ]);
    let values: Vec<_> = claims.iter().map(|entry| entry.value()).collect();
    assert_eq!(values, ["red", "gold"]);
    assert_eq!(values[0].as_bytes().as_ptr_range().end, values[1].as_ptr());
}

#[test]
fn context_headers_become_entries_and_leave_the_request() {
    let mut headers = headers(&[
        ("X-NS-CTX-Team", b"red"),
        ("x-lance-ctx-zone", "zürich".as_bytes()),
        ("x-ns-ct-other", b"stays"),
    ]);
    let context = Context::take(&mut headers, &rules(), ClaimEntries::default()).unwrap();
    let expected = [
        ("team", "red", Source::Header),
        ("zone", "zürich", Source::Header),
    ];
    assert_eq!(pairs(&context), expected);
    assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-ns-ct-other"]);
    let names = context
        .iter()
        .map(|entry| entry.header_name("x-ns-ctx-").unwrap().into_owned());
    assert_eq!(
        names.collect::<Vec<_>>(),
        ["x-ns-ctx-team", "x-ns-ctx-zone"]
    );
}

#[test]
fn what_cannot_be_carried_is_refused_and_says_why() {
    let repeated = |key: &str| ContextError::Repeated(key.to_owned());
    let cases: [(Headers<'_>, ContextError); 8] = [
        (&[("x-ns-ctx-a", b"1"), ("x-ns-ctx-a", b"1")], repeated("a")),
        (
            &[("x-ns-ctx-a", b"1"), ("x-lance-ctx-a", b"2")],
            repeated("a"),
        ),
        (&[("x-ns-ctx-", b"1")], ContextError::Key(String::new())),
        (
            &[("x-ns-ctx-a", b"\xff")],
            ContextError::Value("a".to_owned()),
        ),
        (
            &[("x-ns-ctx-a", b" b")],
            ContextError::Value("a".to_owned()),
        ),
        (
            &[
                ("x-ns-ctx-a", b""),
                ("x-ns-ctx-b", b""),
                ("x-ns-ctx-c", b""),
                ("x-ns-ctx-d", b""),
            ],
            ContextError::TooMany(3),
        ),
        (&[("x-ns-ctx-a", &[b'v'; 40])], ContextError::TooLarge(40)),
        (
            &[(&format!("x-ns-ctx-{}", "k".repeat(257)), b"")],
            ContextError::Key("k".repeat(64)),
        ),
    ];
    for (given, expected) in cases {
        let taken = Context::take(&mut headers(given), &rules(), ClaimEntries::default());
        assert_eq!(taken.unwrap_err(), expected, "{given:?}");
    }
    let mut exact = headers(&[("x-ns-ctx-a", &[b'v'; 39])]);
    assert!(Context::take(&mut exact, &rules(), ClaimEntries::default()).is_ok());
}

#[test]
fn a_claim_wins_over_header_and_body_and_drops_them_silently() {
    let claims = claims(&[("tenant", Some("acme")), ("team", None)]);
    let mut headers = headers(&[
        ("x-ns-ctx-tenant", b"evil"),
        ("x-lance-ctx-tenant", b"evil"),
        ("x-ns-ctx-team", b"\xff"),
        ("x-ns-ctx-zone", b"eu"),
    ]);
    let mut context = Context::take(&mut headers, &rules(), claims).unwrap();
    assert!(headers.is_empty());
    for key in ["tenant", "TENANT", "team", "Zone"] {
        assert_eq!(context.add_body(key, "body"), Ok(false), "{key}");
    }
    assert_eq!(context.add_body("Run", "7"), Ok(true));
    assert_eq!(
        context.add_body("run", "8"),
        Err(ContextError::Repeated("run".to_owned()))
    );
    let expected = [
        ("tenant", "acme", Source::Claim),
        ("zone", "eu", Source::Header),
        ("run", "7", Source::Body),
    ];
    assert_eq!(pairs(&context), expected);
    assert_eq!(
        (context.get("tenant"), context.get("team")),
        (Some("acme"), None)
    );
}

#[test]
fn a_body_entry_that_no_header_can_carry_is_refused() {
    let mut context =
        Context::take(&mut HeaderMap::new(), &rules(), ClaimEntries::default()).unwrap();
    assert!(context.is_empty());
    for key in ["", "a b", "a\nb", "ключ", "a:b"] {
        assert!(
            matches!(context.add_body(key, "v"), Err(ContextError::Key(_))),
            "{key}"
        );
    }
    for value in ["a\nb", "\0", " a", "a ", "a\u{7f}"] {
        assert!(
            matches!(context.add_body("k", value), Err(ContextError::Value(_))),
            "{value:?}"
        );
    }
    assert_eq!(
        context.add_body("k", &"v".repeat(40)),
        Err(ContextError::TooLarge(40))
    );
}
