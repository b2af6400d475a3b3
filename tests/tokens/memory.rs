//! What was verified is remembered, and believed no longer than it is true.

use crate::door::{Door, one};
use crate::forge::{P256, RSA, claims, good, header, set, token};
use crate::issuer::{Issuer, JWKS};

const HITS: &str = "nsgate_token_cache_total{result=\"hit\"}";
const MISSES: &str = "nsgate_token_cache_total{result=\"miss\"}";

#[tokio::test]
async fn a_busy_client_costs_one_signature_check() {
    let issuer = Issuer::with(&set(&[RSA.jwk("rsa")])).await;
    let door = Door::open(vec![one(&issuer.uri(JWKS))]).await;
    for _ in 0..10 {
        door.ask(&good()).await.unwrap();
    }
    // PKCS#1 signatures are deterministic: it is one token.
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

    // The same kid, another key.
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
