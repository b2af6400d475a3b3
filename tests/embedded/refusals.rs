//! Refused requests, and the words of their errors.

use http::Method;
use serde_json::json;

use crate::catalog::{Catalog, T1, THREE_ROWS, request};

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

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let catalog = Catalog::open(1000).await;
    let path = format!("{T1}/create");
    let large: &'static [u8] = &[0; 1001];
    assert_eq!(catalog.arrow(&path, large).await.error(), (413, 13));
    catalog.arrow(&path, THREE_ROWS).await.ok();
}
