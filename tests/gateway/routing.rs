//! An identifier's longest mounted prefix selects the catalog, and a path that is kept arrives byte for byte.

use http::Method;
use serde_json::{Value, json};

use crate::catalog::Catalog;
use crate::catalog::operations::{OPERATIONS, Sends};
use crate::client::{empty, full};
use crate::harness::{Setup, World};

#[tokio::test]
async fn a_kept_path_reaches_the_catalog_byte_for_byte() {
    let world = World::two().await;
    let bodies = [
        r#"{ "id" : ["west","t1"],  "big": 9007199254740993, "x": 1.50e+2 }"#,
        "{\n\t\"unknown\": [null, {\"id\": \"x\"}]}\n",
        r#"{"we\u0073t":"\u00fc","id":["west","t1"]}"#,
        "null",
        "",
    ];
    let targets = [
        "/v1/table/west%24t1/describe?delimiter=%24",
        "/v1/table/west$t1/describe",
        "/v1/table/%77es%74%24%741/describe",
        "/v1/table/west%24t1/describe?b=2&a=1&a=3&empty=&flag&plus=a+b%20c&with_table_uri=true",
        "/v1/table/west%24t1/describe?x=1&%64elimiter=%24",
        "/v1/table/west%24t1/a_newer/operation?x=%2f%2F",
    ];
    for target in targets {
        for body in bodies {
            world.catalog("west").forget();
            let client = world.client().header("content-type", "application/json");
            let sent = client.send(Method::POST, target, full(body)).await.unwrap();
            let seen = world.catalog("west").only();
            assert_eq!(seen.target, target, "{body}");
            assert_eq!(seen.body, body, "{target}");
            assert!(
                sent.status == 200 || body.len() < 5,
                "{target} {body}: {sent:?}"
            );
        }
    }
    assert_eq!(world.catalog("east").seen_of("describe_table").len(), 0);
}

/// Returns a body that the gateway accepts for this operation.
fn body_of(operation: &str) -> Value {
    match operation {
        "update_table" => json!({"updates": [["a", "1"]]}),
        "create_table_version" => json!({"version": 2, "manifest_path": "nothing"}),
        "batch_delete_table_versions" => json!({"ranges": []}),
        "rename_table" => json!({"new_table_name": "t2"}),
        _ => json!({}),
    }
}

#[tokio::test]
async fn every_operation_reaches_the_catalog_that_owns_the_identifier() {
    let world = World::two().await;
    // The gateway answers listings, batches and transactions itself.
    let own = |name: &str| {
        matches!(name, "list_namespaces" | "list_tables" | "list_all_tables")
            || name.starts_with("batch_c")
            || name.contains("transaction")
    };
    let forwarded = OPERATIONS.into_iter().filter(|(name, ..)| !own(name));
    for (name, method, template, sends, success) in forwarded {
        world.catalog("west").forget();
        world
            .catalog("west")
            .can(name, success, "application/json", b"{}");
        let target = template
            .replace("{id}", "west%24t1")
            .replace("{index_name}", "i%201");
        let client = world.client().header("content-type", "application/json");
        let body = match sends {
            Sends::Json => full(body_of(name).to_string()),
            _ => empty(),
        };
        let reply = client.send(method.parse().unwrap(), &target, body).await;
        assert_eq!(reply.unwrap().status, success, "{name}");
        let seen = world.catalog("west").seen_of(name);
        assert_eq!(seen.len(), 1, "{name}");
        assert_eq!(
            (seen[0].method.as_str(), seen[0].target.as_str()),
            (method, target.as_str())
        );
    }
}

#[tokio::test]
async fn the_longest_prefix_of_names_decides() {
    let setup = Setup::new()
        .mount("[]", "rest")
        .mount("[a]", "one")
        .mount("[a, b]", "two");
    let world = setup.start().await;
    for (id, owner) in [
        ("a", "one"),
        ("a%24x", "one"),
        ("a%24b", "two"),
        ("a%24b%24x%24y", "two"),
        ("a%24bb", "one"),
        ("ab%24x", "rest"),
        ("b", "rest"),
        ("%24", "rest"),
        ("A%24b", "rest"),
    ] {
        for (_, catalog) in &world.catalogs {
            catalog.forget();
        }
        world
            .client()
            .post(&format!("/v1/namespace/{id}/exists"), &json!({}))
            .await;
        for (name, catalog) in &world.catalogs {
            let calls = catalog.seen_of("namespace_exists").len();
            assert_eq!(calls, usize::from(*name == owner), "{id} at {name}");
        }
    }
}

