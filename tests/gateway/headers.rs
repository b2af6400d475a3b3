//! Headers: those of one connection stay on it; `x-forwarded-*`, request ids and traces are the gateway's to say.

use serde_json::json;

use crate::harness::World;

const EXISTS: &str = "/v1/table/west%24t1/exists";

#[tokio::test]
async fn headers_of_a_connection_stay_on_it() {
    let world = World::two().await;
    for (name, value) in [
        ("keep-alive", "timeout=5"),
        ("proxy-authenticate", "Basic"),
        ("proxy-connection", "close"),
        ("x-forwarded-for", "10.0.0.1"),
        ("forwarded", "for=10.0.0.1"),
        ("x-lance-kept", "yes"),
    ] {
        world.catalog("west").add_header(name, value);
    }
    let client = world.client().header("connection", "x-private, keep-alive");
    let client = client
        .header("x-private", "1")
        .header("keep-alive", "timeout=5");
    let client = client
        .header("te", "trailers")
        .header("proxy-authorization", "Basic abc");
    let client = client
        .header("proxy-connection", "keep-alive")
        .header("upgrade", "h2c");
    let reply = client
        .header("x-kept", "yes")
        .post(EXISTS, &json!({}))
        .await
        .ok();
    let seen = world.catalog("west").only();
    for name in [
        "x-private",
        "keep-alive",
        "te",
        "proxy-authorization",
        "proxy-connection",
        "upgrade",
    ] {
        assert_eq!(seen.header(name), None, "{name}");
    }
    assert_eq!(seen.header("x-kept"), Some("yes"));
    assert_eq!(
        seen.header("host"),
        Some(world.catalog("west").address.to_string().as_str())
    );
    for name in [
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "x-forwarded-for",
        "forwarded",
    ] {
        assert_eq!(reply.header(name), None, "{name}");
    }
    assert_eq!(reply.header("x-lance-kept"), Some("yes"));
}

#[tokio::test]
async fn an_answer_says_nothing_of_the_gateways_insides() {
    let world = World::two().await;
    let reply = world.client().post(EXISTS, &json!({})).await.ok();
    let port = world.catalog("west").address.port().to_string();
    for (name, value) in &reply.headers {
        let known =
            ["date", "content-length", "x-request-id", "traceparent"].contains(&name.as_str());
        assert!(known, "{name}: {value:?}");
        assert!(
            !value.to_str().unwrap().contains(&port),
            "{name}: {value:?}"
        );
    }
}

#[tokio::test]
async fn where_a_request_came_from_is_not_the_callers_to_say() {
    let world = World::two().await;
    let mut client = world.client();
    for name in [
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-forwarded-prefix",
        "forwarded",
    ] {
        client = client.header(name, "6.6.6.6");
    }
    client.post(EXISTS, &json!({})).await.ok();
    let seen = world.catalog("west").only();
    let all = format!("{:?}", seen.headers);
    assert!(!all.contains("6.6.6.6"), "{all}");
    let from = seen.header("x-forwarded-for").or(seen.header("forwarded"));
    assert!(from.is_some_and(|from| from.contains("127.0.0.1")), "{all}");
}

#[tokio::test]
async fn a_request_id_is_kept_or_made_and_returned() {
    let world = World::two().await;
    let exchange = async |client: crate::client::Client, target: &str| {
        world.catalog("west").forget();
        let reply = client.post(target, &json!({})).await;
        let returned = reply.header("x-request-id").unwrap().to_owned();
        let seen = world.catalog("west").seen();
        let arrived = seen
            .first()
            .map(|seen| seen.header("x-request-id").unwrap().to_owned());
        assert!(
            arrived.is_none_or(|arrived| arrived == returned),
            "{target}"
        );
        returned
    };
    let named = world.client().header("x-request-id", "my-own_1");
    assert_eq!(exchange(named.clone(), EXISTS).await, "my-own_1");
    assert_eq!(exchange(named, "/v1/table/north/exists").await, "my-own_1");
    let (one, two) = (
        exchange(world.client(), EXISTS).await,
        exchange(world.client(), EXISTS).await,
    );
    assert!(!one.is_empty() && one != two);
    assert!(!exchange(world.anonymous(), EXISTS).await.is_empty());
    let silly = world.client().header("x-request-id", &"a".repeat(5000));
    assert!(exchange(silly, EXISTS).await.len() < 500);
}

/// W3C Trace Context: version, trace, parent, flags.
#[tokio::test]
async fn a_trace_is_continued_or_begun() {
    let world = World::two().await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    for (sent, continued) in [
        (Some(format!("00-{trace}-00f067aa0ba902b7-01")), true),
        (
            Some(format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32))),
            false,
        ),
        (Some("00-xyz".to_owned()), false),
        (Some(format!("ff-{trace}-00f067aa0ba902b7-01")), false),
        (None, false),
    ] {
        world.catalog("west").forget();
        let client = match &sent {
            Some(value) => world.client().header("traceparent", value),
            None => world.client(),
        };
        client.post(EXISTS, &json!({})).await.ok();
        let seen = world.catalog("west").only();
        let arrived = seen.header("traceparent").unwrap();
        let parts: Vec<&str> = arrived.split('-').collect();
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        assert_eq!(lengths, [2, 32, 16, 2], "{sent:?}: {arrived}");
        assert_eq!(parts[1] == trace, continued, "{sent:?}: {arrived}");
        assert!(parts[1].bytes().any(|byte| byte != b'0'), "{arrived}");
    }
}
