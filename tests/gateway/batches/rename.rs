//! A table has exactly one name at every moment, whether its catalog renames it or the gateway does so instead.

mod dropped;
mod impossible;
mod interrupted;
mod repeated;

use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{BATCH, pair, prepared, settled, start, told, until};
use crate::catalog::faults::{Fault, Gate};
use crate::catalog::{BatchCreate, Catalog, MISSING};
use crate::client::{Client, Reply};
use crate::harness::{Setup, World};

pub(super) const OLD: &str = "west%24t1";
const NO_RENAME: &str = r#"{"error":"Not supported: rename_table not implemented","code":18}"#;
pub(super) const NO: &str = r#"{"error":"Not supported: not implemented","code":18}"#;

/// Starts two catalogs over one storage, both without a rename, each with a table `t1` of two versions.
pub(super) async fn world() -> World {
    over("").await
}

pub(super) async fn over(settings: &str) -> World {
    let section = format!("batch: {{ log: batches.redb, {settings} }}");
    let setup = Setup::two().rerooted("[mirror]", "west", "[west]");
    let world = setup.section(&section).start().await;
    let (west, east) = (world.catalog("west"), world.catalog("east"));
    east.store().share(&west.store());
    for (name, catalog) in [("west", west), ("east", east)] {
        catalog.store().seed(&[name, "t1"], 2);
        without_rename(catalog);
    }
    world
}

fn without_rename(catalog: &Catalog) {
    catalog.can(
        "rename_table",
        500,
        "application/json",
        NO_RENAME.as_bytes(),
    );
}

async fn rename(client: Client, table: &str, body: &Value) -> Reply {
    client
        .post(&format!("/v1/table/{table}/rename"), body)
        .await
}

/// Holds the next deregister of `west$t1` before its catalog acts.
fn hold_deregister(world: &World) -> Gate {
    let gate = Gate::new();
    let fault = Fault::HoldBefore(gate.clone());
    let west = world.catalog("west");
    west.fail_nth("deregister_table", &["west", "t1"], 1, fault);
    gate
}

/// Renames `west$t1` to `namespace$u` in a task of its own.
fn moved(world: &World, namespace: &str) -> JoinHandle<Reply> {
    let (client, body) = (world.client(), to(namespace, "u"));
    tokio::spawn(async move { rename(client, OLD, &body).await })
}

fn to(namespace: &str, name: &str) -> Value {
    json!({"new_table_name": name, "new_namespace_id": [namespace]})
}

/// The names of all tables in a catalog.
pub(super) fn names(world: &World, catalog: &str) -> Vec<String> {
    let tables = world.catalog(catalog).store().tables();
    tables.into_iter().map(|(name, _)| name).collect()
}

/// Returns every way in which a reader can see a table, each with whether it shows `table`.
async fn ways(world: &World, table: &str) -> Vec<(&'static str, bool)> {
    let (namespace, name) = table.split_once('$').unwrap();
    let client = world.client();
    let mut seen = Vec::new();
    for operation in ["describe", "exists", "version/list"] {
        let target = format!("/v1/table/{namespace}%24{name}/{operation}");
        let body = match operation {
            "describe" | "exists" => "{}",
            _ => "",
        };
        let client = client.header("content-type", "application/json");
        let reply = client.send(Method::POST, &target, crate::client::full(body));
        let reply = reply.await.unwrap();
        match reply.status {
            200 => seen.push((operation, true)),
            _ => {
                assert_eq!(reply.outcome(), (404, Some(4)), "{operation}: {reply:?}");
                seen.push((operation, false));
            }
        }
    }
    let listed = client
        .get(&format!("/v1/namespace/{namespace}/table/list"))
        .await;
    let listed = listed.ok().json()["tables"].clone();
    seen.push((
        "list_tables",
        listed.as_array().unwrap().contains(&json!(name)),
    ));
    let all = client.get("/v1/table?delimiter=%24").await.ok().json()["tables"].clone();
    seen.push((
        "list_all_tables",
        all.as_array().unwrap().contains(&json!(table)),
    ));
    seen
}

