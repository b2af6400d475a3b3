//! Conditional requests: an answer without hidden versions differs from the one that the catalog evaluated.

use http::Method;
use serde_json::json;

use super::{assert_both, prepared, world};
use crate::client::full;

const FILTERED: [(&str, &str); 3] = [
    ("POST", "/v1/table/west%24t1/version/list"),
    ("POST", "/v1/table/west%24t1/version/describe"),
    ("GET", "/v1/namespace/west/table/list"),
];
const CONDITIONS: [(&str, &str); 4] = [
    ("if-none-match", "\"v1\""),
    ("if-modified-since", "Sun, 22 Nov 2026 10:00:00 GMT"),
    ("if-range", "\"v1\""),
    ("range", "bytes=0-1"),
];

#[tokio::test]
async fn what_is_filtered_is_neither_asked_for_with_conditions_nor_validated() {
    let world = world("").await;
    let west = world.catalog("west");
    west.add_header("etag", "\"v1\"");
    west.add_header("last-modified", "Sun, 22 Nov 2026 10:00:00 GMT");
    west.add_header("cache-control", "public, max-age=60");
    let mut client = world.client();
    for (name, value) in CONDITIONS {
        client = client.header(name, value);
    }
    let (gate, batch) = prepared(&world, 2).await;
    for step in ["hidden", "revealed"] {
        for (method, target) in FILTERED {
            west.forget();
            let body = if method == "GET" { "" } else { "{}" };
            let client = client.header("content-type", "application/json");
            let method = method.parse::<Method>().unwrap();
            let reply = client.send(method, target, full(body)).await.unwrap();
            assert_eq!(reply.status, 200, "{step}: {target}: {reply:?}");
            for validator in ["etag", "last-modified"] {
                assert_eq!(reply.header(validator), None, "{step}: {target}");
            }
            assert_eq!(reply.header("cache-control"), Some("no-store"), "{target}");
            for asked in west.seen() {
                for (name, _) in CONDITIONS {
                    assert_eq!(asked.header(name), None, "{step}: {target}");
                }
            }
        }
        gate.open();
    }
    batch.await.unwrap().ok();
    assert_both(&world, &[1, 2], "revealed").await;
    // Answers that no batch can change are left to catalog and client.
    let reply = client.post("/v1/table/west%24t1/exists", &json!({})).await;
    assert_eq!(reply.status, 304, "{reply:?}");
    assert_eq!(reply.header("etag"), Some("\"v1\""));
}
