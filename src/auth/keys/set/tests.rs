#![allow(clippy::unwrap_used, reason = "tests say what they expect")]

use serde_json::{Value, json};

use super::{KeyMatch, KeySet};
use crate::auth::token::Header;
use crate::config::Algorithm;

/// The example keys of RFC 7515, A.3, and RFC 8037, A.2.
const X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
const Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
const ED: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
const ALLOWED: [Algorithm; 2] = [Algorithm::ES256, Algorithm::EdDSA];

fn ec(kid: impl Into<Value>) -> Value {
    json!({"kty": "EC", "crv": "P-256", "x": X, "y": Y, "kid": kid.into()})
}

fn ed(kid: impl Into<Value>) -> Value {
    json!({"kty": "OKP", "crv": "Ed25519", "x": ED, "kid": kid.into()})
}

fn parse(keys: &[Value]) -> KeySet {
    let text = json!({"keys": keys, "more": 1}).to_string();
    KeySet::parse(text.as_bytes(), &ALLOWED, |_, _| {}).unwrap()
}

fn find(keys: &[Value], algorithm: Algorithm, kid: Option<&str>) -> Option<usize> {
    let mut header = Header::new(algorithm);
    header.kid = kid.map(str::to_owned);
    match parse(keys).find(&header) {
        KeyMatch::Keys(found) => Some(found.len()),
        KeyMatch::Unknown => None,
        KeyMatch::Unfit => Some(0),
    }
}

#[test]
fn a_token_finds_the_key_it_names_and_never_one_that_does_not_fit() {
    use Algorithm::{ES256, EdDSA};
    let null = || Value::Null;
    let cases = [
        (vec![ec("a"), ed("b")], ES256, Some("a"), Some(1)),
        (vec![ec("a"), ed("b")], ES256, Some("b"), Some(0)),
        (vec![ec("a"), ed("b")], ES256, Some("c"), None),
        (vec![ec("a"), ed("a")], EdDSA, Some("a"), Some(1)),
        (vec![ec("a"), ec("a")], ES256, Some("a"), Some(2)),
        (vec![ec("a"), ed("b")], ES256, None, Some(1)),
        (vec![ec(null()), ed(null())], EdDSA, None, Some(1)),
        (vec![ec("a"), ec("b")], ES256, None, Some(0)),
        (vec![ec("a")], EdDSA, None, Some(0)),
        (vec![ec(null())], ES256, Some("a"), None),
        (vec![], ES256, None, None),
    ];
    for (keys, algorithm, kid, expected) in cases {
        assert_eq!(
            find(&keys, algorithm, kid),
            expected,
            "{kid:?} {algorithm:?} {keys:?}"
        );
    }
}

#[test]
fn unusable_keys_are_passed_over_and_told() {
    let keys = json!({"keys": [ec("a"), {"kty": "oct"}, 1, {"kid": "x"}, ed("b")]});
    let mut skipped = 0;
    let set = KeySet::parse(keys.to_string().as_bytes(), &ALLOWED, |_, _| skipped += 1).unwrap();
    assert_eq!((set.len(), skipped), (2, 3));
    let many: Vec<_> = (0..200).map(|n| ec(n.to_string())).collect();
    assert_eq!(parse(&many).len(), 100);
    let mut told = Vec::new();
    let text = json!({"keys": many}).to_string();
    KeySet::parse(text.as_bytes(), &ALLOWED, |_, error| {
        told.push((error.to_string(), error.is_mistake()));
    })
    .unwrap();
    let words = "the set has 200 keys, and those after the first 100 are not read";
    assert_eq!(told, [(words.to_owned(), true)]);
    for text in ["", "[]", "{}", r#"{"keys":{}}"#, "null"] {
        assert!(
            KeySet::parse(text.as_bytes(), &ALLOWED, |_, _| {}).is_err(),
            "{text}"
        );
    }
}

#[test]
fn only_a_key_for_another_use_is_passed_over_as_usual() {
    let with = |name: &str, value: &str| {
        let mut key = ec("a");
        key[name] = value.into();
        key
    };
    let cases = [
        (with("use", "enc"), false),
        (with("alg", "ES384"), false),
        (json!({"kty": "oct", "k": "eA"}), false),
        (with("d", X), true),
        (with("x", "AA"), true),
        (json!({"kid": "x"}), true),
        (json!("x"), true),
    ];
    for (key, expected) in cases {
        let mut told = Vec::new();
        let text = json!({ "keys": [key] }).to_string();
        KeySet::parse(text.as_bytes(), &ALLOWED, |_, error| {
            told.push(error.is_mistake())
        })
        .unwrap();
        assert_eq!(told, [expected], "{key}");
    }
}

#[test]
fn a_number_with_padding_and_the_newer_name_of_an_algorithm_make_a_key() {
    let mut padded = ec("a");
    padded["x"] = format!("{X}=").into();
    let mut named = ed("b");
    named["alg"] = "Ed25519".into();
    assert_eq!(parse(&[padded, named]).len(), 2);
}

#[test]
fn a_key_that_stays_is_the_same_and_one_that_goes_is_retired() {
    let old = parse(&[ec("a"), ed("b")]);
    let new = parse(&[ed("b"), ec("c")]).succeed(&old);
    old.retire_but(&new);
    let retired = |set: &KeySet| set.0.iter().map(|key| key.is_retired()).collect::<Vec<_>>();
    assert_eq!(
        (retired(&old), retired(&new)),
        (vec![true, false], vec![false, false])
    );
    // A key that was known under another name is another key.
    let renamed = parse(&[ed("a")]).succeed(&new);
    new.retire_but(&renamed);
    assert_eq!(
        (retired(&new), retired(&renamed)),
        (vec![true, true], vec![false])
    );
}
