//! A create that got no answer and lands when its batch has long been undone.

use std::time::Duration;

use serde_json::json;

use super::{BATCH, numbers, pair, stage, stored, until, visible, world};
use crate::catalog::faults::{BROKEN, Fault, PATIENCE};
use crate::world::World;

const TABLE: [&str; 2] = ["east", "t1"];

/// A batch that was aborted although a create of it may still land: `east` was asked and never said.
async fn undone(settings: &str) -> World {
    let world = world(&format!("prepare_timeout: 300ms, {settings}")).await;
    let fails = Fault::Instead(500, BROKEN);
    world
        .catalog("east")
        .fail_always("create_table_version", fails);
    let reply = world.client().post(BATCH, &pair(&world, 2)).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    until("west is undone", || stored(&world, "west") == [1]).await;
    world.catalog("east").behave();
    watched(&world).await;
    world
}

async fn watched(world: &World) {
    let watches = async {
        while world
            .metric("nsgate_batches_open{state=\"watching\"}")
            .await
            < 1.0
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let watched = tokio::time::timeout(PATIENCE, watches).await;
    assert!(watched.is_ok(), "the undone batch is not watched");
}

/// What was staged becomes version 2, as if the catalog had taken its time.
fn land(world: &World) {
    let id = TABLE.map(str::to_owned);
    let mut store = world.catalog("east").store();
    store.put(&id, 2, "east 2".into());
}

#[tokio::test]
async fn it_is_never_seen_and_undone_as_well() {
    let world = undone("slot_cooldown: 0s").await;
    land(&world);
    assert_eq!(visible(&world, "east").await, [1]);
    until("the late create is undone", || {
        stored(&world, "east") == [1]
    })
    .await;
    assert_eq!(visible(&world, "east").await, [1]);
    assert_eq!(world.metric("nsgate_batch_late_creates_total").await, 1.0);
}

#[tokio::test]
async fn it_is_undone_after_a_restart_too() {
    let mut world = undone("slot_cooldown: 0s").await;
    world.kill();
    land(&world);
    world.restart().await;
    assert_eq!(visible(&world, "east").await, [1]);
    until("the late create is undone", || {
        stored(&world, "east") == [1]
    })
    .await;
}

/// The number has rested, and somebody else uses it: that version is theirs, however alike it looks.
#[tokio::test]
async fn what_somebody_else_has_made_since_is_theirs() {
    let world = undone("slot_cooldown: 0s").await;
    let create = "/v1/table/east%24t1/version/create";
    let reply = world.client().post(create, &stage(&world, "east", 2)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(visible(&world, "east").await, [1, 2]);
    let batch = json!({"entries": [stage(&world, "west", 2), stage(&world, "east", 3)]});
    let reply = world.client().post(BATCH, &batch).await.ok().json();
    assert_eq!(numbers(&reply), [2, 3]);
    assert_eq!(visible(&world, "east").await, [1, 2, 3]);
    assert_eq!(world.metric("nsgate_batch_hazards").await, 0.0);
}

/// Who read raw storage may have found it, and built on it.
#[tokio::test]
async fn what_is_built_on_it_is_refused() {
    let world = undone("slot_cooldown: 0s").await;
    land(&world);
    let create = "/v1/table/east%24t1/version/create";
    let reply = world.client().post(create, &stage(&world, "east", 3)).await;
    assert_eq!(reply.outcome(), (409, Some(14)), "{reply:?}");
    until("the late create is undone", || {
        stored(&world, "east") == [1]
    })
    .await;
}
