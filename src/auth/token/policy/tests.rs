#![allow(clippy::unwrap_used, reason = "tests say what they expect")]

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Claims, Policy, claims};
use crate::auth::token::Refusal;
use crate::config::{AudienceClaim, Issuer};
use crate::protocol::principal::Principal;

const NOW: u64 = 1_000_000;

fn policy(change: impl FnOnce(&mut Issuer)) -> Policy {
    let mut issuer = Issuer::new("https://one.test", "catalog");
    change(&mut issuer);
    Policy::new(&issuer)
}

fn map(claims: Value) -> Map<String, Value> {
    match claims {
        Value::Object(claims) => claims,
        other => panic!("{other}"),
    }
}

fn read(claims: &Value) -> Claims {
    Claims::read(claims.to_string().as_bytes()).unwrap()
}

fn principal(context: &[(&str, &str)], claims: &Value) -> Result<Principal, Refusal> {
    let pairs = context
        .iter()
        .map(|&(key, claim)| (key.to_owned(), claim.to_owned()));
    let policy = policy(|issuer| issuer.context = pairs.collect());
    let payload = claims.to_string().into_bytes();
    let named = policy.named(&payload);
    let all = claims::Claims::new("", None);
    policy.principal(read(claims), &named, all)
}

#[test]
fn a_token_is_good_from_nbf_to_exp_give_or_take_the_leeway() {
    let policy = policy(|issuer| issuer.leeway = Duration::from_secs(10));
    let check = |claims| policy.check_times(&mut read(&claims), Duration::from_secs(NOW));
    let s = Duration::from_secs;
    assert_eq!(check(json!({"exp": NOW + 5})), Ok(s(NOW + 15)));
    assert_eq!(
        check(json!({"exp": NOW - 9, "nbf": NOW + 10})),
        Ok(s(NOW + 1))
    );
    assert_eq!(
        check(json!({"exp": NOW - 10})),
        Err(Refusal::Expired(s(10)))
    );
    let early = json!({"exp": NOW + 5, "nbf": NOW + 11});
    assert_eq!(check(early), Err(Refusal::NotYetValid(s(11))));
    assert!(matches!(check(json!({})), Err(Refusal::Claim(_))));
}

#[test]
fn a_required_claim_has_one_of_its_values_or_is_just_there() {
    let check = |accepted: &[&str], value: Value| {
        let accepted = accepted.iter().map(|&text| text.to_owned()).collect();
        let policy = policy(|issuer| issuer.require = [("c".to_owned(), accepted)].into());
        policy.check_required(&map(json!({ "c": value }))).is_ok()
    };
    let cases: [(&[&str], Value, bool); 12] = [
        (&["a", "b"], json!("b"), true),
        (&["a", "b"], json!(["x", "a"]), true),
        (&["a"], json!("a b"), false),
        (&["a"], json!([]), false),
        (&["a"], json!([["a"]]), false),
        (&["true"], json!(true), true),
        (&["7"], json!(7), true),
        (&["7"], json!([7]), true),
        (&[], json!(""), true),
        (&[], json!(false), true),
        (&[], json!(null), false),
        (&["null"], json!(null), false),
    ];
    for (accepted, value, expected) in cases {
        assert_eq!(
            check(accepted, value.clone()),
            expected,
            "{accepted:?} {value}"
        );
    }
}

#[test]
fn a_required_scope_is_one_of_the_words() {
    let accepted = vec!["catalog.read".to_owned()];
    let policy = policy(|issuer| issuer.require = [("scope".to_owned(), accepted)].into());
    let check = |scope: Value| {
        policy
            .check_required(&map(json!({ "scope": scope })))
            .is_ok()
    };
    assert!(check(json!("openid catalog.read")));
    assert!(check(json!(["catalog.read"])));
    assert!(!check(json!("catalog.readx")));
    assert!(!check(json!("")));
}

