//! A body may not name another table than its route does, however the name is spelled.

use http::Method;
use serde_json::json;

use crate::client::full;
use crate::harness::World;

#[tokio::test]
async fn a_body_that_disagrees_with_its_route_goes_nowhere() {
    let world = World::two().await;
    let describe = "/v1/table/west%24t1/describe";
    let index = "/v1/table/west%24t1/index/i1/stats";
    let cases = [
        (describe, r#"{"id":["west","t2"]}"#),
        (describe, r#"{"id":["east","t1"]}"#),
        (describe, r#"{"id":["west"]}"#),
        (describe, r#"{"id":[]}"#),
        (describe, r#"{"id":"west$t1"}"#),
        (describe, r#"{"id":["west$t2"]}"#),
        (describe, r#"{"id":["west","t1",1]}"#),
        (describe, r#"{"id":["west","t1"],"id":["east","t1"]}"#),
        (describe, r#"{"id":["west","t1"],"x":1,"id":["west","t1"]}"#),
        (describe, r#"{"\u0069d":["east","t1"]}"#),
        (describe, r#"{"\u0069\u0064":["west","t1"]}"#),
        (describe, r#"{"id":["west","t1"],"i\u0064":["east","t1"]}"#),
        (describe, r#"{"id":["west","t1"]} {"id":["east","t1"]}"#),
        (describe, r#"[{"id":["west","t1"]}]"#),
        (describe, r#""id""#),
        (describe, "{"),
        (index, r#"{"index_name":"i2"}"#),
        (index, r#"{"index_name":"i1","index_name":"i2"}"#),
        (index, r#"{"inde\u0078_name":"i2"}"#),
        (index, r#"{"id":["west","t2"],"index_name":"i1"}"#),
        (
            "/v1/table/west%24t1/a_newer/operation",
            r#"{"id":["east","t1"]}"#,
        ),
        (
            "/v1/table/west%24t1/version/describe",
            r#"{"id":["west","t2"],"version":1}"#,
        ),
        ("/v1/namespace/west/drop", r#"{"id":["east"]}"#),
        ("/v1/namespace/west/drop", r#"{"id":[]}"#),
    ];
    for kind in ["application/json", "text/plain"] {
        let client = world.client().header("content-type", kind);
        for (target, body) in cases {
            if kind == "text/plain" && target.contains("newer") {
                continue; // Only a body that is declared as JSON is read.
            }
            let reply = client.send(Method::POST, target, full(body)).await.unwrap();
            assert_eq!(reply.outcome(), (400, Some(13)), "{kind} {target} {body}");
        }
    }
    for (_, catalog) in &world.catalogs {
        let seen = catalog.seen();
        assert!(seen.iter().all(|seen| seen.target == "/"), "{seen:?}");
    }
}

#[tokio::test]
async fn a_body_that_agrees_passes_in_any_spelling_of_its_values() {
    let world = World::two().await;
    for (target, body) in [
        (
            "/v1/table/west%24t1/describe",
            r#"{"id":["we\u0073t","\u0074\u0031"]}"#,
        ),
        (
            "/v1/table/west%24t1/describe",
            r#"{"nested":{"id":["east"]},"list":[{"id":1}]}"#,
        ),
        (
            "/v1/table/west%24t1/index/i%2D1/stats",
            r#"{"id":["west","t1"],"index_name":"i-1"}"#,
        ),
        ("/v1/table/west%24t1/newer", r#"{"id":["west","t1"]}"#),
        ("/v1/namespace/west/describe", r#"{"id":["west"]}"#),
    ] {
        world.catalog("west").store().seed_namespace(&["west"]);
        let reply = world.client().post_bytes(target, body).await;
        assert_eq!(reply.status, 200, "{target} {body}: {reply:?}");
    }
}

/// Documented requests are checked before they are forwarded, and the answer names the wrong field.
#[tokio::test]
async fn a_request_of_the_wrong_shape_is_told_its_field() {
    let world = World::two().await;
    let batch = "/v1/table/version/batch-create";
    let one = |field: &str, value: serde_json::Value| {
        let mut entry = json!({"id": ["west", "t1"], "version": 2, "manifest_path": "p"});
        entry[field] = value;
        json!({"entries": [{"id": ["east", "t1"], "version": 2, "manifest_path": "p"}, entry]})
    };
    let update = "/v1/table/west%24t1/update";
    let declare = "/v1/table/west%24t1/declare";
    for (target, body, field) in [
        (declare, json!({"location": 1}), "location"),
        (
            declare,
            json!({"vend_credentials": "yes"}),
            "vend_credentials",
        ),
        (declare, json!({"properties": ["a"]}), "properties"),
        (declare, json!({"properties": {"a": 1}}), "properties"),
        (update, json!({}), "updates"),
        (update, json!({"updates": "a"}), "updates"),
        (
            update,
            json!({"updates": [["a", "1"], ["b"]]}),
            "updates[1]",
        ),
        (update, json!({"updates": [["a", "1", "c"]]}), "updates[0]"),
        (update, json!({"updates": [["a", 1]]}), "updates[0]"),
        (batch, json!({}), "entries"),
        (batch, json!({"entries": []}), "entries"),
        (batch, json!({"entries": {}}), "entries"),
        (batch, json!({"entries": [1]}), "entries[0]"),
        (batch, one("id", json!("west$t1")), "entries[1].id"),
        (batch, one("id", json!([])), "entries[1].id"),
        (batch, one("version", json!(-1)), "entries[1].version"),
        (batch, one("version", json!("2")), "entries[1].version"),
        (batch, one("version", json!(2.5)), "entries[1].version"),
        (
            batch,
            one("manifest_path", json!(null)),
            "entries[1].manifest_path",
        ),
    ] {
        let reply = world.client().post(target, &body).await;
        assert_eq!(
            reply.outcome(),
            (400, Some(13)),
            "{target} {body}: {reply:?}"
        );
        let text = reply.json().to_string();
        assert!(text.contains(field), "{target} {body}: {text}");
    }
}
