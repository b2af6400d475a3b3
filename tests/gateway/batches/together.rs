//! Batches over several catalogs of which one has an atomic batch-create: its part is sent as one request.

use serde_json::{Value, json};

use super::{BATCH, numbers, stage, start, stored, until, visible};
use crate::catalog::BatchCreate;
use crate::catalog::faults::{BROKEN, Fault};
use crate::harness::{Setup, World};

const GROUPED: &str = "batch_create_table_versions";

async fn world(mode: &str) -> World {
    let setup = Setup::two().backend("west", &format!("batch: {mode}"));
    let world = setup.start().await.seeded();
    world.catalog("west").set_batch_create(BatchCreate::Atomic);
    world
}

/// Makes a batch of two versions of one table in the atomic catalog, and one version in the other.
fn batch(world: &World) -> Value {
    json!({"entries": [stage(world, "west", 2), stage(world, "east", 2), stage(world, "west", 3)]})
}

fn sent(world: &World, operation: &str) -> usize {
    world.catalog("west").seen_of(operation).len()
}

#[tokio::test]
async fn all_of_its_versions_are_created_with_one_request() {
    for mode in ["atomic", "auto"] {
        let world = world(mode).await;
        let reply = world.client().post(BATCH, &batch(&world)).await.ok();
        assert_eq!(numbers(&reply.json()), [2, 2, 3], "{mode}");
        assert_eq!(sent(&world, GROUPED), 1, "{mode}");
        assert_eq!(sent(&world, "create_table_version"), 0, "{mode}");
        assert_eq!(visible(&world, "west").await, [1, 2, 3], "{mode}");
    }
}

