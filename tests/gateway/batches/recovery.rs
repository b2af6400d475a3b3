//! Kills of the gateway before the decision of a batch, and while it is undone: after the next start all of it is there,
//! or nothing. Kills after the decision are where something is left to do then: `mixed.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{
    BATCH, assert_both, at_rest, pair, prepared, settled, start, stored, until, visible, world,
};
use crate::catalog::faults::{Fault, Gate};
use crate::harness::World;

/// Kills the gateway, opens the gates, removes all faults, and starts the gateway again.
async fn dies(world: &mut World, gates: &[&Gate]) {
    world.kill();
    for gate in gates {
        gate.open();
    }
    for name in ["west", "east"] {
        world.catalog(name).behave();
    }
    world.restart().await;
}

/// Checks that both versions are there or neither, and that this holds after another restart; true
/// if committed.
async fn all_or_nothing(world: &mut World, case: &str) -> bool {
    settled(world).await;
    let west = visible(world, "west").await;
    let committed = west == [1, 2];
    let versions: &[u64] = if committed { &[1, 2] } else { &[1] };
    assert_both(world, versions, case).await;
    world.restart().await;
    assert_both(world, versions, &format!("{case}, started once more")).await;
    committed
}

#[tokio::test]
async fn before_any_create_arrived() {
    let mut world = world("").await;
    let (west, east) = (
        world.catalog("west").hold("create_table_version"),
        world.catalog("east").hold("create_table_version"),
    );
    let batch = start(world.client(), pair(&world, 2));
    west.reached(1).await;
    east.reached(1).await;
    dies(&mut world, &[]).await;
    assert!(!all_or_nothing(&mut world, "before any create").await);
    drop(batch);
}

/// The next start must not know of the batch: it would take the other writer's version, which looks the same, for the
/// batch's own.
#[tokio::test]
async fn while_the_catalogs_validate() {
    let mut world = world("").await;
    world.catalog("east").store().seed(&["east", "t2"], 1);
    world.catalog("west").store().stage("other", "west X");
    let create = json!({"version": 2, "manifest_path": "other", "manifest_size": 6});
    let west = "/v1/table/west%24t1/version/create";
    world.client().post(west, &create).await.ok();
    let gate = world.catalog("west").hold("list_table_versions");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    // Nothing of the first batch waits to be written once another one is committed.
    world.catalog("east").store().stage("second", "second");
    let other =
        json!({"id": ["east", "t2"], "version": 2, "manifest_path": "second", "manifest_size": 6});
    let other = json!({"entries": [other]});
    world.client().post(BATCH, &other).await.ok();
    dies(&mut world, &[&gate]).await;
    settled(&world).await;
    assert_eq!(visible(&world, "west").await, [1, 2]);
    let versions = world.catalog("west").store().contents(&["west", "t1"]);
    assert_eq!(versions.unwrap()[1], (2, "west X".to_owned()));
    assert_eq!(visible(&world, "east").await, [1]);
    drop(batch);
}

#[tokio::test]
async fn between_two_creates() {
    for first in ["west", "east"] {
        let mut world = world("").await;
        let second = if first == "west" { "east" } else { "west" };
        let gate = world.catalog(second).hold("create_table_version");
        let batch = start(world.client(), pair(&world, 2));
        gate.reached(1).await;
        until("the first is prepared", || stored(&world, first) == [1, 2]).await;
        dies(&mut world, &[]).await;
        assert!(!all_or_nothing(&mut world, first).await);
        let deletes = world.catalog(first).seen_of("batch_delete_table_versions");
        let ranges: Vec<Value> = deletes
            .iter()
            .map(|seen| seen.json()["ranges"].clone())
            .collect();
        assert_eq!(
            ranges,
            [json!([{"start_version": 2, "end_version": 3}])],
            "{first}"
        );
        // The gateway acts in its own name, because no caller's token outlives its request.
        let service = format!("Bearer service-of-{first}");
        assert_eq!(deletes[0].header("authorization"), Some(service.as_str()));
        drop(batch);
    }
}

