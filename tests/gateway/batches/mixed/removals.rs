//! Removals of mixed batches: they follow the decision, whatever their catalog or the gateway does meanwhile.

use super::super::late::watches;
use super::*;

#[tokio::test]
async fn a_removal_is_rolled_forward_when_its_catalog_is_back() {
    let world = seeded("").await;
    let made = world.catalog("east").hold("create_table_version");
    let operations = [
        deregister("west", "old"),
        delete("west", "t1", 1, 3),
        create(&stage(&world, "east", 4)),
    ];
    let batch = start(world.client(), &operations);
    made.reached(1).await;
    world.catalog("west").stop().await;
    made.open();
    batch.await.unwrap().ok();
    // The gateway knows that the table is removed, even though its catalog is down.
    assert_eq!(described(&world, "west", "old").await, NOT_THERE);
    assert_eq!(visible(&world, "east").await, [1, 2, 3, 4]);
    assert!(has(world.catalog("west"), "west", "old"));
    let refused = Fault::Instead(500, BROKEN);
    world
        .catalog("west")
        .fail("deregister_table", refused.clone());
    world
        .catalog("west")
        .fail("batch_delete_table_versions", refused);
    world.catalog("west").resume();
    until("it is removed", || {
        !has(world.catalog("west"), "west", "old")
    })
    .await;
    until("they are deleted", || stored(&world, "west") == [3]).await;
    assert_eq!(described(&world, "west", "old").await, NOT_THERE);
    assert_eq!(visible(&world, "west").await, [3]);
}

