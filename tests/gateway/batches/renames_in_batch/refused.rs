//! Renames in a batch that cannot be: the refusal names the operation, and nothing is written.

use serde_json::{Value, json};

use super::{COMMIT, EVENTS, ORDERS, assert_all, batch, commit, rename, seeded, start};
use crate::batches::until;

/// A version that no catalog would accept.
fn nothing(table: &str, version: u64) -> Value {
    let (namespace, name) = table.split_once('$').unwrap();
    json!({"create_table_version": {"id": [namespace, name], "version": version, "manifest_path": "none"}})
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_the_operation_and_nothing_is_written() {
    let world = seeded("").await;
    world.catalog("west").store().seed(&["west", "other"], 1);
    let first = || rename(ORDERS, "east$orders");
    let both = "a table that is renamed cannot be in another operation";
    let cases = [
        (
            vec![first(), rename(EVENTS, "east$t1")],
            409,
            5,
            "operations[1]: table east$t1 already exists",
        ),
        (
            vec![first(), nothing("east$t1", 9)],
            409,
            14,
            "operations[1]: version 9 is not the next one",
        ),
        (
            vec![first(), rename("east$none", "east$x")],
            404,
            4,
            "operations[1]: table east$none does not exist",
        ),
        (
            vec![first(), rename(EVENTS, "east$none$x")],
            404,
            1,
            "operations[1]: namespace east$none does not exist",
        ),
        (
            vec![first(), rename(EVENTS, "north$x")],
            404,
            1,
            "operations[1]: namespace north is not served here",
        ),
        (
            vec![first(), rename("north$x", "east$x")],
            404,
            4,
            "operations[1]: table north$x is not served here",
        ),
        (
            vec![first(), rename(EVENTS, "west")],
            400,
            13,
            "operations[1]: west is a mount and cannot be a table",
        ),
        (
            vec![rename(ORDERS, ORDERS)],
            400,
            13,
            "operations[0]: west$__nsgate_new_1 and west$__nsgate_new_1 are the same",
        ),
        (
            vec![rename("west$other", "mirror$other")],
            400,
            13,
            "operations[0]: west$other and mirror$other are the same",
        ),
        (
            vec![
                first(),
                json!({"deregister_table": {"id": ["east", "orders"]}}),
            ],
            400,
            13,
            both,
        ),
        (
            vec![
                first(),
                json!({"declare_table": {"id": ["east", "orders"]}}),
            ],
            400,
            13,
            both,
        ),
        (vec![first(), nothing("east$orders", 2)], 400, 13, both),
        (vec![first(), nothing(ORDERS, 2)], 400, 13, both),
        (
            vec![
                first(),
                json!({"deregister_table": {"id": ["west", "__nsgate_new_1"]}}),
            ],
            400,
            13,
            both,
        ),
        (vec![first(), rename(ORDERS, "east$x")], 400, 13, both),
        (vec![first(), rename(EVENTS, "east$orders")], 400, 13, both),
        (
            vec![first(), rename("east$orders", "east$x")],
            400,
            13,
            both,
        ),
        (
            vec![
                rename("west$t1", "mirror$x"),
                rename("mirror$other", "west$t1"),
            ],
            400,
            13,
            both,
        ),
        (
            vec![
                rename("west$t1", "west$other"),
                rename("west$other", "west$t1"),
            ],
            400,
            13,
            both,
        ),
        (
            vec![first(), json!({"rename_table": {"id": ["a", "b"]}})],
            400,
            13,
            "`operations[1].rename_table.new_table_name` is required",
        ),
    ];
    for (operations, status, code, words) in cases {
        let reply = commit(world.client(), &operations).await;
        let case = format!("{operations:?}: {}", reply.words());
        assert_eq!(reply.outcome(), (status, Some(code)), "{case}");
        assert!(reply.words().contains(words), "{words}: {case}");
        if words == both {
            let named = "operations[1] contradicts operations[0]: ";
            assert!(reply.words().contains(named), "{case}");
        }
    }
    let body = json!({"operations": [first()]});
    let reply = world.client().post("/v1/table/batch-commit", &body).await;
    assert_eq!(reply.outcome(), (400, Some(13)), "{reply:?}");
    assert!(reply.words().contains(COMMIT), "{}", reply.words());
    for name in ["west", "east"] {
        for write in ["register_table", "create_table_version"] {
            assert!(
                world.catalog(name).seen_of(write).is_empty(),
                "{write} in {name}"
            );
        }
    }
    assert_all(&world, false, "refused").await;
}

/// The limit is on changes: a rename is two.
#[tokio::test]
async fn a_rename_counts_as_two() {
    let world = seeded("max_entries: 5").await;
    let reply = commit(world.client(), &batch(&world)).await;
    assert_eq!(reply.outcome(), (400, Some(13)), "{reply:?}");
    let words = "`operations`: a batch has at most 5 operations, and this one has 6";
    assert!(reply.words().contains(words), "{}", reply.words());
    commit(world.client(), &batch(&world)[..3]).await.ok();
}

/// The table is replaced by another one after it was looked up, and before its name is locked.
#[tokio::test]
async fn a_table_that_was_replaced_meanwhile_is_not_renamed() {
    let world = seeded("").await;
    let gate = world.catalog("east").hold("update_table");
    let (client, update) = (world.client(), json!({"updates": [["a", "1"]]}));
    let target = "/v1/table/east%24__nsgate_new_2/update";
    let update = tokio::spawn(async move { client.post(target, &update).await });
    gate.reached(1).await;
    let batch = start(&world, batch(&world));
    world.catalog("west").called("describe_table", 1).await;
    until("the batch waits", || {
        let seen = world.catalog("east").seen_of("describe_table");
        seen.iter().any(|seen| seen.id[1] == "__nsgate_new_2")
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let id = ["east", "__nsgate_new_2"].map(str::to_owned);
    {
        let mut store = world.catalog("east").store();
        let _ = store.deregister_table(&id.to_vec());
        let _ = store.register_table(&id.to_vec(), "east$t1");
    }
    gate.open();
    let reply = batch.await.unwrap();
    drop(update.await);
    assert_eq!(reply.outcome(), (409, Some(14)), "{reply:?}");
    let words = "operations[2]: the table was replaced by another one during the rename";
    assert!(reply.words().contains(words), "{}", reply.words());
    assert!(world.catalog("east").seen_of("register_table").is_empty());
}
