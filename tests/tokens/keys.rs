//! Keys that come, change, and fail to come.

use std::io::Write;
use std::time::Duration;

use nsgate::config::KeySource;
use nsgate::error::Error;
use serde_json::json;

use crate::forge::{ONE, P256, Pair, RSA, claims, good, header, set, token, with};
use crate::issuer::{Issuer, JWKS};
use crate::verifier::{Door, from_file, one};

const METADATA: &str = "/.well-known/openid-configuration";

fn by(kid: &str, pair: &Pair) -> String {
    token(&header("ES256", kid), &claims(), pair)
}

/// Makes another valid token of issuer one, which is in no cache.
fn fresh(jti: u32) -> String {
    token(
        &header("RS256", "rsa"),
        &with(claims(), json!({ "jti": jti })),
        &RSA,
    )
}

fn outcome(error: &Error) -> (u16, u8) {
    (error.status().as_u16(), error.code().number())
}

#[tokio::test]
async fn a_new_key_is_found_by_the_first_token_that_names_it() {
    let issuer = Issuer::with(&set(&[RSA.jwk("rsa")])).await;
    let door = Door::open(vec![one(&issuer.uri(JWKS))]).await;
    issuer.publish(JWKS, 200, &[], set(&[RSA.jwk("rsa"), P256.jwk("new")]));
    door.ask(&by("new", &P256)).await.unwrap();
    door.ask(&by("new", &P256)).await.unwrap();
    assert_eq!(issuer.asked().len(), 2);
}

#[tokio::test]
async fn unknown_keys_make_the_issuer_be_asked_once_in_ten_seconds() {
    let issuer = Issuer::with(&set(&[RSA.jwk("rsa")])).await;
    let door = Door::open(vec![one(&issuer.uri(JWKS))]).await;
    let tokens: Vec<_> = (0..20).map(|n| by(&format!("no-{n}"), &P256)).collect();
    let asked = tokens.iter().map(|token| door.ask(token));
    for result in futures_util::future::join_all(asked).await {
        assert_eq!(outcome(&result.unwrap_err()), (401, 16));
    }
    assert_eq!(issuer.asked().len(), 2, "at start, and for all of them");

    issuer.publish(JWKS, 200, &[], set(&[RSA.jwk("rsa"), P256.jwk("late")]));
    door.clock.advance(9);
    door.ask(&by("late", &P256)).await.unwrap_err();
    assert_eq!(issuer.asked().len(), 2);
    door.clock.advance(1);
    door.ask(&by("late", &P256)).await.unwrap();
    assert_eq!(issuer.asked().len(), 3);
}

#[tokio::test]
async fn what_no_key_could_verify_asks_nobody() {
    let issuer = Issuer::with(&set(&[RSA.jwk("rsa")])).await;
    let door = Door::open(vec![one(&issuer.uri(JWKS))]).await;
    let unlisted = token(&header("RS512", "nobody"), &claims(), &RSA);
    let of_nobody = with(claims(), json!({"iss": "https://nobody.test"}));
    let of_nobody = token(&header("RS256", "nobody"), &of_nobody, &RSA);
    for token in [unlisted, of_nobody] {
        door.ask(&token).await.unwrap_err();
    }
    assert_eq!(issuer.asked().len(), 1);
}

#[tokio::test]
async fn requests_wait_for_the_fetch_that_may_bring_their_key() {
    let issuer = Issuer::with(&set(&[RSA.jwk("rsa")])).await;
    let door = Door::open(vec![one(&issuer.uri(JWKS))]).await;
    issuer.publish(JWKS, 200, &[], set(&[RSA.jwk("rsa"), P256.jwk("new")]));
    issuer.close();
    let (first, second) = (by("new", &P256), by("new", &P256));
    let both = futures_util::future::join(door.ask(&first), door.ask(&second));
    let opened = async {
        issuer.is_asked(2).await;
        issuer.open();
    };
    let ((first, second), ()) = futures_util::future::join(both, opened).await;
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(issuer.asked().len(), 2);
}

