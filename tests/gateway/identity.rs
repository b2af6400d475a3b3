//! The token decides who the caller is; one rule of precedence decides which context is forwarded.

use http::Method;
use serde_json::{Value, json};

use crate::catalog::Seen;
use crate::client::{Client, full};
use crate::harness::{Setup, World};
use crate::token;

const EXISTS: &str = "/v1/table/west%24t1/exists";

#[tokio::test]
async fn nobody_comes_in_without_a_good_token() {
    let world = World::two().await;
    let good = token::token(&json!({}));
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let other = if signature.starts_with('A') { 'B' } else { 'A' };
    let tampered = format!("{signed}.{other}{}", &signature[1..]);
    let cases = [
        ("no header", None),
        ("another scheme", Some("Basic dXNlcjpwYXNz".to_owned())),
        ("no token", Some("Bearer ".to_owned())),
        ("not a token", Some("Bearer abc".to_owned())),
        (
            "expired",
            Some(format!(
                "Bearer {}",
                token::token(&json!({"exp": 1_000_000}))
            )),
        ),
        (
            "for others",
            Some(format!("Bearer {}", token::token(&json!({"aud": "else"})))),
        ),
        (
            "by others",
            Some(format!(
                "Bearer {}",
                token::token(&json!({"iss": "https://x.test"}))
            )),
        ),
        ("tampered", Some(format!("Bearer {tampered}"))),
        ("twice", Some(format!("Bearer {good}, Bearer {good}"))),
    ];
    for (name, authorization) in cases {
        let client = match &authorization {
            Some(value) => world.anonymous().header("authorization", value),
            None => world.anonymous(),
        };
        let reply = client.post(EXISTS, &json!({})).await;
        assert_eq!(reply.outcome(), (401, Some(16)), "{name}: {reply:?}");
        let challenge = reply.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Bearer"), "{name}: {challenge}");
        assert!(reply.header("x-request-id").is_some(), "{name}");
        assert_eq!(reply.json()["instance"], EXISTS, "{name}");
        let log = world.log();
        for part in authorization.iter().flat_map(|a| a.split([' ', '.', ','])) {
            assert!(
                part.len() < 10 || !log.contains(part),
                "{name}: {part} is in the log"
            );
        }
    }
    let twice = world
        .client()
        .header("authorization", &format!("Bearer {good}"));
    assert_eq!(
        twice.post(EXISTS, &json!({})).await.outcome(),
        (401, Some(16))
    );
    assert_eq!(world.anonymous().get("/v1/unheard").await.status, 404);
    assert!(world.catalog("west").seen_of("table_exists").is_empty());
    world.client().post(EXISTS, &json!({})).await.ok();
}

