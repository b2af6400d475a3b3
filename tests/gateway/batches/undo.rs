//! A rollback deletes only versions that are the batch's own and the latest; an operator decides on others.

use serde_json::{Value, json};

use super::{
    BATCH, assert_both, leave_alone, leave_hazard, pair, stage, start, stored, until, visible,
    world,
};
use crate::catalog::faults::{BROKEN, Fault};

const REFUSED: Fault = Fault::Instead(400, r#"{"error":"no","code":13}"#);
const DELETE: &str = "batch_delete_table_versions";

#[tokio::test]
async fn exactly_the_prepared_versions_are_deleted_the_latest_first() {
    let world = world("").await;
    let gate = world.catalog("east").hold("create_table_version");
    world.catalog("east").fail("create_table_version", REFUSED);
    let batch = json!({"entries": [stage(&world, "west", 2), stage(&world, "west", 3), stage(&world, "east", 2)]});
    let batch = start(world.client(), batch);
    gate.reached(1).await;
    until("west is prepared", || stored(&world, "west") == [1, 2, 3]).await;
    gate.open();
    assert_eq!(batch.await.unwrap().status, 400);
    assert_both(&world, &[1], "undone").await;
    for delete in world.catalog("west").seen_of(DELETE) {
        // The gateway acts in its own name, because a rollback may come long after the caller's token has
        // expired.
        let service = Some("Bearer service-of-west");
        assert_eq!(delete.header("authorization"), service);
    }
    let ranges = world
        .catalog("west")
        .seen_of(DELETE)
        .into_iter()
        .map(|seen| seen.json()["ranges"].clone());
    let range = |version: u64| json!([{"start_version": version, "end_version": version + 1}]);
    assert_eq!(ranges.collect::<Vec<Value>>(), [range(3), range(2)]);
    assert!(world.catalog("east").seen_of(DELETE).is_empty());
}

#[tokio::test]
async fn a_delete_that_does_not_take_is_asked_for_again() {
    for fault in [
        Fault::ResetBefore,
        Fault::ResetAfter,
        Fault::Instead(500, BROKEN),
        Fault::DoneBut(500, BROKEN),
    ] {
        let world = world("").await;
        world.catalog("west").fail(DELETE, fault.clone());
        world.catalog("east").fail("create_table_version", REFUSED);
        assert_eq!(
            world.client().post(BATCH, &pair(&world, 2)).await.status,
            400,
            "{fault:?}"
        );
        assert_both(&world, &[1], &format!("{fault:?}")).await;
    }
}

/// Main and a branch are shares of their own, and the branch has nothing to undo.
#[tokio::test]
async fn a_table_stays_locked_until_all_its_branches_are_undone() {
    let world = world("lock_timeout: 200ms").await;
    let west = world.catalog("west");
    west.fail_nth("create_table_version", &["west", "t1"], 2, REFUSED);
    let delete = west.hold(DELETE);
    west.store().stage("dev-2", "of another size");
    let branch = json!({
        "id": ["west", "t1"], "branch": "dev", "version": 2, "manifest_path": "dev-2", "manifest_size": 15,
    });
    let entries = [stage(&world, "west", 2), branch, stage(&world, "east", 2)];
    let batch = start(world.client(), json!({"entries": entries}));
    delete.reached(1).await;
    let insert = async || {
        let rows = crate::client::full("rows");
        let insert = "/v1/table/west%24t1/insert";
        world.client().post_rows(insert, rows).await
    };
    let reply = insert().await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    delete.open();
    assert_eq!(batch.await.unwrap().status, 400);
    assert_both(&world, &[1], "undone").await;
    assert_eq!(insert().await.status, 200);
}

/// Another writer went around the gateway and built on the prepared version.
#[tokio::test]
async fn a_version_that_was_built_on_waits_for_a_person() {
    let mut world = world("lock_timeout: 200ms").await;
    leave_hazard(&world).await;
    for run in ["at once", "after a restart"] {
        let hazard = async {
            while world.metric("nsgate_batch_hazards").await < 1.0 {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(crate::catalog::faults::PATIENCE, hazard)
            .await
            .expect(run);
        assert_eq!(stored(&world, "west"), [1, 2, 3], "{run}");
        assert!(world.catalog("west").seen_of(DELETE).is_empty(), "{run}");
        let listed = visible(&world, "west").await;
        assert!(!listed.contains(&2), "{run}: {listed:?}");
        let insert = "/v1/table/west%24t1/insert";
        let reply = world
            .client()
            .post_rows(insert, crate::client::full("rows"))
            .await;
        assert_eq!(reply.outcome(), (503, Some(17)), "{run}: locked");
        let told = "the table is locked by an unfinished batch; retry later";
        assert_eq!(reply.json()["error"], told, "it was aborted long ago");
        assert_eq!(visible(&world, "east").await, [1], "{run}");
        world
            .client()
            .post("/v1/table/east%24t1/count_rows", &json!({}))
            .await
            .ok();
        world.restart().await;
    }
}

/// A cleanup by path has taken the prepared version for the latest one, and has deleted those before it.
#[tokio::test]
async fn the_only_version_of_a_table_is_not_deleted_and_waits_for_a_person() {
    let mut world = world("lock_timeout: 200ms").await;
    leave_alone(&world).await;
    for run in ["at once", "after a restart"] {
        let hazard = async {
            while world.metric("nsgate_batch_hazards").await < 1.0 {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        let hazard = tokio::time::timeout(crate::catalog::faults::PATIENCE, hazard);
        hazard.await.expect(run);
        assert_eq!(stored(&world, "west"), [2], "{run}");
        let list = "/v1/table/west%24t1/version/list";
        let reply = world.client().post_nothing(list).await;
        assert_eq!(reply.outcome(), (503, Some(17)), "{run}: {reply:?}");
        assert_eq!(stored(&world, "east"), [1], "{run}");
        let open = world.admin().get("/batches").await.json();
        let why = open["batches"][0]["entries"][0]["hazard"].as_str().unwrap();
        assert!(why.contains("no other version any more"), "{run}: {why}");
        assert!(world.catalog("west").seen_of(DELETE).is_empty(), "{run}");
        world.restart().await;
    }
}

/// A catalog may have pages that are shorter than what is asked for.
#[tokio::test]
async fn another_version_is_seen_on_a_later_page() {
    let world = world("").await;
    world.catalog("west").set_versions_on_a_page(1);
    world.catalog("east").fail("create_table_version", REFUSED);
    let reply = world.client().post(BATCH, &pair(&world, 2)).await;
    assert_eq!(reply.status, 400, "{reply:?}");
    until("west is undone", || stored(&world, "west") == [1]).await;
    assert!(!world.catalog("west").seen_of(DELETE).is_empty());
}

/// The table had no versions before the batch.
#[tokio::test]
async fn the_first_version_of_a_table_is_undone() {
    let world = world("").await;
    let store = || world.catalog("west").store();
    let table = vec!["west".to_owned(), "t1".to_owned()];
    store().delete_versions(&table, &[(0, -1)]).unwrap();
    world.catalog("east").fail("create_table_version", REFUSED);
    let batch = json!({"entries": [stage(&world, "west", 1), stage(&world, "east", 2)]});
    assert_eq!(world.client().post(BATCH, &batch).await.status, 400);
    until("west is undone", || stored(&world, "west").is_empty()).await;
    assert!(!world.catalog("west").seen_of(DELETE).is_empty());
}

/// A version that looks like the batch's own but may be another writer's is not deleted.
#[tokio::test]
async fn a_version_that_may_be_somebody_elses_is_not_deleted() {
    let world = world("").await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    // It has the same size as the staged version, so nothing distinguishes the two.
    let id = ["east".to_owned(), "t1".to_owned()];
    world.catalog("east").store().put(&id, 2, "EAST 2".into());
    gate.open();
    assert_eq!(batch.await.unwrap().status, 409);
    until("west is undone", || stored(&world, "west") == [1]).await;
    assert!(world.catalog("east").seen_of(DELETE).is_empty());
    assert_eq!(stored(&world, "east"), [1, 2]);
}

/// The catalog answers a create with a version that another writer has made, from the first create on, whatever entity
/// tag it shows.
#[tokio::test]
async fn an_answer_that_shows_another_size_is_nobodys_proof() {
    const UNTAGGED: &str =
        r#"{"version":{"version":2,"manifest_path":"their/2","manifest_size":9}}"#;
    const TAGGED: &str =
        r#"{"version":{"version":2,"manifest_path":"their/2","manifest_size":9,"e_tag":"\"t\""}}"#;
    for (theirs, staged_tag) in [(UNTAGGED, None), (TAGGED, None), (TAGGED, Some("\"t\""))] {
        let case = format!("{theirs} for the tag {staged_tag:?}");
        let world = world("").await;
        let gate = world.catalog("east").hold("create_table_version");
        let taken = Fault::Instead(200, theirs);
        world.catalog("east").fail("create_table_version", taken);
        let mut entries = pair(&world, 2);
        if let Some(tag) = staged_tag {
            entries["entries"][1]["e_tag"] = tag.into();
        }
        let batch = start(world.client(), entries);
        gate.reached(1).await;
        let id = ["east".to_owned(), "t1".to_owned()];
        world
            .catalog("east")
            .store()
            .put(&id, 2, "nine byte".into());
        gate.open();
        let reply = batch.await.unwrap();
        assert_eq!(reply.outcome(), (409, Some(14)), "{case}: {reply:?}");
        let words = reply.words();
        assert!(words.contains("entries[1]"), "{case}: {reply:?}");
        let sizes = "a manifest of 9 bytes instead of 6";
        assert!(words.contains(sizes), "{case}: {reply:?}");
        until("west is undone", || stored(&world, "west") == [1]).await;
        let waits = async {
            while world.metric("nsgate_batch_hazards").await < 1.0 {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(crate::catalog::faults::PATIENCE, waits).await;
        waited.expect("an operator is asked");
        assert!(world.catalog("east").seen_of(DELETE).is_empty(), "{case}");
        assert_eq!(stored(&world, "east"), [1, 2], "{case}");
    }
}

/// A catalog that writes manifests of its own can take part in batches of clients that leave `manifest_size` out.
#[tokio::test]
async fn a_size_that_was_not_named_is_not_compared() {
    let world = world("").await;
    let own = r#"{"version":{"version":2,"manifest_path":"own/2","manifest_size":9}}"#;
    let made = Fault::DoneBut(200, own);
    world.catalog("east").fail("create_table_version", made);
    let mut entries = pair(&world, 2);
    let entry = entries["entries"][1].as_object_mut().unwrap();
    entry.remove("manifest_size").unwrap();
    world.client().post(BATCH, &entries).await.ok();
    assert_both(&world, &[1, 2], "a manifest of the catalog's own").await;
}

/// The writer may be a gateway that was killed: what it had sent arrives between the look and the delete.
#[tokio::test]
async fn what_was_built_on_a_version_while_it_was_deleted_is_hidden_and_waits_for_a_person() {
    let mut world = world("").await;
    let gate = world.catalog("west").hold(DELETE);
    world.catalog("east").fail("create_table_version", REFUSED);
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    let table = ["west".to_owned(), "t1".to_owned()];
    world
        .catalog("west")
        .store()
        .put(&table, 3, "built on it".into());
    gate.open();
    assert_eq!(batch.await.unwrap().status, 400);
    for run in ["at once", "after a restart"] {
        let hazard = async {
            while world.metric("nsgate_batch_hazards").await < 1.0 {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        let hazard = tokio::time::timeout(crate::catalog::faults::PATIENCE, hazard);
        hazard.await.expect(run);
        assert_eq!(stored(&world, "west"), [1, 3], "{run}");
        assert_eq!(visible(&world, "west").await, [1], "{run}");
        let open = world.admin().get("/batches").await.json();
        let id = open["batches"][0]["id"].as_str().unwrap().to_owned();
        let shown = world.admin().get(&format!("/batches/{id}")).await.json();
        let entry = &shown["entries"][0];
        assert_eq!(entry["hazard"], "a later version was built on it", "{run}");
        assert_eq!(entry["found"], Value::Null, "{run}: {shown}");
        world.restart().await;
    }
}
