#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use bytes::Bytes;

use super::{Agreement, Document, Edits, agreement, names, string};
use crate::protocol::identifier::Identifier;
use crate::util::dice::Dice;

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
    let left = edits.apply(Bytes::from_static(body.as_bytes()));
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
fn an_object_whose_names_are_compared_has_a_bounded_number_of_them() {
    let object = |count: usize| {
        let members = (0..count).map(|number| format!("\"{number}\":0"));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    };
    let read = |text: &str| {
        let document = Document { text };
        document.members_where(document.text, "`x`", &|_| false, &mut |_| Ok(()))
    };
    assert_eq!(read(&object(10_000)).unwrap(), 10_000);
    let refused = read(&object(10_001)).unwrap_err();
    assert_eq!(refused.message(), "`x` has more than 10000 members");
}

#[test]
fn nothing_changed_is_not_copied() {
    let body = Bytes::from_static(b"{\"a\":1}");
    assert_eq!(Edits::default().apply(body.clone()).as_ptr(), body.as_ptr());
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

#[test]
fn an_identifier_is_the_same_however_it_is_spelled() {
    let id = |names: &[&str]| Identifier::from_names(names).unwrap();
    let cases: [(&str, &[&str], bool); 18] = [
        (r#"["a","b"]"#, &["a", "b"], true),
        (r#"["a", "b"]"#, &["a", "b"], true),
        (r#"[ "a"  ,"b" ]"#, &["a", "b"], true),
        (r#"["a","b"]"#, &["a"], false),
        (r#"["a"]"#, &["a", "b"], false),
        (r#"["a","b"]"#, &["a", "bc"], false),
        (r#"["a","bc"]"#, &["a", "b"], false),
        (r#"["a","b"]"#, &["a\",\"b"], false),
        (r#"["a\",\"b"]"#, &["a\",\"b"], true),
        (r#"["a\"]"#, &["a\\"], false),
        (r#"["\u0061"]"#, &["a"], true),
        (r#"["\u0061"]"#, &["\\u0061"], false),
        (r#"["\\u0061"]"#, &["\\u0061"], true),
        (r#"["é"]"#, &["é"], true),
        ("[]", &[], true),
        (r#"[""]"#, &[], false),
        ("[]", &["a"], false),
        (r#"["a"]"#, &[], false),
    ];
    for (raw, expected, same) in cases {
        let Ok(found) = agreement(raw, &id(expected), "id") else {
            assert!(!same && names(raw, "id").is_err(), "{raw}");
            continue;
        };
        assert_eq!(found == Agreement::Same, same, "{raw} {expected:?}");
        if let Ok(Some(read)) = names(raw, "id") {
            assert_eq!(read == id(expected), same, "{raw} {expected:?}");
        }
        let document = Document { text: "{}" };
        let mut edits = Edits::default();
        edits.rename(document, 1..1, id(expected).joined());
        let named = edits.apply(Bytes::from_static(b"{}"));
        assert_eq!(
            named,
            format!("{{{}}}", serde_json::to_string(expected).unwrap())
        );
    }
}

impl Dice {
    fn space(&mut self) -> &'static str {
        self.one_of(&["", "", " ", "\n\t", "  "])
    }

    fn value(&mut self, depth: usize) -> String {
        let leaves = [
            "1.50",
            "-0",
            "\"a,b}\"",
            "\"\\\"\\u007d\"",
            "null",
            "\"é\"",
            "18446744073709551616",
        ];
        match self.below(if depth == 0 { 1 } else { 3 }) {
            0 => self.one_of(&leaves).to_owned(),
            1 => self.object(depth - 1),
            _ => format!(
                "[{}{},{}]",
                self.space(),
                self.value(depth - 1),
                self.value(depth - 1)
            ),
        }
    }

    fn object(&mut self, depth: usize) -> String {
        let mut names = vec!["a", "b", "c", "d", "e"];
        let mut members = Vec::new();
        for _ in 0..self.below(6) {
            let name = names.remove(self.below(names.len()));
            let (before, colon, after) = (self.space(), self.space(), self.space());
            members.push(format!(
                "{before}\"{name}\"{colon}:{after}{}{before}",
                self.value(depth)
            ));
        }
        format!("{}{{{}}}", self.space(), members.join(","))
    }
}

#[test]
fn editing_bytes_is_editing_the_value() {
    let mut dice = Dice::new(7);
    for round in 0..5000 {
        let body = dice.object(3);
        let document = Document { text: &body };
        let mut expected: serde_json::Value = serde_json::from_str(&body).unwrap();
        let mut edits = Edits::default();
        let mut removed = 0;
        document
            .members(&body, "it", &mut |member| {
                let members = expected.as_object_mut().unwrap();
                assert_eq!(
                    serde_json::from_str::<serde_json::Value>(member.value).unwrap(),
                    members[&*member.name]
                );
                match dice.below(3) {
                    0 => {
                        edits.remove(document, &member, removed);
                        members.remove(&*member.name);
                        removed += 1;
                    }
                    1 => {
                        edits.replace(document, document.span(member.value), "[7]");
                        members.insert(member.name.into_owned(), serde_json::json!([7]));
                    }
                    _ => {}
                }
                Ok(())
            })
            .unwrap();
        let out = edits.apply(Bytes::from(body.clone()));
        let value: serde_json::Value = serde_json::from_slice(&out)
            .unwrap_or_else(|why| panic!("round {round}: {body} became {out:?}: {why}"));
        assert_eq!(value, expected, "round {round}: {body}");
    }
}

#[test]
fn a_member_that_comes_twice_is_found_wherever_it_is() {
    let mut dice = Dice::new(9);
    for round in 0..2000 {
        // More than are compared one by one.
        let mut names: Vec<_> = (0..dice.below(40)).map(|name| format!("n{name}")).collect();
        let twice =
            (round % 2 == 0 && !names.is_empty()).then(|| names[dice.below(names.len())].clone());
        if let Some(name) = &twice {
            names.insert(dice.below(names.len() + 1), name.clone());
        }
        let members = names.iter().map(|name| match dice.below(3) {
            0 => format!("\"\\u006e{}\":1", &name[1..]),
            _ => format!("\"{name}\":{{\"a\":1,\"a\":2}}"),
        });
        let body = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
        let document = Document { text: &body };
        for wanted in [true, false] {
            let read = document.members_where(&body, "`it`", &|_| wanted, &mut |_| Ok(()));
            let words = read.map_err(|error| error.message().to_owned());
            let expected = match &twice {
                Some(name) => Err(format!("`it.{name}` is given more than once")),
                None => Ok(names.len()),
            };
            assert_eq!(words, expected, "{body}");
        }
        let all = document.all_members_where(&body, "it", &|_| true, &mut |_| Ok(()));
        assert_eq!(all.ok(), Some(names.len()), "{body}");
    }
}