pub(super) async fn assert_seen(world: &World, table: &str, seen: bool, case: &str) {
    for (way, found) in ways(world, table).await {
        assert_eq!(found, seen, "{case}: {table} by {way}");
    }
}

/// Checks that readers see the table with all versions by its new name, and nothing by its old one.
async fn assert_renamed(world: &World, new: &str, case: &str) {
    assert_seen(world, "west$t1", false, case).await;
    assert_seen(world, new, true, case).await;
    assert_eq!(versions(world, new).await, [1, 2], "{case}");
    until("the old name is gone at its catalog", || {
        !names(world, "west").contains(&"west$t1".to_owned())
    })
    .await;
}

async fn assert_unchanged(world: &World, case: &str) {
    settled(world).await;
    for (catalog, expected) in [("west", "west$t1"), ("east", "east$t1")] {
        until(case, || names(world, catalog) == [expected]).await;
    }
    assert_seen(world, "west$t1", true, case).await;
    assert_eq!(versions(world, "west$t1").await, [1, 2], "{case}");
}

pub(super) async fn versions(world: &World, table: &str) -> Vec<u64> {
    let target = format!("/v1/table/{}/version/list", table.replace('$', "%24"));
    super::numbers(&world.client().post_nothing(&target).await.ok().json())
}

#[tokio::test]
async fn a_catalog_that_renames_is_left_to_it() {
    let setup = Setup::two().rerooted("[mirror]", "west", "[west]");
    let section = "batch: { log: batches.redb, lock_timeout: 200ms }";
    let world = setup.section(section).start().await;
    for name in ["west", "east"] {
        world.catalog(name).store().seed(&[name, "t1"], 1);
    }
    rename(world.client(), OLD, &json!({"new_table_name": "t2"}))
        .await
        .ok();
    // This is another mount of the same catalog, so the catalog gets its own names.
    rename(world.client(), "west%24t2", &to("mirror", "t3"))
        .await
        .ok();
    let back = json!({"new_table_name": "t1", "id": ["mirror", "t3"]});
    rename(world.client(), "mirror%24t3", &back).await.ok();
    assert_eq!(names(&world, "west"), ["west$t1"]);
    let seen = world.catalog("west").seen_of("rename_table");
    assert_eq!(seen[1].json()["new_namespace_id"], json!(["west"]));
    assert_eq!(seen[2].id, ["west", "t3"]);
    assert!(world.catalog("west").seen_of("register_table").is_empty());

    // The rename is refused while a batch is on the table.
    let (gate, batch) = prepared(&world, 2).await;
    let reply = rename(world.client(), OLD, &json!({"new_table_name": "t2"})).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    assert_eq!(world.catalog("west").seen_of("rename_table").len(), 3);
    gate.open();
    batch.await.unwrap().ok();
}

#[tokio::test]
async fn the_gateway_renames_where_the_catalog_cannot() {
    for missing in MISSING {
        let world = world().await;
        let BatchCreate::Missing(status, code, message) = missing else {
            continue;
        };
        let body = match message {
            "" => String::new(),
            _ => json!({"error": message, "code": code}).to_string(),
        };
        let west = world.catalog("west");
        west.can("rename_table", status, "application/json", body.as_bytes());
        let reply = rename(world.client(), OLD, &json!({"new_table_name": "u"})).await;
        let transaction = reply.ok().json()["transaction_id"].clone();
        let case = format!("{missing:?}");
        assert_renamed(&world, "west$u", &case).await;
        assert_eq!(told(&world, &transaction).await, "Succeeded");
        // The gateway remembers that the catalog has no rename.
        rename(world.client(), "west%24u", &json!({"new_table_name": "v"}))
            .await
            .ok();
        assert_eq!(west.seen_of("rename_table").len(), 1, "{case}");
        assert_renamed(&world, "west$v", &case).await;
    }
}

