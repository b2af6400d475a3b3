//! Bodies in which some servers find other members than others do.

use serde_json::{Value, json};

use super::{is_untouched, setup};
use crate::catalog::BatchCreate;
use crate::harness::{Setup, World};

const DESCRIBE: &str = "/v1/table/west%24t1/describe";
const RENAME: &str = "/v1/table/west%24t1/rename";
const BATCH: &str = "/v1/table/version/batch-create";
const COMMIT: &str = "/v1/table/batch-commit";

/// Some catalogs of the contract use Go's `encoding/json`, which ignores case; the last member wins.
#[tokio::test]
async fn a_member_is_spelled_as_it_is_or_refused() {
    let world = World::two().await;
    for (target, body) in [
        (DESCRIBE, r#"{"ID":["east","t1"]}"#),
        (DESCRIBE, r#"{"id":["west","t1"],"Id":["east","t1"]}"#),
        (DESCRIBE, r#"{"\u0049D":["east","t1"]}"#),
        (DESCRIBE, r#"{"ıd":["east","t1"]}"#),
        (DESCRIBE, r#"{"Identity":{"auth_token":"x"}}"#),
        (DESCRIBE, r#"{"CONTEXT":{"tenant":"x"}}"#),
        (DESCRIBE, r#"{"Load_Detailed_Metadata":true}"#),
        ("/v1/table/west%24t1/newer", r#"{"ID":["east","t1"]}"#),
        ("/v1/table/west%24t1/index/i/stats", r#"{"Index_Name":"j"}"#),
        (
            "/v1/table/west%24t1/version/create",
            r#"{"version":2,"Version":3,"manifest_path":"m"}"#,
        ),
        (
            RENAME,
            r#"{"new_table_name":"t2","New_Namespace_Id":["east"]}"#,
        ),
        (
            RENAME,
            r#"{"new_table_name":"t2","new_name\u017fpace_id":["east"]}"#,
        ),
        (RENAME, r#"{"new_table_name":"t2","newTableName":"t3"}"#),
        (BATCH, r#"{"Entries":[]}"#),
        (
            BATCH,
            r#"{"entries":[{"id":["west","t1"],"ID":["east","t1"],"version":2,"manifest_path":"m"}]}"#,
        ),
        (
            COMMIT,
            r#"{"operations":[{"deregister_table":{"id":["west","t1"],"Id":["east","t1"]}}]}"#,
        ),
        (
            COMMIT,
            r#"{"operations":[{"Deregister_Table":{"id":["west","t1"]}}]}"#,
        ),
        (
            COMMIT,
            r#"{"operations":[{"delete_table_versions":{"id":["west","t1"],"ranges":[{"start_version":1,"end_version":2,"End_Version":-1}]}}]}"#,
        ),
    ] {
        let reply = world.client().post_bytes(target, body).await;
        assert_eq!(
            reply.outcome(),
            (400, Some(13)),
            "{target} {body}: {reply:?}"
        );
    }
    assert!(is_untouched(&world));
}

/// The metadata of a table's schema may have any keys.
#[tokio::test]
async fn the_keys_of_metadata_are_free() {
    let world = World::two().await;
    let catalog = world.catalog("west");
    catalog.can(
        "update_table_schema_metadata",
        200,
        "application/json",
        b"{}",
    );
    let body = r#"{"ID":"7","Version":"x","id":"8"}"#;
    let target = "/v1/table/west%24t1/schema_metadata/update";
    world.client().post_bytes(target, body).await.ok();
    assert_eq!(catalog.only().body, body);
}

/// The body alone says what a rename does, so members are removed that another catalog might obey.
#[tokio::test]
async fn a_rename_goes_on_with_what_was_understood() {
    let world = World::two().await;
    let body =
        r#"{"new_id":["east","x"],"id":["west","t1"],"to":1,"new_table_name":"t2","entries":[]}"#;
    world.client().post_bytes(RENAME, body).await;
    let seen = world.catalog("west").seen_of("rename_table");
    assert_eq!(
        seen[0].json(),
        json!({"id": ["west", "t1"], "new_table_name": "t2"})
    );
}

#[tokio::test]
async fn a_batch_of_one_catalog_goes_on_with_what_was_understood() {
    let world = World::two().await;
    let catalog = world.catalog("west");
    catalog.set_batch_create(BatchCreate::Atomic);
    catalog.store().seed(&["west", "t2"], 1);
    let entry = |table: &str| {
        catalog.store().stage(table, table);
        json!({"id": ["west", table], "version": 2, "manifest_path": table,
            "metadata": {"a": "b"}, "table_id": ["west", "secret"], "new_id": 1})
    };
    let body = json!({"entries": [entry("t1"), entry("t2")]});
    world.client().post(BATCH, &body).await.ok();
    let seen = catalog.seen_of("batch_create_table_versions");
    for entry in seen[0].json()["entries"].as_array().unwrap() {
        let mut keys: Vec<&str> = entry
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        keys.sort_unstable();
        assert_eq!(keys, ["id", "manifest_path", "metadata", "version"]);
    }
}

/// The body may name any table. If a rule denies all callers below the catalog's mount, the operation is denied,
/// unless a rule says that the path names all of its tables.
#[tokio::test]
async fn an_operation_outside_of_the_contract_acts_on_all_of_its_catalog() {
    let client = |world: &World| world.client_with(&json!({"scope": "catalog.read catalog.write"}));
    let rules = |more: &str, hr: &str| {
        format!(
            "authorization:
  - {{ namespace: [west], read: {{ scope: catalog.read }}, write: {{ scope: catalog.write }}{more} }}
  - {{ namespace: [west, hr], read: {{ scope: catalog.read }}, write: {{ {hr} }} }}"
        )
    };
    for (more, hr, status) in [
        ("", "deny: true", 403),
        ("", "scope: catalog.write", 200),
        (", unlisted: name", "deny: true", 200),
        (", unlisted: catalog", "scope: other", 403),
        (", unlisted: catalog", "scope: catalog.write", 200),
        ("", "scope: other", 200),
    ] {
        let setup = Setup::new().mount("[west]", "west");
        let world = setup.section(&rules(more, hr)).start().await.seeded();
        for target in ["/v1/table/west%24t1/newer", "/v1/namespace/west%24x/newer"] {
            if status == 200 && target.contains("namespace") {
                continue;
            }
            let reply = client(&world).post(target, &json!({})).await;
            assert_eq!(reply.status, status, "{more} {hr} {target}: {reply:?}");
            if status == 403 {
                let text = reply.json().to_string();
                assert!(text.contains("whole catalog"), "{text}");
            }
        }
    }
}

/// A namespace that does not exist yet has nothing below it. Overwriting an existing one would also remove what is
/// below it.
#[tokio::test]
async fn a_namespace_above_a_denial_can_be_created_and_not_overwritten() {
    let world = setup().start().await;
    let client = world.client_with(&json!({"scope": "catalog.read catalog.write"}));
    let create = |body: Value| {
        let client = client.clone();
        async move { client.post("/v1/namespace/n/create", &body).await }
    };
    for mode in ["overwrite", "Overwrite", "newer"] {
        let reply = create(json!({"mode": mode})).await;
        assert_eq!(reply.outcome(), (403, Some(15)), "{mode}: {reply:?}");
    }
    let reply = client
        .post("/v1/namespace/n/create?mode=overwrite", &json!({}))
        .await;
    assert_eq!(reply.outcome(), (403, Some(15)), "{reply:?}");
    assert!(is_untouched(&world));
    create(json!({"mode": "create"})).await.ok();
    let reply = client.post("/v1/namespace/n%24hr/create", &json!({})).await;
    assert_eq!(reply.outcome(), (403, Some(15)), "{reply:?}");
    let reply = client.post("/v1/namespace/n/drop", &json!({})).await;
    assert_eq!(reply.outcome(), (403, Some(15)), "{reply:?}");
}
