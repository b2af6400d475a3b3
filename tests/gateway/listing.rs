//! The tree that a client sees is the union of the mounts, complete or not at all.

mod ignored_limit;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::client::Client;
use crate::harness::{Setup, World};

/// Starts a world with the root in `top`, `a$b` in `inner` under the same name, and the root of
/// `other` as `c`.
async fn world() -> World {
    let setup = Setup::new().mount("[]", "top").mount("[a, b]", "inner");
    let world = setup.rerooted("[c]", "other", "[]").start().await;
    let top = world.catalog("top");
    top.store().seed_namespace(&["c"]);
    top.store().seed(&["top1", "t"], 1);
    top.store().seed(&["t0"], 1);
    // The mounts hide this table, so it is unreachable and must not be listed.
    top.store().seed(&["a", "b", "shadow"], 1);
    let inner = world.catalog("inner");
    inner.store().seed(&["a", "b", "t1"], 1);
    inner.store().seed(&["a", "b", "n", "t2"], 1);
    inner.store().seed(&["elsewhere", "t"], 1);
    let other = world.catalog("other");
    other.store().seed(&["t3"], 1);
    other.store().seed(&["n", "t4"], 1);
    world
}

const ALL: [&str; 6] = ["a$b$n$t2", "a$b$t1", "c$n$t4", "c$t3", "t0", "top1$t"];

#[tokio::test]
async fn a_level_is_what_its_owner_lists_and_the_mounts_below_it() {
    let world = world().await;
    for (target, field, names) in [
        (
            "/v1/namespace/%24/list?delimiter=%24",
            "namespaces",
            &["a", "c", "top1"][..],
        ),
        ("/v1/namespace/a/list", "namespaces", &["b"]),
        ("/v1/namespace/a.b/list?delimiter=.", "namespaces", &["n"]),
        ("/v1/namespace/c/list", "namespaces", &["n"]),
        ("/v1/namespace/%24/table/list", "tables", &["t0"]),
        ("/v1/namespace/a%24b/table/list", "tables", &["t1"]),
        ("/v1/namespace/c%24n/table/list", "tables", &["t4"]),
        ("/v1/table", "tables", &ALL),
    ] {
        let listed = world.client().get(target).await.ok().json();
        assert_eq!(listed[field], json!(names), "{target}");
        assert_eq!(
            listed.get("page_token").unwrap_or(&Value::Null),
            &Value::Null,
            "{target}"
        );
    }
    let dotted = world
        .client()
        .get("/v1/table?delimiter=.")
        .await
        .ok()
        .json();
    assert_eq!(dotted["tables"][0], "a.b.n.t2");
}

pub async fn page(client: &Client, target: &str, limit: usize, token: Option<&str>) -> Value {
    let token = token.map_or(String::new(), |token| {
        let encoded =
            percent_encoding::utf8_percent_encode(token, percent_encoding::NON_ALPHANUMERIC);
        format!("&page_token={encoded}")
    });
    client
        .get(&format!("{target}?limit={limit}{token}"))
        .await
        .ok()
        .json()
}

#[tokio::test]
async fn pages_cover_every_name_once_and_outlive_a_restart() {
    let mut world = world().await;
    let roots = ["a", "c", "top1"];
    for (target, field, all) in [
        ("/v1/table", "tables", &ALL[..]),
        ("/v1/namespace/%24/list", "namespaces", &roots),
    ] {
        for limit in [1, 2, 4, 100] {
            let mut names = Vec::new();
            let mut token = None;
            loop {
                let page = page(&world.client(), target, limit, token.as_deref()).await;
                let here: Vec<String> = serde_json::from_value(page[field].clone()).unwrap();
                assert!(here.len() <= limit, "{target} {limit}: {here:?}");
                names.extend(here);
                token = page["page_token"].as_str().map(str::to_owned);
                if token.is_none() || names.len() > 2 * all.len() {
                    break;
                }
                if limit == 2 {
                    world.restart().await;
                }
            }
            let unique: BTreeSet<_> = names.iter().collect();
            assert_eq!(unique.len(), names.len(), "{target} {limit}: {names:?}");
            names.sort();
            assert_eq!(names, all, "{target} {limit}");
        }
    }
}

#[tokio::test]
async fn a_page_that_was_never_given_out_is_refused() {
    let world = world().await;
    for query in [
        "limit=x",
        "limit=2&page_token=%00%FF",
        "limit=2&page_token=made-up",
    ] {
        let reply = world.client().get(&format!("/v1/table?{query}")).await;
        assert_eq!(reply.outcome(), (400, Some(13)), "{query}");
    }
}

#[tokio::test]
async fn a_catalog_that_does_not_answer_fails_the_listing() {
    let world = world().await;
    for (dead, target) in [
        ("other", "/v1/table"),
        ("other", "/v1/namespace/c/table/list"),
        ("inner", "/v1/table"),
        ("top", "/v1/table"),
        ("top", "/v1/namespace/%24/list"),
        ("top", "/v1/namespace/a/list"),
    ] {
        let catalog = world.catalog(dead);
        catalog.stop().await;
        let reply = world.client().get(target).await;
        catalog.resume();
        assert_eq!(reply.outcome(), (503, Some(17)), "{target}: {reply:?}");
        let text = reply.json().to_string();
        assert!(text.contains(dead), "{target}: {text}");
        assert!(
            !text.contains(&catalog.address.to_string()),
            "{target}: {text}"
        );
    }
}

#[tokio::test]
async fn a_namespace_above_a_mount_exists_and_stays() {
    let world = Setup::new().mount("[v, w, x]", "west").start().await;
    let client = world.client();
    for id in ["%24", "v", "v%24w"] {
        for operation in ["describe", "exists"] {
            let target = format!("/v1/namespace/{id}/{operation}");
            assert_eq!(
                client.post(&target, &json!({})).await.status,
                200,
                "{target}"
            );
        }
    }
    for (target, outcome) in [
        ("/v1/namespace/v/create", (409, Some(2))),
        ("/v1/namespace/v%24w/create", (409, Some(2))),
        ("/v1/namespace/v/drop", (409, Some(3))),
        ("/v1/namespace/v%24w/drop", (409, Some(3))),
        ("/v1/namespace/v%24u/describe", (404, Some(1))),
    ] {
        assert_eq!(
            client.post(target, &json!({})).await.outcome(),
            outcome,
            "{target}"
        );
    }
    for (target, expected) in [
        ("/v1/namespace/%24/list", json!({"namespaces": ["v"]})),
        ("/v1/namespace/v/list", json!({"namespaces": ["w"]})),
        ("/v1/namespace/v%24w/list", json!({"namespaces": ["x"]})),
        ("/v1/namespace/v/table/list", json!({"tables": []})),
    ] {
        assert_eq!(client.get(target).await.ok().json(), expected, "{target}");
    }
}
