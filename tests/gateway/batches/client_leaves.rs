//! A client that disconnects does not release the lock of its request: it lasts until the catalog answers.

use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{BATCH, assert_both, pair, settled, stage, stored, until, visible, world};
use crate::catalog::BatchCreate;
use crate::catalog::faults::{Fault, Gate};
use crate::client::{Client, Reply, full};
use crate::harness::{Setup, World};

const WEST: &str = "/v1/table/west%24t1";
/// The lock timeout of batches that wait in vain.
const IMPATIENT: &str = "lock_timeout: 1s";

/// Ends the only client while its request is at the gate, and waits until the gateway has noticed.
async fn leaves(world: &World, asking: JoinHandle<Reply>, gate: &Gate) {
    gate.reached(1).await;
    asking.abort();
    let _ = asking.await;
    gone(world).await;
}

async fn gone(world: &World) {
    let closed = async {
        while world.metric("nsgate_connections").await > 0.0 {
            tokio::task::yield_now().await;
        }
    };
    let closed = tokio::time::timeout(crate::PATIENCE, closed).await;
    assert!(closed.is_ok(), "the gateway does not see its clients leave");
}

/// Waits until `requests` requests of this operation have ended after their clients disconnected.
async fn ended(world: &World, operation: &str, requests: f64) {
    let left =
        format!("nsgate_requests_total{{backend=\"west\",code=\"499\",operation=\"{operation}\"}}");
    let over = async {
        while world.metric(&left).await < requests {
            tokio::task::yield_now().await;
        }
    };
    let over = tokio::time::timeout(crate::PATIENCE, over).await;
    assert!(over.is_ok(), "{operation} goes on for ever");
}

/// Sends a batch on a table that is locked, and checks that it is refused.
async fn waits_in_vain(world: &World, batch: &Value) {
    let reply = world.client().post(BATCH, batch).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    assert!(
        reply
            .words()
            .contains("one of the tables is locked by an unfinished batch"),
        "{reply:?}"
    );
}

#[tokio::test]
async fn a_change_has_its_lock_until_the_catalog_has_answered() {
    let version = json!({"version": 2, "manifest_path": "west-2", "manifest_size": 6});
    let cases = [
        ("insert_into_table", "insert", None),
        ("create_table_version", "version/create", Some(version)),
        ("restore_table", "restore", Some(json!({"version": 1}))),
    ];
    for client in [Client::new, Client::h2] {
        for (operation, route, body) in cases.clone() {
            let world = world(IMPATIENT).await;
            stage(&world, "west", 2);
            let bearer = format!("Bearer {}", crate::token::token(&json!({})));
            let client = client(world.address()).header("authorization", &bearer);
            // The catalog has executed the request, and its answer waits at the gate.
            let gate = world.catalog("west").hold_answer(operation);
            let target = format!("{WEST}/{route}");
            let asking = tokio::spawn(async move {
                match body {
                    Some(body) => client.post(&target, &body).await,
                    None => client.post_rows(&target, full("rows")).await,
                }
            });
            leaves(&world, asking, &gate).await;
            let made = stored(&world, "west").len() as u64;
            let batch =
                json!({"entries": [stage(&world, "west", made + 1), stage(&world, "east", 2)]});
            waits_in_vain(&world, &batch).await;
            gate.open();
            ended(&world, operation, 1.0).await;
            world.client().post(BATCH, &batch).await.ok();
            assert_eq!(
                visible(&world, "west").await.len() as u64,
                made + 1,
                "{operation}"
            );
        }
    }
}

#[tokio::test]
async fn a_rename_by_the_catalog_has_both_names_until_it_has_answered() {
    let world = world(IMPATIENT).await;
    let west = world.catalog("west");
    let gate = west.hold("rename_table");
    let client = world.client();
    let asking = tokio::spawn(async move {
        let to = json!({"new_table_name": "t2"});
        client.post(&format!("{WEST}/rename"), &to).await
    });
    leaves(&world, asking, &gate).await;
    waits_in_vain(&world, &pair(&world, 2)).await;
    gate.open();
    ended(&world, "rename_table", 1.0).await;
    assert!(west.store().contents(&["west", "t2"]).is_some());
    let reply = world.client().post(BATCH, &pair(&world, 2)).await;
    assert_eq!(reply.outcome(), (404, Some(4)), "{reply:?}");
}