#[tokio::test]
async fn identity_in_a_body_goes_no_further() {
    let world = World::two().await;
    for (sent, arrived) in [
        (
            r#"{"identity":{"auth_token":"x"},"keep":1.0}"#,
            r#"{"keep":1.0}"#,
        ),
        (
            r#"{"keep":1.0 , "identity":{"api_key":"x"}}"#,
            r#"{"keep":1.0}"#,
        ),
        (r#"{"identity":null}"#, "{}"),
        (r#"{"deep":{"identity":1}}"#, r#"{"deep":{"identity":1}}"#),
    ] {
        world.catalog("west").forget();
        world.client().post_bytes(EXISTS, sent).await.ok();
        let body = world.catalog("west").only().body;
        let text = String::from_utf8(body.to_vec()).unwrap();
        // Only the spaces next to a removed member may be removed with it.
        assert_eq!(text.replace(' ', ""), arrived, "{sent}");
    }
    for sent in [
        r#"{"identity":{},"identity":{}}"#,
        r#"{"\u0069dentity":{"auth_token":"x"}}"#,
    ] {
        let reply = world.client().post_bytes(EXISTS, sent).await;
        assert_eq!(reply.outcome(), (400, Some(13)), "{sent}");
    }
}

#[tokio::test]
async fn the_callers_token_goes_where_it_is_wanted() {
    let setup = Setup::two().backend("east", "authorization: none");
    let world = setup.start().await;
    let bearer = format!("Bearer {}", token::token(&json!({})));
    let client = world.anonymous().header("authorization", &bearer);
    for (name, expected) in [("west", Some(bearer.as_str())), ("east", None)] {
        client
            .post(&format!("/v1/namespace/{name}/exists"), &json!({}))
            .await;
        let seen = world.catalog(name).seen_of("namespace_exists");
        assert_eq!(seen[0].header("authorization"), expected, "{name}");
    }
}

#[tokio::test]
async fn what_stands_for_a_header_is_no_context() {
    let setup = Setup::two().backend("east", "authorization: none");
    let world = setup.start().await;
    let client = world.client_with(&json!({"tenant": "acme"}));
    let sent = r#"{"context":{"header.Authorization":"Bearer x","k":"v","header.x-ns-ctx-tenant":"evil"},"n":1.0}"#;
    for name in ["west", "east"] {
        let path = format!("/v1/namespace/{name}/exists");
        client.post_bytes(&path, sent).await;
        let seen = &world.catalog(name).seen_of("namespace_exists")[0];
        assert_eq!(context(seen), ["k=v", "tenant=acme"], "{name}");
        assert_eq!(seen.body, r#"{"context":{"k":"v"},"n":1.0}"#, "{name}");
    }
}

/// The context entries that the catalog received, as `key=value`, sorted.
fn context(seen: &Seen) -> Vec<String> {
    let pairs = seen.headers.iter().filter_map(|(name, value)| {
        let key = name.as_str().strip_prefix("x-ns-ctx-")?;
        Some(format!("{key}={}", value.to_str().unwrap()))
    });
    let mut pairs: Vec<String> = pairs.collect();
    pairs.sort();
    pairs
}

#[tokio::test]
async fn a_claim_wins_over_a_header_and_a_header_over_the_body() {
    let world = World::two().await;
    let acme = world.client_with(&json!({"tenant": "acme"}));
    let plain = world.client();
    let cases: [(Client, Value, &[&str], &[&str]); 6] = [
        (
            plain.header("x-ns-ctx-team", "a"),
            json!({}),
            &["team=a"],
            &[],
        ),
        (
            plain.header("X-NS-Ctx-Team", "A b"),
            json!({}),
            &["team=A b"],
            &[],
        ),
        (
            plain.clone(),
            json!({"team": "b", "Lang": "fr"}),
            &["lang=fr", "team=b"],
            &["team"],
        ),
        (
            plain.header("x-ns-ctx-team", "a"),
            json!({"team": "b"}),
            &["team=a"],
            &[],
        ),
        (
            acme.header("x-ns-ctx-tenant", "umbrella"),
            json!({}),
            &["tenant=acme"],
            &[],
        ),
        (
            acme.clone(),
            json!({"tenant": "umbrella", "x": "1"}),
            &["tenant=acme", "x=1"],
            &["x"],
        ),
    ];
    for (client, body, expected, kept) in cases {
        world.catalog("west").forget();
        client.post(EXISTS, &json!({"context": body})).await.ok();
        let seen = world.catalog("west").only();
        assert_eq!(context(&seen), expected, "{body}");
        // An entry that was overridden must not stay in the body either.
        let left = seen.json()["context"].clone();
        for key in ["team", "tenant"] {
            assert!(
                left.get(key).is_none() || kept.contains(&key),
                "{body}: {left}"
            );
        }
    }
}

#[tokio::test]
async fn prefixes_of_both_sides_are_configured() {
    let setup = Setup::two().section("context: { prefixes: [x-ns-ctx-, x-lance-ctx-] }");
    let world = setup
        .backend("east", "context_prefix: x-other-")
        .start()
        .await;
    let client = world
        .client()
        .header("x-lance-ctx-team", "a")
        .header("x-ns-ctx-lang", "fr");
    for (name, prefix) in [("west", "x-ns-ctx-"), ("east", "x-other-")] {
        client
            .post(&format!("/v1/namespace/{name}/exists"), &json!({}))
            .await;
        let seen = &world.catalog(name).seen_of("namespace_exists")[0];
        assert_eq!(seen.header(&format!("{prefix}team")), Some("a"), "{name}");
        assert_eq!(seen.header(&format!("{prefix}lang")), Some("fr"), "{name}");
        assert_eq!(seen.header("x-lance-ctx-team"), None, "{name}");
        assert_eq!(seen.header("x-ns-ctx-lang").is_some(), name == "west");
    }
}

#[tokio::test]
async fn context_has_bounds() {
    let setup = Setup::two().section("context: { max_entries: 3, max_bytes: 100B }");
    let world = setup.start().await.seeded();
    let entries = |count: usize| {
        let pairs = (0..count).map(|n| (format!("k{n}"), json!("v")));
        json!({"context": pairs.collect::<serde_json::Map<_, _>>()})
    };
    let two = world
        .client()
        .header("x-ns-ctx-a", "1")
        .header("x-ns-ctx-b", "2");
    let long = "v".repeat(120);
    two.post(EXISTS, &entries(1)).await.ok();
    let cases = [
        (two.clone(), entries(2)),
        (
            two.header("x-ns-ctx-c", "3").header("x-ns-ctx-d", "4"),
            json!({}),
        ),
        (two.header("x-ns-ctx-a", "1"), json!({})),
        (world.client().header("x-ns-ctx-a", &long), json!({})),
        (world.client(), json!({"context": {"a": long}})),
        (world.client(), json!({"context": {"a": 1}})),
        (world.client(), json!({"context": ["a"]})),
        (world.client(), json!({"context": {"": "a"}})),
        (world.client(), json!({"context": {"a\r\nx-evil": "a"}})),
        (world.client(), json!({"context": {"a": "b\r\nx-evil: 1"}})),
    ];
    for (client, body) in cases {
        let reply = client.post(EXISTS, &body).await;
        assert_eq!(reply.outcome(), (400, Some(13)), "{body}: {reply:?}");
    }
    assert_eq!(world.catalog("west").seen_of("table_exists").len(), 1);
}

#[tokio::test]
async fn a_token_in_a_body_without_json_type_is_removed_too() {
    let world = World::two().await;
    let client = world.client().header("content-type", "text/plain");
    let body = full(r#"{"identity":{"auth_token":"x"}}"#);
    client.send(Method::POST, EXISTS, body).await.unwrap();
    let seen = world.catalog("west").seen_of("table_exists");
    assert!(
        seen.iter()
            .all(|seen| !seen.json().to_string().contains("identity")),
        "{seen:?}"
    );
}
