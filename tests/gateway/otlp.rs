//! Spans as a collector receives them: one tree for each request, in the protocol's terms, without secrets.

mod collector;

use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::{Value, json};

use crate::batches::{BATCH, pair, until};
use crate::catalog::faults::{Fault, PATIENCE};
use crate::harness::{Setup, World};
use crate::token;
use collector::{Collector, Kept, Mood};

const EXISTS: &str = "/v1/table/west%24t1/exists";
const RESTORE: &str = "/v1/table/west%24t1/restore";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

async fn world(collector: &Collector) -> World {
    let section = format!("telemetry: {{ otlp: \"{}\" }}", collector.uri());
    Setup::two().section(&section).start().await.seeded()
}

/// Waits for the spans of the request with this id: its server span and `below` spans below it.
async fn tree(collector: &Collector, id: &str, below: usize) -> (Kept, Vec<Kept>) {
    let mut found = None;
    until("the spans of a request arrive", || {
        let all = collector.spans();
        let server = all
            .iter()
            .find(|span| span.fact("nsgate.request_id") == Some(&json!(id)));
        let Some(server) = server.cloned() else {
            return false;
        };
        let children = all
            .into_iter()
            .filter(|span| span.span.parent_span_id == server.span.span_id);
        let children: Vec<Kept> = children.collect();
        let whole = children.len() >= below;
        found = Some((server, children));
        whole
    })
    .await;
    found.unwrap()
}

#[tokio::test]
async fn a_request_is_a_server_span_with_a_client_span_for_each_try() {
    let collector = Collector::start().await;
    let world = world(&collector).await;
    let west = world.catalog("west");
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let client = world.client().header("x-request-id", "one");
    let client = client.header("traceparent", &parent);
    client.post(EXISTS, &json!({})).await.ok();

    let (server, children) = tree(&collector, "one", 1).await;
    assert_eq!(server.hex_trace(), TRACE);
    assert_eq!(
        server.span.parent_span_id,
        [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]
    );
    assert_eq!(server.span.kind(), SpanKind::Server);
    assert_eq!(
        server.span.flags, 0x301,
        "sampled, and the parent is remote"
    );
    assert_eq!(server.span.name, "POST /v1/table/{id}/exists");
    assert_eq!(server.service, "nsgate");
    for (key, value) in [
        ("http.request.method", json!("POST")),
        ("http.route", json!("/v1/table/{id}/exists")),
        ("http.response.status_code", json!(200)),
        ("client.address", json!("127.0.0.1")),
        ("network.protocol.version", json!("1.1")),
        ("nsgate.operation", json!("table_exists")),
        ("nsgate.mount", json!("west")),
        ("nsgate.backend", json!("west")),
    ] {
        assert_eq!(server.fact(key), Some(&value), "{key}");
    }
    assert!(server.span.status.is_none());
    let [child] = &children[..] else {
        panic!("{children:?}");
    };
    assert_eq!(child.span.kind(), SpanKind::Client);
    assert_eq!(child.hex_trace(), TRACE);
    assert_eq!(child.span.flags, 0x101);
    assert_eq!(child.fact("server.address"), Some(&json!("127.0.0.1")));
    assert_eq!(child.fact("server.port"), Some(&json!(west.address.port())));
    assert_eq!(child.fact("http.response.status_code"), Some(&json!(200)));
    assert_eq!(child.fact("http.request.resend_count"), None);
    let within = |outer: &Kept, inner: &Kept| {
        outer.span.start_time_unix_nano <= inner.span.start_time_unix_nano + 1_000_000
            && inner.span.start_time_unix_nano <= inner.span.end_time_unix_nano
            && inner.span.end_time_unix_nano <= outer.span.end_time_unix_nano + 1_000_000
    };
    assert!(within(&server, child), "{server:?} {child:?}");
    let seen = west.only();
    let expected = format!("00-{TRACE}-{}-01", child.hex_span());
    assert_eq!(
        seen.header("traceparent"),
        Some(&*expected),
        "the try is the catalog's parent"
    );
}

