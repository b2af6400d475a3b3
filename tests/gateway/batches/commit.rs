//! Batches that meet no obstacle.

use serde_json::{Value, json};

use super::{BATCH, assert_both, numbers, pair, stage, told, visible, world};
use crate::catalog::{BatchCreate, MISSING};
use crate::harness::Setup;

#[tokio::test]
async fn a_batch_over_two_catalogs_commits_and_answers_in_the_order_of_the_request() {
    let world = world("").await;
    let reply = world
        .client()
        .post(BATCH, &pair(&world, 2))
        .await
        .ok()
        .json();
    let paths: Vec<&str> = reply["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| version["manifest_path"].as_str().unwrap())
        .collect();
    assert_eq!(numbers(&reply), [2, 2]);
    assert!(
        paths[0].contains("west$t1/_versions/") && paths[1].contains("east$t1/_versions/"),
        "{paths:?}"
    );
    assert_eq!(told(&world, &reply["transaction_id"]).await, "Succeeded");
    assert_both(&world, &[1, 2], "committed").await;
    for name in ["west", "east"] {
        assert_eq!(world.catalog(name).seen_of("create_table_version").len(), 1);
        assert!(
            world
                .catalog(name)
                .seen_of("batch_delete_table_versions")
                .is_empty()
        );
    }
    assert!(
        (world
            .metric("nsgate_batches_total{outcome=\"committed\"}")
            .await
            - 1.0)
            .abs()
            < 0.5
    );
    assert!(world.metric("nsgate_batches_undecided").await.abs() < 0.5);
}

#[tokio::test]
async fn versions_of_one_table_form_a_chain() {
    let world = world("").await;
    let entries = json!({"entries": [
        stage(&world, "west", 2), stage(&world, "east", 2), stage(&world, "west", 3), stage(&world, "west", 4),
    ]});
    let reply = world.client().post(BATCH, &entries).await.ok().json();
    assert_eq!(numbers(&reply), [2, 2, 3, 4]);
    assert_eq!(visible(&world, "west").await, [1, 2, 3, 4]);
    let created = world.catalog("west").seen_of("create_table_version");
    let order: Vec<Value> = created
        .iter()
        .map(|seen| seen.json()["version"].clone())
        .collect();
    assert_eq!(order, [2, 3, 4]);
    let gap = json!({"entries": [stage(&world, "east", 3), stage(&world, "west", 5), stage(&world, "west", 7)]});
    let refused = world.client().post(BATCH, &gap).await;
    assert!(
        refused.status == 400 || refused.status == 409,
        "{refused:?}"
    );
    assert_eq!(visible(&world, "east").await, [1, 2]);
}

#[tokio::test]
async fn what_an_entry_says_reaches_the_catalog_as_it_was_written() {
    let world = world("").await;
    let (west, east) = (stage(&world, "west", 2), stage(&world, "east", 2));
    let extra = r#""naming_scheme":"V2","metadata":{"a":"\u00fc"},"unknown":[1.50e+2,12345678901234567890]"#;
    let west = west.to_string();
    let body = format!(
        "{{\"entries\":[{},{extra}}},{east}]}}",
        &west[..west.len() - 1]
    );
    world.client().post_bytes(BATCH, body).await.ok();
    let created = world.catalog("west").seen_of("create_table_version");
    let arrived = String::from_utf8(created[0].body.to_vec()).unwrap();
    for part in extra.split(",\"") {
        let part = part.trim_matches('"');
        assert!(arrived.contains(part), "{part} is not in {arrived}");
    }
}

/// One entry needs no second phase: it is sent as a single create if the catalog has no
/// batch-create.
#[tokio::test]
async fn a_batch_of_one_is_sent_as_it_is() {
    for (way, operation) in MISSING
        .into_iter()
        .map(|way| (way, "create_table_version"))
        .chain([(BatchCreate::Atomic, "")])
    {
        let world = world("").await;
        world.catalog("west").set_batch_create(way);
        let batch = json!({"entries": [stage(&world, "west", 2)]});
        let reply = world.client().post(BATCH, &batch).await.ok().json();
        assert_eq!(numbers(&reply), [2], "{way:?}");
        assert_eq!(visible(&world, "west").await, [1, 2], "{way:?}");
        if !operation.is_empty() {
            assert_eq!(world.catalog("west").seen_of(operation).len(), 1, "{way:?}");
        }
        let taken = json!({"entries": [stage(&world, "west", 2)]});
        world
            .catalog("west")
            .store()
            .stage("west-2", "another content");
        let refused = world.client().post(BATCH, &taken).await;
        assert_eq!(refused.outcome(), (409, Some(14)), "{way:?}");
    }
}

#[tokio::test]
async fn a_catalog_that_is_atomic_gets_its_entries_as_they_are() {
    for mode in ["atomic", "auto"] {
        let setup = Setup::two().backend("west", &format!("batch: {mode}"));
        let world = setup.start().await.seeded();
        world.catalog("west").set_batch_create(BatchCreate::Atomic);
        let batch = json!({"entries": [stage(&world, "west", 2), stage(&world, "west", 3)]});
        let reply = world.client().post(BATCH, &batch).await.ok().json();
        assert_eq!(numbers(&reply), [2, 3], "{mode}");
        assert!(
            world
                .catalog("west")
                .seen_of("create_table_version")
                .is_empty(),
            "{mode}"
        );
        let sent = world.catalog("west").seen_of("batch_create_table_versions");
        assert_eq!(sent.len(), 1, "{mode}");
        assert_eq!(sent[0].json(), batch, "{mode}");
        // In a batch with another catalog it takes part like any other.
        world
            .client()
            .post(
                BATCH,
                &json!({"entries": [
                    stage(&world, "west", 4), stage(&world, "east", 2),
                ]}),
            )
            .await
            .ok();
        assert_eq!(
            world.catalog("west").seen_of("create_table_version").len(),
            1,
            "{mode}"
        );
    }
}

#[tokio::test]
async fn a_catalog_that_is_not_atomic_is_made_so_by_the_gateway() {
    for way in MISSING {
        let world = world("").await;
        let west = world.catalog("west");
        west.set_batch_create(way);
        west.store().seed(&["west", "t2"], 1);
        west.store().stage("second", "t2 2");
        let batch = |version: u64, path: &str| {
            json!({"entries": [
                stage(&world, "west", version),
                {"id": ["west", "t2"], "version": version, "manifest_path": path, "manifest_size": 4},
            ]})
        };
        let reply = world
            .client()
            .post(BATCH, &batch(2, "second"))
            .await
            .ok()
            .json();
        assert_eq!(numbers(&reply), [2, 2], "{way:?}");
        let refused = world.client().post(BATCH, &batch(3, "nothing")).await;
        assert_eq!(refused.outcome(), (400, Some(13)), "{way:?}");
        assert_eq!(visible(&world, "west").await, [1, 2], "{way:?}");
    }
}

/// A name may have been given to another table, with as many versions, since a version was staged.
#[tokio::test]
async fn a_version_that_was_staged_for_another_table_changes_nothing() {
    let world = world("").await;
    let staged = |folder: &str| {
        let path = format!("store/{folder}/_versions/2.manifest-1");
        world.catalog("west").store().stage(&path, "rows");
        let west = json!({"id": ["west", "t1"], "version": 2, "manifest_path": path});
        json!({"entries": [west, stage(&world, "east", 2)]})
    };
    let refused = world.client().post(BATCH, &staged("west$t2")).await;
    assert_eq!(refused.outcome(), (409, Some(14)), "{refused:?}");
    let words = "entries[0]: the version was staged for the table in folder `west$t2`, and the table of this name is in \
                 `west$t1`: the name was given to another table since";
    assert!(refused.words().contains(words), "{}", refused.words());
    assert_both(&world, &[1], "refused").await;
    world.client().post(BATCH, &staged("west$t1")).await.ok();
    assert_both(&world, &[1, 2], "its own").await;
}
