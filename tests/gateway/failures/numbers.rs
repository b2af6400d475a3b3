//! The metrics of a catalog count exactly the requests that were sent to it.

use serde_json::json;

use super::{READ, WRITE};
use crate::catalog::faults::{Fault, PATIENCE};
use crate::harness::{Setup, World};

/// The counted requests of an operation to the catalog, and the counted retries.
async fn counted(world: &World, operation: &str) -> (usize, usize) {
    let asked = format!(
        "nsgate_upstream_duration_seconds_count{{backend=\"west\",operation=\"{operation}\"}}"
    );
    let again = "nsgate_backend_retries_total{backend=\"west\"}";
    let (asked, again) = (world.metric(&asked).await, world.metric(again).await);
    (asked as usize, again as usize)
}

#[tokio::test]
async fn what_was_not_sent_is_neither_a_request_nor_a_further_try() {
    let setup = Setup::two()
        .backend("west", "retry: { attempts: 2 }")
        .backend("west", "breaker: { failures: 2, open_for: 1h }");
    let world = setup.start().await.seeded();
    let west = world.catalog("west");
    west.fail("table_exists", Fault::Instead(502, ""));
    assert_eq!(world.client().post(READ, &json!({})).await.status, 200);
    assert_eq!(west.seen_of("table_exists").len(), 2);
    assert_eq!(counted(&world, "table_exists").await, (1, 1));

    // After one more failure, the next one opens the breaker. Without that, the read would have
    // been retried.
    west.fail("restore_table", Fault::Instead(502, ""));
    let another = world.client_with(&json!({ "sub": "another" }));
    let write = another.post(&WRITE.replace("t1", "t2"), &json!({})).await;
    assert_eq!(write.status, 502);
    west.fail("table_exists", Fault::Instead(502, ""));
    assert_eq!(world.client().post(READ, &json!({})).await.status, 502);
    assert_eq!(west.seen_of("table_exists").len(), 3);
    assert_eq!(counted(&world, "table_exists").await, (2, 1));

    for _ in 0..3 {
        assert_eq!(world.client().post(READ, &json!({})).await.status, 503);
    }
    assert_eq!(west.seen_of("table_exists").len(), 3);
    assert_eq!(counted(&world, "table_exists").await, (2, 1));
}

#[tokio::test]
async fn a_catalog_that_a_caller_does_not_wait_for_any_longer_was_waited_for() {
    let world = World::two().await;
    let gate = world.catalog("west").hold("table_exists");
    let client = world.client();
    let leaving = tokio::spawn(async move { client.post(READ, &json!({})).await });
    gate.reached(1).await;
    leaving.abort();
    let _ = leaving.await;
    let left = "nsgate_requests_total{backend=\"west\",code=\"499\",operation=\"table_exists\"}";
    let over = async {
        while world.metric(left).await < 1.0 {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, over).await;
    assert!(waited.is_ok(), "{}", world.log());
    gate.open();
    assert_eq!(counted(&world, "table_exists").await, (1, 0));
}
