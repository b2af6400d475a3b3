//! A catalog in a directory, embedded: the contract's operations on real tables (cargo feature `dir`).
#![cfg(feature = "dir")]
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures_util::future::poll_immediate;
use http::{Method, Request, StatusCode};
use nsgate::backend::Backend;
use nsgate::body::Body;
use nsgate::config::{BackendConfig, Implementation, Limits};
use nsgate::error::BoxError;
use nsgate::metrics::Metrics;
use nsgate::protocol::operation::Operation;
use serde_json::{Value, json};
use tempfile::TempDir;

/// An Arrow IPC stream: `id` 1, 2, 3 (int64) and `name` a, b, c (string).
const THREE_ROWS: &[u8] = include_bytes!("embedded/three-rows.arrow");
const T1: &str = "/v1/table/prod%24t1";

/// A catalog in a directory of its own, with the namespace `prod`.
struct Catalog {
    backend: Backend,
    root: TempDir,
}

/// What was answered.
struct Answer {
    status: StatusCode,
    content_type: Option<String>,
    body: Vec<u8>,
}

impl Catalog {
    async fn open(body_limit: usize) -> Self {
        let root = tempfile::tempdir().unwrap();
        let backend = open(root.path().to_str().unwrap(), body_limit)
            .await
            .unwrap();
        let catalog = Self { backend, root };
        catalog
            .post("/v1/namespace/prod/create", json!({}))
            .await
            .ok();
        catalog
    }

    async fn with_a_table() -> Self {
        let catalog = Self::open(1 << 20).await;
        let made = catalog
            .arrow(&format!("{T1}/create"), THREE_ROWS)
            .await
            .ok();
        assert_eq!(made["version"], 1);
        catalog
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let (parts, body) = self.backend.send(request).await.unwrap().into_parts();
        let content_type = parts.headers.get("content-type");
        Answer {
            status: parts.status,
            content_type: content_type.map(|value| value.to_str().unwrap().to_owned()),
            body: body.collect_up_to(1 << 20).await.unwrap().to_vec(),
        }
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(request(
            Method::POST,
            path,
            "application/json",
            body.to_string(),
        ))
        .await
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(request(Method::GET, path, "application/json", ""))
            .await
    }

    async fn arrow(&self, path: &str, stream: &'static [u8]) -> Answer {
        let stream = request(
            Method::POST,
            path,
            "application/vnd.apache.arrow.stream",
            stream,
        );
        self.send(stream).await
    }

    /// How many rows of `prod$t1` fit `predicate`.
    async fn count(&self, predicate: &str) -> Value {
        let body = json!({ "predicate": predicate });
        self.post(&format!("{T1}/count_rows"), body).await.ok()
    }

    /// The directory of a table's manifests, and how the object store calls it.
    async fn versions(&self, table: &str) -> (PathBuf, String) {
        let described = self
            .post(&format!("{table}/describe"), json!({}))
            .await
            .ok();
        let location = described["location"]
            .as_str()
            .unwrap()
            .strip_prefix("file://")
            .unwrap();
        let path = Path::new(location).join("_versions");
        let name = path.to_str().unwrap().strip_prefix('/').unwrap().to_owned();
        (path, name)
    }
}

impl Answer {
    /// The JSON of a 200.
    fn ok(self) -> Value {
        let json = String::from_utf8_lossy(&self.body).into_owned();
        assert_eq!(self.status, 200, "{json}");
        assert_eq!(self.content_type.as_deref(), Some("application/json"));
        serde_json::from_str(&json).unwrap()
    }

    /// Status and code of an error.
    fn error(&self) -> (u16, u64) {
        let json = String::from_utf8_lossy(&self.body);
        let error: Value = serde_json::from_str(&json).unwrap_or_default();
        assert!(error["error"].is_string(), "{} {json}", self.status);
        assert_eq!(self.content_type.as_deref(), Some("application/json"));
        (self.status.as_u16(), error["code"].as_u64().unwrap())
    }
}

async fn open(root: &str, body_limit: usize) -> Result<Backend, BoxError> {
    let mut config = BackendConfig::dir("lab", root);
    let Implementation::Dir(dir) = &mut config.implementation else {
        unreachable!("asked for a directory");
    };
    dir.body_limit = body_limit;
    Backend::open(&config, &Limits::default(), &Metrics::new()).await
}

fn request(
    method: Method,
    path: &str,
    content_type: &str,
    body: impl Into<Bytes>,
) -> Request<Body> {
    let request = Request::builder().method(method).uri(path);
    request
        .header("content-type", content_type)
        .body(Body::full(body))
        .unwrap()
}

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

