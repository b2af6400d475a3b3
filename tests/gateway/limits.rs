//! Limits on everything that a client can send; the answer says which one was exceeded.

use bytes::Bytes;
use futures_util::stream;
use http::Method;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::catalog::faults::{Fault, PATIENCE};
use crate::client::{Body, full};
use crate::harness::{Setup, World};
use crate::hostile::frame_bytes::{END_HEADERS, END_STREAM, HEADERS, block, frame, greeting};
use crate::token;

const EXISTS: &str = "/v1/table/west%24t1/exists";

/// Makes a body without a declared length.
fn chunked(bytes: usize) -> Body {
    let chunk = Ok(Frame::data(Bytes::from(vec![b' '; bytes])));
    StreamBody::new(stream::iter([chunk])).boxed_unsync()
}

#[tokio::test]
async fn json_has_a_bound_and_rows_have_none() {
    let setup = Setup::two().section("limits: { json_body: 1KiB }");
    let world = setup.start().await.seeded();
    let fits = format!("{{\"a\":\"{}\"}}", "x".repeat(1000));
    world.client().post_bytes(EXISTS, fits).await.ok();
    let client = world.client().header("content-type", "application/json");
    for target in [EXISTS, "/v1/table/version/batch-create"] {
        for body in [full(vec![b' '; 1025]), chunked(1025)] {
            let reply = client.send(Method::POST, target, body).await.unwrap();
            assert_eq!(reply.outcome(), (413, Some(13)), "{target}");
        }
    }
    let insert = "/v1/table/west%24t1/insert";
    for body in [full(vec![0; 100_000]), chunked(100_000)] {
        let inserted = world.client().post_rows(insert, body).await.ok().json();
        assert_eq!(inserted["num_inserted_rows"], 100_000);
    }
}

#[tokio::test]
async fn headers_have_a_bound() {
    let setup = Setup::two().section("limits: { header_bytes: 16KiB }");
    let world = setup.start().await.seeded();
    let most = world.client().header("x-large", &"x".repeat(8 << 10));
    most.post(EXISTS, &json!({})).await.ok();
    let over = world.client().header("x-large", &"x".repeat(20 << 10));
    let reply = over.post(EXISTS, &json!({})).await;
    assert_eq!(reply.status, 431);
}

/// Sends all but the last byte of a body of this length, `many` times, and keeps the connections open.
async fn unfinished(world: &World, subject: &str, length: usize, many: usize) -> Vec<TcpStream> {
    let bearer = token::token(&json!({ "sub": subject }));
    let head = format!(
        "POST {EXISTS} HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {bearer}\r\ncontent-length: {length}\r\n\r\n"
    );
    let body = [head.as_bytes(), &vec![b' '; length - 1]].concat();
    let mut all = Vec::new();
    for _ in 0..many {
        let mut stream = TcpStream::connect(world.address()).await.unwrap();
        // One that is refused may be closed before all of it is sent.
        let _ = tokio::time::timeout(PATIENCE, stream.write_all(&body))
            .await
            .unwrap();
        all.push(stream);
    }
    all
}

async fn until_limited(world: &World, reason: &str) {
    let limit = format!("nsgate_limited_requests_total{{reason=\"{reason}\"}}");
    let limited = async {
        while world.metric(&limit).await < 1.0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, limited).await.expect(reason);
}

#[tokio::test]
async fn bodies_in_memory_have_a_bound_together_and_a_caller_its_share_of_it() {
    let setup = Setup::two().section("limits: { json_body: 1MiB, json_bodies: 4MiB }");
    let world = setup.start().await.seeded();
    let body = || format!("{{}}{}", " ".repeat(900 << 10));
    let one = unfinished(&world, "one", 1 << 20, 8).await;
    until_limited(&world, "share").await;
    world.client().post_bytes(EXISTS, body()).await.ok();
    let other = unfinished(&world, "other", 1 << 20, 8).await;
    until_limited(&world, "bodies").await;
    drop((one, other));
    let freed = async {
        loop {
            let reply = world.client().post_bytes(EXISTS, body()).await;
            if reply.status == 200 {
                break;
            }
            assert_eq!(reply.outcome(), (503, Some(17)));
            assert!(reply.header("retry-after").is_some());
        }
    };
    tokio::time::timeout(PATIENCE, freed).await.unwrap();
}

