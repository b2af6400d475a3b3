//! An embedded catalog, as the gateway uses it.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use nsgate::backend::Backend;
use nsgate::body::Body;
use nsgate::config::{BackendConfig, Implementation, Limits};
use nsgate::error::BoxError;
use nsgate::metrics::Metrics;
use serde_json::{Value, json};
use tempfile::TempDir;

/// An Arrow IPC stream: `id` 1, 2, 3 (int64) and `name` a, b, c (string).
pub const THREE_ROWS: &[u8] = include_bytes!("three-rows.arrow");
pub const T1: &str = "/v1/table/prod%24t1";

/// A catalog in a directory of its own, with the namespace `prod`.
pub struct Catalog {
    pub backend: Backend,
    pub root: TempDir,
}

/// An answer of the catalog.
pub struct Answer {
    pub status: StatusCode,
    pub content_type: Option<String>,
    pub body: Vec<u8>,
}

impl Catalog {
    pub async fn open(body_limit: usize) -> Self {
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

    pub async fn with_a_table() -> Self {
        let catalog = Self::open(1 << 20).await;
        let made = catalog
            .arrow(&format!("{T1}/create"), THREE_ROWS)
            .await
            .ok();
        assert_eq!(made["version"], 1);
        catalog
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let (parts, body) = self.backend.send(request).await.unwrap().into_parts();
        let content_type = parts.headers.get("content-type");
        Answer {
            status: parts.status,
            content_type: content_type.map(|value| value.to_str().unwrap().to_owned()),
            body: body.collect_up_to(1 << 20).await.unwrap().to_vec(),
        }
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(request(
            Method::POST,
            path,
            "application/json",
            body.to_string(),
        ))
        .await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(request(Method::GET, path, "application/json", ""))
            .await
    }

    pub async fn arrow(&self, path: &str, stream: &'static [u8]) -> Answer {
        let stream = request(
            Method::POST,
            path,
            "application/vnd.apache.arrow.stream",
            stream,
        );
        self.send(stream).await
    }

    /// Returns the number of rows of `prod$t1` that match `predicate`.
    pub async fn count(&self, predicate: &str) -> Value {
        let body = json!({ "predicate": predicate });
        self.post(&format!("{T1}/count_rows"), body).await.ok()
    }

    /// Returns the directory of a table's manifests, and the object store's name for it.
    pub async fn versions(&self, table: &str) -> (PathBuf, String) {
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
    /// Returns the JSON of an answer with status 200; panics otherwise.
    pub fn ok(self) -> Value {
        let json = String::from_utf8_lossy(&self.body).into_owned();
        assert_eq!(self.status, 200, "{json}");
        assert_eq!(self.content_type.as_deref(), Some("application/json"));
        serde_json::from_str(&json).unwrap()
    }

    /// Returns the status and code of an error; panics if it is not in the contract's shape.
    pub fn error(&self) -> (u16, u64) {
        let json = String::from_utf8_lossy(&self.body);
        let error: Value = serde_json::from_str(&json).unwrap_or_default();
        assert!(error["error"].is_string(), "{} {json}", self.status);
        assert_eq!(self.content_type.as_deref(), Some("application/json"));
        (self.status.as_u16(), error["code"].as_u64().unwrap())
    }
}

pub async fn open(root: &str, body_limit: usize) -> Result<Backend, BoxError> {
    let mut config = BackendConfig::dir("lab", root);
    let Implementation::Dir(dir) = &mut config.implementation else {
        unreachable!("asked for a directory");
    };
    dir.body_limit = body_limit;
    Backend::open(&config, &Limits::default(), &Metrics::new()).await
}

pub fn request(
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
