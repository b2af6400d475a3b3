//! A table that is dropped by its new name while its old one is still being removed. Without its data the catalog says
//! of the old name that it is gone, which proves nothing about the removal.

use serde_json::{Value, json};

use super::super::at_rest;
use super::{hold_deregister, moved, names, over};
use crate::client::{Reply, full};
use crate::harness::World;

async fn drop_table(world: &World, table: &str) -> Reply {
    let target = format!("/v1/table/{table}/drop");
    world.client().post(&target, &Value::Null).await
}

#[tokio::test]
async fn a_table_is_dropped_once_its_old_name_is_removed() {
    let world = over("lock_timeout: 200ms").await;
    let gate = hold_deregister(&world);
    moved(&world, "west").await.unwrap().ok();
    gate.reached(1).await;
    // By its new name, and by a third one.
    let third = json!({"location": "west$t1"});
    let register = "/v1/table/west%24third/register";
    world.client().post(register, &third).await.ok();
    let mut locked = Vec::new();
    for table in ["west%24u", "west%24third"] {
        let reply = drop_table(&world, table).await;
        assert_eq!(reply.outcome(), (503, Some(17)), "{table}: {reply:?}");
        locked.push(reply.json()["locked_by"].is_string());
    }
    assert_eq!(locked, [true, false]);
    let overwrite = "/v1/table/west%24u/create?mode=overwrite";
    let reply = world.client().post_rows(overwrite, full("rows")).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    let west = world.catalog("west");
    assert!(west.seen_of("drop_table").is_empty() && west.seen_of("create_table").is_empty());
    gate.open();
    at_rest(&world).await;
    drop_table(&world, "west%24u").await.ok();
    assert_eq!(world.catalog("west").seen_of("drop_table").len(), 1);
}

#[tokio::test]
async fn a_drop_waits_for_the_removal_of_the_old_name() {
    let world = over("lock_timeout: 20s").await;
    let gate = hold_deregister(&world);
    moved(&world, "west").await.unwrap().ok();
    gate.reached(1).await;
    let at_catalog = world.catalog("west").hold("drop_table");
    let dropped = drop_table(&world, "west%24u");
    let (reply, ()) = tokio::join!(dropped, async {
        gate.open();
        at_catalog.reached(1).await;
        assert!(!names(&world, "west").contains(&"west$t1".to_owned()));
        at_catalog.open();
    });
    reply.ok();
}

/// A catalog that renames tables itself may move their data.
#[tokio::test]
async fn a_catalog_renames_a_table_again_once_its_old_name_is_removed() {
    let world = over("lock_timeout: 200ms").await;
    let east = world.catalog("east");
    east.can("rename_table", 200, "application/json", b"{}");
    let gate = hold_deregister(&world);
    moved(&world, "east").await.unwrap().ok();
    gate.reached(1).await;
    let again = async || {
        let to = json!({"new_table_name": "v", "new_namespace_id": ["east"]});
        let target = "/v1/table/east%24u/rename";
        world.client().post(target, &to).await
    };
    let reply = again().await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    assert!(east.seen_of("rename_table").is_empty());
    gate.open();
    at_rest(&world).await;
    again().await.ok();
    assert_eq!(east.seen_of("rename_table").len(), 1);
}
