//! Paths and parameters that some servers read differently.

use http::Method;
use serde_json::json;

use super::{RULES, is_untouched, setup};
use crate::client::{Client, full};
use crate::harness::{Setup, World};

fn writer(world: &World) -> Client {
    world.client_with(&json!({"scope": "catalog.read catalog.write"}))
}

/// A server that decodes before it routes, or that decodes twice, sees another path in each of
/// these.
#[tokio::test]
async fn a_path_that_decodes_to_another_one_goes_nowhere() {
    let world = setup().start().await;
    let client = writer(&world);
    for target in [
        "/v1/table/n%24pub%24x%2F..%2Fhr%24secret/describe",
        "/v1/table/n%24pub%24x%2f..%2fn%24hr%24victim/drop",
        "/v1/table/n%24pub%24t%2Fversion/create",
        "/v1/table/n%24pub%5C..%5Chr/exists",
        "/v1/table/n%24pub%252F..%252Fhr/exists",
        "/v1/table/n%24pub%3Fx/exists",
        "/v1/table/n%24pub%23x/exists",
        "/v1/namespace/n%24hr%3Bx/exists",
        "/v1/namespace/n%24h%2572/exists",
        "/v1/table/n%24pub%0d%0aGET%20/exists",
        "/v1/table/n%24pub/index/i%2F..%2F..%2Fx/stats",
        "/v1/table/n%24pub/index/%252e%252e/drop",
        "/v1/table/n%24pub/newer/%252e%252e",
        "/v1/table/n%24pub/newer%3Fx",
        "/v1/table/n%24pub/DROP",
        "/v1/table/n%24pub/Version/Create",
        "/v1/table/n.pub%2Fx/exists?delimiter=.",
        "/v1/transaction/n%24pub%2F..%2Fhr/describe",
    ] {
        let reply = client.post(target, &json!({})).await;
        assert_eq!(reply.outcome(), (400, Some(13)), "{target}: {reply:?}");
    }
    for target in [
        "/v1/namespace/n%24hr%2Ftable/list",
        "/v1/namespace/n%24pub%2F..%2Fhr/table/list",
    ] {
        let reply = client.get(target).await;
        assert!(matches!(reply.status, 400 | 403), "{target}: {reply:?}");
    }
    assert!(is_untouched(&world));
}

/// The gateway builds the paths of a batch or a rename itself, from the names in the body.
#[tokio::test]
async fn a_name_in_a_body_becomes_no_other_path() {
    let world = setup().start().await;
    let client = writer(&world);
    for name in ["x/../hr$secret", "x/y", "x\\y", "%68r", "x?y", "x;y"] {
        let entry = json!({"id": ["n", name], "version": 2, "manifest_path": "m"});
        let more = json!({"id": ["n", "b"], "version": 2, "manifest_path": "m"});
        for (target, body) in [
            (
                "/v1/table/version/batch-create",
                json!({"entries": [entry, more]}),
            ),
            (
                "/v1/table/batch-commit",
                json!({"operations": [{"create_table_version": entry}]}),
            ),
            (
                "/v1/table/n%24pub/rename",
                json!({"new_table_name": name, "new_namespace_id": ["n"]}),
            ),
        ] {
            let reply = client.post(target, &body).await;
            assert!(
                matches!(reply.status, 400 | 403),
                "{name} {target}: {reply:?}"
            );
        }
    }
    assert!(is_untouched(&world));
}

/// A name of dots would be a whole path segment below a mount with another root, and servers resolve such a segment as
/// a step.
#[tokio::test]
async fn a_name_of_dots_is_no_segment_of_its_own() {
    let world = Setup::new()
        .rerooted("[n]", "n", "[]")
        .section(RULES)
        .start()
        .await;
    let client = writer(&world);
    for target in [
        "/v1/namespace/n%24./table/list",
        "/v1/namespace/n%24../list",
    ] {
        let reply = client.get(target).await;
        assert_eq!(reply.outcome(), (400, Some(13)), "{target}: {reply:?}");
    }
    for target in ["/v1/table/n%24./drop", "/v1/table/n%24../describe"] {
        let reply = client.post(target, &json!({})).await;
        assert_eq!(reply.outcome(), (400, Some(13)), "{target}: {reply:?}");
    }
    assert!(is_untouched(&world));
}

