//! Attacks: tokens that must be refused.

mod claims;
mod form;
mod header;
mod signature;

use std::collections::HashSet;

use crate::forge::{self, ED25519, ONE, P256, P384, RSA, RSA_OF_TWO, TWO, good, set, with};
use crate::issuer::{Issuer, JWKS};
use crate::log;
use crate::verifier::{Door, one};
use serde_json::{Value, json};

/// The name of an attack, the reason of its refusal (a label of the metric), and the `Authorization` headers.
struct Attack(&'static str, &'static str, Vec<Vec<u8>>);

/// Makes an attack with this token.
fn attack(name: &'static str, reason: &'static str, token: impl Into<String>) -> Attack {
    Attack(
        name,
        reason,
        vec![format!("Bearer {}", token.into()).into_bytes()],
    )
}

/// Returns the key set of issuer one: a key of each type, one for PS256 only, one for encryption.
fn keys() -> String {
    set(&[
        RSA.jwk("rsa"),
        with(RSA.jwk("pss"), json!({"alg": "PS256", "use": "sig"})),
        with(RSA.jwk("enc"), json!({"use": "enc"})),
        P256.jwk("ec"),
        P384.jwk("ec384"),
        ED25519.jwk("ed"),
    ])
}

/// Returns a door that knows issuers one and two. Both use the same `kid`, for different keys.
async fn door() -> Door {
    let (first, second) = (
        Issuer::with(&keys()).await,
        Issuer::with(&set(&[RSA_OF_TWO.jwk("rsa")])).await,
    );
    let mut two = one(&second.uri(JWKS));
    two.issuer = TWO.to_owned();
    Door::open(vec![one(&first.uri(JWKS)), two]).await
}

fn all() -> Vec<Attack> {
    let groups = [
        form::attacks(),
        header::attacks(),
        signature::attacks(),
        claims::attacks(),
    ];
    groups.into_iter().flatten().collect()
}

/// Returns the parts of a credential that are long enough to be recognized in other texts.
fn parts(value: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(value).into_owned();
    let parts = text
        .split([' ', '.', ',', '"'])
        .filter(|part| part.len() >= 12);
    parts.map(str::to_owned).collect()
}

#[tokio::test]
async fn every_attack_is_refused_for_its_own_reason_and_never_repeated() {
    let door = door().await;
    let mut names = HashSet::new();
    let mut failures = Vec::new();
    for Attack(name, reason, values) in all() {
        assert!(names.insert(name), "{name} is there twice");
        let series = format!("nsgate_authentication_failures_total{{reason=\"{reason}\"}}");
        let before = door.metric(&series);
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let error = match door.ask_with(&values).await {
            Ok(principal) => {
                failures.push(format!("{name}: let in as {principal:?}"));
                continue;
            }
            Err(error) => error,
        };
        if (error.status().as_u16(), error.code().number()) != (401, 16) {
            failures.push(format!("{name}: {error:?}"));
        }
        if door.metric(&series) != before + 1 {
            failures.push(format!("{name}: not for the reason {reason}: {error}"));
        }
        let challenge = error
            .headers()
            .iter()
            .find(|(name, _)| name == "www-authenticate");
        let challenge = challenge.unwrap().1.to_str().unwrap();
        let expected = format!("Bearer error=\"invalid_token\", error_description=\"{error}\"");
        let expected = if values.is_empty() {
            "Bearer"
        } else {
            &expected
        };
        if challenge != expected {
            failures.push(format!("{name}: {challenge}"));
        }
        let said = format!(
            "{error} {error:?} {:?} {challenge} {}",
            error.detail(),
            log::text()
        );
        let told = values.iter().flat_map(|value| parts(value));
        for part in told.filter(|part| said.contains(part.as_str())) {
            failures.push(format!("{name}: {part} is in a message or in the log"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    println!("{} attacks refused", names.len());
    assert!(names.len() >= 40, "{} attacks", names.len());
    // The attacks fail because of the forgery alone: a token that the forger makes without one is accepted.
    assert_eq!(&**door.ask(&good()).await.unwrap().subject(), "ann");
}

#[tokio::test]
async fn what_is_logged_is_seen_by_these_tests() {
    let door = door().await;
    tracing::trace!("a mark in the log");
    assert!(log::text().contains("a mark in the log"));
    drop(door);
}

#[tokio::test]
async fn issuers_that_share_a_key_id_are_kept_apart() {
    let door = door().await;
    let claims_of = |issuer: &str| with(forge::claims(), json!({ "iss": issuer }));
    let header = forge::header("RS256", "rsa");
    for (issuer, key, other) in [(ONE, &RSA, &RSA_OF_TWO), (TWO, &RSA_OF_TWO, &RSA)] {
        let token = forge::token(&header, &claims_of(issuer), key);
        assert_eq!(&**door.ask(&token).await.unwrap().issuer(), issuer);
        let mixed = forge::token(&header, &claims_of(issuer), other);
        assert_eq!(door.ask(&mixed).await.unwrap_err().status().as_u16(), 401);
    }
}

#[tokio::test]
async fn an_unknown_key_and_a_bad_signature_answer_alike() {
    let door = door().await;
    let unknown = forge::token(&forge::header("RS256", "nobody"), &forge::claims(), &RSA);
    let bad = forge::token(
        &forge::header("RS256", "rsa"),
        &forge::claims(),
        &RSA_OF_TWO,
    );
    let (unknown, bad) = (
        door.ask(&unknown).await.unwrap_err(),
        door.ask(&bad).await.unwrap_err(),
    );
    assert_eq!(unknown.message(), bad.message());
    assert_eq!(unknown.headers(), bad.headers());
}

#[tokio::test]
async fn keys_that_must_not_be_used_are_not() {
    let private = with(RSA.jwk("rsa"), json!({"d": "AQAB"}));
    let short = with(RSA.jwk("rsa"), json!({"n": forge::encode([255; 128])}));
    let other_use = with(RSA.jwk("rsa"), json!({"key_ops": ["sign"]}));
    let secret = json!({"kty": "oct", "kid": "rsa", "k": forge::encode("secret")});
    let cases: [(&str, Value); 4] = [
        ("published with its private part", private),
        ("of 1024 bits", short),
        ("for signing only", other_use),
        ("symmetric", secret),
    ];
    for (name, key) in cases {
        let issuer = Issuer::with(&set(&[key, P256.jwk("ec")])).await;
        let mut config = one(&issuer.uri(JWKS));
        config.require.clear();
        let door = Door::open(vec![config]).await;
        let error = door.ask(&good()).await.expect_err(name);
        assert_eq!(
            error.message(),
            "the signature of the token cannot be verified",
            "{name}"
        );
        let honest = forge::token(&forge::header("ES256", "ec"), &forge::claims(), &P256);
        door.ask(&honest).await.expect(name);
    }
}
