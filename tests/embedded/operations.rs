//! The effects of the operations on real tables.

use std::path::Path;

use nsgate::protocol::operation::Operation;
use serde_json::{Value, json};

use crate::catalog::{Catalog, T1, THREE_ROWS, request};

#[tokio::test]
async fn rows_are_written_changed_and_read() {
    let catalog = Catalog::with_a_table().await;
    let inserted = catalog
        .arrow(&format!("{T1}/insert"), THREE_ROWS)
        .await
        .ok();
    assert_eq!(inserted["version"], 2);
    assert_eq!(catalog.count("true").await, 6);

    let change = json!({ "predicate": "id = 1", "updates": [["name", "'z'"]] });
    let updated = catalog.post(&format!("{T1}/update"), change).await.ok();
    assert_eq!(
        (&updated["updated_rows"], &updated["version"]),
        (&json!(2), &json!(3))
    );
    assert_eq!(catalog.count("name = 'z'").await, 2);
    assert_eq!(catalog.count("name = 'a'").await, 0);

    let merge = format!("{T1}/merge_insert?on=id&on=name&when_not_matched_insert_all=true");
    let merged = catalog.arrow(&merge, THREE_ROWS).await.ok();
    assert_eq!(
        merged["num_inserted_rows"], 1,
        "only (1, a) is not there: {merged}"
    );

    catalog
        .post(&format!("{T1}/delete"), json!({ "predicate": "id > 1" }))
        .await
        .ok();
    assert_eq!(catalog.count("true").await, 3);

    let query = json!({ "vector": {}, "k": 10, "filter": "name = 'z'" });
    let found = catalog.post(&format!("{T1}/query"), query).await;
    assert_eq!(found.status, 200);
    assert_eq!(
        found.content_type.as_deref(),
        Some("application/vnd.apache.arrow.file")
    );
    assert!(found.body.starts_with(b"ARROW1") && found.body.ends_with(b"ARROW1"));
}

#[tokio::test]
async fn versions_tags_and_branches_are_kept() {
    let catalog = Catalog::with_a_table().await;
    catalog
        .arrow(&format!("{T1}/insert"), THREE_ROWS)
        .await
        .ok();

    let latest = format!("{T1}/version/list?descending=true&limit=1");
    let listed = catalog.post(&latest, Value::Null).await.ok();
    assert_eq!(listed["versions"].as_array().unwrap().len(), 1);
    assert_eq!(listed["versions"][0]["version"], 2);

    catalog
        .post(
            &format!("{T1}/tags/create"),
            json!({ "tag": "first", "version": 1 }),
        )
        .await
        .ok();
    let tagged = catalog
        .post(&format!("{T1}/tags/version"), json!({ "tag": "first" }))
        .await
        .ok();
    assert_eq!(tagged["version"], 1);

    catalog
        .post(&format!("{T1}/branches/create"), json!({ "name": "trial" }))
        .await
        .ok();
    let branches = catalog
        .post(&format!("{T1}/branches/list"), json!({}))
        .await
        .ok();
    assert!(branches["branches"]["trial"].is_object(), "{branches}");
    catalog
        .post(&format!("{T1}/restore"), json!({ "version": 1 }))
        .await
        .ok();
    assert_eq!(catalog.count("true").await, 3);
}

#[tokio::test]
async fn a_staged_version_is_created_once_and_can_be_deleted() {
    let catalog = Catalog::with_a_table().await;
    let (directory, name) = catalog.versions(T1).await;
    let described = catalog
        .post(&format!("{T1}/version/describe"), json!({ "version": 1 }))
        .await;
    let first = described.ok()["version"]["manifest_path"]
        .as_str()
        .unwrap()
        .to_owned();
    let first = directory.join(Path::new(&first).file_name().unwrap());
    let staged = directory.join("staged");
    std::fs::copy(first, &staged).unwrap();

    let create = |version| json!({ "version": version, "manifest_path": format!("{name}/staged") });
    let path = format!("{T1}/version/create");
    assert_eq!(
        catalog.post(&path, create(3)).await.error(),
        (409, 14),
        "not latest + 1"
    );
    let created = catalog.post(&path, create(2)).await.ok();
    assert_eq!(created["version"]["version"], 2);
    assert!(!staged.exists(), "the staged manifest is used up");
    assert_eq!(catalog.post(&path, create(2)).await.error(), (409, 14));

    let delete = json!({ "ranges": [{ "start_version": 2, "end_version": 3 }] });
    catalog
        .post(&format!("{T1}/version/delete"), delete)
        .await
        .ok();
    let gone = catalog
        .post(&format!("{T1}/version/describe"), json!({ "version": 2 }))
        .await;
    assert_eq!(gone.error(), (404, 11));
}

