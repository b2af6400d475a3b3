//! An impossible batch is refused before anything is written anywhere, and the answer names the entry.

use serde_json::json;

use super::{BATCH, assert_both, pair, stage, world};

#[tokio::test]
async fn what_cannot_be_is_refused_before_anything_is_written() {
    let world = world("max_entries: 3").await;
    let good = stage(&world, "west", 2);
    let entry = |id: &[&str], version: u64| json!({"id": id, "version": version, "manifest_path": "p", "manifest_size": 1});
    let east = |version: u64| entry(&["east", "t1"], version);
    for (name, entries, outcome, words) in [
        (
            "twice the same",
            json!([good, east(2), good]),
            (400, Some(13)),
            "entries[2]",
        ),
        (
            "no such mount",
            json!([good, entry(&["north", "t"], 2)]),
            (404, Some(4)),
            "entries[1]",
        ),
        (
            "the root",
            json!([good, entry(&[], 2)]),
            (400, Some(13)),
            "entries[1]",
        ),
        (
            "too many",
            json!([good, east(2), east(3), east(4)]),
            (400, Some(13)),
            "at most 3 entries, and this one has 4",
        ),
        (
            "version taken",
            json!([good, east(1)]),
            (409, Some(14)),
            "entries[1]",
        ),
        (
            "version skipped",
            json!([good, east(3)]),
            (409, Some(14)),
            "entries[1]",
        ),
        (
            "no such table",
            json!([good, entry(&["east", "t9"], 2)]),
            (404, Some(4)),
            "entries[1]",
        ),
    ] {
        let reply = world
            .client()
            .post(BATCH, &json!({"entries": entries}))
            .await;
        assert_eq!(reply.outcome(), outcome, "{name}: {reply:?}");
        let text = reply.json().to_string();
        assert!(text.contains(words), "{name}: {text}");
    }
    for name in ["west", "east"] {
        for operation in ["create_table_version", "batch_delete_table_versions"] {
            assert!(
                world.catalog(name).seen_of(operation).is_empty(),
                "{name} {operation}"
            );
        }
    }
    assert_both(&world, &[1], "refused").await;
    // The refusals leave nothing behind that would block the next batch.
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
    assert_both(&world, &[1, 2], "committed after all").await;
}

#[tokio::test]
async fn a_catalog_that_is_down_refuses_the_batch() {
    let world = world("").await;
    world.catalog("east").stop().await;
    let reply = world.client().post(BATCH, &pair(&world, 2)).await;
    assert_eq!(reply.outcome(), (503, Some(17)));
    let text = reply.json().to_string();
    assert!(text.contains("east") && !text.contains("127."), "{text}");
    world.catalog("east").resume();
    assert_both(&world, &[1], "refused").await;
    assert!(
        world
            .catalog("west")
            .seen_of("create_table_version")
            .is_empty()
    );
}

/// Requests that the gateway sends on the caller's behalf carry the caller's context and token.
#[tokio::test]
async fn the_catalogs_are_asked_in_the_callers_name() {
    let world = world("").await;
    let client = world
        .client_with(&json!({"tenant": "acme"}))
        .header("x-ns-ctx-team", "a");
    client.post(BATCH, &pair(&world, 2)).await.ok();
    for name in ["west", "east"] {
        let created = &world.catalog(name).seen_of("create_table_version")[0];
        let authorization = created.header("authorization").unwrap();
        assert!(
            authorization.starts_with("Bearer ey"),
            "{name}: {authorization}"
        );
        assert_eq!(created.header("x-ns-ctx-tenant"), Some("acme"), "{name}");
        assert_eq!(created.header("x-ns-ctx-team"), Some("a"), "{name}");
    }
}
