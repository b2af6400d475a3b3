//! Snapshots: the latest versions of several tables that were all the latest at one moment.

mod refusals;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::batches::{prepared, stage, until, world};
use crate::catalog::faults::{Fault, Gate};
use crate::client::{Client, Reply};
use crate::harness::{Setup, World};

const SNAPSHOT: &str = "/nsgate/v1/snapshot";
const LIST: &str = "list_table_versions";

/// A request for `t1` of each catalog.
fn both() -> Value {
    json!({"tables": [{"id": ["west", "t1"]}, {"id": ["east", "t1"]}]})
}

fn snapshot(client: Client, body: Value) -> JoinHandle<Reply> {
    tokio::spawn(async move { client.post(SNAPSHOT, &body).await })
}

/// The numbers of the versions of an answer, in its order, and the number of rounds.
fn numbers(reply: Reply) -> (Vec<u64>, u64) {
    let answer = reply.ok().json();
    let tables = answer["tables"].as_array().unwrap().iter();
    let versions = tables.map(|table| table["version"]["version"].as_u64().unwrap());
    (versions.collect(), answer["rounds"].as_u64().unwrap())
}

/// Creates a version of `t1` as a writer does.
async fn create(world: &World, name: &str, version: u64) -> Reply {
    let entry = stage(world, name, version);
    let target = format!("/v1/table/{name}%24t1/version/create");
    world.client().post(&target, &entry).await
}

/// Puts a gate in front of the `nth` list of versions from now.
fn hold_nth(world: &World, name: &str, nth: usize) -> Gate {
    let gate = Gate::new();
    let held = Fault::HoldBefore(gate.clone());
    world.catalog(name).fail_nth(LIST, &[name, "t1"], nth, held);
    gate
}

