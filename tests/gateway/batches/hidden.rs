//! Undecided versions are hidden, and requests that depend on them wait.

use http::Method;
use serde_json::{Value, json};

use super::{
    BATCH, assert_both, numbers, pair, prepared, prepared_on_branch, prepared_to_fail, stage,
    start, stored, until, visible, world,
};
use crate::catalog::faults::{Fault, Gate};
use crate::client::full;
use crate::harness::Setup;

const WEST: &str = "/v1/table/west%24t1";

#[tokio::test]
async fn a_prepared_version_is_in_no_answer_until_its_batch_is_decided() {
    let world = world("").await;
    world.catalog("west").store().seed(&["west", "t1"], 3);
    let gate = world.catalog("east").hold("create_table_version");
    let batch = json!({"entries": [stage(&world, "west", 4), stage(&world, "west", 5), stage(&world, "east", 2)]});
    let batch = start(world.client(), batch);
    gate.reached(1).await;
    until("west is prepared", || {
        stored(&world, "west") == [1, 2, 3, 4, 5]
    })
    .await;
    let client = world.client();
    for (query, shown) in [
        ("", &[1, 2, 3][..]),
        ("?descending=true", &[3, 2, 1]),
        ("?descending=true&limit=1", &[3]),
        ("?limit=2&descending=true&delimiter=%24", &[3, 2]),
        ("?limit=10", &[1, 2, 3]),
    ] {
        let target = format!("{WEST}/version/list{query}");
        let listed = client.post_nothing(&target).await.ok().json();
        assert_eq!(numbers(&listed), shown, "{query}");
    }
    for (body, outcome, version) in [
        (json!({"version": 5}), (404, Some(11)), Value::Null),
        (json!({"version": 4}), (404, Some(11)), Value::Null),
        (json!({"version": 3}), (200, None), json!(3)),
        (json!({}), (200, None), json!(3)),
        (json!({"id": ["west", "t1"]}), (200, None), json!(3)),
    ] {
        let reply = client
            .post(&format!("{WEST}/version/describe"), &body)
            .await;
        assert_eq!(reply.outcome(), outcome, "{body}: {reply:?}");
        assert_eq!(reply.json()["version"]["version"], version, "{body}");
    }
    gate.open();
    batch.await.unwrap().ok();
    assert_eq!(visible(&world, "west").await, [1, 2, 3, 4, 5]);
    assert_eq!(visible(&world, "east").await, [1, 2]);
}

/// Catalogs may read such a body differently than the gateway, so that it could be about another branch.
#[tokio::test]
async fn a_version_is_asked_for_only_where_its_branch_is_sure() {
    let world = world("").await;
    let (gate, batch) = prepared_on_branch(&world, "dev").await;
    let client = world.client();
    let target = format!("{WEST}/version/describe");
    for body in [
        r#"{"version":2.0,"branch":"dev"}"#,
        r#"{"version":"2","branch":"dev"}"#,
        r#"{"branch":"main","branch":"dev"}"#,
        r#"{"version":1,"version":2,"branch":"dev"}"#,
    ] {
        let reply = client.post_bytes(&target, body).await;
        assert_eq!(reply.outcome(), (400, Some(13)), "{body}: {reply:?}");
    }
    let hidden = r#"{"version":2,"branch":"dev"}"#;
    let reply = client.post_bytes(&target, hidden).await;
    assert_eq!(reply.outcome(), (404, Some(11)), "{reply:?}");
    for body in ["", "null", " ", "{}"] {
        let reply = client.post_bytes(&target, body).await;
        assert!(!reply.words().contains("`branch`"), "{body:?}: {reply:?}");
    }
    gate.open();
    batch.await.unwrap().ok();
}

#[tokio::test]
async fn an_answer_from_before_a_commit_is_not_shown_after_it() {
    let world = world("").await;
    let west = world.catalog("west");
    let second = Gate::new();
    let held = Fault::HoldBefore(second.clone());
    west.fail_nth("create_table_version", &["west", "t1"], 2, held);
    let batch = json!({"entries": [stage(&world, "west", 2), stage(&world, "west", 3), stage(&world, "east", 2)]});
    let batch = start(world.client(), batch);
    second.reached(1).await;
    let listed = west.hold_answer("list_table_versions");
    let client = world.client();
    let read = tokio::spawn(async move {
        let answer = client.post_nothing(&format!("{WEST}/version/list")).await;
        numbers(&answer.ok().json())
    });
    listed.reached(1).await;
    assert_eq!(stored(&world, "west"), [1, 2], "a part of the batch");
    second.open();
    batch.await.unwrap().ok();
    listed.open();
    assert_eq!(read.await.unwrap(), [1, 2, 3], "all of the batch");
}

