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

/// Some readers take the first of two values, and others the last. The audit log names what the gateway has read.
#[tokio::test]
async fn a_member_is_given_once_or_refused() {
    let world = World::two().await;
    let at = |tail: &str| format!("/v1/table/west%24t1/{tail}");
    let create = r#"{"operations":[{"create_table_version":{"id":["west","t1"],"version":2,"manifest_path":"m","metadata":{},"metadata":{"a":"b"}}}]}"#;
    let declare =
        r#"{"operations":[{"declare_table":{"id":["west","t9"],"location":"a","location":"b"}}]}"#;
    let new = r#"{"operations":[{"deregister_table":{"id":["west","t1"],"new":1,"new":2}}]}"#;
    for (target, body) in [
        (
            at("version/delete"),
            r#"{"ranges":[{"start_version":1,"end_version":2}],"ranges":[{"start_version":0,"end_version":-1}]}"#,
        ),
        (
            at("version/delete"),
            r#"{"ranges":[{"start_version":1,"end_version":2,"end_version":-1}]}"#,
        ),
        (
            at("version/delete"),
            r#"{"ranges":[{"start_version":1,"end_version":2,"\u0065nd_version":-1}]}"#,
        ),
        (
            at("version/delete"),
            r#"{"ranges":[{"start_version":1,"end_version":2,"End_Version":-1}]}"#,
        ),
        (
            at("version/delete"),
            r#"{"ranges":[{"start_version":"1","end_version":-1}]}"#,
        ),
        (at("restore"), r#"{"version":1,"version":2}"#),
        (at("restore"), r#"{"version":1,"\u0076ersion":2}"#),
        (at("restore"), r#"{"version":"1"}"#),
        (at("restore?version=2"), r#"{"version":1}"#),
        (at("restore?branch=a"), r#"{"version":1}"#),
        (
            at("version/delete?branch=a"),
            r#"{"ranges":[{"start_version":1,"end_version":2}]}"#,
        ),
        (at("restore"), r#"{"version":1,"branch":"a","branch":"b"}"#),
        (
            at("version/create"),
            r#"{"version":2,"manifest_path":"m","manifest_path":"n"}"#,
        ),
        (at("version/describe"), r#"{"version":1,"version":2}"#),
        (at("describe"), r#"{"version":1,"version":2}"#),
        (at("describe"), r#"{"new":1,"n\u0065w":2}"#),
        (at("register"), r#"{"location":"a","location":"b"}"#),
        (at("declare"), r#"{"properties":{"a":"b","a":"c"}}"#),
        (at("tags/create"), r#"{"tag":"a","version":1,"tag":"b"}"#),
        (at("tags/update"), r#"{"tag":"a","version":1,"version":2}"#),
        (at("tags/delete"), r#"{"tag":"a","tag":"b"}"#),
        (at("branches/create"), r#"{"name":"a","name":"b"}"#),
        (at("branches/delete"), r#"{"name":"a","name":"b"}"#),
        (
            at("update"),
            r#"{"updates":[["a","1"]],"predicate":"x","predicate":"y"}"#,
        ),
        (at("delete"), r#"{"predicate":"x","predicate":"y"}"#),
        (at("drop"), r#"{"purge":false,"purge":true}"#),
        (at("newer"), r#"{"to":1,"to":2}"#),
        (at("schema_metadata/update"), r#"{"a":"b","a":"c"}"#),
        (at("rename"), r#"{"new_table_name":"t2","to":1,"to":2}"#),
        (
            "/v1/namespace/west%24n/create".to_owned(),
            r#"{"properties":{},"properties":{"a":"b"}}"#,
        ),
        (
            "/v1/namespace/west%24n/drop".to_owned(),
            r#"{"behavior":"Restrict","behavior":"Cascade"}"#,
        ),
        (BATCH.to_owned(), r#"{"entries":[],"new":1,"new":2}"#),
        (COMMIT.to_owned(), create),
        (COMMIT.to_owned(), declare),
        (COMMIT.to_owned(), new),
        (
            "/nsgate/v1/snapshot".to_owned(),
            r#"{"tables":[{"id":["west","t1"],"branch":"a","branch":"b"}]}"#,
        ),
    ] {
        let reply = world.client().post_bytes(&target, body).await;
        let place = format!("{target} {body}: {reply:?}");
        assert_eq!(reply.outcome(), (400, Some(13)), "{place}");
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