/// The gateway changes the names in these answers, so it has to have them whole.
#[tokio::test]
async fn answers_that_nobody_reads_have_the_bound_of_bodies() {
    let setup = Setup::new().rerooted("[team]", "west", "[x, y]");
    let world = setup.section("limits: { json_bodies: 4MiB }").start().await;
    let answer =
        json!({"namespace": ["x", "y"], "name": "t1", "properties": {"a": "x".repeat(900 << 10)}});
    let answer: &'static str = Box::leak(answer.to_string().into_boxed_str());
    let west = world.catalog("west");
    west.fail_always("describe_table", Fault::Instead(200, answer));
    let describe = "/v1/table/team%24t1/describe";
    let bearer = format!("Bearer {}", token::token(&json!({"sub": "one"})));
    let headers = [
        (":method", &b"POST"[..]),
        (":scheme", b"http"),
        (":authority", b"g"),
        (":path", describe.as_bytes()),
        ("authorization", bearer.as_bytes()),
    ];
    // No byte of an answer may be sent.
    let mut requests = greeting(&[(4, 0)]);
    for stream in (1..40).step_by(2) {
        let flags = END_HEADERS | END_STREAM;
        requests.extend(frame(HEADERS, flags, stream, &block(0, &headers)));
    }
    let mut stream = TcpStream::connect(world.address()).await.unwrap();
    stream.write_all(&requests).await.unwrap();
    until_limited(&world, "share").await;
    let other = world.client_with(&json!({"sub": "other"}));
    let read = other.post(describe, &json!({})).await.ok().json();
    assert_eq!(read["namespace"], json!(["team"]));
    drop(stream);
}

/// The pod in `deploy/kubernetes` has 1 GiB.
#[tokio::test]
async fn one_caller_takes_little_of_the_memory_of_the_shipped_pod() {
    let world = Setup::two().start().await.seeded();
    world.client().post(EXISTS, &json!({})).await.ok();
    let before = world.resident();
    let held = unfinished(&world, "one", 8 << 20, 40).await;
    until_limited(&world, "share").await;
    let grown = world.resident().saturating_sub(before);
    println!("{grown} KiB more");
    assert!(grown < 200 << 10, "{grown} KiB");
    drop(held);
}

#[tokio::test]
async fn a_token_has_a_bound_of_its_own() {
    let roles = "x".repeat(20 << 10);
    for (limits, expected) in [("", 401), ("limits: { token_bytes: 40KiB }", 200)] {
        let world = Setup::two().section(limits).start().await.seeded();
        let client = world.client_with(&json!({ "roles": roles }));
        assert_eq!(
            client.post(EXISTS, &json!({})).await.status,
            expected,
            "{limits}"
        );
    }
    let world = Setup::two().start().await.seeded();
    let client = world.client_with(&json!({ "roles": roles }));
    assert_eq!(client.post(EXISTS, &json!({})).await.status, 401);
    let yaml = format!(
        "{}\nlimits: {{ token_bytes: 40KiB }}\n",
        world.configuration()
    );
    world.reload(&yaml).await.ok();
    assert_eq!(client.post(EXISTS, &json!({})).await.status, 200);
}

#[tokio::test]
async fn a_query_has_a_bound_that_needs_no_token() {
    let world = Setup::two().start().await;
    for parameter in ["+&", "%25&", "x&", "&"] {
        let target = format!("/v1/table?{}", parameter.repeat(10_000));
        let refused = world.anonymous().get(&target).await;
        assert_eq!(refused.outcome(), (400, Some(13)), "{parameter}");
        let words = refused.words();
        assert!(words.contains("more than 128 parameters"), "{words}");
    }
}