/// The batch used up what was staged for it, so that it could never be carried out again: a repeat would blame its client.
#[tokio::test]
async fn a_batch_that_was_undone_is_told_so_for_as_long_as_its_key_is_known() {
    let mut world = world("").await;
    let gate = world.catalog("east").hold("create_table_version");
    let body = pair(&world, 2);
    let client = world.client().header("idempotency-key", "k1");
    let batch = start(client, body.clone());
    gate.reached(1).await;
    until("west is prepared", || stored(&world, "west") == [1, 2]).await;
    dies(&mut world, &[]).await;
    drop(batch);
    for start in ["first", "second"] {
        let client = world.client().header("idempotency-key", "k1");
        let again = client.post(BATCH, &body).await;
        assert_eq!(again.outcome(), (409, Some(14)), "{start}: {again:?}");
        let words = again.json()["error"].to_string();
        assert!(
            words.contains("begin again with a new `Idempotency-Key`"),
            "{words}"
        );
        at_rest(&world).await;
        assert_both(&world, &[1], start).await;
        world.restart().await;
    }
    let anew = world.client().header("idempotency-key", "k2");
    anew.post(BATCH, &pair(&world, 2)).await.ok();
    assert_both(&world, &[1, 2], "begun again").await;
}

/// Holds also if a catalog was away when the gateway came back: what the batch staged is used up.
#[tokio::test]
async fn nor_is_one_tried_anew_whose_catalog_is_away_after_the_start() {
    let mut world = world("prepare_timeout: 1s").await;
    let gate = world.catalog("east").hold("create_table_version");
    let body = pair(&world, 2);
    let keyed = |world: &World| world.client().header("idempotency-key", "k1");
    let batch = start(keyed(&world), body.clone());
    gate.reached(1).await;
    until("west is prepared", || stored(&world, "west") == [1, 2]).await;
    world.kill();
    drop(batch);
    world.catalog("east").stop().await;
    world.restart().await;
    for asked in ["while it waits", "undone"] {
        let again = keyed(&world).post(BATCH, &body).await;
        assert_eq!(again.outcome(), (409, Some(14)), "{asked}: {again:?}");
        assert_eq!(again.json()["decided"], true, "{asked}: {again:?}");
    }
    world.catalog("east").behave();
    world.catalog("east").resume();
    settled(&world).await;
    assert_both(&world, &[1], "undone").await;
}

#[tokio::test]
async fn after_both_creates_and_before_their_answers() {
    let mut world = world("").await;
    let (west, east) = (
        world.catalog("west").hold_answer("create_table_version"),
        world.catalog("east").hold_answer("create_table_version"),
    );
    let batch = start(world.client(), pair(&world, 2));
    west.reached(1).await;
    east.reached(1).await;
    dies(&mut world, &[&west, &east]).await;
    // Both versions are there and both are the batch's, so only the record of the decision was
    // missing.
    assert!(all_or_nothing(&mut world, "unanswered").await);
    drop(batch);
}