#[tokio::test]
async fn tries_are_told_apart_and_failures_are_failures() {
    let collector = Collector::start().await;
    let world = world(&collector).await;
    let west = world.catalog("west");
    // The test uses one client connection, because each worker keeps its own connections to a catalog.
    let client = world.client();
    let ask = |id: &str| client.header("x-request-id", id);

    // A retry is free over a connection that was used before.
    ask("first").post(EXISTS, &json!({})).await.ok();
    west.forget();
    west.fail("table_exists", Fault::ResetBefore);
    ask("again").post(EXISTS, &json!({})).await.ok();
    let (server, mut tries) = tree(&collector, "again", 2).await;
    assert!(server.span.status.is_none());
    tries.sort_by_key(|span| span.span.start_time_unix_nano);
    let [first, second] = &tries[..] else {
        panic!("{tries:?}");
    };
    assert!(first.failed() && !second.failed());
    assert_eq!(first.fact("error.type"), Some(&json!("lost")));
    assert_eq!(second.fact("http.request.resend_count"), Some(&json!(1)));
    let parents: Vec<String> = west
        .seen()
        .iter()
        .map(|seen| seen.header("traceparent").unwrap()[36..52].to_owned())
        .collect();
    assert_eq!(parents, [first.hex_span(), second.hex_span()]);

    west.fail("restore_table", Fault::ResetBefore);
    assert_eq!(ask("lost").post(RESTORE, &json!({})).await.status, 503);
    let (server, tries) = tree(&collector, "lost", 1).await;
    assert!(server.failed() && tries[0].failed());
    assert_eq!(server.fact("nsgate.code"), Some(&json!(17)));
    assert_eq!(server.fact("error.type"), Some(&json!("503")));

    west.fail(
        "restore_table",
        Fault::Instead(404, r#"{"error":"no","code":11}"#),
    );
    assert_eq!(ask("theirs").post(RESTORE, &json!({})).await.status, 404);
    let (server, tries) = tree(&collector, "theirs", 1).await;
    assert!(!server.failed(), "a server that says no does its work");
    assert!(tries[0].failed(), "who asks has failed");
    assert_eq!(tries[0].fact("error.type"), Some(&json!("404")));

    let unknown = ask("unknown").get("/nothing").await;
    assert_eq!(unknown.status, 404);
    let (server, _) = tree(&collector, "unknown", 0).await;
    assert_eq!(
        (&*server.span.name, server.fact("http.route")),
        ("GET", None)
    );
}

#[tokio::test]
async fn a_batch_is_one_tree_over_its_catalogs_and_phases() {
    let collector = Collector::start().await;
    let world = world(&collector).await;
    let client = world.client().header("x-request-id", "batch");
    client.post(BATCH, &pair(&world, 2)).await.ok();
    let wanted = |children: &[Kept], what: &str| {
        let all = children.iter();
        all.filter(|child| child.span.name.contains(what)).count()
    };
    let (_, children) = {
        let mut known = 1;
        loop {
            let (server, children) = tree(&collector, "batch", known).await;
            if wanted(&children, "batch decide") > 0 && wanted(&children, "version/create") == 2 {
                break (server, children);
            }
            known = children.len() + 1;
        }
    };
    for name in ["west", "east"] {
        let of = children
            .iter()
            .filter(|c| c.fact("nsgate.backend") == Some(&json!(name)));
        let create = |c: &&Kept| c.fact("nsgate.operation") == Some(&json!("create_table_version"));
        let creates: Vec<_> = of.filter(create).collect();
        let [create] = creates[..] else {
            panic!("{children:?}");
        };
        let seen = world.catalog(name).seen_of("create_table_version");
        let parent = seen[0].header("traceparent").unwrap();
        assert_eq!(parent[36..52], create.hex_span());
        assert_eq!(seen[0].header("x-request-id"), Some("batch"));
    }
    for phase in ["lock", "validate", "decide"] {
        assert_eq!(
            wanted(&children, &format!("batch {phase}")),
            1,
            "{phase}: {children:?}"
        );
    }
}

#[tokio::test]
async fn what_is_not_sampled_is_not_told_and_what_is_secret_never() {
    let collector = Collector::start().await;
    let world = world(&collector).await;
    let bearer = token::token(&json!({"sub": "secret-subject", "tenant": "secret-tenant"}));
    let client = world
        .anonymous()
        .header("authorization", &format!("Bearer {bearer}"));
    let client = client.header("x-ns-ctx-team", "secret-context");
    let body = json!({"note": "secret-body"});
    let unsampled = format!("00-{TRACE}-00f067aa0ba902b7-00");
    let quiet = client.header("traceparent", &unsampled);
    quiet.post(EXISTS, &body).await.ok();
    assert_eq!(
        &world.catalog("west").only().header("traceparent").unwrap()[53..],
        "00"
    );
    client
        .header("x-request-id", "told")
        .post(EXISTS, &body)
        .await
        .ok();
    client
        .header("x-request-id", "path")
        .post("/v1/table/west%24secret-table/exists", &body)
        .await;
    tree(&collector, "told", 1).await;
    tree(&collector, "path", 1).await;
    let all = collector.spans();
    assert!(all.iter().all(|span| span.hex_trace() != TRACE), "{all:?}");
    for secret in ["secret-", "service-of-", "Bearer", &bearer] {
        assert!(!collector.contains(secret), "`{secret}` was sent");
    }
}

#[tokio::test]
async fn a_collector_that_is_hung_or_gone_costs_spans_and_no_request() {
    let collector = Collector::start().await;
    for mood in [Mood::Hung, Mood::Gone, Mood::Refusing] {
        collector.feel(mood);
        let mut world = world(&collector).await;
        for _ in 0..50 {
            world.client().post(EXISTS, &json!({})).await.ok();
        }
        if matches!(mood, Mood::Refusing) {
            until("the loss is told", || {
                let log = world.log();
                let told = log
                    .lines()
                    .find(|line| line.contains("spans did not reach"));
                told.is_some_and(|line| {
                    let line: Value = serde_json::from_str(line).unwrap();
                    line["lost"].as_u64().unwrap() > 0
                        && line["cause"].as_str().unwrap().contains("400")
                })
            })
            .await;
        }
        world.terminate();
        let ended =
            tokio::time::timeout(Duration::from_secs(10).min(PATIENCE), world.ended()).await;
        assert_eq!(
            ended.expect("the end waits for no collector"),
            Some(0),
            "{mood:?}"
        );
    }
}

/// The spans that are lost in the minute after a report must be reported, too.
#[tokio::test]
async fn every_span_that_was_lost_is_told_of_by_the_end() {
    let collector = Collector::start().await;
    collector.feel(Mood::Refusing);
    let mut world = world(&collector).await;
    let lost = |log: &str| -> u64 {
        let told = log
            .lines()
            .filter(|line| line.contains("spans did not reach"));
        let told = told.map(|line| serde_json::from_str::<Value>(line).unwrap());
        told.map(|line| line["lost"].as_u64().unwrap()).sum()
    };
    for round in 0..2 {
        for _ in 0..3 {
            world.client().post(EXISTS, &json!({})).await.ok();
        }
        if round == 0 {
            until("a loss is told", || lost(&world.log()) > 0).await;
        }
    }
    world.terminate();
    assert_eq!(world.ended().await, Some(0));
    // Each request has two spans: the gateway's own and that of the request to the catalog.
    until("all of it is told", || lost(&world.log()) == 2 * 6).await;
}

#[tokio::test]
async fn the_last_spans_are_sent_at_the_end() {
    let collector = Collector::start().await;
    let mut world = world(&collector).await;
    let client = world.client().header("x-request-id", "last");
    client.post(EXISTS, &json!({})).await.ok();
    world.terminate();
    assert_eq!(world.ended().await, Some(0));
    let all = collector.spans();
    let last = |span: &Kept| span.fact("nsgate.request_id") == Some(&json!("last"));
    assert!(all.iter().any(last), "{all:?}");
}