/// Some catalogs use the body's identifier if the route's is their root.
#[tokio::test]
async fn a_table_is_never_the_root_of_its_catalog() {
    let world = Setup::new()
        .rerooted("[n]", "n", "[]")
        .mount("[]", "all")
        .start()
        .await;
    let client = world.client();
    for target in [
        "/v1/table/%24/describe",
        "/v1/table/n/describe",
        "/v1/table/n/insert",
        "/v1/table/n/newer",
        "/v1/materialized_view/n/refresh",
    ] {
        let reply = client.post(target, &json!({})).await;
        assert_eq!(reply.outcome(), (400, Some(13)), "{target}: {reply:?}");
    }
    assert!(is_untouched(&world));
}

/// A catalog that the operator declares to read names exactly is sent every name byte for byte.
#[tokio::test]
async fn what_reads_exactly_may_be_sent_every_name() {
    let world = Setup::two()
        .backend("west", "raw_path: true")
        .backend("west", "delimiters: any")
        .start()
        .await;
    for target in [
        "/v1/table/west%2Fa/exists?delimiter=/",
        "/v1/table/west.a%24b/exists?delimiter=.",
        "/v1/table/west%24a%2Fb%5C%3F%23%3B%2541+c/exists",
        "/v1/table/west%24t1/index/i%2Fj/stats",
    ] {
        world.catalog("west").forget();
        world.client().post(target, &json!({})).await;
        assert_eq!(world.catalog("west").only().target, target);
    }
}

#[tokio::test]
async fn a_catalog_is_sent_the_delimiter_that_it_has_by_itself() {
    let world = World::two().await;
    for (target, sent) in [
        (
            "/v1/table/west.t1/exists?delimiter=.",
            "/v1/table/west%24t1/exists?delimiter=%24",
        ),
        (
            "/v1/table/west%2Ft1/exists?a=%2f&delimiter=/",
            "/v1/table/west%24t1/exists?a=%2f&delimiter=%24",
        ),
        ("/v1/table/west$a+b/exists", "/v1/table/west%24a%2Bb/exists"),
    ] {
        world.catalog("west").forget();
        world.client().post(target, &json!({})).await;
        assert_eq!(world.catalog("west").only().target, sent, "{target}");
    }
    world.catalog("west").forget();
    for target in [
        "/v1/table/west.a%24b/exists?delimiter=.",
        "/v1/namespace/west.a%24b/exists?delimiter=.",
    ] {
        let reply = world.client().post(target, &json!({})).await;
        assert_eq!(reply.outcome(), (400, Some(13)), "{target}: {reply:?}");
        assert!(reply.json().to_string().contains("a$b"), "{reply:?}");
    }
    assert!(is_untouched(&world));
}

#[tokio::test]
async fn what_some_server_takes_for_a_parameter_is_refused() {
    let world = World::two().await;
    for query in [
        "Delimiter=.",
        "delimiter[]=.",
        "x=1;delimiter=.",
        "delimiter=%24;",
        "%2564elimiter=.",
        "delimiter%00=.",
        "Branch=x",
        "branch=a&branch=b",
        "pageToken=x",
    ] {
        let target = format!("/v1/table/west%24t1/exists?{query}");
        let reply = world.client().post(&target, &json!({})).await;
        assert_eq!(reply.outcome(), (400, Some(13)), "{target}: {reply:?}");
    }
    assert!(is_untouched(&world));
    let target = "/v1/table/west%24t1/exists?x[]=1&newer=%3B&limits=2";
    let client = world.client().header("content-type", "application/json");
    let sent = client.send(Method::POST, target, full("{}")).await;
    assert_eq!(sent.unwrap().status, 200);
    assert_eq!(world.catalog("west").only().target, target);
}
