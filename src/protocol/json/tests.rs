#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use bytes::Bytes;

use super::{Document, Edits, string};

fn without(body: &'static str, doomed: &[&str]) -> String {
    let document = Document { text: body };
    let mut edits = Edits::default();
    let mut removed = 0;
    document
        .members(body, "it", &mut |member| {
            if doomed.contains(&&*member.name) {
                edits.remove(document, &member, removed);
                removed += 1;
            }
            Ok(())
        })
        .unwrap();
    let left = edits.apply(&Bytes::from_static(body.as_bytes()));
    String::from_utf8(left.to_vec()).unwrap()
}

#[test]
fn removing_members_leaves_json_and_every_other_byte() {
    let body = "{ \"a\" : 1 ,\n \"b\":[1.50, {\"a\":2}] , \"c\" : \"\\u0041\" }";
    let cases: [(&[&str], &str); 8] = [
        (&[], body),
        (&["a"], "{ \"b\":[1.50, {\"a\":2}] , \"c\" : \"\\u0041\" }"),
        (&["b"], "{ \"a\" : 1 , \"c\" : \"\\u0041\" }"),
        (&["c"], "{ \"a\" : 1 ,\n \"b\":[1.50, {\"a\":2}] }"),
        (&["a", "b"], "{ \"c\" : \"\\u0041\" }"),
        (&["b", "c"], "{ \"a\" : 1 }"),
        (&["a", "c"], "{ \"b\":[1.50, {\"a\":2}] }"),
        (&["a", "b", "c"], "{  }"),
    ];
    for (doomed, expected) in cases {
        let left = without(body, doomed);
        let parsed: serde_json::Value = serde_json::from_str(&left).unwrap();
        let mut whole: serde_json::Value = serde_json::from_str(body).unwrap();
        for name in doomed {
            whole.as_object_mut().unwrap().remove(*name);
        }
        assert_eq!(parsed, whole, "{left}");
        let squeezed = |text: &str| text.replace([' ', '\n'], "");
        assert_eq!(squeezed(&left), squeezed(expected));
    }
}

#[test]
fn nothing_changed_is_not_copied() {
    let body = Bytes::from_static(b"{\"a\":1}");
    assert_eq!(Edits::default().apply(&body).as_ptr(), body.as_ptr());
}

#[test]
fn what_is_not_an_object_is_refused_in_words() {
    let cases = [
        ("[1]", "the body must be an object"),
        ("3", "the body must be an object"),
        ("\"{}\"", "the body must be an object"),
        ("{\"a\":1", "the body is not valid JSON"),
        ("{\"a\":1}x", "the body is not valid JSON"),
        ("{\"a\":1}{}", "the body is not valid JSON"),
        ("{\"a\":01}", "the body is not valid JSON"),
        ("{a:1}", "the body is not valid JSON"),
        ("{\"a\":1,}", "the body is not valid JSON"),
        ("\u{feff}{}", "the body must be an object"),
    ];
    for (text, words) in cases {
        let document = Document { text };
        let error = document
            .members(text, "the body", &mut |_| Ok(()))
            .unwrap_err();
        assert!(error.message().starts_with(words), "{text}: {error}");
        assert_eq!(error.code().number(), 13);
    }
}

#[test]
fn depth_costs_no_stack() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    let document = Document { text: &deep };
    let mut members = 0;
    let count = &mut |_: super::Member<'_>| {
        members += 1;
        Ok(())
    };
    document.members(&deep, "it", count).unwrap();
    assert_eq!(members, 1);
}

#[test]
fn only_strings_are_strings() {
    assert_eq!(string("\"a\\u0062\"").unwrap(), "ab");
    for raw in ["1", "null", "[\"a\"]", "{}", "true", "\"\\ud800\""] {
        assert_eq!(string(raw), None, "{raw}");
    }
}