#[tokio::test]
async fn a_table_goes_from_one_mount_to_another() {
    for (namespace, at, name) in [("east", "east", "east$u"), ("mirror", "west", "west$u")] {
        let world = world().await;
        moved(&world, namespace).await.unwrap().ok();
        assert_renamed(&world, &format!("{namespace}$u"), namespace).await;
        assert!(names(&world, at).contains(&name.to_owned()));
        let place = world.catalog(at).store().tables();
        let place = place
            .into_iter()
            .find(|(known, _)| known == name)
            .unwrap()
            .1;
        assert_eq!(
            place, "file:///store/west$t1",
            "the data stay where they are"
        );
        // The table can be written at its new place.
        let next = json!({"id": [namespace, "u"], "version": 3, "manifest_path": "three"});
        world.catalog(at).store().stage("three", "3");
        let target = format!("/v1/table/{namespace}%24u/version/create");
        world.client().post(&target, &next).await.ok();
        assert_eq!(versions(&world, &format!("{namespace}$u")).await, [1, 2, 3]);
    }
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_changes_nothing() {
    let world = world().await;
    let cases = [
        ("west%24nothing", to("east", "u"), (404, Some(4))),
        ("west%24nothing", to("west", "u"), (404, Some(4))),
        (OLD, to("east", "t1"), (409, Some(5))),
        (OLD, json!({"new_table_name": "t1"}), (400, Some(13))),
        (OLD, to("mirror", "t1"), (400, Some(13))),
        (
            OLD,
            json!({"new_table_name": "u", "new_namespace_id": ["east", "nowhere"]}),
            (404, Some(1)),
        ),
        (OLD, to("nobody", "u"), (404, Some(1))),
        (
            OLD,
            json!({"new_table_name": "east", "new_namespace_id": []}),
            (400, Some(13)),
        ),
        (
            OLD,
            json!({"new_table_name": "u", "id": ["west", "t2"]}),
            (400, Some(13)),
        ),
        (OLD, json!({}), (400, Some(13))),
    ];
    for (table, body, expected) in cases {
        let reply = rename(world.client(), table, &body).await;
        assert_eq!(reply.outcome(), expected, "{table} {body}: {reply:?}");
        assert!(!reply.json().to_string().contains("entries["), "{reply:?}");
    }
    for name in ["west", "east"] {
        assert!(world.catalog(name).seen_of("register_table").is_empty());
    }
    assert_unchanged(&world, "refused").await;
}

#[tokio::test]
async fn readers_see_the_old_name_or_the_new_one_and_never_both() {
    for namespace in ["east", "west"] {
        let world = world().await;
        let (new, to) = (format!("{namespace}$u"), world.catalog(namespace));
        // The new name is registered at the catalog, but the rename is undecided.
        let gate = to.hold_answer("register_table");
        let again = Gate::new();
        to.fail_nth(
            "register_table",
            &[namespace, "u"],
            2,
            Fault::HoldAfter(again.clone()),
        );
        let last = hold_deregister(&world);
        let renamed = moved(&world, namespace);
        gate.reached(1).await;
        gate.open();
        again.reached(1).await;
        assert!(names(&world, namespace).contains(&new));
        assert_seen(&world, "west$t1", true, "undecided").await;
        assert_seen(&world, &new, false, "undecided").await;
        // The rename is committed, and the old name is still at its catalog.
        again.open();
        last.reached(1).await;
        renamed.await.unwrap().ok();
        assert!(names(&world, "west").contains(&"west$t1".to_owned()));
        assert_seen(&world, "west$t1", false, "committed").await;
        assert_seen(&world, &new, true, "committed").await;
        last.open();
        assert_renamed(&world, &new, "removed").await;
    }
}

/// The batch and the rename exclude each other, whichever of them comes first.
#[tokio::test]
async fn a_batch_on_the_table_and_its_rename_wait_for_each_other() {
    let world = over("lock_timeout: 200ms").await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 3));
    gate.reached(1).await;
    let reply = moved(&world, "east").await.unwrap();
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    gate.open();
    batch.await.unwrap().ok();
    let gate = world.catalog("east").hold("register_table");
    let renamed = moved(&world, "east");
    gate.reached(1).await;
    let reply = world.client().post(BATCH, &pair(&world, 4)).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    gate.open();
    renamed.await.unwrap().ok();
    assert_eq!(versions(&world, "east$u").await, [1, 2, 3]);
}
