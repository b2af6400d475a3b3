//! Mixed batches: creations become visible or are rolled back; removals follow only once the rest is visible.

mod refused;
mod removals;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{numbers, settled, stage, stored, told, until, visible, world};
use crate::catalog::Catalog;
use crate::catalog::faults::{BROKEN, Fault};
use crate::client::{Client, Reply};
use crate::harness::World;

const COMMIT: &str = "/v1/table/batch-commit";
const REFUSED: Fault = Fault::Instead(400, r#"{"error":"no","code":13}"#);

fn declare(name: &str, table: &str) -> Value {
    json!({"declare_table": {"id": [name, table]}})
}

fn create(entry: &Value) -> Value {
    json!({ "create_table_version": entry })
}

fn delete(name: &str, table: &str, start: i64, end: i64) -> Value {
    let ranges = [json!({"start_version": start, "end_version": end})];
    json!({"delete_table_versions": {"id": [name, table], "ranges": ranges}})
}

fn deregister(name: &str, table: &str) -> Value {
    json!({"deregister_table": {"id": [name, table]}})
}

async fn commit(world: &World, operations: &[Value]) -> Reply {
    let body = json!({ "operations": operations });
    world.client().post(COMMIT, &body).await
}

/// Sends a batch in a task of its own.
fn start(client: Client, operations: &[Value]) -> JoinHandle<Reply> {
    let body = json!({ "operations": operations });
    tokio::spawn(async move { client.post(COMMIT, &body).await })
}

/// Starts a world with `t1` of three versions and `old` of one version in both catalogs.
async fn seeded(settings: &str) -> World {
    let world = world(settings).await;
    for name in ["west", "east"] {
        let mut store = world.catalog(name).store();
        store.seed(&[name, "t1"], 3);
        store.seed(&[name, "old"], 1);
    }
    world
}

/// Returns true if the catalog has the table.
fn has(catalog: &Catalog, name: &str, table: &str) -> bool {
    catalog.store().contents(&[name, table]).is_some()
}

/// The status that a reader gets for a table: 200, or 404 with its code.
async fn described(world: &World, name: &str, table: &str) -> (u16, Option<u64>) {
    let client = world.client();
    let mut outcomes = Vec::new();
    for operation in ["describe", "exists"] {
        let target = format!("/v1/table/{name}%24{table}/{operation}");
        outcomes.push(client.post(&target, &json!({})).await.outcome());
    }
    assert_eq!(outcomes[0], outcomes[1], "{name}${table}");
    outcomes[0]
}

/// The tables in the listings of both namespaces; checks that the listing of all tables shows the same.
async fn listed(world: &World) -> Vec<String> {
    let client = world.client();
    let mut all = Vec::new();
    for name in ["east", "west"] {
        let target = format!("/v1/namespace/{name}/table/list");
        let names = client.get(&target).await.ok().json()["tables"].clone();
        for table in names.as_array().unwrap() {
            all.push(format!("{name}${}", table.as_str().unwrap()));
        }
    }
    let whole = client.get("/v1/table").await.ok().json();
    assert_eq!(
        whole["tables"],
        json!(all),
        "all of them and level by level"
    );
    all
}

const THERE: (u16, Option<u64>) = (200, None);
const NOT_THERE: (u16, Option<u64>) = (404, Some(4));

#[tokio::test]
async fn a_mix_over_two_catalogs_is_done_whole() {
    let world = seeded("").await;
    world.catalog("east").store().stage("first", "rows");
    let first =
        json!({"id": ["east", "new"], "version": 1, "manifest_path": "first", "manifest_size": 4});
    let operations = [
        create(&first),
        json!({"declare_table": {"id": ["east", "new"], "properties": {"a": "b"}, "vend_credentials": true}}),
        create(&stage(&world, "west", 4)),
        delete("west", "t1", 1, 3),
        deregister("east", "old"),
    ];
    let reply = commit(&world, &operations).await.ok().json();
    let results = reply["results"].as_array().unwrap();
    assert_eq!(results.len(), 5, "{reply}");
    assert_eq!(results[0]["create_table_version"]["version"]["version"], 1);
    let declared = json!({
        "location": "file:///store/east$new", "properties": {"a": "b"}, "managed_versioning": true,
    });
    assert_eq!(
        results[1],
        json!({ "declare_table": declared }),
        "no credential"
    );
    assert_eq!(results[2]["create_table_version"]["version"]["version"], 4);
    assert_eq!(results[3], json!({"delete_table_versions": {}}));
    let gone = json!({"id": ["east", "old"], "location": "file:///store/east$old"});
    assert_eq!(results[4], json!({ "deregister_table": gone }));
    assert_eq!(told(&world, &reply["transaction_id"]).await, "Succeeded");
    assert_eq!(
        listed(&world).await,
        ["east$new", "east$t1", "west$old", "west$t1"]
    );
    assert_eq!(visible(&world, "west").await, [3, 4]);
    settled(&world).await;
    until("it is removed", || {
        !has(world.catalog("east"), "east", "old")
    })
    .await;
    until("they are deleted", || stored(&world, "west") == [3, 4]).await;
    let new = world.catalog("east").store().contents(&["east", "new"]);
    assert_eq!(new.unwrap(), [(1, "rows".to_owned())]);
    // The gateway acts in its own name, because a removal may come long after the caller's token has expired.
    let removal = world.catalog("east").seen_of("deregister_table");
    assert_eq!(
        removal[0].header("authorization"),
        Some("Bearer service-of-east")
    );
}

#[tokio::test]
async fn what_was_made_is_undone_and_nothing_is_removed_when_one_part_is_refused() {
    let world = seeded("").await;
    world.catalog("west").store().stage("first", "rows");
    let first =
        json!({"id": ["west", "new"], "version": 1, "manifest_path": "first", "manifest_size": 4});
    let gate = world.catalog("east").hold("create_table_version");
    world.catalog("east").fail("create_table_version", REFUSED);
    let operations = [
        declare("west", "new"),
        create(&first),
        deregister("west", "old"),
        delete("west", "t1", 1, 2),
        create(&stage(&world, "east", 4)),
    ];
    let batch = start(world.client(), &operations);
    gate.reached(1).await;
    until("west is prepared", || {
        let new = world.catalog("west").store().contents(&["west", "new"]);
        new.is_some_and(|versions| versions.len() == 1)
    })
    .await;
    gate.open();
    let reply = batch.await.unwrap();
    assert_eq!(reply.outcome(), (400, Some(13)), "{reply:?}");
    assert!(reply.words().contains("operations[4]"), "{reply:?}");
    until("the name is gone", || {
        !has(world.catalog("west"), "west", "new")
    })
    .await;
    let whole = ["east$old", "east$t1", "west$old", "west$t1"];
    assert_eq!(listed(&world).await, whole);
    assert_eq!(stored(&world, "west"), [1, 2, 3]);
    // The version is deleted before the name, and nothing that the batch would have removed is touched.
    let undone: Vec<_> = world.catalog("west").seen().into_iter().collect();
    let undone = undone.iter().filter(|seen| {
        ["batch_delete_table_versions", "deregister_table"].contains(&seen.operation)
    });
    let undone: Vec<_> = undone
        .map(|seen| (seen.operation, seen.id[1].as_str()))
        .collect();
    let expected = [
        ("batch_delete_table_versions", "new"),
        ("deregister_table", "new"),
    ];
    assert_eq!(undone, expected);
}

/// A reader sees at each moment all effects of a batch or none.
#[tokio::test]
async fn readers_see_names_change_in_one_step() {
    let world = seeded("lock_timeout: 300ms").await;
    let client = world.client();
    let made = world.catalog("east").hold("create_table_version");
    let removed = world.catalog("west").hold("deregister_table");
    let operations = [
        declare("west", "new"),
        deregister("west", "old"),
        delete("west", "t1", 1, 2),
        create(&stage(&world, "east", 4)),
    ];
    let batch = start(world.client(), &operations);
    made.reached(1).await;
    until("the name is made", || {
        has(world.catalog("west"), "west", "new")
    })
    .await;
    assert_eq!(described(&world, "west", "new").await, NOT_THERE);
    assert_eq!(described(&world, "west", "old").await, THERE);
    let before = ["east$old", "east$t1", "west$old", "west$t1"];
    assert_eq!(listed(&world).await, before);
    assert_eq!(visible(&world, "west").await, [1, 2, 3]);
    let versions = "/v1/table/west%24new/version/list";
    assert_eq!(client.post_nothing(versions).await.outcome(), NOT_THERE);
    // Requests that claim the name wait until the batch is decided, here until the lock timeout.
    for operation in ["declare", "register", "drop", "deregister"] {
        let target = format!("/v1/table/west%24new/{operation}");
        let reply = client.post(&target, &json!({"location": "x"})).await;
        assert_eq!(reply.outcome(), (503, Some(17)), "{operation}: {reply:?}");
    }
    made.open();
    batch.await.unwrap().ok();
    removed.reached(1).await;
    // The batch is committed and answered, but the catalog has not removed anything yet.
    assert!(has(world.catalog("west"), "west", "old"));
    assert_eq!(described(&world, "west", "new").await, THERE);
    assert_eq!(described(&world, "west", "old").await, NOT_THERE);
    // A reader of the removed name does not wait, because the name does not come back.
    let count = client
        .post("/v1/table/west%24old/count_rows", &json!({}))
        .await;
    assert_eq!(count.outcome(), NOT_THERE, "{count:?}");
    let after = ["east$old", "east$t1", "west$new", "west$t1"];
    assert_eq!(listed(&world).await, after);
    assert_eq!(visible(&world, "west").await, [2, 3]);
    let again = client
        .post("/v1/table/west%24old/declare", &json!({}))
        .await;
    assert_eq!(again.outcome(), (503, Some(17)), "not before it is gone");
    removed.open();
    until("it is removed", || {
        !has(world.catalog("west"), "west", "old")
    })
    .await;
    assert_eq!(listed(&world).await, after);
    // The name is free for other writers as soon as its removal is on record.
    for _ in 0..100 {
        let again = client
            .post("/v1/table/west%24old/declare", &json!({}))
            .await;
        if again.status == 200 {
            break;
        }
    }
    assert_eq!(described(&world, "west", "old").await, THERE);
    assert_eq!(listed(&world).await.len(), 5);
}

/// A batch in one catalog is a batch like any other: a client that lost the answer can describe its transaction.
#[tokio::test]
async fn a_batch_of_one_catalog_is_coordinated() {
    let world = seeded("").await;
    let west = world.catalog("west");
    let pair = |new: &str| [declare("west", new), create(&stage(&world, "west", 4))];
    let reply = commit(&world, &pair("a")).await.ok().json();
    assert!(reply["transaction_id"].is_string(), "coordinated: {reply}");
    let next = [declare("west", "b"), create(&stage(&world, "west", 5))];
    commit(&world, &next).await.ok();
    assert!(west.seen_of("batch_commit_tables").is_empty());
    let one = async |operation: Value| {
        let reply = commit(&world, &[operation]).await.ok().json();
        assert!(reply["transaction_id"].is_string(), "coordinated: {reply}");
        reply["results"].clone()
    };
    let gone = json!({"id": ["west", "old"], "location": "file:///store/west$old"});
    let done = json!([{ "deregister_table": gone }]);
    assert_eq!(one(deregister("west", "old")).await, done);
    let done = json!([{"delete_table_versions": {}}]);
    assert_eq!(one(delete("west", "t1", 1, 2)).await, done);
    let refused = commit(&world, &[deregister("west", "old")]).await;
    assert_eq!(refused.outcome(), NOT_THERE);
}

#[tokio::test]
async fn the_same_key_gets_the_same_answer() {
    let mut world = seeded("").await;
    let operations = [declare("west", "new"), deregister("east", "old")];
    let body = json!({ "operations": operations });
    let client = |world: &World| world.client().header("idempotency-key", "k1");
    let first = client(&world).post(COMMIT, &body).await.ok().json();
    assert_eq!(client(&world).post(COMMIT, &body).await.ok().json(), first);
    let other = json!({"operations": [declare("west", "other")]});
    assert_eq!(client(&world).post(COMMIT, &other).await.status, 422);
    settled(&world).await;
    world.restart().await;
    assert_eq!(client(&world).post(COMMIT, &body).await.ok().json(), first);
    assert_eq!(world.catalog("west").seen_of("declare_table").len(), 1);
    let log = std::fs::read(world.folder().join("batches.redb")).unwrap();
    let secret = b"a credential";
    assert!(
        !log.windows(secret.len()).any(|part| part == secret),
        "no credential is kept"
    );
}

/// The versions of a new table are hidden as long as the table is.
#[tokio::test]
async fn versions_of_a_new_table_appear_with_it() {
    let world = seeded("").await;
    world.catalog("west").store().stage("first", "rows");
    let first =
        json!({"id": ["west", "new"], "version": 1, "manifest_path": "first", "manifest_size": 4});
    let made = world.catalog("east").hold("create_table_version");
    let operations = [
        declare("west", "new"),
        create(&first),
        create(&stage(&world, "east", 4)),
    ];
    let batch = start(world.client(), &operations);
    made.reached(1).await;
    until("it is prepared", || {
        let new = world.catalog("west").store().contents(&["west", "new"]);
        new.is_some_and(|versions| !versions.is_empty())
    })
    .await;
    let target = "/v1/table/west%24new/version/";
    let client = world.client();
    let list = client.post_nothing(&format!("{target}list")).await;
    assert_eq!(list.outcome(), NOT_THERE);
    let version = client
        .post(&format!("{target}describe"), &json!({"version": 1}))
        .await;
    assert_eq!(version.outcome(), NOT_THERE);
    made.open();
    batch.await.unwrap().ok();
    let list = client.post_nothing(&format!("{target}list")).await.ok();
    assert_eq!(numbers(&list.json()), [1]);
}