#[tokio::test]
async fn tables_are_answered_as_their_catalogs_list_them_in_the_order_of_the_request() {
    let setup = Setup::new().mount("[west]", "west");
    let world = setup.rerooted("[far, lake]", "east", "[]").start().await;
    let (west, east) = (world.catalog("west"), world.catalog("east"));
    west.store().seed(&["west", "t1"], 3);
    west.store().seed(&["west", "t2"], 1);
    east.store().seed(&["ns", "t1"], 2);
    let client = world.client().header("x-ns-ctx-team", "red");
    let body = json!({
        "identity": {"api_key": "k"},
        "context": {"run": "7"},
        "new": true,
        "tables": [
            {"id": ["far", "lake", "ns", "t1"], "branch": "dev"},
            {"id": ["west", "t1"], "branch": "main", "identity": {"api_key": "k"}},
            {"id": ["west", "t2"]},
        ],
    });
    let answer = client.post(SNAPSHOT, &body).await.ok().json();
    let mut expected = Vec::new();
    for target in [
        "/v1/table/far%24lake%24ns%24t1/version/list?descending=true&limit=1",
        "/v1/table/west%24t1/version/list?descending=true&limit=1",
        "/v1/table/west%24t2/version/list?descending=true&limit=1",
    ] {
        let listed = world.client().post_nothing(target).await.ok().json();
        expected.push(listed["versions"][0].clone());
    }
    assert_eq!(
        answer,
        json!({"rounds": 2, "tables": [
            {"id": ["far", "lake", "ns", "t1"], "branch": "dev", "version": expected[0]},
            {"id": ["west", "t1"], "branch": "main", "version": expected[1]},
            {"id": ["west", "t2"], "version": expected[2]},
        ]})
    );
    let seen = &east.seen_of(LIST)[0];
    assert_eq!(
        seen.target,
        "/v1/table/ns%24t1/version/list?delimiter=%24&descending=true&limit=1&branch=dev"
    );
    for seen in [seen, &west.seen_of(LIST)[0]] {
        assert!(
            seen.header("authorization")
                .unwrap()
                .starts_with("Bearer ey")
        );
        assert_eq!(seen.header("x-ns-ctx-team"), Some("red"));
        assert_eq!(seen.header("x-ns-ctx-run"), Some("7"));
        assert!(seen.body.is_empty());
    }
    let counted = r#"nsgate_requests_total{backend="none",code="200",operation="snapshot"}"#;
    assert!((world.metric(counted).await - 1.0).abs() < 0.1);
    until("the access log names it", || {
        world.log().contains(r#""operation":"snapshot""#)
    })
    .await;
}

#[tokio::test]
async fn one_table_is_read_once() {
    let world = world("").await;
    let body = json!({"tables": [{"id": ["west", "t1"]}]});
    let reply = world.client().post(SNAPSHOT, &body).await;
    assert_eq!(numbers(reply), (vec![1], 1));
    assert_eq!(world.catalog("west").seen_of(LIST).len(), 1);
}

/// West is read before both tables change, one after the other, and east is read after that: the pair that a single
/// round would answer with never existed.
#[tokio::test]
async fn versions_that_were_never_the_latest_together_are_not_answered() {
    let world = world("").await;
    let read = world.catalog("west").hold_answer(LIST);
    let unread = world.catalog("east").hold(LIST);
    let asked = snapshot(world.client(), both());
    read.reached(1).await;
    unread.reached(1).await;
    create(&world, "west", 2).await.ok();
    create(&world, "east", 2).await.ok();
    read.open();
    unread.open();
    assert_eq!(numbers(asked.await.unwrap()), (vec![2, 2], 3));
}

/// The same number does not say that the version is the same.
#[tokio::test]
async fn a_version_that_replaced_another_of_its_number_is_another() {
    let world = world("").await;
    let unread = hold_nth(&world, "east", 2);
    let asked = snapshot(world.client(), both());
    unread.reached(1).await;
    world.catalog("east").store().seed(&["east", "t1"], 1);
    unread.open();
    assert_eq!(numbers(asked.await.unwrap()), (vec![1, 1], 3));
}

#[tokio::test]
async fn versions_of_an_undecided_batch_are_not_shown() {
    let world = world("").await;
    let (gate, batch) = prepared(&world, 2).await;
    let reply = world.client().post(SNAPSHOT, &both()).await;
    assert_eq!(numbers(reply), (vec![1, 1], 2));
    gate.open();
    batch.await.unwrap().ok();
    let reply = world.client().post(SNAPSHOT, &both()).await;
    assert_eq!(numbers(reply), (vec![2, 2], 2));
}

/// Changes one table before each read of it, in all rounds that take no lock.
async fn change_in_every_round(world: &World, name: &str, gates: &[Gate]) {
    for (round, gate) in gates.iter().enumerate() {
        gate.reached(1).await;
        create(world, name, round as u64 + 2).await.ok();
        gate.open();
    }
}

#[tokio::test]
async fn tables_that_change_at_every_read_are_locked() {
    let world = world("lock_timeout: 300ms").await;
    let gates: Vec<Gate> = (1..=5).map(|nth| hold_nth(&world, "west", nth)).collect();
    let locked = hold_nth(&world, "west", 6);
    let asked = snapshot(world.client(), both());
    change_in_every_round(&world, "west", &gates).await;
    locked.reached(1).await;
    for name in ["west", "east"] {
        let version = if name == "west" { 7 } else { 2 };
        let reply = create(&world, name, version).await;
        assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    }
    locked.open();
    assert_eq!(numbers(asked.await.unwrap()), (vec![6, 1], 6));
    create(&world, "west", 7).await.ok();
}

#[tokio::test]
async fn locks_are_waited_for_as_long_as_a_batch_does() {
    let world = world("lock_timeout: 300ms").await;
    let gates: Vec<Gate> = (1..=5).map(|nth| hold_nth(&world, "west", nth)).collect();
    let long = world.catalog("east").hold("query_table");
    let client = world.client();
    let query =
        tokio::spawn(async move { client.post("/v1/table/east%24t1/query", &json!({})).await });
    long.reached(1).await;
    let asked = snapshot(world.client(), both());
    change_in_every_round(&world, "west", &gates).await;
    let reply = asked.await.unwrap();
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    assert!(reply.header("retry-after").is_some());
    assert!(reply.words().contains("locked"), "{reply:?}");
    let (error, table) = (reply.json(), json!(["east", "t1"]));
    assert_eq!((&error["table"], &error["entry"]), (&table, &json!(1)));
    long.open();
    query.await.unwrap().ok();
    create(&world, "west", 7).await.ok();
}

/// A snapshot reads at most 32 tables of a catalog at a time.
#[tokio::test]
async fn a_catalog_gets_few_reads_at_a_time() {
    let world = world("").await;
    let gate = Gate::new();
    let held = Fault::HoldBefore(gate.clone());
    world.catalog("west").fail_always(LIST, held);
    let mut tables = Vec::new();
    for table in 0..40 {
        let name = format!("many{table}");
        world.catalog("west").store().seed(&["west", &name], 1);
        tables.push(json!({"id": ["west", name]}));
    }
    let asked = snapshot(world.client(), json!({ "tables": tables }));
    gate.reached(32).await;
    // Another catalog answers meanwhile, and the other eight reads wait.
    let other = json!({"tables": [{"id": ["east", "t1"]}]});
    world.client().post(SNAPSHOT, &other).await.ok();
    assert_eq!(world.catalog("west").seen_of(LIST).len(), 32);
    gate.open();
    assert_eq!(numbers(asked.await.unwrap()), (vec![1; 40], 2));
}
