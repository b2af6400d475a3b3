#![allow(clippy::unwrap_used, reason = "a test says what it expects")]
use serde_json::from_slice;

use super::*;
use crate::backend::Backend;
use crate::batch::log::disk::DiskLog;
use crate::config::{BackendConfig, BatchConfig, Limits};
use crate::protocol::identifier::Identifier;
use crate::route::{Mount, Table};

/// A catalog that nobody has asked yet, mounted at `[prod]`.
async fn admin(token: Option<&str>, missing: fn() -> Vec<String>) -> Admin {
    let metrics = Arc::new(Metrics::new());
    let lake = BackendConfig::rest("lake", "http://127.0.0.1:1".parse().unwrap());
    let limits = Limits::default();
    let lake = Backend::open(&lake, &limits, &metrics).await.unwrap();
    let prod = Identifier::from_names(["prod"]).unwrap();
    let world = World {
        routes: Table::new(vec![Mount {
            namespace: prod,
            backend: 0,
            backend_name: "lake".into(),
            backend_namespace: Identifier::root(),
        }]),
        backends: vec![Arc::new(lake)],
    };
    let folder = tempfile::tempdir().unwrap();
    let log = DiskLog::open(&folder.path().join("log"), |_| {}).unwrap();
    let batches = Batches::new(
        Arc::new(log),
        BatchConfig::default(),
        metrics.batch().clone(),
    );
    Admin::new(Shown {
        metrics,
        readiness: Arc::new(Readiness::new(missing)),
        config: json!({ "listen": {} }),
        world: Arc::new(ArcSwap::from_pointee(world)),
        batches: Arc::new(batches),
        token: token.map(Secret::new),
    })
}

fn ask(admin: &Admin, method: &str, path: &str, token: Option<&str>) -> (u16, Response<Body>) {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, token);
    }
    let response = admin.answer(&request.body(Body::empty()).unwrap());
    (response.status().as_u16(), response)
}

async fn page(admin: &Admin, path: &str) -> (u16, Value) {
    let (status, response) = ask(admin, "GET", path, None);
    let body = response.into_body().collect_up_to(1 << 20).await.unwrap();
    (status, from_slice(&body).unwrap())
}

#[tokio::test]
async fn every_page_answers_and_only_to_reading() {
    let admin = admin(None, Vec::new).await;
    for path in [
        "/metrics",
        "/live",
        "/ready",
        "/config",
        "/backends",
        "/batches",
    ] {
        assert_eq!(ask(&admin, "GET", path, None).0, 200, "{path}");
        assert_eq!(ask(&admin, "HEAD", path, None).0, 200, "{path}");
        let (status, response) = ask(&admin, "POST", path, None);
        assert_eq!(
            (status, &response.headers()[ALLOW]),
            (405, &HeaderValue::from_static("GET, HEAD"))
        );
    }
    for path in ["/", "/metrics/", "/v1/table", "/nothing"] {
        assert_eq!(ask(&admin, "GET", path, None).0, 404, "{path}");
    }
    let (_, response) = ask(&admin, "GET", "/metrics", None);
    assert_eq!(response.headers()[CONTENT_TYPE], EXPOSITION);
}

#[tokio::test]
async fn what_stands_in_the_way_of_serving_is_said() {
    let admin = admin(None, || {
        vec!["keys of issuer https://idp.example".to_owned()]
    })
    .await;
    admin.0.readiness.hold("recovery");
    let (status, said) = page(&admin, "/ready").await;
    let missing = json!(["recovery", "keys of issuer https://idp.example"]);
    assert_eq!((status, &said["missing"]), (503, &missing));
    admin.0.readiness.lift("recovery");
    assert_eq!(
        page(&admin, "/ready").await.1["missing"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn backends_are_shown_with_their_mounts() {
    let admin = admin(None, Vec::new).await;
    let expected = json!({ "backends": [{
        "name": "lake", "implementation": "rest", "up": true, "error": null,
        "mounts": [{ "namespace": ["prod"], "backend_namespace": [] }],
    }]});
    assert_eq!(page(&admin, "/backends").await, (200, expected));
}

#[tokio::test]
async fn the_token_guards_all_but_what_scrapers_need() {
    let admin = admin(Some("sesame"), Vec::new).await;
    let given = [
        (None, 401),
        (Some("Bearer sesamE"), 401),
        (Some("Bearer sesame2"), 401),
        (Some("Bearer "), 401),
        (Some("sesame"), 401),
        (Some("Basic sesame"), 401),
        (Some("Bearer sesame"), 200),
        (Some("bearer sesame"), 200),
    ];
    for (token, status) in given {
        for path in ["/config", "/backends", "/batches"] {
            assert_eq!(
                ask(&admin, "GET", path, token).0,
                status,
                "{path} {token:?}"
            );
        }
        for path in ["/metrics", "/live", "/ready"] {
            assert_eq!(ask(&admin, "GET", path, token).0, 200, "{path} {token:?}");
        }
    }
    assert_eq!(
        ask(&admin, "GET", "/nothing", None).0,
        401,
        "nor which pages there are"
    );
}
