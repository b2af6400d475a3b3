//! An issuer that rotates its keys under load, and a key server that hangs, goes away and comes back.

use std::task::{Context, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use serde_json::json;

use crate::forge::{P256, Pair, RSA, claims, header, set, token, with};
use crate::issuer::{Issuer, JWKS};
use crate::verifier::{Door, one};

/// The time between two fetches that unknown keys cause, in seconds.
const REFETCH: u64 = 10;
/// The maximum time that a request waits for keys.
const PATIENCE: Duration = Duration::from_secs(5);
/// The number of requests in one second, each with a new token.
const LOAD: u64 = 20;

/// Makes a token that is in no cache.
fn fresh(algorithm: &str, kid: &str, pair: &Pair, number: u64) -> String {
    let claims = with(claims(), json!({ "jti": number }));
    token(&header(algorithm, kid), &claims, pair)
}

/// Returns the `n`th key of the issuer. The pairs take turns; the names are new.
fn nth(n: u64) -> (&'static str, String, &'static Pair) {
    match n % 2 {
        0 => ("RS256", format!("rsa-{n}"), &RSA),
        _ => ("ES256", format!("ec-{n}"), &P256),
    }
}

#[tokio::test]
async fn no_valid_token_is_refused_for_longer_than_one_refetch_interval() {
    const SECONDS: u64 = 120;
    const ROTATE: u64 = 7;
    let issuer = Issuer::with(&set(&[RSA.jwk("rsa-0")])).await;
    let door = Door::open(vec![one(&issuer.uri(JWKS))]).await;
    // The second in which each key was published.
    let mut published = vec![0];
    let (mut longest, mut asked, mut refused) = (0, 0u64, 0u64);
    for second in 0..SECONDS {
        let current = published.len() as u64 - 1;
        if second > 0 && second % ROTATE == 0 {
            // The key before is still published, the keys before that are not.
            let (_, before, old) = nth(current);
            let (_, kid, new) = nth(current + 1);
            issuer.publish(JWKS, 200, &[], set(&[old.jwk(&before), new.jwk(&kid)]));
            published.push(second);
        }
        for (key, &since) in published.iter().enumerate().rev().take(2) {
            let (algorithm, kid, pair) = nth(key as u64);
            let tokens = (0..LOAD).map(|n| fresh(algorithm, &kid, pair, second * LOAD + n));
            let tokens: Vec<_> = tokens.collect();
            for outcome in join_all(tokens.iter().map(|token| door.ask(token))).await {
                asked += 1;
                if outcome.is_err() {
                    refused += 1;
                    longest = longest.max(second - since + 1);
                    assert!(
                        second - since < REFETCH,
                        "published for {}s",
                        second - since
                    );
                }
            }
        }
        door.clock.advance(1);
    }
    let rotations = published.len() - 1;
    let fetches = issuer.asked().len() as u64;
    assert!(
        fetches <= 1 + SECONDS.div_ceil(REFETCH),
        "{fetches} fetches"
    );
    println!(
        "{rotations} rotations in {SECONDS} s: {asked} valid tokens, {refused} refused, none when its key was published for {longest} s, {fetches} fetches"
    );
}

#[tokio::test]
async fn a_key_server_that_hangs_or_is_gone_holds_nobody_up() {
    let issuer = Issuer::with(&set(&[RSA.jwk("rsa")])).await;
    let door = Door::open(vec![one(&issuer.uri(JWKS))]).await;
    let remembered = fresh("RS256", "rsa", &RSA, 0);
    door.ask(&remembered).await.unwrap();
    let unknown = |n: u64| fresh("ES256", "new", &P256, n);
    for state in ["hung", "gone"] {
        match state {
            "hung" => issuer.close(),
            _ => {
                issuer.open();
                issuer.stop().await;
            }
        }
        door.clock.advance(REFETCH);
        tokio::time::pause();
        let began = tokio::time::Instant::now();
        let tokens: Vec<_> = (0..LOAD).map(unknown).collect();
        let waiting = join_all(tokens.iter().map(|token| door.ask(token)));
        let meanwhile = async {
            for n in 1..=LOAD {
                door.ask(&remembered).await.expect("verified before");
                door.ask(&fresh("RS256", "rsa", &RSA, n))
                    .await
                    .expect("its key is known");
            }
            began.elapsed()
        };
        let (outcomes, meanwhile) = futures_util::future::join(waiting, meanwhile).await;
        assert!(
            outcomes.iter().all(Result::is_err),
            "{state}: nobody knows this key"
        );
        let waited = began.elapsed();
        assert!(
            waited <= PATIENCE + Duration::from_millis(50),
            "{state}: {waited:?}"
        );
        assert!(
            meanwhile < Duration::from_millis(50),
            "{state}: {meanwhile:?}"
        );
        // Later requests do not wait again.
        let again = tokio::time::Instant::now();
        door.ask(&unknown(LOAD)).await.unwrap_err();
        assert!(
            again.elapsed() < Duration::from_millis(50),
            "{state}: asked a moment ago"
        );
        tokio::time::resume();
        println!(
            "{state}: {LOAD} tokens of an unknown key waited {waited:?}, {} of known keys {meanwhile:?}",
            2 * LOAD
        );
    }
    issuer.publish(JWKS, 200, &[], set(&[RSA.jwk("rsa"), P256.jwk("new")]));
    issuer.restart().await;
    door.clock.advance(REFETCH);
    door.ask(&unknown(LOAD + 1))
        .await
        .expect("it is back, and so are its keys");
    door.ask(&remembered).await.unwrap();
}

/// Whoever sends them has shown nothing yet, and each keeps the head of its request in memory.
#[tokio::test]
async fn requests_that_wait_for_keys_have_a_bound() {
    let issuer = Issuer::with(&set(&[RSA.jwk("rsa")])).await;
    let door = Door::open(vec![one(&issuer.uri(JWKS))]).await;
    issuer.close();
    door.clock.advance(REFETCH);
    let tokens: Vec<_> = (0..1024).map(|n| fresh("ES256", "new", &P256, n)).collect();
    let waiting = join_all(tokens.iter().map(|token| door.ask(token)));
    tokio::pin!(waiting);
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(cx).is_pending());
    let more = fresh("ES256", "new", &P256, 1024);
    let refused = door.ask(&more).now_or_never().expect("it does not wait");
    assert_eq!(refused.unwrap_err().status(), 503);
    door.ask(&fresh("RS256", "rsa", &RSA, 1025)).await.unwrap();
}