#[tokio::test]
async fn requests_beyond_the_bound_are_told_to_come_again() {
    let setup = Setup::two().section("limits: { in_flight: 2 }");
    let world = setup.start().await.seeded();
    let gate = world.catalog("west").hold("table_exists");
    let client = world.client();
    let held = tokio::spawn(async move { client.post(EXISTS, &json!({})).await });
    gate.reached(1).await;
    let client = world.client();
    let other = world.catalog("east").hold("table_exists");
    let held_too =
        tokio::spawn(async move { client.post("/v1/table/east%24t1/exists", &json!({})).await });
    other.reached(1).await;
    let refused = world.client().post(EXISTS, &json!({})).await;
    assert_eq!(refused.outcome(), (503, Some(17)));
    assert!(refused.header("retry-after").is_some());
    let counted = r#"nsgate_requests_total{backend="none",code="503",operation="table_exists"}"#;
    assert_eq!(world.metric(counted).await, 1.0, "by its name");
    let limit = r#"nsgate_limited_requests_total{reason="in_flight"}"#;
    assert_eq!(world.metric(limit).await, 1.0);
    for gate in [gate, other] {
        gate.open();
    }
    held.await.unwrap().ok();
    held_too.await.unwrap().ok();
    world.client().post(EXISTS, &json!({})).await.ok();
}

#[tokio::test]
async fn a_caller_that_asks_too_often_is_told_when_to_come_again() {
    let setup = Setup::two().section("limits: { rate: { per_subject: 1/h, burst: 3 } }");
    let world = setup.start().await.seeded();
    for _ in 0..3 {
        world.client().post(EXISTS, &json!({})).await.ok();
    }
    for client in [
        world.client(),
        world.client_with(&json!({"tenant": "acme"})),
    ] {
        let refused = client.post(EXISTS, &json!({})).await;
        assert_eq!(refused.outcome(), (429, Some(21)));
        let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((3000..=3600).contains(&wait), "{wait}");
    }
    let other = world.client_with(&json!({"sub": "somebody else"}));
    other.post(EXISTS, &json!({})).await.ok();
    assert_eq!(world.catalog("west").seen_of("table_exists").len(), 4);
    let counted = r#"nsgate_requests_total{backend="none",code="429",operation="table_exists"}"#;
    assert_eq!(world.metric(counted).await, 2.0);
    let limit = r#"nsgate_limited_requests_total{reason="rate"}"#;
    assert_eq!(world.metric(limit).await, 2.0);
}

#[tokio::test]
async fn a_client_that_dribbles_its_headers_is_cut_off() {
    let setup = Setup::two().section("limits: { header_timeout: 100ms }");
    let world = setup.start().await;
    for begun in [
        "",
        "POST /v1/table",
        "GET /v1/table HTTP/1.1\r\nhost: x\r\nx-a: b\r\n",
    ] {
        let answer = crate::client::raw(world.address(), begun.as_bytes()).await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 408"),
            "{begun:?}: {answer}"
        );
    }
}

/// Opens a connection, sends one request over it and keeps it open; `None` if the gateway refuses
/// it.
async fn kept(address: std::net::SocketAddr) -> Option<TcpStream> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream
            .write_all(b"GET /v1/nothing HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .ok()?;
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.ok()?;
        Some(stream)
    };
    tokio::time::timeout(std::time::Duration::from_millis(500), exchange)
        .await
        .ok()?
}

#[tokio::test]
async fn connections_have_a_bound() {
    let setup = Setup::two().section("limits: { connections: 2 }");
    let world = setup.start().await;
    let address = world.address();
    let (one, two) = (kept(address).await.unwrap(), kept(address).await.unwrap());
    assert!(
        kept(address).await.is_none(),
        "a third connection is not served"
    );
    drop((one, two));
    let freed = async {
        while kept(address).await.is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, freed).await.unwrap();
}

#[tokio::test]
async fn the_table_of_open_files_never_grows_while_clients_connect() {
    let world = Setup::two().start().await;
    let [room, limit] = world.open_files();
    assert!(room >= limit.min(1 << 16), "{room} of {limit}");
}