#[tokio::test]
async fn in_the_middle_of_undoing() {
    let mut world = world("").await;
    let gate = world.catalog("west").hold("batch_delete_table_versions");
    let refusal = Fault::Instead(400, r#"{"error":"no","code":13}"#);
    world.catalog("east").fail("create_table_version", refusal);
    let reply = world.client().post(BATCH, &pair(&world, 2)).await;
    assert_eq!(reply.status, 400);
    gate.reached(1).await;
    assert_eq!(visible(&world, "west").await, [1]);
    dies(&mut world, &[]).await;
    assert!(!all_or_nothing(&mut world, "undoing").await);
}

#[tokio::test]
async fn right_after_the_answer() {
    let mut world = world("").await;
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
    dies(&mut world, &[]).await;
    assert!(all_or_nothing(&mut world, "committed").await);
    world.client().post(BATCH, &pair(&world, 3)).await.ok();
    assert_both(&world, &[1, 2, 3], "and on").await;
}

#[tokio::test]
async fn a_catalog_that_is_away_keeps_only_its_own_tables_locked() {
    let mut world = world("lock_timeout: 200ms").await;
    let (_, batch) = prepared(&world, 2).await;
    world.kill();
    world.catalog("east").behave();
    world.catalog("west").stop().await;
    world.restart().await;
    until("east is free", || stored(&world, "east") == [1]).await;
    let count = "/v1/table/east%24t1/count_rows";
    for (name, table) in [("east", count), ("west", "/v1/table/west%24t1/count_rows")] {
        let mut reply = world.client().post(table, &json!({})).await;
        for _ in 0..50 {
            if name == "west" || reply.status == 200 {
                break;
            }
            reply = world.client().post(table, &json!({})).await;
        }
        assert_eq!(
            reply.status,
            if name == "east" { 200 } else { 503 },
            "{name}: {reply:?}"
        );
    }
    world.catalog("west").resume();
    until("west is undone", || stored(&world, "west") == [1]).await;
    assert_both(&world, &[1], "undone").await;
    drop(batch);
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_not_served_from() {
    let mut world = world("").await;
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
    world.kill();
    let log = world.folder().join("batches.redb");
    let mut bytes = std::fs::read(&log).unwrap();
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte ^= u8::try_from(at % 251).unwrap();
    }
    std::fs::write(&log, bytes).unwrap();
    assert_eq!(world.try_start().await, Some(3));
}

/// The folder may belong to a volume that is not mounted, so the gateway must not begin a new log
/// there.
#[tokio::test]
async fn a_log_whose_folder_is_missing_is_not_begun_unasked() {
    let mut world = world("").await;
    world.kill();
    let elsewhere = world
        .configuration()
        .replace("batches.redb", "data/batches.redb");
    world.configure(&elsewhere);
    assert_eq!(world.try_start().await, Some(3));
    assert!(!world.folder().join("data").exists());
    let mut check = std::process::Command::new(env!("CARGO_BIN_EXE_nsgate"));
    check.args(["check", "--config"]);
    let checked = check
        .arg(world.folder().join("gateway.yaml"))
        .output()
        .unwrap();
    let said = String::from_utf8(checked.stderr).unwrap();
    assert!(
        checked.status.success(),
        "it may be elsewhere that it runs: {said}"
    );
    assert!(
        said.contains("warning: batch.log") && said.contains("mkdir -p"),
        "{said}"
    );
    let create = elsewhere.replace("redb,", "redb, create_folder: true,");
    world.configure(&create);
    world.restart().await;
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
}

/// The copy was taken while the gateway ran, and is put back after a crash.
#[tokio::test]
async fn an_old_copy_of_the_log_is_not_served_from() {
    let mut world = world("").await;
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
    let log = world.folder().join("batches.redb");
    let (mark, copy) = (log.with_extension("redb.mark"), log.with_extension("old"));
    let counted = || std::fs::read_to_string(&mark).unwrap();
    std::fs::copy(&log, &copy).unwrap();
    let before = counted();
    world.client().post(BATCH, &pair(&world, 3)).await.ok();
    until("what came after the copy is counted", || {
        counted() != before
    })
    .await;
    world.kill();
    std::fs::rename(&log, log.with_extension("newest")).unwrap();
    std::fs::copy(&copy, &log).unwrap();
    assert_eq!(world.try_start().await, Some(3));
    std::fs::remove_file(&log).unwrap();
    assert_eq!(world.try_start().await, Some(3), "no log, and a mark");
    std::fs::rename(log.with_extension("newest"), &log).unwrap();
    world.restart().await;
    assert_both(&world, &[1, 2, 3], "from the newest log").await;
}

#[tokio::test]
async fn a_stop_leaves_a_log_that_needs_no_repair() {
    let mut world = world("").await;
    for version in 2..6 {
        world
            .client()
            .post(BATCH, &pair(&world, version))
            .await
            .ok();
        world.terminate();
        assert_eq!(world.ended().await, Some(0));
        let repaired = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&repaired);
        let opened = redb::Builder::new()
            .set_repair_callback(move |_| seen.store(true, Ordering::Relaxed))
            .open(world.folder().join("batches.redb"));
        drop(opened.unwrap());
        assert!(!repaired.load(Ordering::Relaxed), "{version}");
        world.restart().await;
    }
}
