//! The token cache: a verified token is remembered, for no longer than it is valid.

use crate::forge::{P256, RSA, claims, good, header, set, token};
use crate::issuer::{Issuer, JWKS};
use crate::verifier::{Door, one};

const HITS: &str = "nsgate_token_cache_total{result=\"hit\"}";
const MISSES: &str = "nsgate_token_cache_total{result=\"miss\"}";

#[tokio::test]
async fn a_busy_client_costs_one_signature_check() {
    let issuer = Issuer::with(&set(&[RSA.jwk("rsa")])).await;
    let door = Door::open(vec![one(&issuer.uri(JWKS))]).await;
    for _ in 0..10 {
        door.ask(&good()).await.unwrap();
    }
    // PKCS#1 signatures are deterministic, so `good()` is the same token each time.
    assert_eq!((door.metric(HITS), door.metric(MISSES)), (9, 1));
    for _ in 0..3 {
        door.ask("not.a.token").await.unwrap_err();
    }
    assert_eq!((door.metric(HITS), door.metric(MISSES)), (9, 4));
}

#[tokio::test]
async fn a_remembered_token_expires_like_any_other() {
    let issuer = Issuer::with(&set(&[RSA.jwk("rsa")])).await;
    let door = Door::open(vec![one(&issuer.uri(JWKS))]).await;
    let token = good();
    door.ask(&token).await.unwrap();
    door.clock.advance(329);
    door.ask(&token).await.unwrap();
    assert_eq!(door.metric(HITS), 1);
    door.clock.advance(1);
    let error = door.ask(&token).await.unwrap_err();
    assert_eq!(error.message(), "the token expired 30 seconds ago");
    assert_eq!(door.metric(HITS), 1);
}

#[tokio::test]
async fn a_remembered_token_is_forgotten_with_its_key_and_with_no_other() {
    let issuer = Issuer::with(&set(&[RSA.jwk("rsa"), P256.jwk("ec")])).await;
    let door = Door::open(vec![one(&issuer.uri(JWKS))]).await;
    let by_rsa = good();
    let by_ec = token(&header("ES256", "ec"), &claims(), &P256);
    door.ask(&by_rsa).await.unwrap();
    door.ask(&by_ec).await.unwrap();

    issuer.publish(JWKS, 200, &[], set(&[P256.jwk("ec")]));
    door.refresh().await;
    door.ask(&by_ec).await.unwrap();
    assert_eq!(door.metric(HITS), 1);
    assert_eq!(door.ask(&by_rsa).await.unwrap_err().status().as_u16(), 401);

    // The kid is the same, the key another one.
    issuer.publish(
        JWKS,
        200,
        &[],
        set(&[RSA.jwk("rsa"), crate::forge::Pair::p256().jwk("ec")]),
    );
    door.refresh().await;
    assert_eq!(door.ask(&by_ec).await.unwrap_err().status().as_u16(), 401);
    door.ask(&by_rsa).await.unwrap();
}

#[tokio::test]
async fn what_a_connection_has_shown_is_judged_again_with_every_request() {
    let issuer = Issuer::with(&set(&[RSA.jwk("rsa"), P256.jwk("ec")])).await;
    let door = Door::open(vec![one(&issuer.uri(JWKS))]).await;
    let mut connection = door.connect();
    let by_rsa = good();
    let by_ec = token(&header("ES256", "ec"), &claims(), &P256);
    for token in [&by_rsa, &by_rsa, &by_ec, &by_ec, &by_rsa] {
        connection.ask(token).await.unwrap();
    }
    assert_eq!((door.metric(HITS), door.metric(MISSES)), (3, 2));

    issuer.publish(JWKS, 200, &[], set(&[P256.jwk("ec")]));
    door.refresh().await;
    connection.ask(&by_rsa).await.unwrap_err();
    connection.ask(&by_ec).await.unwrap();
    door.clock.advance(330);
    let error = connection.ask(&by_ec).await.unwrap_err();
    assert_eq!(error.message(), "the token expired 30 seconds ago");
    assert_eq!((door.metric(HITS), door.metric(MISSES)), (4, 4));
}

#[tokio::test]
async fn a_token_that_differs_anywhere_from_one_that_was_just_shown_is_refused() {
    let issuer = Issuer::with(&set(&[RSA.jwk("rsa")])).await;
    let door = Door::open(vec![one(&issuer.uri(JWKS))]).await;
    let mut connection = door.connect();
    let token = good();
    connection.ask(&token).await.unwrap();
    for at in 0..token.len() {
        let other = if token.as_bytes()[at] == b'A' {
            'B'
        } else {
            'A'
        };
        let forged = format!("{}{other}{}", &token[..at], &token[at + 1..]);
        connection.ask(&token).await.unwrap();
        connection.ask(&forged).await.unwrap_err();
        door.ask(&forged).await.unwrap_err();
    }
}
