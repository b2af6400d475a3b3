//! The breaker of a catalog's last address: what one caller can bring about never closes the catalog to all.

use std::time::Duration;

use serde_json::json;

use super::{READ, assert_unavailable, fail_twice};
use crate::catalog::faults::{Fault, Gate};
use crate::client::Client;
use crate::harness::{Setup, World};

const OPEN: &str = "nsgate_backend_breaker_open{backend=\"west\"}";

async fn decisions(world: &World, decision: &str) -> i64 {
    let series = format!(
        "nsgate_backend_breaker_decisions_total{{backend=\"west\",decision=\"{decision}\"}}"
    );
    world.metric(&series).await as i64
}

fn caller(world: &World, subject: &str) -> Client {
    world.client_with(&json!({ "sub": subject }))
}

#[tokio::test]
async fn a_slow_table_of_one_caller_closes_the_catalog_to_nobody() {
    let world = Setup::two()
        .section("limits: { response_timeout: 1s }")
        .backend("west", "breaker: { failures: 5, open_for: 1h }")
        .start()
        .await
        .seeded();
    let gate = Gate::new();
    let west = world.catalog("west");
    west.fail_always("restore_table", Fault::HoldBefore(gate.clone()));
    let ann = caller(&world, "ann");
    for _ in 0..2 {
        let slow = (0..6).map(|_| async {
            let body = json!({});
            ann.post("/v1/table/west%24slow/restore", &body).await
        });
        for reply in futures_util::future::join_all(slow).await {
            assert_unavailable(&world, &reply, "slow");
        }
        assert_eq!(world.metric(OPEN).await as i64, 0);
    }
    // The fifth and each of the next seven.
    assert_eq!(decisions(&world, "spared").await, 8);
    assert_eq!(decisions(&world, "refused").await, 0);
    caller(&world, "bob").post(READ, &json!({})).await.ok();
    ann.post(READ, &json!({})).await.ok();
    let told = "the circuit breaker of the last address stays closed";
    assert_eq!(world.log().matches(told).count(), 1, "{}", world.log());
    gate.open();
}

/// Starts a world in which the breaker of `west` has opened, for an hour.
async fn opened() -> World {
    let world = Setup::two()
        .backend("west", "breaker: { failures: 2, open_for: 1h }")
        .backend("west", "health: { interval: 10ms }")
        .start()
        .await
        .seeded();
    // The gateway's own question may pass an open breaker.
    crate::online::shown(&world, "west", &json!("yes")).await;
    fail_twice(&world).await;
    world
}

#[tokio::test]
async fn a_breaker_that_opened_for_all_lets_a_share_through_and_closes_when_the_catalog_answers() {
    let world = opened().await;
    assert_eq!(world.metric(OPEN).await as i64, 1);
    let client = world.client();
    for _ in 0..9 {
        let reply = client.post(READ, &json!({})).await;
        assert_unavailable(&world, &reply, "open");
        assert!(reply.header("retry-after").is_some(), "{reply:?}");
    }
    client.post(READ, &json!({})).await.ok();
    assert_eq!(world.metric(OPEN).await as i64, 0);
    assert_eq!(decisions(&world, "refused").await, 9);
    assert_eq!(decisions(&world, "let_through").await, 1);
    client.post(READ, &json!({})).await.ok();
}

#[tokio::test]
async fn a_catalog_that_is_down_gets_at_most_ten_requests_in_a_second() {
    let world = opened().await;
    let west = world.catalog("west");
    west.fail_always("table_exists", Fault::ResetBefore);
    let began = std::time::Instant::now();
    let client = world.client();
    for _ in 0..1_000 {
        let reply = client.post(READ, &json!({})).await;
        assert_unavailable(&world, &reply, "down");
    }
    // Reads of the share are not retried, because the breaker holds back the second attempt.
    let most = 1 + began.elapsed().as_millis() / Duration::from_millis(100).as_millis();
    let sent = west.seen_of("table_exists").len() as u128;
    assert!((1..=most).contains(&sent), "{sent} of {most}");
    assert_eq!(world.metric(OPEN).await as i64, 1);
}