#[tokio::test]
async fn pages_of_a_catalog_that_has_them_are_filled_up() {
    let world = world("").await;
    world.catalog("west").store().seed(&["west", "t1"], 5);
    world.catalog("west").set_versions_on_a_page(2);
    let gate = world.catalog("east").hold("create_table_version");
    let batch = json!({"entries": [stage(&world, "west", 6), stage(&world, "west", 7), stage(&world, "east", 2)]});
    let batch = start(world.client(), batch);
    gate.reached(1).await;
    until("west is prepared", || stored(&world, "west").len() == 7).await;
    let mut all = Vec::new();
    let mut token = String::new();
    loop {
        let target = format!("{WEST}/version/list?descending=true{token}");
        let page = world.client().post_nothing(&target).await.ok().json();
        let shown = numbers(&page);
        assert!(
            !all.is_empty() || !shown.is_empty(),
            "a first page without a version"
        );
        all.extend(shown);
        match page["page_token"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => break,
        }
    }
    assert_eq!(all, [5, 4, 3, 2, 1]);
    // The last page of a list may be empty, since an earlier page was not.
    let end = format!("{WEST}/version/list?page_token=5");
    let end = world.client().post_nothing(&end).await.ok().json();
    assert_eq!(numbers(&end), [0_u64; 0]);
    gate.open();
    batch.await.unwrap().ok();
}

/// An empty list makes clients look at storage themselves, so a refusal is better.
#[tokio::test]
async fn a_reader_waits_where_nothing_can_be_shown() {
    let world = world("").await;
    world.catalog("west").store().seed(&["west", "t1"], 0);
    let gate = world.catalog("east").hold("create_table_version");
    let batch = json!({"entries": [stage(&world, "west", 1), stage(&world, "east", 2)]});
    let batch = start(world.client(), batch);
    gate.reached(1).await;
    until("west is prepared", || stored(&world, "west") == [1]).await;
    for (operation, body) in [("version/list", ""), ("version/describe", "{}")] {
        let client = world.client().header("content-type", "application/json");
        let reply = client
            .send(Method::POST, &format!("{WEST}/{operation}"), full(body))
            .await;
        let reply = reply.unwrap();
        assert_eq!(reply.outcome(), (503, Some(17)), "{operation}");
        assert!(reply.header("retry-after").is_some(), "{operation}");
    }
    let client = world.client();
    let lists = world.catalog("west").seen_of("list_table_versions").len();
    let waiting =
        tokio::spawn(async move { client.post_nothing(&format!("{WEST}/version/list")).await });
    world
        .catalog("west")
        .called("list_table_versions", lists + 1)
        .await;
    gate.open();
    batch.await.unwrap().ok();
    assert_eq!(numbers(&waiting.await.unwrap().ok().json()), [1]);
}

#[tokio::test]
async fn what_depends_on_the_latest_version_waits_and_the_rest_does_not() {
    let world = world("lock_timeout: 300ms").await;
    world.catalog("west").store().seed(&["west", "t2"], 1);
    let (gate, batch) = prepared(&world, 2).await;
    let client = world.client();
    for operation in ["describe", "exists"] {
        let target = format!("{WEST}/{operation}");
        client.post(&target, &json!({})).await.ok();
    }
    client
        .post("/v1/table/west%24t2/count_rows", &json!({}))
        .await
        .ok();
    client
        .post_rows("/v1/table/west%24t2/insert", full("rows"))
        .await
        .ok();
    let waits = [
        "count_rows",
        "query",
        "stats",
        "insert",
        "delete",
        "restore",
        "tags/create",
        "drop",
    ];
    let asked =
        waits.map(|operation| client.post_bytes(format!("{WEST}/{operation}").leak(), "{}"));
    for (operation, reply) in waits
        .iter()
        .zip(futures_util::future::join_all(asked).await)
    {
        assert_eq!(reply.outcome(), (503, Some(17)), "{operation}: {reply:?}");
        assert!(reply.header("retry-after").is_some(), "{operation}");
    }
    let detailed = format!("{WEST}/describe?load_detailed_metadata=true");
    assert_eq!(client.post(&detailed, &json!({})).await.status, 503);
    let dropped = client.post("/v1/namespace/west/drop", &json!({})).await;
    assert_eq!(dropped.outcome(), (503, Some(17)));
    // A create that overwrites a namespace drops what is below it.
    let create = "/v1/namespace/west/create";
    for (target, body) in [
        (create, json!({"mode": "Overwrite"})),
        (&format!("{create}?mode=overwrite"), json!({})),
    ] {
        let created = client.post(target, &body).await;
        assert_eq!(created.outcome(), (503, Some(17)), "{target}: {created:?}");
    }
    assert!(world.catalog("west").seen_of("create_namespace").is_empty());
    let exists = json!({"mode": "exist_ok"});
    assert_ne!(client.post(create, &exists).await.status, 503);
    for operation in [
        "count_table_rows",
        "query_table",
        "drop_namespace",
        "drop_table",
    ] {
        let seen = world.catalog("west").seen_of(operation);
        assert!(
            seen.iter().all(|seen| seen.id.last().unwrap() == "t2"),
            "{operation}"
        );
    }
    gate.open();
    batch.await.unwrap().ok();
    client
        .post(&format!("{WEST}/count_rows"), &json!({}))
        .await
        .ok();
}