#[tokio::test]
async fn a_refusal_of_the_other_undoes_all_of_them() {
    let world = world("auto").await;
    let refused = Fault::Instead(400, r#"{"error":"no","code":13}"#);
    world.catalog("east").fail("create_table_version", refused);
    let reply = world.client().post(BATCH, &batch(&world)).await;
    assert_eq!(reply.outcome(), (400, Some(13)), "{reply:?}");
    until("west is undone", || stored(&world, "west") == [1]).await;
    assert_eq!(visible(&world, "west").await, [1]);
}

/// One of the versions that the catalog shows may be another writer's.
#[tokio::test]
async fn a_version_of_another_size_in_the_answer_waits_for_an_operator() {
    let world = world("atomic").await;
    let shown = r#"{"versions":[{"version":2,"manifest_size":6},{"version":3,"manifest_size":9}]}"#;
    world
        .catalog("west")
        .fail(GROUPED, Fault::DoneBut(200, shown));
    let reply = world.client().post(BATCH, &batch(&world)).await;
    assert_eq!(reply.outcome(), (409, Some(14)), "{reply:?}");
    let words = reply.words();
    assert!(
        words.contains("entries[2]") && words.contains("9 bytes instead of 6"),
        "{reply:?}"
    );
    until("east is undone", || stored(&world, "east") == [1]).await;
    let waits = async {
        while world.metric("nsgate_batch_hazards").await < 1.0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(crate::catalog::faults::PATIENCE, waits).await;
    waited.expect("an operator is asked");
    assert_eq!(
        stored(&world, "west").last(),
        Some(&3),
        "nothing is deleted"
    );
}

/// The catalog may have acted, and does not say so: the gateway looks for every version of the group.
#[tokio::test]
async fn an_unclear_answer_is_settled_for_the_whole_group() {
    for fault in [
        Fault::ResetBefore,
        Fault::ResetAfter,
        Fault::Instead(503, BROKEN),
        Fault::DoneBut(500, BROKEN),
        Fault::HalfAnswer,
    ] {
        let world = world("atomic").await;
        world.catalog("west").fail(GROUPED, fault.clone());
        let reply = world.client().post(BATCH, &batch(&world)).await;
        assert_eq!(reply.status, 200, "{fault:?}: {reply:?}");
        assert_eq!(visible(&world, "west").await, [1, 2, 3], "{fault:?}");
        assert_eq!(visible(&world, "east").await, [1, 2], "{fault:?}");
    }
}

/// One catalog alone takes part, and no idempotency key was sent. The client learns the outcome all the same.
#[tokio::test]
async fn an_unclear_answer_of_the_only_catalog_is_settled_too() {
    for mode in ["atomic", "auto"] {
        for fault in [
            Fault::ResetBefore,
            Fault::ResetAfter,
            Fault::Instead(503, BROKEN),
            Fault::DoneBut(500, BROKEN),
            Fault::HalfAnswer,
        ] {
            let world = world(mode).await;
            world.catalog("west").fail(GROUPED, fault.clone());
            let chain = json!({"entries": [stage(&world, "west", 2), stage(&world, "west", 3)]});
            let reply = world.client().post(BATCH, &chain).await;
            assert_eq!(reply.status, 200, "{mode} {fault:?}: {reply:?}");
            assert!(reply.json()["transaction_id"].is_string(), "{reply:?}");
            assert_eq!(visible(&world, "west").await, [1, 2, 3], "{fault:?}");
        }
        // The catalog has created the versions and refused them, and the client was told that nothing was created. So
        // they stay hidden. They may be another writer's, so they are not deleted.
        let world = world(mode).await;
        let refusal = r#"{"error":"not now","code":14}"#;
        world
            .catalog("west")
            .fail(GROUPED, Fault::DoneBut(409, refusal));
        let chain = json!({"entries": [stage(&world, "west", 2), stage(&world, "west", 3)]});
        let reply = world.client().post(BATCH, &chain).await;
        assert_eq!(reply.outcome(), (409, Some(14)), "{mode}: {reply:?}");
        assert_eq!(visible(&world, "west").await, [1]);
        assert_eq!(stored(&world, "west"), [1, 2, 3]);
    }
}

/// The gateway finds out once that the catalog has no batch-create, and remembers it.
#[tokio::test]
async fn a_catalog_without_one_is_asked_for_it_once() {
    let world = world("auto").await;
    let missing = crate::catalog::MISSING[0];
    world.catalog("west").set_batch_create(missing);
    world.client().post(BATCH, &batch(&world)).await.ok();
    let next = json!({"entries": [stage(&world, "west", 4), stage(&world, "east", 3), stage(&world, "west", 5)]});
    world.client().post(BATCH, &next).await.ok();
    assert_eq!(sent(&world, GROUPED), 1);
    assert_eq!(sent(&world, "create_table_version"), 4);
    assert_eq!(visible(&world, "west").await, [1, 2, 3, 4, 5]);
}

/// The catalog turns out to have no batch-create, and the batch is aborted during the first of its single creates.
#[tokio::test]
async fn after_the_abort_no_more_of_a_group_is_sent() {
    let section = "batch: { log: batches.redb, in_flight: 1, prepare_timeout: 60s }";
    let setup = Setup::two().backend("west", "batch: auto").section(section);
    let world = setup.start().await.seeded();
    let west = world.catalog("west");
    west.set_batch_create(crate::catalog::MISSING[0]);
    let names = ["g0", "g1", "g2"];
    let mut entries = vec![stage(&world, "east", 2)];
    entries.extend(names.map(|name| of_group(&world, name)));
    let gate = west.hold("create_table_version");
    let batch = start(world.client(), json!({ "entries": entries }));
    gate.reached(1).await;
    abort(&world).await;
    assert_eq!(batch.await.unwrap().outcome(), (409, Some(14)));
    gate.open();
    // The rollback of the first one begins when the answers to all of them are known.
    west.called("batch_delete_table_versions", 1).await;
    assert_eq!(sent(&world, "create_table_version"), 1);
}

/// Makes a table of one version in the catalog, and returns the entry of its second one.
fn of_group(world: &World, name: &str) -> Value {
    let west = world.catalog("west");
    let mut entry = stage(world, "west", 2);
    west.store().seed(&["west", name], 1);
    west.store().stage(name, "west 2");
    entry["id"] = json!(["west", name]);
    entry["manifest_path"] = json!(name);
    entry
}

/// Aborts the only batch, as an operator does.
async fn abort(world: &World) {
    let open = world.admin().get("/batches").await.ok().json();
    let id = open["batches"][0]["id"].as_str().unwrap();
    let abort = json!({"decision": "abort", "who": "ada", "why": "too slow"});
    let resolve = format!("/batches/{id}/resolve");
    world.admin().post(&resolve, &abort).await.ok();
}

/// The first request got no clear answer and nothing was created, so the whole group is sent again.
#[tokio::test]
async fn a_group_that_was_not_created_is_asked_for_again() {
    let world = world("atomic").await;
    world
        .catalog("west")
        .fail(GROUPED, Fault::Instead(500, BROKEN));
    world.client().post(BATCH, &batch(&world)).await.ok();
    assert_eq!(sent(&world, GROUPED), 2);
    assert_eq!(sent(&world, "create_table_version"), 0);
}

/// The group has so many entries that the last of them still wait for their turn when the batch is aborted. The
/// versions that the group's one request has made are deleted, those entries' too.
#[tokio::test]
async fn what_a_group_has_made_is_undone_where_an_entry_only_waited_for_its_turn() {
    const TABLES: usize = 520;
    let setup = Setup::two().backend("west", "batch: atomic");
    let setup = setup.section("batch: { log: batches.redb, prepare_timeout: 60s }");
    let world = setup.start().await.seeded();
    let west = world.catalog("west");
    west.set_batch_create(BatchCreate::Atomic);
    let names: Vec<String> = (0..TABLES).map(|table| format!("g{table}")).collect();
    let mut entries = vec![stage(&world, "east", 2)];
    entries.extend(names.iter().map(|name| of_group(&world, name)));
    let gate = west.hold_answer(GROUPED);
    let batch = start(world.client(), json!({ "entries": entries }));
    gate.reached(1).await;
    abort(&world).await;
    assert_eq!(batch.await.unwrap().outcome(), (409, Some(14)));
    gate.open();
    let versions = |name: &String| west.store().contents(&["west", name]).unwrap().len();
    until("all of it is undone", || {
        names.iter().all(|name| versions(name) == 1)
    })
    .await;
    for sample in ["nsgate_batch_hazards", "nsgate_batches_undecided"] {
        assert_eq!(world.metric(sample).await, 0.0, "{sample}");
    }
}
