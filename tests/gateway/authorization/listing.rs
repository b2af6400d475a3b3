//! Listings show only what their caller may read, at every level and on every page.

use serde_json::{Value, json};

use super::asked;
use crate::client::Client;
use crate::harness::{Setup, World};

const RULES: &str = "authorization:
  - { namespace: [prod], read: { scope: prod }, write: { deny: true } }
  - { namespace: [prod, hr], read: { claim: team, any_of: [hr] }, write: { deny: true } }
  - { namespace: [prod, hr, open], read: { scope: prod }, write: { deny: true } }
  - { namespace: [lab, deep, er], read: { scope: lab }, write: { deny: true } }
  - { namespace: [lab, t9], read: { scope: lab }, write: { deny: true } }
  - { namespace: [top], read: { scope: top }, write: { deny: true } }";

/// Starts a world with `prod` and the root in `base`, and with the root of `lab` mounted at
/// `[lab]`.
async fn world() -> World {
    let setup = Setup::new()
        .mount("[]", "base")
        .rerooted("[lab]", "lab", "[]");
    let world = setup.section(RULES).start().await;
    let base = world.catalog("base");
    for table in 0..20 {
        base.store().seed(&["prod", &format!("t{table:02}")], 1);
        base.store()
            .seed(&["prod", "hr", &format!("secret{table:02}")], 1);
    }
    for id in [
        &["prod", "hr", "open", "a"][..],
        &["prod", "eu", "t"],
        &["other", "t"],
        &["t0"],
        &["top", "t"],
    ] {
        base.store().seed(id, 1);
    }
    let lab = world.catalog("lab");
    for id in [
        &["deep", "er", "t"][..],
        &["deep", "t"],
        &["wide", "t"],
        &["t8"],
        &["t9"],
        &["dotted.name"],
    ] {
        lab.store().seed(id, 1);
    }
    for catalog in [base, lab] {
        catalog.forget();
    }
    world
}

async fn names(client: &Client, target: &str) -> Vec<String> {
    let listed = client.get(target).await.ok().json();
    let names = listed.get("namespaces").or(listed.get("tables"));
    serde_json::from_value(names.unwrap().clone()).unwrap()
}

/// Reads all names, in pages of `limit`; checks that only the last page is shorter.
async fn paged(client: &Client, target: &str, limit: usize) -> Vec<String> {
    let (mut all, mut token): (Vec<String>, Option<String>) = (Vec::new(), None);
    loop {
        let after = token.map_or(String::new(), |token| format!("&page_token={token}"));
        let page = client
            .get(&format!("{target}?limit={limit}{after}"))
            .await
            .ok()
            .json();
        let field = page.get("namespaces").or(page.get("tables"));
        let names: Vec<String> = serde_json::from_value(field.unwrap().clone()).unwrap();
        token = page["page_token"].as_str().map(str::to_owned);
        assert!(
            names.len() == limit || token.is_none(),
            "{target}: a page with holes: {page}"
        );
        all.extend(names);
        assert!(all.len() < 1000, "{target}: no end");
        if token.is_none() {
            return all;
        }
    }
}

