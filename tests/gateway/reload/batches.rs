//! What a reload takes away is there for the batches that began with it.

use std::time::Duration;

use serde_json::{Value, json};

use super::{logged, with};
use crate::batches::{BATCH, pair, stage, start, stored, until, visible, world};
use crate::catalog::faults::{BROKEN, Fault, PATIENCE};
use crate::world::World;

const REFUSED: Fault = Fault::Instead(400, r#"{"error":"no","code":13}"#);
const DELETE: &str = "batch_delete_table_versions";

/// The configuration without west: neither its mount nor its backend.
fn without_west(world: &World) -> String {
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

async fn counted(world: &World, state: &str) -> u64 {
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
        warned.contains("`west` is gone") && warned.contains("1 unfinished batch"),
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
    let gate = world.catalog("east").hold("create_table_version");
    world.catalog("east").fail("create_table_version", REFUSED);
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    until("west is prepared", || stored(&world, "west") == [1, 2]).await;
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
    // Back again, while the undo is not done: still hidden, still locked.
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
    logged(&world, "is not configured any more").await;
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

/// The configuration in which the backend west has another name, and its tables are where they were.
fn west_renamed(yaml: &str) -> String {
    let yaml = with(yaml, "  west:\n", "  north:\n");
    with(&yaml, "backend: west,", "backend: north,")
}

/// The configuration in which each backend has the other's name.
fn swapped(yaml: &str) -> String {
    let yaml = with(yaml, "  west:\n", "  other:\n");
    let yaml = with(&yaml, "  east:\n", "  west:\n");
    let yaml = with(&yaml, "  other:\n", "  east:\n");
    let yaml = with(&yaml, "backend: west,", "backend: other,");
    let yaml = with(&yaml, "backend: east,", "backend: west,");
    with(&yaml, "backend: other,", "backend: east,")
}

/// Whether a change of the table is refused because a batch is on it.
async fn is_locked(world: &World, name: &str) -> bool {
    let restore = format!("/v1/table/{name}%24t1/restore");
    let held = world
        .client()
        .post(&restore, &json!({"version": 1}))
        .await
        .outcome();
    assert!(held == (503, Some(17)) || held.0 == 200, "{held:?}");
    held.0 == 503
}

#[tokio::test]
async fn a_backend_that_a_reload_renames_hides_what_its_old_name_hid() {
    for other in [west_renamed, swapped] {
        let world = world("lock_timeout: 200ms").await;
        let yaml = world.configuration();
        let gate = world.catalog("east").hold("create_table_version");
        let batch = start(world.client(), pair(&world, 2));
        gate.reached(1).await;
        until("west is prepared", || stored(&world, "west") == [1, 2]).await;
        world.reload(&other(&yaml)).await.ok();
        assert_eq!(visible(&world, "west").await, [1], "nobody has decided");
        assert!(is_locked(&world, "west").await);
        gate.open();
        batch.await.unwrap().ok();
        let both = (visible(&world, "west").await, visible(&world, "east").await);
        assert_eq!(both, (vec![1, 2], vec![1, 2]));
        assert!(!is_locked(&world, "west").await);
    }
}

#[tokio::test]
async fn a_backend_that_comes_back_under_another_name_hides_what_it_hid() {
    let world = world("lock_timeout: 200ms").await;
    let yaml = world.configuration();
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    until("west is prepared", || stored(&world, "west") == [1, 2]).await;
    world.reload(&without_west(&world)).await.ok();
    let reply = world.reload(&west_renamed(&yaml)).await.ok();
    assert_eq!(visible(&world, "west").await, [1], "{reply:?}");
    assert!(is_locked(&world, "west").await);
    gate.open();
    batch.await.unwrap().ok();
    assert_eq!(visible(&world, "west").await, [1, 2]);
}

#[tokio::test]
async fn a_batch_is_undone_after_a_restart_that_renames_its_backends() {
    for other in [west_renamed, swapped] {
        let mut world = world("lock_timeout: 200ms").await;
        let yaml = world.configuration();
        let gate = world.catalog("east").hold("create_table_version");
        let batch = start(world.client(), pair(&world, 2));
        gate.reached(1).await;
        until("west is prepared", || stored(&world, "west") == [1, 2]).await;
        world.configure(&other(&yaml));
        world.kill();
        // While its catalog does not undo it, it is seen who is hidden.
        let west = world.catalog("west");
        west.fail_always(DELETE, Fault::Instead(500, BROKEN));
        drop((batch, gate));
        world.restart().await;
        assert_eq!(counted(&world, "stranded").await, 0);
        assert_eq!(visible(&world, "west").await, [1]);
        assert!(is_locked(&world, "west").await);
        world.catalog("west").behave();
        until("west is undone", || stored(&world, "west") == [1]).await;
    }
}

#[tokio::test]
async fn a_stranded_batch_goes_on_when_its_backend_is_back_under_another_name() {
    let mut world = undone("slot_cooldown: 0s").await;
    let yaml = world.configuration();
    strand(&mut world).await;
    land(&world);
    assert_eq!(visible(&world, "east").await, [1]);
    world.reload(&west_renamed(&yaml)).await.ok();
    until("it is undone", || stored(&world, "east") == [1]).await;
    assert_eq!(counted(&world, "stranded").await, 0);
}

#[tokio::test]
async fn a_reload_that_gives_a_catalog_a_second_name_is_refused() {
    let world = world("").await;
    let yaml = world.configuration();
    let uri = world.catalog("west").uri();
    for uri in [uri.clone(), uri.replace("127.0.0.1", "localhost") + "/"] {
        let second = format!(
            "backends:\n  second:\n    implementation: rest\n    properties: {{ uri: \"{uri}\" }}\n"
        );
        let doubled = with(&yaml, "backends:\n", &second);
        let reply = world.reload(&doubled).await;
        assert_eq!(reply.status, 422, "{reply:?}");
        let told = reply.json()["problems"].to_string();
        assert!(
            told.contains("leads to the catalog of backend `second`"),
            "{told}"
        );
    }
}

/// An aborted batch of which west is undone, while a create in east got no answer and may land yet.
async fn undone(settings: &str) -> World {
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

/// Waits until a batch is undone but for what may land late.
async fn watched(world: &World) {
    let watches = async {
        while counted(world, "watching").await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let watches = tokio::time::timeout(PATIENCE, watches).await;
    watches.expect("it is undone");
}

/// Version 2 of east as somebody else makes it, or as what was staged and lands late: nothing tells one from the other.
fn land(world: &World) {
    let id = ["east".to_owned(), "t1".to_owned()];
    world.catalog("east").store().put(&id, 2, "EAST 2".into());
}

/// A restart without west, which the batch needs to be taken over.
async fn strand(world: &mut World) {
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

#[tokio::test]
async fn what_somebody_else_has_made_while_the_backend_was_away_is_theirs() {
    let mut world = undone("slot_cooldown: 0s").await;
    let yaml = world.configuration();
    strand(&mut world).await;
    let create = "/v1/table/east%24t1/version/create";
    let made = world.client().post(create, &stage(&world, "east", 2)).await;
    made.ok();
    world.reload(&yaml).await.ok();
    let over = async {
        while counted(&world, "stranded").await + counted(&world, "watching").await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, over)
        .await
        .expect("nothing of it is watched for any more");
    assert_eq!(stored(&world, "east"), [1, 2]);
    assert_eq!(visible(&world, "east").await, [1, 2]);
}
