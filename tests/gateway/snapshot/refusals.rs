//! Snapshots that are refused: what is wrong, and with which table.

use http::Method;
use serde_json::{Value, json};

use super::{LIST, SNAPSHOT, both};
use crate::catalog::faults::Fault;
use crate::client::{empty, full};
use crate::harness::{Setup, World};

const RULES: &str = "authorization:
  - { namespace: [west], read: { scope: catalog.read }, write: { scope: catalog.write } }
  - { namespace: [east], read: { claim: team, any_of: [theirs] }, write: { deny: true } }";

fn tables(tables: &[&[&str]]) -> Value {
    let tables = tables.iter().map(|id| json!({ "id": id }));
    json!({"tables": tables.collect::<Vec<_>>()})
}

fn reads(world: &World) -> usize {
    let catalogs = world.catalogs.iter();
    catalogs.map(|(_, it)| it.seen_of(LIST).len()).sum()
}

#[tokio::test]
async fn a_refusal_names_the_table() {
    let world = World::two().await;
    world.catalog("east").store().seed(&["east", "empty"], 0);
    let west: &[&str] = &["west", "t1"];
    let cases: [(&[&str], _, &str); 4] = [
        (&["east", "none"], (404, Some(4)), "table id"),
        (
            &["east", "empty"],
            (404, Some(11)),
            "east$empty has no version yet",
        ),
        (&["nowhere", "t1"], (404, Some(4)), "not served here"),
        (&["east"], (404, Some(4)), ""),
    ];
    for (table, outcome, words) in cases {
        let reply = world.client().post(SNAPSHOT, &tables(&[west, table])).await;
        assert_eq!(reply.outcome(), outcome, "{reply:?}");
        assert!(reply.words().starts_with("tables[1]: "), "{reply:?}");
        assert!(reply.words().contains(words), "{reply:?}");
    }
    let east = world.catalog("east");
    east.fail_always(LIST, Fault::Instead(200, "{\"versions\":[{}]}"));
    let reply = world.client().post(SNAPSHOT, &both()).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    east.stop().await;
    let reply = world.client().post(SNAPSHOT, &both()).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    assert!(
        reply.words().starts_with("tables[1]: backend `east`"),
        "{reply:?}"
    );
}

#[tokio::test]
async fn a_body_that_is_not_clear_asks_no_catalog() {
    let section = "batch: { log: batches.redb, max_entries: 2 }\nlimits: { json_body: 1KiB }";
    let world = Setup::two().section(section).start().await.seeded();
    let (t1, t2, t3): (&[&str], &[&str], &[&str]) =
        (&["west", "t1"], &["west", "t2"], &["west", "t3"]);
    let main = json!({"tables": [{"id": t1}, {"id": t1, "branch": "main"}]});
    let cases = [
        (json!({}), "`tables` is required"),
        (json!({"tables": []}), "at least one table"),
        (tables(&[t1, t2, t3]), "a snapshot has at most 2 tables"),
        (
            tables(&[t1, t1]),
            "tables[1]: the same table and branch as `tables[0]`",
        ),
        (main, "tables[1]: the same table and branch as `tables[0]`"),
        (json!({"tables": [{"id": "west$t1"}]}), "`tables[0].id`"),
    ];
    for (body, words) in cases {
        let reply = world.client().post(SNAPSHOT, &body).await;
        assert_eq!(reply.outcome(), (400, Some(13)), "{body}: {reply:?}");
        assert!(reply.words().contains(words), "{body}: {reply:?}");
    }
    let client = world.client().header("content-type", "application/json");
    let long = client
        .send(Method::POST, SNAPSHOT, full(vec![b' '; 1025]))
        .await;
    assert_eq!(long.unwrap().outcome(), (413, Some(13)));
    assert_eq!(reads(&world), 0);
    // Two branches of one table are two.
    let branches = json!({"tables": [{"id": t1}, {"id": t1, "branch": "dev"}]});
    world.client().post(SNAPSHOT, &branches).await.ok();
}

#[tokio::test]
async fn every_table_must_be_readable_before_any_is_read() {
    let world = Setup::two().section(RULES).start().await.seeded();
    let reader = json!({"scope": "catalog.read", "team": "theirs"});
    for (claims, denied) in [
        (json!({"scope": "catalog.read"}), Some("tables[1]: ")),
        (
            json!({"scope": "catalog.write", "team": "theirs"}),
            Some("tables[0]: "),
        ),
        (json!({}), Some("tables[0]: ")),
        (reader, None),
    ] {
        let reply = world.client_with(&claims).post(SNAPSHOT, &both()).await;
        let Some(words) = denied else {
            reply.ok();
            continue;
        };
        assert_eq!(reply.outcome(), (403, Some(15)), "{claims}: {reply:?}");
        assert!(reply.words().starts_with(words), "{claims}: {reply:?}");
        assert_eq!(reads(&world), 0, "{claims}");
    }
    let reply = world.anonymous().post(SNAPSHOT, &both()).await;
    assert_eq!(reply.outcome(), (401, Some(16)), "{reply:?}");
}

#[tokio::test]
async fn other_paths_and_methods_are_no_extension() {
    let world = World::two().await;
    for path in [
        "/nsgate/",
        "/nsgate/v1",
        "/nsgate/v1/snapshots",
        "/nsgate/v2/snapshot",
    ] {
        let reply = world.client().post(path, &both()).await;
        assert_eq!(reply.outcome(), (404, Some(0)), "{path}");
        assert!(
            reply.words().contains("`/nsgate/v1/snapshot`"),
            "{path}: {reply:?}"
        );
    }
    let reply = world.client().get(SNAPSHOT).await;
    assert_eq!(reply.outcome(), (405, Some(0)), "{reply:?}");
    assert_eq!(reply.header("allow"), Some("POST"));
    let reply = world
        .client()
        .send(Method::POST, &format!("{SNAPSHOT}/"), empty())
        .await;
    assert_eq!(reply.unwrap().outcome(), (400, Some(13)));
    assert_eq!(reads(&world), 0);
}
