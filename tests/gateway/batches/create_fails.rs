//! Faults of a catalog during a create, and the outcome of the batch.

use serde_json::json;

use super::{
    BATCH, assert_both, pair, prepared, stage, start, stored, told, until, visible, world,
};
use crate::catalog::faults::{BROKEN, Fault, GARBAGE, Gate};

/// The catalog may have acted before the fault. The gateway finds out whether it has, and
/// continues.
#[tokio::test]
async fn an_unclear_answer_is_settled_and_the_batch_commits() {
    for fault in [
        Fault::ResetBefore,
        Fault::ResetAfter,
        Fault::HalfAnswer,
        Fault::Instead(500, BROKEN),
        Fault::DoneBut(500, BROKEN),
        Fault::Instead(503, "{}"),
        Fault::DoneBut(503, "{}"),
        Fault::DoneBut(200, GARBAGE),
        Fault::DoneBut(502, GARBAGE),
    ] {
        let world = world("").await;
        world
            .catalog("east")
            .fail("create_table_version", fault.clone());
        let reply = world.client().post(BATCH, &pair(&world, 2)).await;
        assert_eq!(reply.status, 200, "{fault:?}: {reply:?}");
        assert_both(&world, &[1, 2], &format!("{fault:?}")).await;
    }
}

#[tokio::test]
async fn a_definite_refusal_leaves_no_trace() {
    for (name, fault, outcome) in [
        (
            "refused",
            Fault::Instead(400, r#"{"error":"no such manifest","code":13}"#),
            (400, Some(13)),
        ),
        (
            "forbidden",
            Fault::Instead(403, r#"{"error":"not yours","code":15}"#),
            (403, Some(15)),
        ),
        (
            "table gone",
            Fault::Instead(404, r#"{"error":"t1","code":4}"#),
            (404, Some(4)),
        ),
    ] {
        let mut world = world("").await;
        world.catalog("east").fail("create_table_version", fault);
        let reply = world.client().post(BATCH, &pair(&world, 2)).await;
        assert_eq!(reply.outcome(), outcome, "{name}: {reply:?}");
        assert!(reply.words().contains("entries[1]"), "{name}");
        assert_eq!(reply.json()["decided"], true, "{name}: {reply:?}");
        assert_both(&world, &[1], name).await;
        world.restart().await;
        assert_both(&world, &[1], &format!("{name}, after a restart")).await;
        assert!(stored(&world, "west") == [1], "{name}");
    }
}

#[tokio::test]
async fn a_missing_staged_manifest_fails_the_batch() {
    let world = world("").await;
    let missing =
        json!({"id": ["east", "t1"], "version": 2, "manifest_path": "nowhere", "manifest_size": 3});
    let batch = json!({"entries": [stage(&world, "west", 2), missing]});
    let reply = world.client().post(BATCH, &batch).await;
    assert_eq!(reply.outcome(), (400, Some(13)));
    assert_both(&world, &[1], "nothing staged").await;
    assert!(
        (world
            .metric("nsgate_batches_total{outcome=\"aborted\"}")
            .await
            - 1.0)
            .abs()
            < 0.5
    );
}

#[tokio::test]
async fn a_chain_that_breaks_in_its_middle_is_undone_from_its_start() {
    let world = world("").await;
    let refusal = Fault::Instead(400, r#"{"error":"no","code":13}"#);
    let west = world.catalog("west");
    west.fail_nth("create_table_version", &["west", "t1"], 2, refusal);
    let batch = json!({"entries": [
        stage(&world, "west", 2), stage(&world, "west", 3), stage(&world, "west", 4), stage(&world, "east", 2),
    ]});
    let reply = world.client().post(BATCH, &batch).await;
    assert_eq!(reply.outcome(), (400, Some(13)));
    assert!(reply.words().contains("entries[1]"), "{reply:?}");
    assert_both(&world, &[1], "the second of three").await;
    assert_eq!(west.seen_of("create_table_version").len(), 2);
}

/// Another writer makes the version between validation and create.
#[tokio::test]
async fn a_version_taken_meanwhile_stays_its_writers() {
    let world = world("").await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    let id = ["east".to_owned(), "t1".to_owned()];
    world
        .catalog("east")
        .store()
        .put(&id, 2, "somebody else's, and longer".into());
    gate.open();
    let reply = batch.await.unwrap();
    assert_eq!(reply.outcome(), (409, Some(14)), "{reply:?}");
    until("west is undone", || stored(&world, "west") == [1]).await;
    assert_eq!(visible(&world, "west").await, [1]);
    assert_eq!(stored(&world, "east"), [1, 2]);
    until("theirs is seen", || {
        world
            .catalog("east")
            .seen_of("batch_delete_table_versions")
            .is_empty()
    })
    .await;
    let contents = world
        .catalog("east")
        .store()
        .contents(&["east", "t1"])
        .unwrap();
    assert_eq!(contents[1].1, "somebody else's, and longer");
}

/// The catalog answers 409 although it created the version. It is shown only if committed, and
/// deleted only if it is proven to be the batch's.
#[tokio::test]
async fn a_conflict_that_lies_is_never_half_a_batch() {
    let world = world("").await;
    let lie = r#"{"error":"Version 2 already exists with different content","code":14}"#;
    world
        .catalog("east")
        .fail("create_table_version", Fault::DoneBut(409, lie));
    let reply = world.client().post(BATCH, &pair(&world, 2)).await;
    let expected: &[u64] = if reply.status == 200 { &[1, 2] } else { &[1] };
    assert_eq!(visible(&world, "west").await, expected, "{reply:?}");
    assert_eq!(visible(&world, "east").await, expected, "{reply:?}");
}

#[tokio::test]
async fn a_catalog_that_stops_in_the_middle_fails_the_batch() {
    let world = world("prepare_timeout: 1s").await;
    let (_, batch) = prepared(&world, 2).await;
    world.catalog("east").stop().await;
    let reply = batch.await.unwrap();
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    world.catalog("east").resume();
    assert_both(&world, &[1], "stopped").await;
}

#[tokio::test]
async fn a_catalog_that_hangs_fails_the_batch_in_time() {
    let world = world("prepare_timeout: 500ms").await;
    let gate = Gate::new();
    let hangs = Fault::HoldBefore(gate.clone());
    let east = world.catalog("east");
    east.fail_always("create_table_version", hangs);
    let reply = world.client().post(BATCH, &pair(&world, 2)).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    assert_eq!(reply.json().get("decided"), None, "{reply:?}");
    until("west is undone", || stored(&world, "west") == [1]).await;
    assert_eq!(visible(&world, "west").await, [1]);
    assert_eq!(visible(&world, "east").await, [1]);
    gate.open();
}

/// The catalog never says whether it has created the version. The client learns what it says instead, and of which entry.
#[tokio::test]
async fn a_batch_whose_time_is_up_says_what_its_catalog_said_last() {
    let world = world("prepare_timeout: 2s").await;
    let east = world.catalog("east");
    for operation in ["create_table_version", "describe_table_version"] {
        east.fail_always(operation, Fault::Instead(500, BROKEN));
    }
    let reply = world.client().post(BATCH, &pair(&world, 2)).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    let error = reply.json()["error"].as_str().unwrap().to_owned();
    assert!(
        error.contains("`batch.prepare_timeout`: backend `east` answered 500: "),
        "{error}"
    );
    assert_eq!(reply.json()["entry"], 1, "{reply:?}");
    east.behave();
    assert_both(&world, &[1], "nothing").await;
}

/// The batch continues without its client. Its transaction shows the decision, during the batch and
/// after it.
#[tokio::test]
async fn a_batch_that_goes_on_without_its_client_ends_all_the_same() {
    let world = world("").await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    batch.abort();
    assert!(batch.await.is_err());
    gate.open();
    until("east is created", || stored(&world, "east") == [1, 2]).await;
    let reply = world
        .client()
        .post(BATCH, &pair(&world, 3))
        .await
        .ok()
        .json();
    assert_eq!(told(&world, &reply["transaction_id"]).await, "Succeeded");
    assert_both(&world, &[1, 2, 3], "both batches").await;
}
