//! A create that gets no answer and takes effect long after its batch was rolled back.

use std::time::Duration;

use serde_json::json;

use super::{BATCH, numbers, pair, stage, start, stored, until, visible, world};
use crate::catalog::faults::{BROKEN, Fault, PATIENCE};
use crate::client::full;
use crate::harness::World;

const TABLE: [&str; 2] = ["east", "t1"];

/// Starts a world with an aborted batch whose create in `east` got no clear answer and may still take effect.
async fn undone(settings: &str) -> World {
    let world = world(&format!("prepare_timeout: 2s, {settings}")).await;
    let fails = Fault::Instead(500, BROKEN);
    world
        .catalog("east")
        .fail_always("create_table_version", fails);
    let reply = world.client().post(BATCH, &pair(&world, 2)).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    until("west is undone", || stored(&world, "west") == [1]).await;
    world.catalog("east").behave();
    watches(&world, 1.0).await;
    world
}

/// Waits until `batches` batches are watched.
pub(super) async fn watches(world: &World, batches: f64) {
    open(world, "watching", batches).await;
}

/// Waits until `batches` batches are open in this state.
async fn open(world: &World, state: &str, batches: f64) {
    let sample = format!("nsgate_batches_open{{state=\"{state}\"}}");
    let waits = async {
        while world.metric(&sample).await != batches {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waits).await;
    assert!(waited.is_ok(), "never {batches} batches that are {state}");
}

/// Makes the staged version 2 appear in east, as if the catalog had executed the create late.
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

/// No other version 2 has been shown to anyone, so the repeated batch is not too late. It only has to wait.
#[tokio::test]
async fn a_batch_that_meets_it_is_told_to_wait() {
    let world = undone("").await;
    land(&world);
    let reply = world.client().post(BATCH, &pair(&world, 2)).await;
    assert!([200, 503].contains(&reply.status), "{reply:?}");
    until("it is undone", || {
        stored(&world, "east") != [1, 2] || reply.status == 200
    })
    .await;
    let again = pair(&world, 2);
    if reply.status == 503 {
        world.client().post(BATCH, &again).await.ok();
    }
    let versions = [visible(&world, "west").await, visible(&world, "east").await];
    assert_eq!(versions, [[1, 2], [1, 2]]);
}

/// Its table is locked again, and an operator may have to help.
#[tokio::test]
async fn it_is_shown_as_being_rolled_back() {
    let world = undone("slot_cooldown: 0s").await;
    let fails = Fault::Instead(500, BROKEN);
    let east = world.catalog("east");
    east.fail_always("batch_delete_table_versions", fails);
    land(&world);
    open(&world, "undoing", 1.0).await;
    east.behave();
    until("it is undone", || stored(&world, "east") == [1]).await;
    watches(&world, 1.0).await;
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

/// The cool-down of the number is over and another writer uses it. That version is theirs, however much it looks like
/// the batch's.
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

/// No delete of it was sent. One that was would be in the log.
#[tokio::test]
async fn it_does_not_keep_others_from_the_version_after_a_restart_either() {
    let mut world = undone("slot_cooldown: 0s").await;
    let create = "/v1/table/east%24t1/version/create";
    world.kill();
    world.restart().await;
    watches(&world, 1.0).await;
    let reply = world.client().post(create, &stage(&world, "east", 2)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    world.kill();
    world.restart().await;
    watches(&world, 0.0).await;
    assert_eq!(visible(&world, "east").await, [1, 2]);
    assert_eq!(stored(&world, "east"), [1, 2]);
}

/// Its delete got no answer, and may still arrive.
#[tokio::test]
async fn once_its_delete_may_arrive_nobody_makes_the_version_after_a_restart() {
    let mut world = undone("slot_cooldown: 0s").await;
    let gate = world.catalog("east").hold("batch_delete_table_versions");
    land(&world);
    gate.reached(1).await;
    world.kill();
    gate.open();
    until("it is deleted", || stored(&world, "east") == [1]).await;
    world.catalog("east").behave();
    world.restart().await;
    watches(&world, 1.0).await;
    let create = "/v1/table/east%24t1/version/create";
    let reply = world.client().post(create, &stage(&world, "east", 2)).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
}

/// Starts a world in which another writer's create of version 2 was forwarded and failed, and the gateway was killed.
/// A version 2 that appears now may be the batch's or that writer's.
async fn contested() -> World {
    let mut world = undone("slot_cooldown: 0s").await;
    let fails = Fault::Instead(500, BROKEN);
    let east = world.catalog("east");
    east.fail_always("create_table_version", fails);
    let create = "/v1/table/east%24t1/version/create";
    let reply = world.client().post(create, &stage(&world, "east", 2)).await;
    assert_eq!(reply.status, 500, "{reply:?}");
    world.catalog("east").behave();
    world.kill();
    world.restart().await;
    world
}

/// Waits until `hazards` changes wait for an operator.
async fn asks(world: &World, hazards: f64) {
    let asked = async {
        while world.metric("nsgate_batch_hazards").await != hazards {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let asked = tokio::time::timeout(PATIENCE, asked).await;
    assert!(asked.is_ok(), "never {hazards} that wait for a person");
}

#[tokio::test]
async fn what_may_be_ours_or_anothers_is_hidden_and_not_deleted_over_restarts() {
    let mut world = contested().await;
    world.kill();
    world.restart().await;
    land(&world);
    assert_eq!(visible(&world, "east").await, [1]);
    asks(&world, 1.0).await;
    assert_eq!(visible(&world, "east").await, [1]);
    assert_eq!(stored(&world, "east"), [1, 2]);
}

#[tokio::test]
async fn what_is_unlike_ours_is_anothers_after_a_restart() {
    let world = contested().await;
    let id = TABLE.map(str::to_owned);
    let other = "of another size".to_owned();
    world.catalog("east").store().put(&id, 2, other);
    watches(&world, 0.0).await;
    assert_eq!(visible(&world, "east").await, [1, 2]);
    assert_eq!(world.metric("nsgate_batch_hazards").await, 0.0);
}

/// The version was made alone or in a batch, and the gateway must learn from its log that it is the other writer's.
#[tokio::test]
async fn what_somebody_else_has_made_since_is_theirs_after_a_restart_too() {
    for alone in [true, false] {
        let mut world = undone("slot_cooldown: 0s").await;
        let version = stage(&world, "east", 2);
        let (target, body) = if alone {
            ("/v1/table/east%24t1/version/create", version)
        } else {
            (
                BATCH,
                json!({"entries": [stage(&world, "west", 2), version]}),
            )
        };
        world.client().post(target, &body).await.ok();
        // A batch that is killed before its end is on record would be watched afterwards.
        open(&world, "committed", 0.0).await;
        world.kill();
        world.restart().await;
        assert_eq!(visible(&world, "east").await, [1, 2], "alone: {alone}");
        watches(&world, 0.0).await;
        assert_eq!(stored(&world, "east"), [1, 2], "alone: {alone}");
    }
}

/// The log has forgotten who made the version, but still knows that it is not the aborted batch's.
#[tokio::test]
async fn what_somebody_else_has_made_since_is_theirs_when_that_is_forgotten() {
    let mut world = world("prepare_timeout: 2s, slot_cooldown: 0s, remember_outcomes: 0s").await;
    for name in ["west", "east"] {
        let fails = Fault::Instead(500, BROKEN);
        world
            .catalog(name)
            .fail_always("create_table_version", fails);
    }
    let reply = world.client().post(BATCH, &pair(&world, 2)).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    for name in ["west", "east"] {
        world.catalog(name).behave();
    }
    // The batch is still watched, because no other writer makes its version in west.
    watches(&world, 1.0).await;
    let east = json!({"entries": [stage(&world, "east", 2)]});
    let client = world.client().header("idempotency-key", "east");
    client.post(BATCH, &east).await.ok();
    open(&world, "committed", 0.0).await;
    for start in 1..=3 {
        world.kill();
        world.restart().await;
        assert_eq!(visible(&world, "east").await, [1, 2], "start {start}");
        watches(&world, 1.0).await;
    }
}

/// The table in which the first batch's create may still land is locked by the next batch. The lock must hold after a
/// restart too.
#[tokio::test]
async fn the_next_batch_keeps_its_table_locked_over_a_restart() {
    let mut world = undone("slot_cooldown: 0s").await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    world.kill();
    let fails = Fault::Instead(500, BROKEN);
    world
        .catalog("east")
        .fail_always("describe_table_version", fails);
    world.restart().await;
    let count = "/v1/table/east%24t1/count_rows";
    let reply = world.client().post(count, &json!({})).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    drop(batch);
}

/// A writer that reads storage directly may have found the late version and built on it.
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

/// The late version lands above a number that was rolled back and whose cool-down is over: the version below it is
/// missing.
#[tokio::test]
async fn whoever_asks_for_the_latest_version_is_shown_one_that_is_there() {
    let world = world("prepare_timeout: 2s, slot_cooldown: 0s").await;
    let east = world.catalog("east");
    for create in 2..20 {
        let fails = Fault::Instead(500, BROKEN);
        east.fail_nth("create_table_version", &TABLE, create, fails);
    }
    let chain = json!({"entries": [
        stage(&world, "west", 2), stage(&world, "east", 2), stage(&world, "east", 3),
    ]});
    let reply = world.client().post(BATCH, &chain).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    watches(&world, 1.0).await;
    let id = TABLE.map(str::to_owned);
    east.fail_always("batch_delete_table_versions", Fault::Instead(500, BROKEN));
    east.store().put(&id, 3, "east 3".into());
    assert_eq!(stored(&world, "east"), [1, 3]);
    let describe = "/v1/table/east%24t1/version/describe";
    let reply = world.client().post(describe, &json!({})).await.ok();
    assert_eq!(reply.json()["version"]["version"], 1);
    let reply = world.client().post(describe, &json!({"version": 2})).await;
    assert_eq!(reply.outcome(), (404, Some(11)), "{reply:?}");
}

/// The catalog chooses the number of an insert, and could build on a version that lands late. A writer that names its
/// version need not wait: once that version is made, no late create can take its number.
#[tokio::test]
async fn a_catalog_inserts_nothing_where_a_create_may_still_land() {
    let world = undone("slot_cooldown: 0s").await;
    let insert = "/v1/table/east%24t1/insert";
    let reply = world.client().post_rows(insert, full("6 rows")).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((800..=900).contains(&seconds), "{reply:?}");
    assert!(
        world
            .catalog("east")
            .seen_of("insert_into_table")
            .is_empty()
    );
    let create = "/v1/table/east%24t1/version/create";
    let mine = stage(&world, "east", 2);
    world.client().post(create, &mine).await.ok();
    world.client().post_rows(insert, full("6 rows")).await.ok();
    assert_eq!(visible(&world, "east").await, [1, 2, 3]);
    assert_eq!(world.metric("nsgate_batch_hazards").await, 0.0);
}

/// A count reads the version that the catalog considers the latest, which would be the late one.
#[tokio::test]
async fn no_reader_of_the_latest_version_is_shown_what_landed_late() {
    let world = undone("slot_cooldown: 0s").await;
    let east = world.catalog("east");
    east.fail_always("batch_delete_table_versions", Fault::Instead(500, BROKEN));
    let count = "/v1/table/east%24t1/count_rows";
    world.client().post(count, &json!({})).await.ok();
    land(&world);
    let reply = world.client().post(count, &json!({})).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
}

/// The table in which a create may still land keeps its name, and no other table gets that name.
#[tokio::test]
async fn what_may_still_land_belongs_to_its_table() {
    let world = undone("slot_cooldown: 0s").await;
    for (target, body) in [
        (
            "east%24t1/rename",
            json!({"new_table_name": "u", "new_namespace_id": ["east"]}),
        ),
        ("east%24t1/drop", json!(null)),
        ("east%24t1/deregister", json!({})),
        ("east%24t1/register", json!({"location": "elsewhere"})),
        ("east%24t1/declare", json!({})),
    ] {
        let reply = world
            .client()
            .post(&format!("/v1/table/{target}"), &body)
            .await;
        assert_eq!(reply.outcome(), (503, Some(17)), "{target}: {reply:?}");
    }
    let drop = "/v1/namespace/east/drop";
    let reply = world.client().post(drop, &json!({})).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    assert_eq!(visible(&world, "east").await, [1]);
}
