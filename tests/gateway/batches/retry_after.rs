//! A refusal that asks for a retry names the same time in its `retry-after` header as in its text.

use serde_json::json;

use super::{BATCH, pair, stage, stored, until, world};
use crate::catalog::faults::Fault;
use crate::client::Reply;
use crate::harness::World;

/// The seconds in the text of a refusal.
fn named(reply: &Reply) -> u64 {
    let words = reply.words();
    let (_, rest) = words.split_once(" in ").expect(&words);
    rest.split_once(" s")
        .expect(&words)
        .0
        .parse()
        .expect(&words)
}

/// Starts a world in which west's version 2 was rolled back, and a delete of it may still arrive.
async fn resting() -> World {
    let world = world("").await;
    let refusal = Fault::Instead(400, r#"{"error":"no","code":13}"#);
    world.catalog("east").fail("create_table_version", refusal);
    world
        .catalog("west")
        .fail("batch_delete_table_versions", Fault::ResetBefore);
    let reply = world.client().post(BATCH, &pair(&world, 2)).await;
    assert_eq!(reply.status, 400, "{reply:?}");
    until("west is undone", || stored(&world, "west") == [1]).await;
    world
}

#[tokio::test]
async fn a_refusal_that_names_seconds_names_them_in_its_header_too() {
    let world = resting().await;
    let client = world.client();
    let alone = json!({"entries": [stage(&world, "west", 2)]});
    let deregister = json!({"operations": [{"deregister_table": {"id": ["west", "t1"]}}]});
    let rename = json!({"new_table_name": "u"});
    let cases = [
        (BATCH, pair(&world, 2)),
        (BATCH, alone),
        ("/v1/table/batch-commit", deregister),
        (
            "/v1/table/west%24t1/version/create",
            stage(&world, "west", 2),
        ),
        ("/v1/table/west%24t1/restore", json!({"version": 1})),
        ("/v1/table/west%24t1/rename", rename),
        ("/v1/table/west%24t1/deregister", json!({})),
    ];
    for (target, body) in cases {
        let reply = client.post(target, &body).await;
        assert_eq!(reply.outcome(), (503, Some(17)), "{target}: {reply:?}");
        let seconds = named(&reply);
        assert!((800..=900).contains(&seconds), "{target}: {reply:?}");
        let header = reply.header("retry-after");
        assert_eq!(
            header,
            Some(seconds.to_string().as_str()),
            "{target}: {reply:?}"
        );
    }
    // A refusal that names no time asks for a retry after one second.
    let gate = world.catalog("east").hold("create_table_version");
    let entry = json!({"entries": [stage(&world, "east", 2)]});
    let batch = super::start(client.clone(), entry);
    gate.reached(1).await;
    let count = "/v1/table/east%24t1/count_rows";
    let reply = client.post(count, &json!({})).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    assert_eq!(reply.header("retry-after"), Some("1"), "{reply:?}");
    gate.open();
    batch.await.unwrap().ok();
}
