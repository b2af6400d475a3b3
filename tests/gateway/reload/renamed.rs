//! A backend that a reload or a restart renames is still the same catalog.

use serde_json::json;

use super::batches::{DELETE, counted, land, strand, undone, without_west};
use super::with;
use crate::batches::{pair, prepared, stage, start, stored, until, visible, world};
use crate::catalog::faults::{BROKEN, Fault};
use crate::harness::World;

/// Returns the configuration with the backend west under another name, and its tables where they
/// were.
fn west_renamed(yaml: &str) -> String {
    let yaml = with(yaml, "  west:\n", "  north:\n");
    with(&yaml, "backend: west,", "backend: north,")
}

/// Returns the configuration in which each backend has the other's name.
fn swapped(yaml: &str) -> String {
    let yaml = with(yaml, "  west:\n", "  other:\n");
    let yaml = with(&yaml, "  east:\n", "  west:\n");
    let yaml = with(&yaml, "  other:\n", "  east:\n");
    let yaml = with(&yaml, "backend: west,", "backend: other,");
    let yaml = with(&yaml, "backend: east,", "backend: west,");
    with(&yaml, "backend: other,", "backend: east,")
}

/// Returns true if a change of the table is refused because a batch has locked it.
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
        let (gate, batch) = prepared(&world, 2).await;
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
async fn a_reload_tells_of_batches_that_go_on_with_a_renamed_backend() {
    let world = world("").await;
    let yaml = world.configuration();
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    let reply = world.reload(&west_renamed(&yaml)).await.ok().json();
    let warned = reply["warnings"].to_string();
    let words = "backend `west` is now called `north`; 1 unfinished batch still uses its catalog";
    assert!(warned.contains(words), "{warned}");
    gate.open();
    batch.await.unwrap().ok();
}

#[tokio::test]
async fn a_name_that_is_not_decided_stays_hidden_when_its_backend_is_renamed() {
    let world = world("").await;
    let yaml = world.configuration();
    let gate = world.catalog("east").hold("create_table_version");
    let operations = json!([
        {"declare_table": {"id": ["west", "new"]}},
        {"create_table_version": stage(&world, "east", 2)},
    ]);
    let client = world.client();
    let commit = json!({"operations": operations});
    let batch = tokio::spawn(async move { client.post("/v1/table/batch-commit", &commit).await });
    gate.reached(1).await;
    let is_there = || {
        world
            .catalog("west")
            .store()
            .contents(&["west", "new"])
            .is_some()
    };
    until("west is prepared", is_there).await;
    world.reload(&west_renamed(&yaml)).await.ok();
    let shows = async || {
        let client = world.client();
        let exists = client.post("/v1/table/west%24new/exists", &json!({})).await;
        let below = client.get("/v1/namespace/west/table/list").await.ok();
        let all = client.get("/v1/table").await.ok();
        let is_in = |reply: crate::client::Reply, name: &str| {
            let listed = reply.json()["tables"].clone();
            listed.as_array().unwrap().contains(&json!(name))
        };
        (exists.status, is_in(below, "new"), is_in(all, "west$new"))
    };
    assert_eq!(shows().await, (404, false, false));
    gate.open();
    batch.await.unwrap().ok();
    assert_eq!(shows().await, (200, true, true));
}

#[tokio::test]
async fn a_backend_that_comes_back_under_another_name_hides_what_it_hid() {
    let world = world("lock_timeout: 200ms").await;
    let yaml = world.configuration();
    let (gate, batch) = prepared(&world, 2).await;
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
        let (gate, batch) = prepared(&world, 2).await;
        world.configure(&other(&yaml));
        world.kill();
        // As long as the catalog does not delete the version, the test can see which one is hidden.
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

/// Its catalog may not accept the old ones any more.
#[tokio::test]
async fn an_unfinished_batch_uses_the_credentials_of_a_reload() {
    let world = undone("slot_cooldown: 0s").await;
    let shown = |world: &World, operation: &str| {
        let seen = world.catalog("east").seen_of(operation);
        seen.last()
            .map(|seen| seen.header("authorization").unwrap().to_owned())
    };
    let yaml = world.configuration();
    let renew = async |name: &str| {
        let yaml = with(&yaml, "Bearer service-of-east", &format!("Bearer {name}"));
        let reply = world.reload(&yaml).await.ok().json();
        assert_eq!(reply["warnings"], json!([]), "{reply}");
    };
    // A batch that watches.
    renew("watching").await;
    until("it looks again", || {
        shown(&world, "describe_table_version").as_deref() == Some("Bearer watching")
    })
    .await;
    // One that is rolled back.
    let east = world.catalog("east");
    east.fail_always(DELETE, Fault::Instead(500, BROKEN));
    land(&world);
    until("it is being deleted", || shown(&world, DELETE).is_some()).await;
    renew("undoing").await;
    until("it is deleted again", || {
        shown(&world, DELETE).as_deref() == Some("Bearer undoing")
    })
    .await;
    east.behave();
    until("it is undone", || stored(&world, "east") == [1]).await;
}
