//! The set-up that the tests of batches share; they are in the files of its folder.

mod client_leaves;
mod commit;
mod conditions;
mod create_fails;
mod described;
mod facts;
pub mod full;
mod hidden;
mod in_postgres;
mod late;
mod mixed;
mod numbers;
mod recovery;
mod refused_before_writing;
mod rename;
mod renames_in_batch;
mod repeat;
mod retry_after;
mod second_name;
mod slow_reads;
mod stray_names;
pub mod streamed;
pub mod streamed_names;
mod tenants;
mod together;
mod undo;
mod untrue_renames;
mod waiting;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::catalog::faults::{Fault, Gate, PATIENCE};
use crate::client::{Client, Reply};
use crate::harness::{Setup, World};

pub const BATCH: &str = "/v1/table/version/batch-create";

/// Starts two catalogs with a table `t1` of one version each; `settings` are further keys of `batch`.
pub async fn world(settings: &str) -> World {
    let section = format!("batch: {{ log: batches.redb, {settings} }}");
    Setup::two().section(&section).start().await.seeded()
}

/// Stages a version of `t1` as a writer does, and returns its entry in a batch.
pub fn stage(world: &World, name: &str, version: u64) -> Value {
    let (path, content) = (format!("{name}-{version}"), format!("{name} {version}"));
    world.catalog(name).store().stage(&path, &content);
    json!({
        "id": [name, "t1"], "version": version, "manifest_path": path, "manifest_size": content.len(),
    })
}

/// Makes a batch of one version of `t1` in each catalog.
pub fn pair(world: &World, version: u64) -> Value {
    json!({"entries": [stage(world, "west", version), stage(world, "east", version)]})
}

/// Sends a batch in a task of its own.
pub fn start(client: Client, batch: Value) -> JoinHandle<Reply> {
    tokio::spawn(async move { client.post(BATCH, &batch).await })
}

/// Starts a batch of a pair, and waits until `west` has its version; its create in `east` waits at the gate.
pub async fn prepared(world: &World, version: u64) -> (Gate, JoinHandle<Reply>) {
    let gate = world.catalog("east").hold("create_table_version");
    let batch = prepare(world, pair(world, version), &gate).await;
    (gate, batch)
}

/// Does the same with version 2 of a branch in `west`.
pub async fn prepared_on_branch(world: &World, branch: &str) -> (Gate, JoinHandle<Reply>) {
    let gate = world.catalog("east").hold("create_table_version");
    let mut batch = pair(world, 2);
    batch["entries"][0]["branch"] = json!(branch);
    let batch = prepare(world, batch, &gate).await;
    (gate, batch)
}

/// Does the same; once the gate opens, the create in `east` has this fault.
pub async fn prepared_to_fail(
    world: &World,
    version: u64,
    fault: Fault,
) -> (Gate, JoinHandle<Reply>) {
    let east = world.catalog("east");
    let gate = east.hold("create_table_version");
    east.fail("create_table_version", fault);
    let batch = prepare(world, pair(world, version), &gate).await;
    (gate, batch)
}

async fn prepare(world: &World, batch: Value, gate: &Gate) -> JoinHandle<Reply> {
    let version = batch["entries"][0]["version"].as_u64().unwrap();
    let batch = start(world.client(), batch);
    gate.reached(1).await;
    until("west is prepared", || {
        stored(world, "west").contains(&version)
    })
    .await;
    batch
}

/// Aborts a batch after another writer has built on its version 2 in `west`, which stays as a hazard.
pub async fn leave_hazard(world: &World) {
    let refused = Fault::Instead(400, r#"{"error":"no","code":13}"#);
    let (gate, batch) = prepared_to_fail(world, 2, refused).await;
    let table = ["west".to_owned(), "t1".to_owned()];
    let west = world.catalog("west");
    west.store().put(&table, 3, "built on it".into());
    gate.open();
    assert_eq!(batch.await.unwrap().status, 400);
}

/// Aborts a batch after its version 2 has become the only one in `west`, which stays as a hazard.
pub async fn leave_alone(world: &World) {
    let refused = Fault::Instead(400, r#"{"error":"no","code":13}"#);
    let (gate, batch) = prepared_to_fail(world, 2, refused).await;
    let table = vec!["west".to_owned(), "t1".to_owned()];
    let cleaned = world
        .catalog("west")
        .store()
        .delete_versions(&table, &[(1, 2)]);
    cleaned.unwrap();
    gate.open();
    assert_eq!(batch.await.unwrap().status, 400);
}

fn numbers(listed: &Value) -> Vec<u64> {
    let versions = listed["versions"].as_array().unwrap().iter();
    versions
        .map(|version| version["version"].as_u64().unwrap())
        .collect()
}

/// The versions of `t1` that a reader sees through the gateway.
pub async fn visible(world: &World, name: &str) -> Vec<u64> {
    let target = format!("/v1/table/{name}%24t1/version/list");
    numbers(&world.client().post_nothing(&target).await.ok().json())
}

/// The versions of `t1` that the catalog has.
pub fn stored(world: &World, name: &str) -> Vec<u64> {
    let contents = world.catalog(name).store().contents(&[name, "t1"]);
    contents
        .unwrap()
        .into_iter()
        .map(|(number, _)| number)
        .collect()
}

/// Waits for a condition that becomes true by itself; only a failing test waits long.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let happens = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let happened = tokio::time::timeout(PATIENCE, happens).await;
    assert!(happened.is_ok(), "never: {what}");
}

/// Waits until every batch is decided and rolled back if it was aborted.
pub async fn settled(world: &World) {
    let settles = async {
        while world.metric("nsgate_batches_undecided").await > 0.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let settled = tokio::time::timeout(PATIENCE, settles).await;
    assert!(settled.is_ok(), "a batch is never over");
}

/// Waits until no batch asks a catalog for anything more: a rename is answered before the old name is looked for.
pub async fn at_rest(world: &World) {
    let begun = Instant::now();
    loop {
        let page = world.admin().get("/batches").await.ok().json();
        let mut batches = page["batches"].as_array().unwrap().iter();
        if batches.all(|batch| batch["state"] == "watching") {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "these do not end: {page}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Checks that both tables show `versions`, and that the catalogs have exactly these.
pub async fn assert_both(world: &World, versions: &[u64], case: &str) {
    for name in ["west", "east"] {
        assert_eq!(
            visible(world, name).await,
            versions,
            "{case}: visible in {name}"
        );
        let what = format!("{case}: {name} has {versions:?}");
        until(&what, || stored(world, name) == versions).await;
    }
}

/// The status of a batch as a describe of its transaction shows it.
async fn told(world: &World, transaction: &Value) -> String {
    let id = transaction.as_str().unwrap();
    let target = format!("/v1/transaction/{id}/describe");
    let told = world.client().post(&target, &json!({})).await.ok().json();
    told["status"].as_str().unwrap().to_owned()
}
