//! Translation of identifiers for catalogs whose namespaces have other names; nothing else changes.

use serde_json::json;

use crate::catalog::faults::Fault;
use crate::harness::{Setup, World};

/// Starts a world in which `team` is `x$y` at its catalog, and `research$lab` is the root of another one.
async fn world() -> World {
    let setup = Setup::new().rerooted("[team]", "west", "[x, y]");
    let world = setup
        .rerooted("[research, lab]", "east", "[]")
        .start()
        .await;
    world.catalog("west").store().seed(&["x", "y", "t1"], 2);
    world.catalog("east").store().seed(&["t1"], 2);
    world
}

#[tokio::test]
async fn a_path_is_translated_and_spelled_with_the_catalogs_delimiter() {
    let world = world().await;
    for (target, names, rest) in [
        ("/v1/table/team%24t1/exists", &["x", "y", "t1"][..], ""),
        (
            "/v1/table/team.t1/exists?a=%2f&delimiter=.&b",
            &["x", "y", "t1"],
            "?a=%2f&b&delimiter=%24",
        ),
        (
            "/v1/table/team%3A%3At1/exists?delimiter=::",
            &["x", "y", "t1"],
            "?delimiter=%24",
        ),
        (
            "/v1/table/team%24a%20b%3Ac%25/exists",
            &["x", "y", "a b:c%"],
            "",
        ),
        (
            "/v1/table/team%24%C3%BC%E2%82%AC/exists",
            &["x", "y", "\u{fc}\u{20ac}"],
            "",
        ),
        (
            "/v1/namespace/team/exists?delimiter=%24",
            &["x", "y"],
            "?delimiter=%24",
        ),
    ] {
        world.catalog("west").forget();
        world.client().post(target, &json!({})).await;
        let seen = world.catalog("west").only();
        assert_eq!(seen.id, names, "{target}");
        let query = seen.target.find('?').map_or("", |at| &seen.target[at..]);
        assert_eq!(query, rest, "{target}");
    }
    let listing = world
        .client()
        .get("/v1/namespace/research%24lab/table/list")
        .await;
    assert_eq!(listing.ok().json(), json!({"tables": ["t1"]}));
    world
        .client()
        .post("/v1/namespace/research%24lab/exists", &json!({}))
        .await
        .ok();
}

/// The path of an unknown operation may be that of an operation on any table, once its identifier is translated.
#[tokio::test]
async fn an_unlisted_operation_is_no_other_one_at_its_catalog() {
    let world = world().await;
    let body = json!({"entries": [{"id": ["t1"], "version": 3, "manifest_path": "p"}]});
    for target in [
        "/v1/table/research%24lab%24version/batch-create",
        "/v1/table/research.lab/version/batch-create?delimiter=.",
        "/v1/table/research%24lab%24./version/batch-create",
        "/v1/namespace/research%24lab%24../table/t1/drop",
    ] {
        let reply = world.client().post(target, &body).await;
        assert_eq!(reply.outcome(), (400, Some(13)), "{target}: {reply:?}");
    }
    let seen = world.catalog("east").seen();
    assert!(seen.iter().all(|seen| seen.target == "/"), "{seen:?}");
    let newer = "/v1/table/research%24lab%24t1/version/newer";
    world.client().post(newer, &json!({})).await;
    assert_eq!(
        world.catalog("east").only().target,
        "/v1/table/t1/version/newer"
    );
}