#[tokio::test]
async fn the_tree_is_listed_in_pages_and_taken_down() {
    let catalog = Catalog::with_a_table().await;
    catalog
        .post("/v1/namespace/prod::eu/create?delimiter=::", json!({}))
        .await
        .ok();
    catalog
        .arrow("/v1/table/prod%24t2/create", THREE_ROWS)
        .await
        .ok();
    catalog.arrow("/v1/table/top/create", THREE_ROWS).await.ok();

    assert_eq!(
        catalog.get("/v1/namespace/%24/list").await.ok()["namespaces"],
        json!(["prod"])
    );
    assert_eq!(
        catalog.get("/v1/namespace/prod/list").await.ok()["namespaces"],
        json!(["eu"])
    );
    assert_eq!(
        catalog.get("/v1/table").await.ok()["tables"],
        json!(["top"])
    );
    let page = catalog
        .get("/v1/namespace/prod/table/list?limit=1")
        .await
        .ok();
    assert_eq!(page["tables"], json!(["t1"]));
    let next = format!(
        "/v1/namespace/prod/table/list?page_token={}",
        page["page_token"].as_str().unwrap()
    );
    assert_eq!(catalog.get(&next).await.ok()["tables"], json!(["t2"]));

    let exists = catalog.post(&format!("{T1}/exists"), json!({})).await;
    assert_eq!(
        (exists.status.as_u16(), exists.content_type, exists.body),
        (200, None, vec![])
    );
    let dropped = catalog.post(&format!("{T1}/drop"), Value::Null).await.ok();
    assert_eq!(dropped["id"], json!(["prod", "t1"]));
    assert_eq!(
        catalog
            .post(&format!("{T1}/exists"), json!({}))
            .await
            .error(),
        (404, 4)
    );
    let occupied = catalog.post("/v1/namespace/prod/drop", json!({})).await;
    assert_eq!(occupied.error(), (409, 3));
}

/// A route that parses the wrong model or calls nothing would answer differently.
#[tokio::test]
async fn every_operation_reaches_the_engine() {
    let catalog = Catalog::open(1 << 20).await;
    let lacking = [
        Operation::RenameTable,
        Operation::BatchCreateTableVersions,
        Operation::BatchCommitTables,
        Operation::AlterTableBackfillColumns,
        Operation::UpdateFieldMetadata,
        Operation::RefreshMaterializedView,
        Operation::CreateMaterializedView,
    ];
    let body = json!({
        "actions": [], "alterations": [], "column": "id", "entries": [], "index_type": "BTREE", "k": 1,
        "kind": "query", "location": "x", "manifest_path": "x", "name": "x", "new_columns": [],
        "new_table_name": "x", "operations": [], "output_schema": "", "predicate": "true",
        "query": { "k": 1, "vector": {} }, "ranges": [], "source_query": "", "tag": "x", "updates": [],
        "vector": {}, "version": 1,
    });
    for operation in Operation::LISTED {
        let (collection, tail) = operation.route().unwrap();
        let id = operation.kind().map_or("", |_| "/none%24x");
        let path = format!("/v1/{collection}{id}/{}", tail.replace("{index_name}", "x"));
        let method = operation.method().unwrap().clone();
        let body = match operation {
            Operation::UpdateTableSchemaMetadata => json!({ "key": "value" }),
            Operation::AlterTableDropColumns => json!({ "columns": ["x"] }),
            _ => body.clone(),
        };
        let asked = request(method, &path, "application/json", body.to_string());
        let answer = catalog.send(asked).await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let name = operation.name();
        let is_lacking = text.contains(&format!("{name} not implemented"));
        assert_eq!(is_lacking, lacking.contains(&operation), "{name}: {text}");
        assert_ne!(answer.status, 406, "{name}: {text}");
        assert!(!text.contains("Failed to deserialize"), "{name}: {text}");
    }
}