#[tokio::test]
async fn each_level_shows_what_leads_to_something_readable() {
    let world = world().await;
    let many = |prefix: &str| {
        (0..20)
            .map(|n| format!("{prefix}{n:02}"))
            .collect::<Vec<_>>()
    };
    let some = |names: &[&str]| {
        names
            .iter()
            .map(|&name| name.to_owned())
            .collect::<Vec<_>>()
    };
    let (prod, hr, lab) = (
        json!({"scope": "prod"}),
        json!({"team": "hr"}),
        json!({"scope": "lab"}),
    );
    let mut all_of_prod = some(&["prod$eu$t", "prod$hr$open$a"]);
    all_of_prod.extend(many("prod$t"));
    let cases: [(&Value, &str, Vec<String>); 16] = [
        (&prod, "/v1/namespace/%24/list", some(&["prod"])),
        (&prod, "/v1/namespace/prod/list", some(&["eu", "hr"])),
        (&prod, "/v1/namespace/prod%24hr/list", some(&["open"])),
        (&prod, "/v1/namespace/prod/table/list", many("t")),
        (&prod, "/v1/namespace/prod%24hr/table/list", some(&[])),
        (&prod, "/v1/namespace/%24/table/list", some(&[])),
        (&prod, "/v1/table", all_of_prod),
        (&hr, "/v1/namespace/%24/list", some(&["prod"])),
        (&hr, "/v1/namespace/prod/list", some(&["hr"])),
        (&hr, "/v1/namespace/prod%24hr/list", some(&[])),
        (&hr, "/v1/namespace/prod/table/list", some(&[])),
        (&hr, "/v1/namespace/prod%24hr/table/list", many("secret")),
        (&hr, "/v1/table", many("prod$hr$secret")),
        (&lab, "/v1/namespace/%24/list", some(&["lab"])),
        (&lab, "/v1/namespace/lab/list", some(&["deep"])),
        (&lab, "/v1/table", some(&["lab$deep$er$t", "lab$t9"])),
    ];
    for (claims, target, expected) in cases {
        let client = world.client_with(claims);
        assert_eq!(names(&client, target).await, expected, "{claims} {target}");
        for limit in [1, 3, 7, 100] {
            let paged = paged(&client, target, limit).await;
            assert_eq!(paged, expected, "{claims} {target} by {limit}");
        }
    }
    let lab = world.client_with(&lab);
    assert_eq!(names(&lab, "/v1/namespace/lab/table/list").await, ["t9"]);
    assert_eq!(
        names(&lab, "/v1/namespace/lab%24deep%24er/table/list").await,
        ["t"]
    );
}

#[tokio::test]
async fn where_nothing_may_be_read_nothing_is_listed_and_nobody_asked() {
    let world = world().await;
    for (claims, targets) in [
        (
            json!({"scope": "prod"}),
            &[
                "/v1/namespace/lab/list",
                "/v1/namespace/lab/table/list",
                "/v1/namespace/other/list",
            ][..],
        ),
        (
            json!({"team": "hr"}),
            &[
                "/v1/namespace/prod%24hr%24open/list",
                "/v1/namespace/prod%24eu/table/list",
            ],
        ),
        (
            json!({}),
            &[
                "/v1/namespace/%24/list",
                "/v1/namespace/%24/table/list",
                "/v1/table",
            ],
        ),
    ] {
        for target in targets {
            let reply = world.client_with(&claims).get(target).await;
            assert_eq!(
                reply.outcome(),
                (403, Some(15)),
                "{claims} {target}: {reply:?}"
            );
        }
    }
    for (name, catalog) in &world.catalogs {
        assert!(asked(catalog).is_empty(), "{name}");
    }
    // A catalog with nothing that the caller may read need not be running.
    world.catalog("base").stop().await;
    let lab = world.client_with(&json!({"scope": "lab"}));
    assert_eq!(names(&lab, "/v1/table").await.len(), 2);
}

#[tokio::test]
async fn what_may_not_be_read_is_not_named_in_an_error_either() {
    let world = world().await;
    let lab = world.client_with(&json!({"scope": "lab"}));
    // The name `dotted.name` cannot be written with this delimiter. An error about it would reveal
    // it.
    let listed = names(&lab, "/v1/table?delimiter=.").await;
    assert_eq!(listed, ["lab.deep.er.t", "lab.t9"]);
}

/// Joined by `rr`, a table of `[prod, hr]` reads as one of `[prod, h]`.
#[tokio::test]
async fn a_delimiter_that_names_contain_shows_no_more_than_another() {
    let world = world().await;
    let prod = world.client_with(&json!({"scope": "prod"}));
    let listed = prod.get("/v1/table").await.ok();
    assert!(
        listed.body.windows(3).any(|part| part == b"t00"),
        "{listed:?}"
    );
    for target in [
        "/v1/table",
        "/v1/table?delimiter=rr",
        "/v1/table?delimiter=rr&limit=100",
    ] {
        let reply = prod.get(target).await;
        let words = String::from_utf8_lossy(&reply.body);
        assert!(!words.contains("secret"), "{target}: {words}");
    }
}

