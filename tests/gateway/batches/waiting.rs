//! Requests that wait for a locked table take no resources that requests for other tables need.

use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde_json::json;
use tokio::task::JoinHandle;

use super::{BATCH, pair, start};
use crate::catalog::faults::{Fault, Gate};
use crate::client::{Client, Reply};
use crate::harness::{Setup, World};

/// The time without a further refusal after which the refusals are taken to be complete.
const SOON: Duration = Duration::from_millis(20);

/// Starts a batch that locks `west$t1` until the gate opens; its client stays connected.
async fn locked(world: &World) -> (Gate, JoinHandle<Reply>) {
    let gate = Gate::new();
    let east = world.catalog("east");
    east.fail("create_table_version", Fault::HoldBefore(gate.clone()));
    let batch = start(world.client(), pair(world, 2));
    gate.reached(1).await;
    (gate, batch)
}

/// Counts the requests that are refused until no more are, and checks the number.
async fn refused(
    asked: &mut FuturesUnordered<impl Future<Output = Reply>>,
    expected: std::ops::RangeInclusive<usize>,
) {
    let mut refused = 0;
    while refused < *expected.start() {
        let reply = tokio::time::timeout(crate::PATIENCE, asked.next()).await;
        let reply = reply
            .unwrap_or_else(|_| panic!("only {refused} are refused"))
            .unwrap();
        assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
        assert!(reply.header("retry-after").is_some(), "{reply:?}");
        refused += 1;
    }
    while let Ok(Some(reply)) = tokio::time::timeout(SOON, asked.next()).await {
        assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
        refused += 1;
    }
    assert!(expected.contains(&refused), "{refused}");
}

fn setup(settings: &str) -> Setup {
    let settings = format!("lock_timeout: 60s, prepare_timeout: 120s, {settings}");
    let section = format!("batch: {{ log: batches.redb, {settings} }}");
    Setup::two().section(&section)
}

#[tokio::test]
async fn writes_that_wait_for_a_table_leave_places_to_the_others() {
    let world = setup("").section("limits: { in_flight: 64 }");
    let world = world.start().await.seeded();
    let (gate, batch) = locked(&world).await;
    let client = world.client();
    let restore = async || client.post("/v1/table/west%24t1/restore", &json!({})).await;
    let mut asked: FuturesUnordered<_> = (0..100).map(|_| restore()).collect();
    // Half of the places are for waiting requests, minus the one that the batch occupies.
    refused(&mut asked, 62..=74).await;
    for _ in 0..50 {
        let describe = "/v1/table/east%24t1/describe";
        world.client().post(describe, &json!({})).await.ok();
    }
    gate.open();
    batch.await.unwrap().ok();
    while let Some(reply) = asked.next().await {
        reply.ok();
    }
}

/// Makes a batch of versions of `west$t1` that differs from all others. It is text, because there are many entries.
/// Every second batch is in one catalog only.
fn of_t1(number: usize, entries: u64) -> String {
    let mut all = Vec::new();
    for version in 2..2 + entries {
        all.push(format!(
            r#"{{"id":["west","t1"],"version":{version},"manifest_path":"{number}"}}"#
        ));
    }
    if number.is_multiple_of(2) {
        all.pop();
        all.push(format!(
            r#"{{"id":["east","e{number}"],"version":2,"manifest_path":"e"}}"#
        ));
    }
    format!(r#"{{"entries":[{}]}}"#, all.join(","))
}

async fn send(client: Client, batch: String) -> Reply {
    client.post_bytes(BATCH, batch).await
}

async fn others_go_on(world: &World) {
    let entries = ["west", "east"].map(|name| {
        let mut store = world.catalog(name).store();
        store.seed(&[name, "other"], 1);
        store.stage("other-2", "other 2");
        json!({"id": [name, "other"], "version": 2, "manifest_path": "other-2", "manifest_size": 7})
    });
    world
        .client()
        .post(BATCH, &json!({ "entries": entries }))
        .await
        .ok();
}

/// Sends so many batches of so many entries while their table is locked. Checks that `refusals` of them are refused,
/// that other batches go on meanwhile, and that the waiting ones have their turn in the end.
async fn crowd(settings: &str, batches: usize, entries: u64, refusals: usize) {
    let world = setup(settings).start().await.seeded();
    let (gate, batch) = locked(&world).await;
    let batches = (0..batches).map(|number| send(world.client(), of_t1(number, entries)));
    let mut asked: FuturesUnordered<_> = batches.collect();
    refused(&mut asked, refusals..=refusals).await;
    others_go_on(&world).await;
    gate.open();
    batch.await.unwrap().ok();
    while let Some(reply) = asked.next().await {
        assert!([404, 409].contains(&reply.status), "{reply:?}");
    }
}

#[tokio::test]
async fn batches_that_wait_for_a_table_are_few() {
    crowd("", 70, 2, 6).await;
}

/// The batches that wait have a limit of their own, of which one caller has half. Without it they would use up all the
/// entries that batches may have.
#[tokio::test]
async fn large_batches_that_wait_for_a_table_have_a_room_of_their_own() {
    crowd("max_entries: 5000", 21, 5000, 19).await;
}

/// A slow query holds its table. A batch waits for the query, and reads continue meanwhile.
#[tokio::test]
async fn reads_go_on_while_a_batch_waits_for_a_long_query() {
    let world = Setup::two().start().await.seeded();
    let gate = world.catalog("west").hold("query_table");
    let client = world.client();
    let query = tokio::spawn(async move {
        let query = "/v1/table/west%24t1/query";
        client.post(query, &json!({})).await
    });
    gate.reached(1).await;
    let batch = start(world.client(), pair(&world, 2));
    // This is longer than reads wait for a lock, and shorter than the batch lets reads pass.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        for table in ["west", "east"] {
            let count = format!("/v1/table/{table}%24t1/count_rows");
            let counted = world.client().post(&count, &json!({})).await;
            assert_eq!(counted.ok().json(), 1);
        }
    }
    gate.open();
    query.await.unwrap().ok();
    batch.await.unwrap().ok();
    let count = "/v1/table/west%24t1/count_rows";
    assert_eq!(world.client().post(count, &json!({})).await.ok().json(), 2);
}