#[test]
fn scopes_are_words_or_members() {
    let cases = [
        json!({"scope": " a  b"}),
        json!({"scope": ["a", "b"]}),
        json!({"scp": "a b"}),
        json!({"scp": ["a", "b"], "x": 1}),
    ];
    for claims in cases {
        let principal = principal(&[], &claims).unwrap();
        let has = ["a", "b", "a b", "c", ""].map(|scope| principal.has_scope(scope));
        assert_eq!(has, [true, true, false, false, false], "{claims}");
    }
    assert!(!principal(&[], &json!({"scope": 1})).unwrap().has_scope("1"));
}

#[test]
fn claims_set_context_and_a_missing_one_still_governs_its_key() {
    let context = [
        ("a", "text"),
        ("b", "list"),
        ("c", "flag"),
        ("d", "missing"),
        ("e", "null"),
    ];
    let claims = json!({"text": "x y", "list": ["a,b", "c"], "flag": true, "null": null});
    let principal = principal(&context, &claims).unwrap();
    let entries: Vec<_> = principal
        .context()
        .iter()
        .map(|e| (e.key(), e.value()))
        .collect();
    assert_eq!(
        entries,
        [("a", "x y"), ("b", r#"["a,b","c"]"#), ("c", "true")]
    );
    assert!(
        ["a", "d", "e"]
            .iter()
            .all(|key| principal.context().governs(key))
    );
    assert!(!principal.context().governs("f"));
}

#[test]
fn a_claim_that_no_header_can_carry_is_refused_where_it_is_context() {
    for value in ["a\r\nx-evil: 1", "a\0", " a", "a "] {
        let claims = || json!({ "text": value });
        assert!(
            matches!(
                principal(&[("a", "text")], &claims()),
                Err(Refusal::Claim(_))
            ),
            "{value:?}"
        );
        assert!(principal(&[], &claims()).is_ok(), "{value:?}");
    }
}

/// Checks that an ID token, or a token without a subject, is refused unless the issuer's section allows it.
#[test]
fn a_token_for_something_else_is_refused_unless_it_is_allowed() {
    let allow = |change: fn(&mut Issuer), claims: Value| policy(change).check_kind(&read(&claims));
    let strict: fn(&mut Issuer) = |_| {};
    for claim in ["nonce", "at_hash", "c_hash"] {
        let mut claims = json!({"sub": "ann"});
        assert_eq!(allow(strict, claims.clone()), Ok(()));
        claims[claim] = json!("x");
        assert!(allow(strict, claims.clone()).is_err(), "{claim}");
        assert_eq!(
            allow(|issuer| issuer.kinds.id_tokens = true, claims),
            Ok(())
        );
    }
    for claims in [json!({}), json!({"sub": ""})] {
        assert!(allow(strict, claims.clone()).is_err(), "{claims}");
        assert_eq!(allow(|issuer| issuer.kinds.subject = false, claims), Ok(()));
    }
}

#[test]
fn a_client_id_stands_for_the_audience_only_where_its_issuer_says_so() {
    let check = |is_client, claims: Value| {
        let policy = policy(|issuer| {
            if is_client {
                issuer.audience_claim = AudienceClaim::ClientId;
            }
        });
        policy.check_audience(&read(&claims)).is_ok()
    };
    let cases = [
        (json!({"aud": "catalog"}), true, false),
        (json!({"client_id": "catalog"}), false, true),
        (json!({"client_id": ["catalog"]}), false, false),
        (json!({"client_id": "other"}), false, false),
        (
            json!({"client_id": "catalog", "aud": "catalog"}),
            true,
            true,
        ),
        (
            json!({"client_id": "catalog", "aud": "billing"}),
            false,
            false,
        ),
        (json!({"client_id": "catalog", "aud": []}), false, false),
        (json!({"client_id": "catalog", "aud": 1}), false, false),
        (json!({"client_id": "other", "aud": "catalog"}), true, false),
        (json!({"azp": "catalog"}), false, false),
        (json!({}), false, false),
    ];
    for (claims, by_aud, by_client) in cases {
        let found = (check(false, claims.clone()), check(true, claims.clone()));
        assert_eq!(found, (by_aud, by_client), "{claims}");
    }
}