/// The reverse case: a batch does not start while the catalog still works on a change or a query.
#[tokio::test]
async fn a_batch_waits_for_changes_that_are_under_way() {
    for (operation, target, body) in [
        ("create_table_version", "version/create", None),
        ("insert_into_table", "insert", Some("rows")),
        ("query_table", "query", Some("{}")),
    ] {
        let world = world("lock_timeout: 200ms").await;
        let gate = world.catalog("west").hold(operation);
        let body = body.map_or_else(|| stage(&world, "west", 2).to_string(), str::to_owned);
        let kind = match operation {
            "insert_into_table" => "application/vnd.apache.arrow.stream",
            _ => "application/json",
        };
        let client = world.client().header("content-type", kind);
        let target = format!("{WEST}/{target}");
        let change = tokio::spawn(async move { client.post_bytes(&target, body).await });
        gate.reached(1).await;
        let reply = world.client().post(BATCH, &pair(&world, 2)).await;
        assert_eq!(reply.outcome(), (503, Some(17)), "{operation}: {reply:?}");
        assert!(reply.header("retry-after").is_some(), "{operation}");
        gate.open();
        change.await.unwrap().ok();
        assert_eq!(stored(&world, "east"), [1], "{operation}");
    }
}

#[tokio::test]
async fn a_single_create_waits_for_the_batch_and_builds_on_it() {
    let world = world("").await;
    let (gate, batch) = prepared(&world, 2).await;
    let next = stage(&world, "west", 3);
    let client = world.client();
    let create =
        tokio::spawn(async move { client.post(&format!("{WEST}/version/create"), &next).await });
    // Other requests are answered meanwhile; the create is not sent.
    assert_eq!(visible(&world, "west").await, [1]);
    assert_eq!(
        world.catalog("west").seen_of("create_table_version").len(),
        1
    );
    gate.open();
    batch.await.unwrap().ok();
    create.await.unwrap().ok();
    assert_eq!(visible(&world, "west").await, [1, 2, 3]);
}

/// The writer saw the prepared version in storage and built on it, but the version was rolled back.
#[tokio::test]
async fn a_create_above_an_aborted_version_is_refused() {
    let world = world("").await;
    let refusal = Fault::Instead(400, r#"{"error":"no","code":13}"#);
    let (gate, batch) = prepared_to_fail(&world, 2, refusal).await;
    let next = stage(&world, "west", 3);
    let client = world.client();
    let create =
        tokio::spawn(async move { client.post(&format!("{WEST}/version/create"), &next).await });
    assert_eq!(visible(&world, "west").await, [1]);
    gate.open();
    assert_eq!(batch.await.unwrap().status, 400);
    let refused = create.await.unwrap();
    assert_eq!(refused.outcome(), (409, Some(14)), "{refused:?}");
    assert_both(&world, &[1], "aborted").await;
    // The gateway itself refuses it, because not every catalog insists on the next number.
    let west = world.catalog("west").seen_of("create_table_version");
    assert_eq!(west.len(), 1, "only the batch's own");
    // The number itself is free at once, and the next one is free once that has been made again.
    for version in [2, 3] {
        let body = stage(&world, "west", version);
        let create = format!("{WEST}/version/create");
        world.client().post(&create, &body).await.ok();
    }
    assert_eq!(visible(&world, "west").await, [1, 2, 3]);
}

/// The catalog has answered every request, so nothing can arrive late, and the number needs no
/// cool-down.
#[tokio::test]
async fn a_number_that_was_undone_cleanly_is_used_again_at_once() {
    let world = world("").await;
    let refusal = || Fault::Instead(400, r#"{"error":"no","code":13}"#);
    let east = world.catalog("east");
    east.fail("create_table_version", refusal());
    let reply = world.client().post(BATCH, &pair(&world, 2)).await;
    assert_eq!(reply.status, 400, "{reply:?}");
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
    assert_both(&world, &[1, 2], "used again").await;

    east.fail("create_table_version", refusal());
    let reply = world.client().post(BATCH, &pair(&world, 3)).await;
    assert_eq!(reply.status, 400, "{reply:?}");
    let insert = format!("{WEST}/insert");
    world.client().post_rows(&insert, full("6 rows")).await.ok();
    assert_eq!(visible(&world, "west").await, [1, 2, 3], "seen at once");
    let next = stage(&world, "west", 4);
    let create = format!("{WEST}/version/create");
    world.client().post(&create, &next).await.ok();
    assert_eq!(visible(&world, "west").await, [1, 2, 3, 4]);
}

/// Two mounts of one table must show the same versions.
#[tokio::test]
async fn a_second_mount_of_a_table_shows_no_more_than_the_first() {
    let setup = Setup::two().rerooted("[mirror]", "west", "[west]");
    let world = setup.start().await.seeded();
    let (gate, batch) = prepared(&world, 2).await;
    let mirror = world
        .client()
        .post_nothing("/v1/table/mirror%24t1/version/list")
        .await;
    assert_eq!(numbers(&mirror.ok().json()), [1]);
    gate.open();
    batch.await.unwrap().ok();
    let mirror = world
        .client()
        .post_nothing("/v1/table/mirror%24t1/version/list")
        .await;
    assert_eq!(numbers(&mirror.ok().json()), [1, 2]);
}