#[tokio::test]
async fn errors_have_the_contracts_status_and_code() {
    let catalog = Catalog::with_a_table().await;
    let one = [["name", "'z'"]];
    let cases = [
        ("/v1/namespace/prod/create", json!({}), (409, 2)),
        ("/v1/namespace/none/describe", json!({}), (404, 1)),
        ("/v1/namespace/prod/drop", json!({}), (409, 3)),
        ("/v1/table/prod%24none/describe", json!({}), (404, 4)),
        ("/v1/table/prod%24t1/declare", json!({}), (409, 5)),
        ("/v1/table/prod%24t1/index/none/stats", json!({}), (404, 6)),
        (
            "/v1/table/prod%24t1/tags/version",
            json!({ "tag": "none" }),
            (404, 8),
        ),
        (
            "/v1/transaction/prod%24t1%24none/describe",
            json!({}),
            (404, 10),
        ),
        (
            "/v1/table/prod%24t1/version/describe",
            json!({ "version": 9 }),
            (404, 11),
        ),
        (
            "/v1/table/prod%24t1/describe",
            json!({ "id": ["prod", "t2"] }),
            (400, 13),
        ),
        (
            "/v1/table/prod%24t1/index/a/stats",
            json!({ "index_name": "b" }),
            (400, 13),
        ),
        (
            "/v1/table/prod%24t1/update",
            json!({ "updates": [1] }),
            (400, 13),
        ),
        (
            "/v1/table/prod%24t1/describe?load_detailed_metadata=1",
            json!({}),
            (400, 13),
        ),
        ("/v1/table/prod%24t1/create", json!({}), (409, 5)),
        ("/v1/table/prod%24t1/insert", json!({}), (400, 13)),
        (
            "/v1/table/prod%24none/update",
            json!({ "updates": one }),
            (404, 4),
        ),
        (
            "/v1/table/prod%24t1/branches/delete",
            json!({ "name": "none" }),
            (404, 22),
        ),
        (
            "/v1/table/prod%24t1/rename",
            json!({ "new_table_name": "t" }),
            (500, 18),
        ),
        ("/v1/table/prod%24t1/something/new", json!({}), (406, 0)),
    ];
    for (path, body, expected) in cases {
        let answer = catalog.post(path, body.clone()).await;
        assert_eq!(answer.error(), expected, "{path} {body}");
    }
}

#[tokio::test]
async fn a_refusal_names_the_field() {
    let catalog = Catalog::with_a_table().await;
    let cases = [
        (
            "update",
            r#"{"updates":[["a","b"],7]}"#,
            "updates[1]: invalid type",
        ),
        (
            "update",
            r#"{"updates":"#,
            "Failed to parse the request body as JSON: updates",
        ),
        ("update", "{}", "missing field `updates`"),
        ("update", r#"{"updates":[]} {}"#, "trailing characters"),
        ("version/list?limit=x", "", "limit: invalid digit"),
    ];
    for (operation, body, expected) in cases {
        let path = format!("{T1}/{operation}");
        let answer = catalog
            .send(request(Method::POST, &path, "application/json", body))
            .await;
        assert_eq!(answer.error(), (400, 13));
        let text = String::from_utf8(answer.body).unwrap();
        assert!(text.contains(expected), "{operation} {body}: {text}");
    }
    let untyped = request(Method::POST, &format!("{T1}/describe"), "text/plain", "{}");
    assert_eq!(catalog.send(untyped).await.error(), (400, 13));
}

/// A route that reads the wrong model or calls nothing would answer differently.
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

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let catalog = Catalog::open(1000).await;
    let path = format!("{T1}/create");
    let large: &'static [u8] = &[0; 1001];
    assert_eq!(catalog.arrow(&path, large).await.error(), (413, 13));
    catalog.arrow(&path, THREE_ROWS).await.ok();
}

#[tokio::test]
async fn a_caller_who_goes_away_does_not_stop_an_operation_half_way() {
    let catalog = Catalog::open(1 << 20).await;
    let path = format!("{T1}/create");
    let asked = request(
        Method::POST,
        &path,
        "application/vnd.apache.arrow.stream",
        THREE_ROWS,
    );
    {
        let sending = std::pin::pin!(catalog.backend.send(asked));
        assert!(
            poll_immediate(sending).await.is_none(),
            "the engine is still at work"
        );
    }
    let exists = async {
        while catalog
            .post(&format!("{T1}/count_rows"), json!({}))
            .await
            .status
            != 200
        {
            tokio::task::yield_now().await;
        }
    };
    let patience = std::time::Duration::from_secs(60);
    tokio::time::timeout(patience, exists).await.unwrap();
}

#[tokio::test]
async fn a_catalog_is_opened_again_with_its_tables() {
    let Catalog { backend, root } = Catalog::with_a_table().await;
    drop(backend);
    let backend = open(root.path().to_str().unwrap(), 1 << 20).await.unwrap();
    let catalog = Catalog { backend, root };
    assert_eq!(catalog.count("id > 1").await, 2);
}

#[tokio::test]
async fn a_catalog_that_cannot_be_is_refused_at_once() {
    let refused = open("s3://bucket/lab", 1).await.err();
    assert!(refused.is_some(), "no store for buckets is compiled in");
}

#[tokio::test]
async fn a_location_is_a_whole_path_even_if_the_root_is_not() {
    let root = tempfile::tempdir_in(".").unwrap();
    let relative = root.path().file_name().unwrap().to_str().unwrap();
    let backend = open(&format!("./{relative}/new"), 1 << 20).await.unwrap();
    let catalog = Catalog { backend, root };
    catalog.arrow("/v1/table/t/create", THREE_ROWS).await.ok();
    let described = catalog.post("/v1/table/t/describe", json!({})).await.ok();
    let location = Path::new(described["location"].as_str().unwrap());
    assert!(
        location.is_absolute() && location.join("_versions").is_dir(),
        "{described}"
    );
}
