//! A read of a table keeps no batch from it until its `batch.lock_timeout` is over.

use std::time::Duration;

use serde_json::json;

use super::{BATCH, pair, world};

const COUNT: &str = "/v1/table/west%24t1/count_rows";

#[tokio::test]
async fn a_slow_read_gives_way_to_a_batch() {
    let world = world("lock_timeout: 4s").await;
    let counting = world.catalog("west").hold("count_table_rows");
    let client = world.client();
    let slow = tokio::spawn(async move { client.post(COUNT, &json!({})).await });
    counting.reached(1).await;
    let batch = world.client().post(BATCH, &pair(&world, 2)).await;
    assert_eq!(batch.status, 200, "{batch:?}");
    let ended = tokio::time::timeout(Duration::from_secs(60), slow).await;
    let reply = ended.unwrap().unwrap();
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    let words = "a batch has waited long for the table";
    assert!(reply.words().contains(words), "{reply:?}");
    assert!(reply.header("retry-after").is_some(), "{reply:?}");
    counting.open();
}

/// Nothing but a batch ends it.
#[tokio::test]
async fn a_slow_read_that_no_batch_waits_for_is_answered() {
    let world = world("lock_timeout: 4s").await;
    let counting = world.catalog("west").hold("count_table_rows");
    let client = world.client();
    let slow = tokio::spawn(async move { client.post(COUNT, &json!({})).await });
    counting.reached(1).await;
    let other = json!({"entries": [super::stage(&world, "east", 2)]});
    world.client().post(BATCH, &other).await.ok();
    counting.open();
    slow.await.unwrap().ok();
}