#[tokio::test]
async fn identifiers_in_a_request_are_translated_and_nothing_else() {
    let world = world().await;
    let rest =
        r#" , "big":12345678901234567890,"f":1.50e+3,  "s":"\u00fc","deep":{"id":["team","t1"]}}"#;
    for (target, id, translated) in [
        (
            "/v1/table/team%24t1/describe",
            r#"["team","t1"]"#,
            r#"["x","y","t1"]"#,
        ),
        (
            "/v1/table/team%24t1/describe",
            r#"[ "te\u0061m" , "t1" ]"#,
            r#"["x","y","t1"]"#,
        ),
        (
            "/v1/table/team%24t1/a_newer/operation",
            r#"["team","t1"]"#,
            r#"["x","y","t1"]"#,
        ),
        ("/v1/namespace/team/describe", r#"["team"]"#, r#"["x","y"]"#),
    ] {
        world.catalog("west").forget();
        let body = |id: &str| format!("{{ \"id\": {id}{rest}");
        world.client().post_bytes(target, body(id)).await;
        let seen = world.catalog("west").only();
        assert_eq!(seen.body, body(translated), "{target} {id}");
    }
    world.catalog("west").forget();
    let renamed = r#"{"new_namespace_id":["team","n"],"id":["team","t1"],"new_table_name":"team"}"#;
    world
        .client()
        .post_bytes("/v1/table/team%24t1/rename", renamed)
        .await
        .ok();
    let expected =
        r#"{"new_namespace_id":["x","y","n"],"id":["x","y","t1"],"new_table_name":"team"}"#;
    let seen = world.catalog("west").seen_of("rename_table");
    assert_eq!(seen.len(), 1, "{seen:#?}");
    assert_eq!(seen[0].body, expected);
}

#[tokio::test]
async fn identifiers_in_an_answer_are_translated_and_nothing_else() {
    let world = world().await;
    let rest = r#" ,"location":"file:///x$y$t1", "n":1.0e-7,"big":18446744073709551616 , "t":{"namespace":["x","y"]}}"#;
    for (operation, target, there, here) in [
        (
            "describe_table",
            "/v1/table/team%24t1/describe",
            r#"{"namespace":["x","y"]"#,
            r#"{"namespace":["team"]"#,
        ),
        (
            "deregister_table",
            "/v1/table/team%24t1/deregister",
            r#"{ "id" : ["x","y","t1"]"#,
            r#"{ "id" : ["team","t1"]"#,
        ),
        (
            "drop_table",
            "/v1/table/team%24t1/drop",
            r#"{"id":["x","y","t1"]"#,
            r#"{"id":["team","t1"]"#,
        ),
        (
            "count_table_rows",
            "/v1/table/team%24t1/count_rows",
            r#"{"id":["x","y"]"#,
            r#"{"id":["x","y"]"#,
        ),
        (
            "describe_table",
            "/v1/table/team%24t1/describe",
            r#"{"namespace":null"#,
            r#"{"namespace":null"#,
        ),
    ] {
        let answer = format!("{there}{rest}");
        world
            .catalog("west")
            .can(operation, 200, "application/json", answer.as_bytes());
        let client = world.client().header("accept-encoding", "gzip, br");
        let reply = client.post(target, &json!({})).await.ok();
        assert_eq!(reply.body, format!("{here}{rest}"), "{operation}");
        assert_eq!(reply.header("content-type"), Some("application/json"));
        let length = reply.body.len().to_string();
        assert_eq!(reply.header("content-length"), Some(&*length));
        if here != there {
            let seen = world.catalog("west").seen_of(operation);
            let asked = seen.last().unwrap().header("accept-encoding");
            assert!(
                asked.is_none_or(|asked| asked == "identity"),
                "{operation}: {asked:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_refusal_passes_as_the_catalog_wrote_it() {
    let world = world().await;
    let reply = world
        .client()
        .post("/v1/table/team%24zz/describe", &json!({}))
        .await;
    assert_eq!(reply.status, 404);
    assert_eq!(reply.body, r#"{"code":4,"error":"table id 'x$y$zz'"}"#);
    let refusal = r#"{"error":"in use","code":19,"id":["x","y","t1"]}"#;
    world
        .catalog("west")
        .fail("drop_table", Fault::Instead(409, refusal));
    let reply = world
        .client()
        .post_nothing("/v1/table/team%24t1/drop")
        .await;
    assert_eq!(
        (reply.status, reply.body.as_ref()),
        (409, refusal.as_bytes())
    );
}

#[tokio::test]
async fn a_batch_and_its_answer_are_translated() {
    let world = world().await;
    world.catalog("west").store().stage("w", "west 3");
    world.catalog("east").store().stage("e", "east 3");
    let entries = json!({"entries": [
        {"id": ["team", "t1"], "version": 3, "manifest_path": "w"},
        {"id": ["research", "lab", "t1"], "version": 3, "manifest_path": "e"},
    ]});
    world
        .client()
        .post("/v1/table/version/batch-create", &entries)
        .await
        .ok();
    for (name, id) in [("west", &["x", "y", "t1"][..]), ("east", &["t1"])] {
        let created = world.catalog(name).seen_of("create_table_version");
        assert_eq!(created.len(), 1);
        assert_eq!(created[0].id, id);
        assert_eq!(
            created[0].json().get("id").unwrap_or(&json!(id)),
            &json!(id)
        );
    }
}
