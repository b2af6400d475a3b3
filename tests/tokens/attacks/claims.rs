//! Attacks with tokens that the issuer did sign, but not for this gateway, this time or this caller.

use super::{Attack, attack};
use crate::forge::{NOW, RSA, TWO, claims, header, raw, token, with};
use serde_json::{Value, json};

pub(super) fn attacks() -> Vec<Attack> {
    let groups = [times(), parties(), required(), repeated()];
    groups.into_iter().flatten().collect()
}

/// Makes a token with these claims beside the usual ones.
fn saying(members: Value) -> String {
    token(&header("RS256", "rsa"), &with(claims(), members), &RSA)
}

/// Makes a token whose payload is the usual one with a piece of text replaced.
fn spelling(text: &str, other: &str) -> String {
    let payload = claims().to_string();
    assert!(payload.contains(text), "{text} in {payload}");
    raw(
        header("RS256", "rsa").to_string(),
        payload.replace(text, other),
        |message| RSA.sign("RS256", message),
    )
}

fn times() -> Vec<Attack> {
    let exp = format!("\"exp\":{}", NOW + 300);
    let spelled = |value: &str| spelling(&exp, &format!("\"exp\":{value}"));
    vec![
        attack(
            "expired long ago",
            "expired",
            saying(json!({"exp": NOW - 86_400})),
        ),
        attack(
            "expired, leeway included",
            "expired",
            saying(json!({"exp": NOW - 30})),
        ),
        attack("expired in 1970", "expired", saying(json!({"exp": 0}))),
        attack(
            "exp of half a second ago, leeway included",
            "expired",
            saying(json!({"exp": NOW as f64 - 30.5})),
        ),
        attack("no exp", "claim", saying(json!({"exp": null}))),
        attack("exp null", "claim", spelled("null")),
        attack(
            "exp a string",
            "claim",
            saying(json!({"exp": (NOW + 300).to_string()})),
        ),
        attack("exp negative", "claim", saying(json!({"exp": -1}))),
        attack("exp true", "claim", saying(json!({"exp": true}))),
        attack("exp an array", "claim", saying(json!({"exp": [NOW + 300]}))),
        attack(
            "exp beyond the year 9999",
            "claim",
            saying(json!({"exp": u64::MAX})),
        ),
        attack("exp beyond all integers", "claim", spelled("1e300")),
        attack("exp beyond all numbers", "malformed", spelled("1e999")),
        attack(
            "exp in milliseconds",
            "claim",
            saying(json!({"exp": (NOW + 300) * 1000})),
        ),
        attack("exp NaN", "malformed", spelled("NaN")),
        attack("exp Infinity", "malformed", spelled("Infinity")),
        attack("exp hexadecimal", "malformed", spelled("0x7fffffff")),
        attack(
            "not yet valid",
            "not_yet_valid",
            saying(json!({"nbf": NOW + 31})),
        ),
        attack("nbf a string", "claim", saying(json!({"nbf": "0"}))),
        attack("nbf negative", "claim", saying(json!({"nbf": -5}))),
        attack("iat a string", "claim", saying(json!({"iat": "now"}))),
    ]
}

fn parties() -> Vec<Attack> {
    vec![
        attack("no aud", "audience", saying(json!({"aud": null}))),
        attack(
            "aud of others",
            "audience",
            saying(json!({"aud": "billing"})),
        ),
        attack(
            "aud that begins like it",
            "audience",
            saying(json!({"aud": "catalog2"})),
        ),
        attack(
            "aud in another case",
            "audience",
            saying(json!({"aud": "Catalog"})),
        ),
        attack(
            "aud with a space",
            "audience",
            saying(json!({"aud": "catalog "})),
        ),
        attack("aud empty", "audience", saying(json!({"aud": ""}))),
        attack("aud an empty array", "audience", saying(json!({"aud": []}))),
        attack(
            "aud an array of others",
            "audience",
            saying(json!({"aud": ["billing", "mail"]})),
        ),
        attack(
            "aud an array within an array",
            "audience",
            saying(json!({"aud": [["catalog"]]})),
        ),
        attack(
            "aud not all strings",
            "audience",
            saying(json!({"aud": ["catalog", 1]})),
        ),
        attack(
            "aud an object",
            "audience",
            saying(json!({"aud": {"catalog": true}})),
        ),
        attack(
            "aud words in a string",
            "audience",
            saying(json!({"aud": "catalog billing"})),
        ),
        attack("no iss", "issuer", saying(json!({"iss": null}))),
        attack(
            "iss of nobody",
            "issuer",
            saying(json!({"iss": "https://nobody.test"})),
        ),
        attack(
            "iss with a slash",
            "issuer",
            saying(json!({"iss": "https://one.test/"})),
        ),
        attack(
            "iss in another case",
            "issuer",
            saying(json!({"iss": "https://ONE.test"})),
        ),
        attack(
            "iss an array",
            "issuer",
            saying(json!({"iss": ["https://one.test"]})),
        ),
        attack("iss empty", "issuer", saying(json!({"iss": ""}))),
        attack(
            "iss of the other issuer",
            "signature",
            saying(json!({"iss": TWO})),
        ),
        attack("sub a number", "claim", saying(json!({"sub": 7}))),
        attack(
            "sub an object",
            "claim",
            saying(json!({"sub": {"name": "ann"}})),
        ),
    ]
}

fn required() -> Vec<Attack> {
    vec![
        attack(
            "a required claim missing",
            "claim",
            saying(json!({"tenant": null})),
        ),
        attack(
            "a required claim null",
            "claim",
            spelling("\"acme\"", "null"),
        ),
        attack(
            "a required claim with another value",
            "claim",
            saying(json!({"tenant": "evil"})),
        ),
        attack(
            "a required claim in another case",
            "claim",
            saying(json!({"tenant": "Acme"})),
        ),
        attack(
            "a required claim of words",
            "claim",
            saying(json!({"tenant": "acme evil"})),
        ),
        attack(
            "a required claim an empty array",
            "claim",
            saying(json!({"tenant": []})),
        ),
        attack(
            "a required claim an array of others",
            "claim",
            saying(json!({"tenant": ["evil"]})),
        ),
        attack(
            "a required claim deep in an array",
            "claim",
            saying(json!({"tenant": [["acme"]]})),
        ),
        attack(
            "a required claim an object",
            "claim",
            saying(json!({"tenant": {"acme": "acme"}})),
        ),
        attack(
            "a required claim an object that serde_json reads as a text",
            "malformed",
            saying(json!({"tenant": {"$serde_json::private::RawValue": "\"acme\""}})),
        ),
    ]
}

fn repeated() -> Vec<Attack> {
    vec![
        attack(
            "sub twice",
            "malformed",
            spelling("\"sub\":\"ann\"", "\"sub\":\"ann\",\"sub\":\"admin\""),
        ),
        attack(
            "sub twice, once with an escape",
            "malformed",
            spelling("\"sub\":\"ann\"", "\"sub\":\"ann\",\"s\\u0075b\":\"admin\""),
        ),
        attack(
            "exp twice",
            "malformed",
            spelling("\"exp\":", "\"exp\":1,\"exp\":"),
        ),
        attack(
            "aud twice",
            "malformed",
            spelling("\"aud\":", "\"aud\":\"billing\",\"aud\":"),
        ),
        attack(
            "iss twice",
            "malformed",
            spelling("\"iss\":", "\"iss\":\"https://two.test\",\"iss\":"),
        ),
        attack(
            "a member twice, deep",
            "malformed",
            spelling("\"sub\":", "\"x\":{\"y\":1,\"y\":2},\"sub\":"),
        ),
    ]
}
