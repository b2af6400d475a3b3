//! Failing catalogs: answers name the catalog but not its address; no request that could act twice is repeated.

mod breaker;
mod bulkhead;
mod endpoints;
mod numbers;
mod one_of_three;

use http::Method;
use serde_json::json;

use crate::catalog::Catalog;
use crate::catalog::faults::{BROKEN, Fault, GARBAGE, Gate};
use crate::client::{Reply, full};
use crate::harness::{Setup, World};

const READ: &str = "/v1/table/west%24t1/exists";
const WRITE: &str = "/v1/table/west%24t1/restore";

fn assert_unavailable(world: &World, reply: &Reply, case: &str) {
    assert_eq!(reply.outcome(), (503, Some(17)), "{case}: {reply:?}");
    let text = reply.json().to_string();
    assert!(text.contains("west"), "{case}: {text}");
    let port = world.catalog("west").address.port().to_string();
    assert!(!text.contains(&port), "{case}: {text}");
}

/// Makes two requests to west fail, of two callers for two tables.
pub async fn fail_twice(world: &World) {
    let west = world.catalog("west");
    west.fail_always("restore_table", Fault::ResetBefore);
    for (caller, table) in [("ann", "t1"), ("bob", "t2")] {
        let client = world.client_with(&json!({ "sub": caller }));
        let target = format!("/v1/table/west%24{table}/restore");
        assert_eq!(client.post(&target, &json!({})).await.status, 503);
    }
}

#[tokio::test]
async fn a_catalog_that_is_down_is_named_and_missed_no_longer_than_it_is() {
    let world = World::two().await;
    world.catalog("west").stop().await;
    for target in [READ, WRITE] {
        let reply = world.client().post(target, &json!({})).await;
        assert_unavailable(&world, &reply, target);
        world
            .client()
            .post(&target.replace("west", "east"), &json!({}))
            .await
            .ok();
    }
    world.catalog("west").resume();
    for target in [READ, WRITE] {
        world.client().post(target, &json!({})).await.ok();
    }
}

#[tokio::test]
async fn a_write_is_sent_once_and_its_failure_is_told() {
    let world = World::two().await;
    let catalog = world.catalog("west");
    for (fault, status) in [
        (Fault::ResetBefore, 503),
        (Fault::ResetAfter, 503),
        (Fault::Instead(500, BROKEN), 500),
        (Fault::Instead(503, BROKEN), 503),
    ] {
        catalog.forget();
        catalog.fail("restore_table", fault.clone());
        let reply = world.client().post(WRITE, &json!({})).await;
        assert_eq!(reply.status, status, "{fault:?}");
        assert_eq!(catalog.seen_of("restore_table").len(), 1, "{fault:?}");
        if matches!(fault, Fault::ResetBefore | Fault::ResetAfter) {
            assert_unavailable(&world, &reply, "reset");
        }
    }
}

#[tokio::test]
async fn a_catalogs_own_answer_passes_as_it_is() {
    let world = World::two().await;
    for (status, body) in [
        (500, BROKEN),
        (503, r#"{"error":"too busy"}"#),
        (409, r#"{ "code" : 14, "error":"taken"}"#),
        (429, ""),
        (418, GARBAGE),
        (200, GARBAGE),
        (207, "[1.50, 2]"),
    ] {
        world
            .catalog("west")
            .fail("restore_table", Fault::Instead(status, body));
        let reply = world.client().post(WRITE, &json!({})).await;
        assert_eq!(
            (reply.status, reply.body.as_ref()),
            (status, body.as_bytes())
        );
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_does_not_look_complete() {
    let world = World::two().await;
    world.catalog("west").can(
        "query_table",
        200,
        "application/vnd.apache.arrow.file",
        &[1; 10_000],
    );
    world
        .catalog("west")
        .fail_always("query_table", Fault::HalfAnswer);
    let client = world.client().header("content-type", "application/json");
    let reply = client
        .send(Method::POST, "/v1/table/west%24t1/query", full("{}"))
        .await;
    let told = reply.as_ref().is_ok_and(|reply| reply.status == 503);
    assert!(reply.is_err() || told, "{reply:?}");
}

#[tokio::test]
async fn a_catalog_that_does_not_answer_in_time_is_given_up() {
    let limits = "limits: { response_timeout: 150ms, data_timeout: 300ms }";
    let world = Setup::two().section(limits).start().await.seeded();
    for (operation, target) in [
        ("restore_table", WRITE),
        ("count_table_rows", "/v1/table/west%24t1/count_rows"),
    ] {
        let gate = Gate::new();
        world
            .catalog("west")
            .fail_always(operation, Fault::HoldBefore(gate.clone()));
        let reply = world.client().post(target, &json!({})).await;
        assert_unavailable(&world, &reply, operation);
        gate.open();
    }
}

#[tokio::test]
async fn endpoints_are_tried_in_turn_when_one_refuses() {
    let (down, up) = (Catalog::start().await, Catalog::start().await);
    up.store().seed(&["west", "t1"], 1);
    down.stop().await;
    let setup = Setup::new().mount("[west]", "west");
    let setup = setup.backend("west", &format!("endpoints: [\"{}\"]", up.uri()));
    let world = setup.over(vec![("west", down)]).await;
    for target in [READ, WRITE, READ] {
        world.client().post(target, &json!({})).await.ok();
    }
    assert_eq!(up.seen_of("restore_table").len(), 1);
}
