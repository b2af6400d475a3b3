//! A backend that a reload removes stays available to the batches that began with it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{logged, with};
use crate::batches::{BATCH, pair, prepared_to_fail, stage, start, stored, until, visible, world};
use crate::catalog::faults::{BROKEN, Fault, PATIENCE};
use crate::harness::World;

const REFUSED: Fault = Fault::Instead(400, r#"{"error":"no","code":13}"#);
pub(super) const DELETE: &str = "batch_delete_table_versions";

/// Returns the configuration without west: neither its mount nor its backend.
pub(super) fn without_west(world: &World) -> String {
    let yaml = world.configuration();
    let begin = yaml.find("  west:\n").unwrap();
    let end = yaml.find("  east:\n").unwrap();
    let yaml = format!("{}{}", &yaml[..begin], &yaml[end..]);
    with(
        &yaml,
        "  - { namespace: [west], backend: west, backend_namespace: [west] }\n",
        "",
    )
}

pub(super) async fn counted(world: &World, state: &str) -> u64 {
    world
        .metric(&format!("nsgate_batches_open{{state=\"{state}\"}}"))
        .await as u64
}

#[tokio::test]
async fn a_batch_in_prepare_commits_though_its_backend_is_removed() {
    let world = world("").await;
    let yaml = world.configuration();
    let gate = world.catalog("west").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    let reply = world.reload(&without_west(&world)).await.ok().json();
    let warned = reply["warnings"].to_string();
    assert!(
        warned.contains("`west` was removed") && warned.contains("1 unfinished batch"),
        "{warned}"
    );
    let gone = world
        .client()
        .post_nothing("/v1/table/west%24t1/version/list")
        .await;
    assert_eq!(gone.outcome(), (404, Some(4)));
    gate.open();
    batch.await.unwrap().ok();
    assert_eq!(
        (stored(&world, "west"), visible(&world, "east").await),
        (vec![1, 2], vec![1, 2])
    );
    world.reload(&yaml).await.ok();
    assert_eq!(visible(&world, "west").await, [1, 2]);
}

#[tokio::test]
async fn a_batch_in_prepare_aborts_and_is_undone_though_its_backend_is_removed() {
    let world = world("").await;
    let yaml = world.configuration();
    let (gate, batch) = prepared_to_fail(&world, 2, REFUSED).await;
    world.reload(&without_west(&world)).await.ok();
    gate.open();
    assert_eq!(batch.await.unwrap().status, 400);
    until("west is undone", || stored(&world, "west") == [1]).await;
    world.reload(&yaml).await.ok();
    assert_eq!(
        (visible(&world, "west").await, visible(&world, "east").await),
        (vec![1], vec![1])
    );
}

#[tokio::test]
async fn an_undo_goes_on_after_its_backend_is_removed_and_ends_when_the_catalog_is_well() {
    let world = world("lock_timeout: 200ms").await;
    let yaml = world.configuration();
    let west = world.catalog("west");
    west.fail_always(DELETE, Fault::Instead(500, BROKEN));
    world.catalog("east").fail("create_table_version", REFUSED);
    assert_eq!(
        world.client().post(BATCH, &pair(&world, 2)).await.status,
        400
    );
    until("west refuses to undo", || !west.seen_of(DELETE).is_empty()).await;
    world.reload(&without_west(&world)).await.ok();
    let tried = west.seen_of(DELETE).len();
    until("it is tried again", || west.seen_of(DELETE).len() > tried).await;
    // West is back before the rollback is done, so its version must still be hidden and its table locked.
    world.reload(&yaml).await.ok();
    assert_eq!(visible(&world, "west").await, [1]);
    let held = world
        .client()
        .post("/v1/table/west%24t1/restore", &json!({"version": 1}))
        .await;
    assert_eq!(held.outcome(), (503, Some(17)));
    world.reload(&without_west(&world)).await.ok();
    west.behave();
    until("west is undone", || stored(&world, "west") == [1]).await;
}

/// The catalog may have moved, or another one may have taken its name: only an operator knows.
#[tokio::test]
async fn an_undo_asks_the_address_that_its_batch_began_with_and_says_so() {
    let world = world("lock_timeout: 200ms").await;
    let west = world.catalog("west");
    west.fail_always(DELETE, Fault::Instead(500, BROKEN));
    world.catalog("east").fail("create_table_version", REFUSED);
    let reply = world.client().post(BATCH, &pair(&world, 2)).await;
    assert_eq!(reply.status, 400);
    let error = error_with(&world, "disk on fire").await;
    assert!(!error.contains("configured"), "{error}");
    let before = west.uri();
    let moved = with(&world.configuration(), &before, "http://127.0.0.1:1");
    world.reload(&moved).await.ok();
    let error = error_with(&world, "Configure it again and reload").await;
    let port = before.rsplit(':').next().unwrap();
    assert!(error.contains("disk on fire"), "{error}");
    assert!(error.contains(port), "{error}");
    west.behave();
    until("west is undone", || stored(&world, "west") == [1]).await;
}

/// Waits until the error of the first open batch has these words. Returns it.
async fn error_with(world: &World, words: &str) -> String {
    let told = async {
        loop {
            let open = world.admin().get("/batches").await.ok().json();
            let error = open["batches"][0]["error"].to_string();
            if error.contains(words) {
                return error;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let told = tokio::time::timeout(PATIENCE, told).await;
    told.expect("the batch tells its error")
}

#[tokio::test]
async fn a_restart_without_the_backend_keeps_what_is_undecided_hidden_until_it_is_back() {
    let mut world = world("lock_timeout: 200ms").await;
    let yaml = world.configuration();
    let gate = world.catalog("west").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    until("east is prepared", || stored(&world, "east") == [1, 2]).await;
    world.configure(&without_west(&world));
    world.kill();
    gate.open();
    drop(batch);
    world.restart().await;
    assert_eq!(counted(&world, "stranded").await, 1);
    logged(&world, "is no longer configured").await;
    assert_eq!(visible(&world, "east").await, [1], "nobody has decided");
    let held = world
        .client()
        .post("/v1/table/east%24t1/restore", &json!({"version": 1}))
        .await;
    assert_eq!(held.outcome(), (503, Some(17)), "locked");
    world.catalog("west").behave();
    world.reload(&yaml).await.ok();
    let over = async {
        while counted(&world, "stranded").await + counted(&world, "undecided").await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, over)
        .await
        .expect("it is taken over");
    let both = (visible(&world, "west").await, visible(&world, "east").await);
    assert!(both.0 == both.1, "{both:?}");
}

/// Aborts a batch: west is rolled back, but a create in east got no clear answer and may still land.
pub(super) async fn undone(settings: &str) -> World {
    let world = world(&format!(
        "prepare_timeout: 300ms, lock_timeout: 200ms, {settings}"
    ))
    .await;
    let east = world.catalog("east");
    east.fail_always("create_table_version", Fault::Instead(500, BROKEN));
    let reply = world.client().post(BATCH, &pair(&world, 2)).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    watched(&world).await;
    east.behave();
    world
}

/// Waits until a batch is rolled back, except for creates that may still land.
async fn watched(world: &World) {
    let watches = async {
        while counted(world, "watching").await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let watches = tokio::time::timeout(PATIENCE, watches).await;
    watches.expect("it is undone");
}

/// Makes version 2 of east appear. It may be another writer's or the staged one that lands late; nothing
/// distinguishes the two.
pub(super) fn land(world: &World) {
    let id = ["east".to_owned(), "t1".to_owned()];
    world.catalog("east").store().put(&id, 2, "EAST 2".into());
}

/// Restarts the gateway without west, which is needed to take over the batch.
pub(super) async fn strand(world: &mut World) {
    world.configure(&without_west(world));
    world.kill();
    world.restart().await;
    assert_eq!(counted(world, "stranded").await, 1);
}

#[tokio::test]
async fn a_restart_without_the_backend_keeps_a_hazard_hidden_and_locked() {
    let mut world = world("lock_timeout: 200ms").await;
    let yaml = world.configuration();
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    land(&world);
    gate.open();
    assert_eq!(batch.await.unwrap().status, 409);
    let is_hazard = |page: &Value| page["batches"][0]["state"] == "hazard";
    while !is_hazard(&world.admin().get("/batches").await.ok().json()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    strand(&mut world).await;
    for state in ["stranded", "hazard"] {
        assert_eq!(visible(&world, "east").await, [1], "{state}");
        let held = world
            .client()
            .post("/v1/table/east%24t1/restore", &json!({"version": 1}))
            .await;
        assert_eq!(held.outcome(), (503, Some(17)), "{state}");
        world.reload(&yaml).await.ok();
    }
}

#[tokio::test]
async fn a_restart_without_the_backend_hides_what_lands_late_until_it_is_back() {
    let mut world = undone("slot_cooldown: 0s").await;
    let yaml = world.configuration();
    strand(&mut world).await;
    land(&world);
    assert_eq!(visible(&world, "east").await, [1]);
    world.reload(&yaml).await.ok();
    until("it is undone", || stored(&world, "east") == [1]).await;
    assert_eq!(visible(&world, "east").await, [1]);
}

/// Without the backend, what lands late is not noticed. With it, it is watched for, and another writer may make the
/// version: no delete of it was sent.
#[tokio::test]
async fn what_may_still_land_rests_while_the_backend_is_away() {
    let mut world = undone("slot_cooldown: 0s").await;
    let yaml = world.configuration();
    strand(&mut world).await;
    let create = "/v1/table/east%24t1/version/create";
    let refused = world.client().post(create, &stage(&world, "east", 2)).await;
    assert_eq!(refused.outcome(), (503, Some(17)), "{refused:?}");
    let above = world.client().post(create, &stage(&world, "east", 3)).await;
    assert_eq!(above.outcome(), (409, Some(14)), "{above:?}");
    assert_eq!(visible(&world, "east").await, [1]);
    world.reload(&yaml).await.ok();
    let begun = Instant::now();
    while world
        .client()
        .post(create, &stage(&world, "east", 2))
        .await
        .status
        != 200
    {
        assert!(begun.elapsed() < PATIENCE, "nobody may make it");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(visible(&world, "east").await, [1, 2]);
}

#[tokio::test]
async fn a_key_finds_its_batch_though_a_mount_of_it_was_removed() {
    let mut world = world("").await;
    let keyed = |world: &World, key| world.client().header("idempotency-key", key);
    let yaml = world.configuration();
    let body = pair(&world, 2);
    let first = keyed(&world, "done").post(BATCH, &body).await.ok().json();
    world.reload(&without_west(&world)).await.ok();
    let again = keyed(&world, "done").post(BATCH, &body).await.ok();
    assert_eq!(again.json(), first);
    let new = keyed(&world, "new").post(BATCH, &body).await;
    assert_eq!(new.outcome(), (404, Some(4)));
    // The batch that is undecided when the process ends is not given up, either.
    world.reload(&yaml).await.ok();
    let gate = world.catalog("west").hold("create_table_version");
    let open = pair(&world, 3);
    let lost = start(keyed(&world, "open"), open.clone());
    gate.reached(1).await;
    world.kill();
    lost.abort();
    world.configure(&without_west(&world));
    world.restart().await;
    let again = keyed(&world, "open").post(BATCH, &open).await;
    assert_eq!(again.status, 503, "{again:?}");
    let id = again.json()["transaction_id"].clone();
    assert!(id.is_string(), "{again:?}");
}