#[tokio::test]
async fn a_level_on_the_way_is_there_and_tells_nothing() {
    let world = world().await;
    let lab = world.client_with(&json!({"scope": "lab"}));
    for (target, status) in [
        ("/v1/namespace/%24/exists", 200),
        ("/v1/namespace/lab/exists", 200),
        ("/v1/namespace/lab%24deep/exists", 200),
        ("/v1/namespace/lab%24deep%24er/exists", 200),
        ("/v1/namespace/lab%24wide/exists", 403),
        ("/v1/namespace/lab/describe", 403),
        ("/v1/namespace/lab%24deep/describe", 403),
        ("/v1/namespace/lab%24deep%24er/describe", 200),
        ("/v1/namespace/lab/create", 403),
    ] {
        let reply = lab.post(target, &json!({})).await;
        assert_eq!(reply.status, status, "{target}: {reply:?}");
    }
}

/// A forwarded answer would be the catalog's own, which shows everything.
#[tokio::test]
async fn a_single_catalog_at_the_root_is_filtered_too() {
    let rules = "authorization:
  - { namespace: [a], read: { scope: a }, write: { deny: true } }
  - { namespace: [a, x], read: { scope: x }, write: { deny: true } }";
    let world = Setup::new()
        .mount("[]", "only")
        .section(rules)
        .start()
        .await;
    for id in [
        &["a", "t"][..],
        &["a", "x", "t"],
        &["a", "b", "t"],
        &["c", "t"],
        &["t"],
    ] {
        world.catalog("only").store().seed(id, 1);
    }
    let a = world.client_with(&json!({"scope": "a"}));
    for (target, expected) in [
        ("/v1/table", &["a$b$t", "a$t"][..]),
        ("/v1/namespace/%24/list", &["a"]),
        ("/v1/namespace/%24/table/list", &[]),
        ("/v1/namespace/a/list", &["b"]),
        ("/v1/namespace/a/table/list", &["t"]),
        ("/v1/namespace/a%24b/table/list", &["t"]),
    ] {
        assert_eq!(names(&a, target).await, expected, "{target}");
    }
    // A namespace that does not exist must not be listed as if it were empty.
    let both = world.client_with(&json!({"scope": "a x"}));
    let reply = both.get("/v1/namespace/a%24missing/list").await;
    assert_eq!(
        reply.outcome(),
        (200, None),
        "as this catalog answers: {reply:?}"
    );
    world.catalog("only").can(
        "list_namespaces",
        404,
        "application/json",
        br#"{"error":"none","code":1}"#,
    );
    for client in [&a, &both] {
        for target in ["/v1/namespace/a/list", "/v1/namespace/a%24missing/list"] {
            assert_eq!(
                client.get(target).await.outcome(),
                (404, Some(1)),
                "{target}"
            );
        }
    }
}

/// A catalog, or a proxy in front of it, that calls its listing something else than 200 lists the same names.
#[tokio::test]
async fn a_listing_with_another_success_is_filtered_as_any() {
    let world = world().await;
    let base = world.catalog("base");
    let client = world.client_with(&json!({"scope": "prod"}));
    let hidden = "__nsgate_new_01a1fe32-b018-7749-b091-c787866bc41d";
    for status in [200, 201, 202, 203, 206, 207, 226, 299] {
        let list = |operation, body: &Value| {
            let body = body.to_string();
            base.can(operation, status, "application/json", body.as_bytes());
        };
        list("list_namespaces", &json!({"namespaces": ["other", "prod"]}));
        list("list_tables", &json!({"tables": ["secret", hidden]}));
        let all = [
            "prod$hr$secret",
            "prod$t",
            "other$t",
            &format!("prod${hidden}"),
        ];
        list("list_all_tables", &json!({"tables": all}));
        for (target, expected) in [
            ("/v1/namespace/%24/list", &["prod"][..]),
            ("/v1/namespace/prod%24hr/table/list", &[]),
            ("/v1/namespace/prod/table/list", &["secret"]),
            ("/v1/table", &["prod$t"]),
        ] {
            assert_eq!(names(&client, target).await, expected, "{status} {target}");
        }
    }
}