/// Some catalogs find tables in storage and show them again, whatever they answered to a deregister.
#[tokio::test]
async fn a_name_stays_hidden_until_its_catalog_does_not_have_it_any_more() {
    let world = seeded("").await;
    let lie = Fault::Instead(200, r#"{"id":["west","old"]}"#);
    world.catalog("west").fail("deregister_table", lie);
    let operations = [deregister("west", "old"), create(&stage(&world, "east", 4))];
    commit(&world, &operations).await.ok();
    world.catalog("west").called("deregister_table", 1).await;
    assert_eq!(described(&world, "west", "old").await, NOT_THERE);
    until("it is removed", || {
        !has(world.catalog("west"), "west", "old")
    })
    .await;
    assert_eq!(world.catalog("west").seen_of("deregister_table").len(), 2);
}

#[tokio::test]
async fn a_gateway_that_dies_before_the_decision_undoes_and_removes_nothing() {
    let mut world = seeded("").await;
    let made = world.catalog("east").hold("create_table_version");
    let operations = [
        declare("west", "new"),
        deregister("west", "old"),
        create(&stage(&world, "east", 4)),
    ];
    let batch = start(world.client(), &operations);
    made.reached(1).await;
    until("the name is made", || {
        has(world.catalog("west"), "west", "new")
    })
    .await;
    world.kill();
    drop(batch);
    world.catalog("east").behave();
    world.restart().await;
    assert_eq!(described(&world, "west", "new").await, NOT_THERE);
    settled(&world).await;
    until("the name is gone", || {
        !has(world.catalog("west"), "west", "new")
    })
    .await;
    let whole = ["east$old", "east$t1", "west$old", "west$t1"];
    assert_eq!(listed(&world).await, whole);
}

#[tokio::test]
async fn a_gateway_that_dies_after_the_decision_removes_the_rest() {
    let mut world = seeded("").await;
    let removed = world.catalog("west").hold("deregister_table");
    let deleted = world.catalog("west").hold("batch_delete_table_versions");
    let operations = [
        declare("west", "new"),
        deregister("west", "old"),
        delete("west", "t1", 1, 3),
        create(&stage(&world, "east", 4)),
    ];
    commit(&world, &operations).await.ok();
    removed.reached(1).await;
    deleted.reached(1).await;
    world.kill();
    world.catalog("west").behave();
    let removed = world.catalog("west").hold("deregister_table");
    world.restart().await;
    // The committed batch must be in effect from the first moment after the restart.
    assert_eq!(described(&world, "west", "old").await, NOT_THERE);
    assert_eq!(described(&world, "west", "new").await, THERE);
    assert_eq!(visible(&world, "west").await, [3]);
    assert!(has(world.catalog("west"), "west", "old"));
    removed.open();
    until("it is removed", || {
        !has(world.catalog("west"), "west", "old")
    })
    .await;
    until("they are deleted", || stored(&world, "west") == [3]).await;
    assert_eq!(
        listed(&world).await,
        ["east$old", "east$t1", "west$new", "west$t1"]
    );
}

/// A delete without an answer may arrive later, and would hit a version that has got one of its numbers again.
#[tokio::test]
async fn no_number_that_a_lost_delete_may_hit_comes_back() {
    let world = seeded("").await;
    let west = world.catalog("west");
    west.fail("batch_delete_table_versions", Fault::ResetBefore);
    let operations = [
        delete("west", "t1", 1, 3),
        create(&stage(&world, "east", 4)),
    ];
    commit(&world, &operations).await.ok();
    until("they are deleted", || stored(&world, "west") == [3]).await;
    watches(&world, 1.0).await;
    west.forget();
    for (target, body) in [
        (
            "version/delete",
            json!({"ranges": [{"start_version": 3, "end_version": 4}]}),
        ),
        ("branches/delete", json!({"name": "b"})),
        ("branches/create", json!({"name": "b", "from_version": 3})),
    ] {
        let target = format!("/v1/table/west%24t1/{target}");
        let reply = world.client().post(&target, &body).await;
        assert_eq!(reply.outcome(), (503, Some(17)), "{target}: {reply:?}");
    }
    let again = [
        delete("west", "t1", 1, 3),
        create(&stage(&world, "east", 5)),
    ];
    let reply = commit(&world, &again).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    assert!(west.seen_of("batch_delete_table_versions").is_empty());
    // Whatever makes a new number goes on.
    let next = "/v1/table/west%24t1/version/create";
    world
        .client()
        .post(next, &stage(&world, "west", 4))
        .await
        .ok();
}

/// The numbers that a batch has deleted belong to its table, and not to the name.
#[tokio::test]
async fn a_new_table_shows_the_numbers_that_were_deleted_in_its_predecessor() {
    let world = seeded("").await;
    let operations = [
        delete("west", "t1", 1, 3),
        create(&stage(&world, "east", 4)),
    ];
    commit(&world, &operations).await.ok();
    until("they are deleted", || stored(&world, "west") == [3]).await;
    settled(&world).await;
    assert_eq!(visible(&world, "west").await, [3]);
    let dropped = "/v1/table/west%24t1/drop";
    world.client().post(dropped, &Value::Null).await.ok();
    world.catalog("west").store().seed(&["west", "t1"], 2);
    assert_eq!(visible(&world, "west").await, [1, 2]);
}

/// Another part of the batch is not done yet when the gateway starts again.
#[tokio::test]
async fn a_new_table_shows_them_after_a_restart_too() {
    let mut world = seeded("").await;
    let east = world.catalog("east");
    east.fail_always("deregister_table", Fault::Instead(500, BROKEN));
    let operations = [delete("west", "t1", 1, 3), deregister("east", "old")];
    commit(&world, &operations).await.ok();
    until("they are deleted", || stored(&world, "west") == [3]).await;
    // The drop waits for the lock of the table, until the log knows that they are.
    let dropped = "/v1/table/west%24t1/drop";
    world.client().post(dropped, &Value::Null).await.ok();
    world.catalog("west").store().seed(&["west", "t1"], 2);
    assert_eq!(visible(&world, "west").await, [1, 2]);
    world.restart().await;
    assert_eq!(visible(&world, "west").await, [1, 2]);
}

/// A branch or a table that is deleted and made anew begins with low numbers again.
#[tokio::test]
async fn a_number_that_was_deleted_is_shown_as_soon_as_it_is_made_again() {
    let world = seeded("").await;
    commit(&world, &[delete("west", "t1", 1, 3)]).await.ok();
    settled(&world).await;
    assert_eq!(visible(&world, "west").await, [3]);
    let client = world.client();
    // Its answer is lost, so that the gateway does not know that the table is another one.
    world.catalog("west").fail("drop_table", Fault::ResetAfter);
    let dropped = client.post_nothing("/v1/table/west%24t1/drop").await;
    assert_eq!(dropped.status, 503);
    let rows = crate::client::full("rows");
    let create = "/v1/table/west%24t1/create";
    client.post_rows(create, rows).await.ok();
    assert_eq!(visible(&world, "west").await, [1]);
    let create = "/v1/table/west%24t1/version/create";
    client.post(create, &stage(&world, "west", 2)).await.ok();
    assert_eq!(visible(&world, "west").await, [1, 2]);
}
