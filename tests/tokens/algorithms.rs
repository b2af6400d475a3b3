//! Valid tokens of every algorithm are accepted.

use nsgate::config::ALGORITHMS;
use serde_json::{Value, json};

use crate::forge::{ED25519, NOW, P256, P384, Pair, RSA, claims, good, header, set, token, with};
use crate::issuer::{Issuer, JWKS};
use crate::judge::judge;
use crate::verifier::{Door, one};

async fn door(keys: &[Value]) -> Door {
    let issuer = Issuer::with(&set(keys)).await;
    let mut config = one(&issuer.uri(JWKS));
    config.algorithms = ALGORITHMS.map(|(_, algorithm)| algorithm).into();
    Door::open(vec![config]).await
}

#[tokio::test]
async fn every_algorithm_is_verified_with_a_key_of_its_type() {
    let keys = [
        RSA.jwk("rsa"),
        P256.jwk("ec"),
        P384.jwk("ec384"),
        ED25519.jwk("ed"),
    ];
    let door = door(&keys).await;
    for (name, _) in ALGORITHMS {
        let (kid, pair): (_, &Pair) = match name {
            "ES256" => ("ec", &P256),
            "ES384" => ("ec384", &P384),
            "EdDSA" => ("ed", &ED25519),
            _ => ("rsa", &RSA),
        };
        let token = token(&header(name, kid), &claims(), pair);
        let principal = door.ask(&token).await.expect(name);
        judge(&token, &pair.jwk(kid)).expect(name);
        assert_eq!(
            (&**principal.subject(), principal.has_scope("catalog.write")),
            ("ann", true)
        );
    }
}

/// Checks the name of RFC 9864, which means no other algorithm than EdDSA with this curve.
#[tokio::test]
async fn ed25519_is_known_by_both_of_its_names() {
    let mut key = ED25519.jwk("ed");
    key["alg"] = "Ed25519".into();
    let door = door(&[key, P256.jwk("ec")]).await;
    for name in ["EdDSA", "Ed25519"] {
        let token = token(&header(name, "ed"), &claims(), &ED25519);
        door.ask(&token).await.expect(name);
    }
    let forged = token(&header("Ed25519", "ec"), &claims(), &ED25519);
    assert!(door.ask(&forged).await.is_err());
}

#[tokio::test]
async fn tokens_of_other_spellings_come_in_too() {
    let door = door(&[RSA.jwk("rsa"), P256.jwk("ec")]).await;
    let members = |members| token(&header("RS256", "rsa"), &with(claims(), members), &RSA);
    let headers = |members| token(&with(header("RS256", "rsa"), members), &claims(), &RSA);
    let cases = [
        (
            "aud in an array",
            members(json!({"aud": ["billing", "catalog"]})),
        ),
        (
            "a claim in an array",
            members(json!({"tenant": ["evil", "umbrella"]})),
        ),
        ("exp within the leeway", members(json!({"exp": NOW - 29}))),
        (
            "exp with a fraction",
            members(json!({"exp": NOW as f64 - 29.5})),
        ),
        ("nbf within the leeway", members(json!({"nbf": NOW + 30}))),
        ("no kid where one key fits", headers(json!({"kid": null}))),
        ("no typ", headers(json!({"typ": null}))),
        ("typ of an access token", headers(json!({"typ": "AT+JWT"}))),
        ("a thumbprint", headers(json!({"x5t": "abc"}))),
    ];
    for (name, token) in cases {
        door.ask(&token).await.expect(name);
        judge(&token, &RSA.jwk("rsa")).expect(name);
    }
    for value in [format!("bearer {}", good()), format!("BEARER   {}", good())] {
        door.ask_with(&[value.as_bytes()]).await.expect(&value);
    }
}

#[tokio::test]
async fn a_caller_is_what_the_token_says() {
    let door = door(&[RSA.jwk("rsa")]).await;
    let principal = door.ask(&good()).await.unwrap();
    assert_eq!(&**principal.issuer(), "https://one.test");
    assert_eq!(principal.claims()["tenant"], "acme");
    let context: Vec<_> = principal
        .context()
        .iter()
        .map(|e| (e.key(), e.value()))
        .collect();
    assert_eq!(context, [("tenant", "acme")]);
    assert!(!principal.has_scope("catalog"));
    assert_eq!(
        format!("{principal:?}"),
        "Principal(\"ann\" of \"https://one.test\")"
    );
}

#[tokio::test]
async fn an_honest_caller_learns_what_is_wrong() {
    let door = door(&[RSA.jwk("rsa")]).await;
    let cases = [
        (json!({"exp": NOW - 300}), "the token expired 5 minutes ago"),
        (
            json!({"nbf": NOW + 60}),
            "the token is valid only in 60 seconds",
        ),
        (
            json!({"aud": "billing"}),
            "the token is for another audience",
        ),
        (
            json!({"tenant": null}),
            "the token does not have the claim tenant",
        ),
        (
            json!({"exp": null}),
            "the token is not accepted: it has no exp",
        ),
    ];
    for (members, expected) in cases {
        let token = token(&header("RS256", "rsa"), &with(claims(), members), &RSA);
        let error = door.ask(&token).await.unwrap_err();
        assert_eq!(error.message(), expected);
    }
    let error = door.ask_with(&[]).await.unwrap_err();
    assert_eq!(
        (error.message(), error.headers()[0].1.as_bytes()),
        ("a bearer token is needed", &b"Bearer"[..])
    );
}