#[tokio::test]
async fn a_client_that_goes_away_does_not_stop_the_fetch() {
    let issuer = Issuer::with(&set(&[RSA.jwk("rsa")])).await;
    let door = Door::open(vec![one(&issuer.uri(JWKS))]).await;
    issuer.publish(JWKS, 200, &[], set(&[RSA.jwk("rsa"), P256.jwk("new")]));
    issuer.close();
    let token = by("new", &P256);
    tokio::select! {
        _ = door.ask(&token) => panic!("nobody answered"),
        () = issuer.is_asked(2) => {}
    }
    let waiting = door.ask(&token);
    issuer.open();
    waiting.await.unwrap();
    assert_eq!(issuer.asked().len(), 2);
}

#[tokio::test]
async fn old_keys_stay_when_new_ones_cannot_be_had() {
    let issuer = Issuer::with(&set(&[RSA.jwk("rsa")])).await;
    let elsewhere = Issuer::with(&set(&[P256.jwk("ec")])).await;
    let door = Door::open(vec![one(&issuer.uri(JWKS))]).await;
    let redirect: &[(&'static str, &str)] = &[("location", &elsewhere.uri(JWKS))];
    let other = set(&[P256.jwk("ec")]);
    let large = format!("{other}{}", " ".repeat(1 << 20));
    let failures: [(u16, &[_], String); 6] = [
        (500, &[], other.clone()),
        (404, &[], other.clone()),
        (200, &[], "<html>".to_owned()),
        (200, &[], r#"{"kid": "rsa"}"#.to_owned()),
        (302, redirect, other.clone()),
        (200, &[], large),
    ];
    let series = format!("nsgate_key_refreshes_total{{issuer=\"{ONE}\",result=\"failure\"}}");
    for (n, (status, headers, body)) in (1..).zip(failures) {
        issuer.publish(JWKS, status, headers, body);
        let before = door.metric(&series);
        door.refresh().await;
        assert_eq!(door.metric(&series), before + 1, "{status}");
        door.ask(&fresh(n)).await.unwrap();
        door.ask(&by("ec", &P256)).await.unwrap_err();
    }
    assert_eq!(elsewhere.asked(), [""; 0], "redirects are not followed");
    assert_eq!(door.keys.missing().count(), 0);
}

#[tokio::test]
async fn a_gateway_whose_issuer_is_down_becomes_ready_when_keys_arrive() {
    let issuer = Issuer::start().await;
    let door = Door::open(vec![one(&issuer.uri(JWKS))]).await;
    assert_eq!(door.keys.missing().collect::<Vec<_>>(), [ONE]);
    let error = door.ask(&good()).await.unwrap_err();
    assert_eq!(outcome(&error), (503, 17));
    assert!(error.retry_after().is_some());
    assert_eq!(outcome(&door.ask("x.y.z").await.unwrap_err()), (401, 16));

    issuer.publish(JWKS, 200, &[], set(&[RSA.jwk("rsa")]));
    door.refresh().await;
    assert_eq!(door.keys.missing().count(), 0);
    door.ask(&good()).await.unwrap();
}

/// No caller gets in without a usable key, so the operator must see it in the metrics. The gateway must not wait for
/// the next set for as long as this one may be cached.
#[tokio::test]
async fn a_key_set_without_a_key_to_verify_with_is_as_good_as_none() {
    let issuer = Issuer::start().await;
    let door = Door::new(vec![one(&issuer.uri(JWKS))]);
    let kept = [("cache-control", "max-age=86400")];
    let never = format!("nsgate_keys_age_seconds{{issuer=\"{ONE}\"}} inf");
    let counted = |result: &str| {
        let series = format!("nsgate_key_refreshes_total{{issuer=\"{ONE}\",result=\"{result}\"}}");
        door.metric(&series)
    };
    let unusable = json!({"kty": "oct", "k": "AAAA", "kid": "rsa"});
    for (n, keys) in (1..).zip([set(&[]), set(&[unusable])]) {
        issuer.publish(JWKS, 200, &kept, keys);
        let wait = door.keys.issuers()[0].refresh().await;
        assert!(wait <= Duration::from_secs(10), "{wait:?}");
        assert_eq!((counted("success"), counted("failure")), (0, n));
        assert!(door.shows(&never));
        assert_eq!(door.keys.missing().count(), 1);
    }
    issuer.publish(JWKS, 200, &kept, set(&[RSA.jwk("rsa")]));
    let wait = door.keys.issuers()[0].refresh().await;
    assert!(wait > Duration::from_secs(3600), "{wait:?}");
    assert_eq!((counted("success"), counted("failure")), (1, 2));
    assert!(!door.shows(&never));
    door.ask(&good()).await.unwrap();
    // The issuer takes back all keys.
    issuer.publish(JWKS, 200, &kept, set(&[]));
    door.refresh().await;
    assert_eq!((counted("success"), counted("failure")), (1, 3));
    assert!(door.shows(&never));
    door.ask(&good()).await.unwrap_err();
}

#[tokio::test]
async fn the_background_fetches_by_itself() {
    let issuer = Issuer::with(&set(&[RSA.jwk("rsa")])).await;
    let door = Door::new(vec![one(&issuer.uri(JWKS))]);
    tokio::select! {
        () = door.keys.keep_fresh() => panic!("it never ends"),
        () = issuer.is_asked(1) => {}
    }
    door.ask(&good()).await.unwrap();
}

#[tokio::test]
async fn a_file_is_read_again_when_it_changes() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "{}", set(&[RSA.jwk("rsa")])).unwrap();
    let door = Door::open(vec![from_file(file.path())]).await;
    door.ask(&good()).await.unwrap();
    let failed = format!("nsgate_key_refreshes_total{{issuer=\"{ONE}\",result=\"failure\"}}");
    let unusable = json!({"kty": "oct", "k": "AAAA", "kid": "rsa"});
    for (n, content) in (1..).zip(["{".to_owned(), set(&[]), set(&[unusable])]) {
        std::fs::write(file.path(), &content).unwrap();
        door.refresh().await;
        door.ask(&fresh(n)).await.expect(&content);
        assert_eq!(door.metric(&failed), u64::from(n), "{content}");
    }
    std::fs::write(file.path(), set(&[P256.jwk("ec")])).unwrap();
    door.refresh().await;
    door.ask(&by("ec", &P256)).await.unwrap();
    door.ask(&good()).await.unwrap_err();
}

#[tokio::test]
async fn an_issuer_says_itself_where_its_keys_are() {
    let issuer = Issuer::with(&set(&[RSA.jwk("rsa")])).await;
    let own = issuer.uri("");
    let metadata = |name: &str, keys: &str| json!({"issuer": name, "jwks_uri": keys}).to_string();
    let mut config = one("http://127.0.0.1/");
    config.issuer.clone_from(&own);
    config.keys.source = KeySource::Discovery;
    let token = token(
        &header("RS256", "rsa"),
        &with(claims(), json!({ "iss": own })),
        &RSA,
    );

    let refused = [
        metadata("https://other.test", &issuer.uri(JWKS)),
        metadata(&format!("{own}/"), &issuer.uri(JWKS)),
        metadata(&own, "http://keys.example/jwks"),
        metadata(&own, "file:///etc/jwks"),
        metadata(&own, "jwks"),
        json!({"issuer": own}).to_string(),
    ];
    let door = Door::new(vec![config]);
    for body in refused {
        issuer.publish(METADATA, 200, &[], body.clone());
        door.refresh().await;
        assert_eq!(door.keys.missing().count(), 1, "{body}");
    }
    assert!(issuer.asked().iter().all(|path| path == METADATA));
    issuer.publish(METADATA, 200, &[], metadata(&format!("{own}/"), "jwks"));
    door.refresh().await;
    let told = door.keys.issuers()[0].trouble().error.unwrap();
    assert!(told.contains("with a `/` at its end"), "{told}");

    issuer.publish(METADATA, 200, &[], metadata(&own, &issuer.uri(JWKS)));
    door.refresh().await;
    door.ask(&token).await.unwrap();
}