#[tokio::test]
async fn what_no_mount_covers_is_not_found() {
    let world = World::two().await;
    let client = world.client();
    for (target, outcome) in [
        ("/v1/namespace/north/describe", (404, Some(1))),
        ("/v1/namespace/wes/exists", (404, Some(1))),
        ("/v1/table/north%24t1/describe", (404, Some(4))),
        ("/v1/table/westt1/count_rows", (404, Some(4))),
    ] {
        assert_eq!(
            client.post(target, &json!({})).await.outcome(),
            outcome,
            "{target}"
        );
    }
    for (method, target, status) in [
        (Method::GET, "/", 404),
        (Method::GET, "/v2/table", 404),
        (Method::POST, "/v1/unheard/west/of", 404),
        (Method::GET, "/v1/table/west%24t1/describe", 405),
        (Method::POST, "/v1/table", 405),
        (Method::DELETE, "/v1/table/west%24t1/drop", 405),
    ] {
        let reply = client.send(method, target, empty()).await.unwrap();
        assert_eq!(reply.status, status, "{target}: {reply:?}");
        assert_eq!(reply.header("allow").is_some(), status == 405, "{target}");
        assert!(reply.json()["code"].is_u64(), "{target}");
    }
    assert!(
        world
            .catalog("west")
            .seen()
            .iter()
            .all(|seen| seen.target == "/")
    );
}

#[tokio::test]
async fn any_delimiter_splits_an_identifier() {
    let world = World::two().await;
    let good = [
        "/v1/table/west.t1/exists?delimiter=.",
        "/v1/table/west%3A%3At1/exists?delimiter=%3A%3A",
        "/v1/table/west::t1/exists?delimiter=::",
        "/v1/table/west%2Ft1/exists?delimiter=/",
        "/v1/table/westxxt1/exists?x=$&delimiter=xx",
        "/v1/table/west%C3%BCt1/exists?delimiter=%c3%bc",
    ];
    for target in good {
        let reply = world.client().post(target, &json!({})).await;
        assert_eq!(reply.status, 200, "{target}: {reply:?}");
    }
    for target in [
        "/v1/table/west%24%24t1/exists",
        "/v1/table/west%24/exists",
        "/v1/table/%24west/exists",
        "/v1/table/west.t1/exists?delimiter=",
        "/v1/table/west.t1/exists?delimiter=.&delimiter=%24",
        "/v1/table/west%FF%24t1/exists",
        "/v1/table/west%2/exists",
        // Servers on the way may resolve these segments as steps in the path.
        "/v1/namespace/./exists?delimiter=.",
        "/v1/table/%2E%2e/exists",
    ] {
        let reply = world.client().post(target, &json!({})).await;
        assert_eq!(reply.outcome(), (400, Some(13)), "{target}: {reply:?}");
    }
}

#[tokio::test]
async fn a_path_in_the_base_address_is_kept_as_a_prefix() {
    let catalog = Catalog::below("/lance/api").await;
    catalog.store().seed(&["west", "t1"], 1);
    let setup = Setup::new().mount("[west]", "west");
    let world = setup.over(vec![("west", catalog)]).await;
    let target = "/v1/table/west%24t1/exists?delimiter=%24";
    world.client().post(target, &json!({})).await.ok();
    let seen = world.catalog("west").seen_of("table_exists");
    assert_eq!(seen[0].target, format!("/lance/api{target}"));
}

#[tokio::test]
async fn one_connection_carries_http2_without_tls() {
    let world = World::two().await;
    let bearer = format!("Bearer {}", crate::token::token(&json!({})));
    let client = crate::client::Client::h2(world.address()).header("authorization", &bearer);
    let asked = (0..20).map(|_| client.get("/v1/namespace/%24/list"));
    for reply in futures_util::future::join_all(asked).await {
        assert_eq!(reply.ok().json(), json!({"namespaces": ["east", "west"]}));
    }
}

/// The catalogs are asked in turn about a transaction whose name tells no table.
#[tokio::test]
async fn a_transaction_is_found_behind_catalogs_that_have_none() {
    let world = World::two().await;
    let (west, east) = (world.catalog("west"), world.catalog("east"));
    let status = br#"{"status":"Succeeded"}"#;
    let error = |code: u16| format!(r#"{{"error":"Not supported: x","code":{code}}}"#);
    let without = [(406, 0), (405, 0), (501, 0), (500, 18), (404, 10)];
    let describe = async || {
        let target = "/v1/transaction/tx/describe";
        world.client().post(target, &json!({})).await
    };
    for (answer, code) in without {
        let body = error(code);
        west.can(
            "describe_transaction",
            answer,
            "application/json",
            body.as_bytes(),
        );
        east.can("describe_transaction", 200, "application/json", status);
        assert_eq!(
            describe().await.ok().json()["status"],
            "Succeeded",
            "{answer}"
        );
        // Nobody has it.
        let body = error(10);
        east.can(
            "describe_transaction",
            404,
            "application/json",
            body.as_bytes(),
        );
        assert_eq!(describe().await.outcome(), (404, Some(10)), "{answer}");
    }
    // A catalog that fails may have it.
    west.can(
        "describe_transaction",
        500,
        "application/json",
        br#"{"error":"x","code":18}"#,
    );
    assert_eq!(describe().await.status, 500);
    east.can("describe_transaction", 200, "application/json", status);
    assert_eq!(describe().await.ok().json()["status"], "Succeeded");
}
