//! The operations that are retried on another address, through the whole gateway: those that change nothing, whatever
//! their method, and no other.

use std::time::Duration;

use http::Method;
use nsgate::protocol::operation::{Access, Operation};
use serde_json::json;

use crate::catalog::Catalog;
use crate::catalog::faults::{Fault, PATIENCE};
use crate::catalog::operations::{OPERATIONS, Sends};
use crate::client::{empty, full};
use crate::harness::Setup;

/// The operations that the gateway executes itself, or sends to several catalogs.
const OWN: [&str; 6] = [
    "batch_create_table_versions",
    "batch_commit_tables",
    "describe_transaction",
    "alter_transaction",
    "rename_table",
    // A listing is sent first, to get the names of its tables.
    "list_all_tables",
];

#[tokio::test]
async fn every_operation_that_reads_is_tried_again_and_no_other() {
    let (first, second) = (Catalog::start().await, Catalog::start().await);
    let setup = Setup::new().mount("[west]", "west");
    let setup = setup
        .backend("west", &format!("endpoints: [\"{}\"]", second.uri()))
        .backend("west", "retry: { attempts: 3, budget: 100% }");
    let world = setup.over(vec![("west", first)]).await;
    let both = [world.catalog("west"), &second];
    // Answered requests fill the retry budget.
    for _ in 0..60 {
        let exists = "/v1/namespace/west/exists";
        world.client().post(exists, &json!({})).await;
    }
    for catalog in both {
        catalog.forget();
    }
    let mut wrong = Vec::new();
    for (name, method, path, sends, _) in OPERATIONS {
        if OWN.contains(&name) {
            continue;
        }
        let listed = Operation::LISTED.iter().find(|known| known.name() == name);
        let reads = listed.unwrap().access() == Access::Read;
        for catalog in both {
            catalog.store().seed(&["west", "t1"], 1);
            catalog.can(name, 200, "application/json", ANSWER);
            catalog.behave();
            catalog.fail(name, Fault::ResetBefore);
        }
        let id = if path.contains("namespace") {
            "west"
        } else {
            "west%24t1"
        };
        let target = path.replace("{id}", id).replace("{index_name}", "i");
        let (kind, body) = match sends {
            Sends::Json => ("application/json", full(body(name))),
            Sends::Arrow => ("application/vnd.apache.arrow.stream", full("rows")),
            _ => ("application/octet-stream", empty()),
        };
        let client = world.client().header("content-type", kind);
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let reply = client.send(method, &target, body).await.unwrap();
        let sent: usize = both.iter().map(|catalog| catalog.seen_of(name).len()).sum();
        if (reply.status, sent) != if reads { (200, 3) } else { (503, 1) } {
            wrong.push(format!("{name}: {sent} sent, {reply:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// An answer that fits every operation.
const ANSWER: &[u8] = br#"{"versions":[{"version":1}],"tables":[],"version":{"version":1}}"#;

/// A request body that the gateway accepts for this operation.
fn body(operation: &str) -> &'static str {
    match operation {
        "describe_table_version" => r#"{"version":1}"#,
        "update_table" => r#"{"updates":[["a","1"]]}"#,
        _ => "{}",
    }
}

#[tokio::test]
async fn a_breaker_that_is_open_answers_at_once_and_says_when_to_come_again() {
    let setup = Setup::two().backend("west", "breaker: { failures: 2, open_for: 30s }");
    let world = setup.start().await.seeded();
    let west = world.catalog("west");
    west.fail_always("restore_table", Fault::ResetBefore);
    let client = world.client();
    let write = async || client.post("/v1/table/west%24t1/restore", &json!({})).await;
    super::fail_twice(&world).await;
    let reply = write().await;
    super::assert_unavailable(&world, &reply, "open");
    for _ in 0..8 {
        assert_eq!(write().await.status, 503);
    }
    let again: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&again), "{again}");
    assert_eq!(west.seen_of("restore_table").len(), 2);
    let up = "nsgate_backend_up{backend=\"west\"}";
    assert!(world.metric(up).await.abs() < f64::EPSILON);
    let page = world.admin().get("/backends").await.ok().json();
    let shown = page["backends"].as_array().unwrap();
    let west = shown.iter().find(|shown| shown["name"] == "west").unwrap();
    assert_eq!(
        (&west["up"], &west["endpoints"][0]["breaker"]),
        (&json!(false), &json!("open"))
    );
    let east = client.post("/v1/table/east%24t1/restore", &json!({})).await;
    east.ok();
    // The log has the opening, and the requests whose failures led to it; not each of those that were refused.
    crate::batches::until("the log has the last request", || {
        world.log().contains("east$t1")
    })
    .await;
    let log = world.log();
    let warnings = log.lines().filter(|line| line.contains("\"WARN\""));
    let about: Vec<_> = warnings.filter(|line| line.contains("west")).collect();
    assert_eq!(about.len(), 3, "{about:#?}");
}

/// An operator who is alerted because a catalog is down must find that it is.
#[tokio::test]
async fn a_catalog_that_is_well_again_is_not_called_down_because_nobody_asks_it() {
    let setup = Setup::two()
        .backend("west", "breaker: { failures: 2, open_for: 10ms }")
        .backend("west", "health: { interval: 10ms }");
    let world = setup.start().await.seeded();
    let west = world.catalog("west");
    // The gateway itself has no more questions to the catalog.
    crate::online::shown(&world, "west", &json!("yes")).await;
    super::fail_twice(&world).await;
    west.behave();
    let write = async || {
        west.fail("restore_table", Fault::ResetBefore);
        let client = world.client();
        let reply = client.post("/v1/table/west%24t1/restore", &json!({})).await;
        assert_eq!(reply.status, 503);
    };
    let closed = async |times: usize| {
        while world.log().matches("circuit breaker closed").count() < times {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let up = world.metric("nsgate_backend_up{backend=\"west\"}");
        let open = world.metric("nsgate_backend_breaker_open{backend=\"west\"}");
        assert_eq!((up.await as i64, open.await as i64), (1, 0));
    };
    let again = tokio::time::timeout(PATIENCE, closed(1));
    assert!(again.await.is_ok(), "{}", world.log());
    // The catalog has not shown yet that it answers requests again, so one failure is enough now.
    write().await;
    let again = tokio::time::timeout(PATIENCE, closed(2));
    assert!(again.await.is_ok(), "{}", world.log());
    assert_eq!(west.seen_of("restore_table").len(), 3);
}

/// Requests for a table that the catalog cannot serve must not make its other tables unavailable.
#[tokio::test]
async fn refusals_and_errors_that_a_caller_can_cause_open_nothing() {
    let setup = Setup::two().backend("west", "breaker: { failures: 2, open_for: 1h }");
    let world = setup.start().await.seeded();
    for status in [400, 404, 406, 409, 429, 500, 501, 503] {
        world.catalog("west").behave();
        world
            .catalog("west")
            .fail_always("restore_table", Fault::Instead(status, "{}"));
        for _ in 0..5 {
            let reply = world
                .client()
                .post("/v1/table/west%24t1/restore", &json!({}))
                .await;
            assert_eq!(reply.status, status);
        }
    }
    world
        .client()
        .post("/v1/table/west%24t1/exists", &json!({}))
        .await
        .ok();
}