#[tokio::test]
async fn a_batch_of_one_catalog_has_its_tables_until_it_is_over() {
    let setup = Setup::two().backend("west", "batch: atomic");
    let section = format!("batch: {{ log: batches.redb, {IMPATIENT} }}");
    let world = setup.section(&section).start().await.seeded();
    let west = world.catalog("west");
    west.set_batch_create(BatchCreate::Atomic);
    let gate = west.hold_answer("batch_create_table_versions");
    let chain = json!({"entries": [stage(&world, "west", 2), stage(&world, "west", 3)]});
    let asking = super::start(world.client(), chain);
    leaves(&world, asking, &gate).await;
    let next = json!({"entries": [stage(&world, "west", 4), stage(&world, "east", 2)]});
    waits_in_vain(&world, &next).await;
    gate.open();
    world.client().post(BATCH, &next).await.ok();
    assert_eq!(visible(&world, "west").await, [1, 2, 3, 4]);
}

/// A read has no effect, and nobody would see its answer, so it is aborted and its lock is released.
#[tokio::test]
async fn a_read_ends_with_its_client() {
    let world = world(IMPATIENT).await;
    let gate = world.catalog("west").hold("query_table");
    let client = world.client();
    let asking =
        tokio::spawn(async move { client.post(&format!("{WEST}/query"), &json!({})).await });
    leaves(&world, asking, &gate).await;
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
}

/// The change has not been sent to the catalog yet, and its client is gone, so it is dropped.
#[tokio::test]
async fn a_change_that_waits_for_its_lock_is_given_up() {
    let world = world("").await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = super::start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    let (lost, target) = (world.client(), format!("{WEST}/insert"));
    let asking = tokio::spawn(async move { lost.post_rows(&target, full("rows")).await });
    // The change must be waiting for its lock before its client disconnects.
    let waiting = async {
        while world.metric("nsgate_requests_in_flight").await < 2.0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::PATIENCE, waiting)
        .await
        .unwrap();
    asking.abort();
    let _ = asking.await;
    ended_unserved(&world).await;
    gate.open();
    batch.await.unwrap().ok();
    settled(&world).await;
    assert_both(&world, &[1, 2], "only the batch").await;
    assert!(
        world
            .catalog("west")
            .seen_of("insert_into_table")
            .is_empty()
    );
}

async fn ended_unserved(world: &World) {
    let over = async {
        while world.metric("nsgate_requests_in_flight").await > 1.0 {
            tokio::task::yield_now().await;
        }
    };
    let over = tokio::time::timeout(crate::PATIENCE, over).await;
    assert!(over.is_ok(), "it waits for ever");
}

/// Requests whose clients are gone still count towards the limit on requests in flight.
#[tokio::test]
async fn what_was_left_keeps_its_place() {
    let world = Setup::two().section("limits: { in_flight: 2 }");
    let world = world.start().await.seeded();
    let west = world.catalog("west");
    let gate = Gate::new();
    west.fail_always("restore_table", Fault::HoldBefore(gate.clone()));
    for call in 1..=2 {
        let client = world.client();
        let restore = format!("{WEST}/restore");
        let asking = tokio::spawn(async move { client.post(&restore, &json!({})).await });
        gate.reached(call).await;
        asking.abort();
        let _ = asking.await;
        gone(&world).await;
    }
    let exists = "/v1/table/east%24t1/exists";
    let reply = world.client().post(exists, &json!({})).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    gate.open();
    ended(&world, "restore_table", 2.0).await;
    world.client().post(exists, &json!({})).await.ok();
}

/// The catalog has chosen the version to read when its answer begins, so the rest of the answer needs no
/// lock.
#[tokio::test]
async fn a_reader_that_takes_its_answer_slowly_holds_up_no_batch() {
    let world = world(IMPATIENT).await;
    let rows = world.catalog("west").rows_out();
    let client = world.client().header("content-type", "application/json");
    let query = format!("{WEST}/query");
    let answer = client.open(Method::POST, &query, full("{}")).await.unwrap();
    rows.send("first".into()).await.unwrap();
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
    assert_both(&world, &[1, 2], "while it reads").await;
    rows.send("last".into()).await.unwrap();
    drop(rows);
    let read = http_body_util::BodyExt::collect(answer.into_body());
    assert_eq!(read.await.unwrap().to_bytes(), "firstlast");
}

/// A batch of one entry is a batch like any other: a lost answer is resolved, and the client may
/// disconnect.
#[tokio::test]
async fn a_batch_of_one_entry_is_coordinated() {
    let world = world("").await;
    let west = world.catalog("west");
    let one = |version| json!({"entries": [stage(&world, "west", version)]});
    west.fail("create_table_version", Fault::ResetAfter);
    let reply = world.client().post(BATCH, &one(2)).await.ok().json();
    assert!(reply["transaction_id"].is_string(), "{reply}");
    gone(&world).await;
    let gate = west.hold("create_table_version");
    let asking = super::start(world.client(), one(3));
    leaves(&world, asking, &gate).await;
    gate.open();
    until("it is made", || stored(&world, "west") == [1, 2, 3]).await;
    settled(&world).await;
    assert_eq!(visible(&world, "west").await, [1, 2, 3]);
}
