//! A log that cannot be written ends the gateway: what it cannot keep it does not promise.

use http::Method;
use serde_json::{Value, json};

use super::{BATCH, assert_both, pair, settled, world};
use crate::harness::World;

/// A batch whose INTENT is so large that the log's file must grow.
fn large(world: &World, version: u64) -> Value {
    let mut batch = pair(world, version);
    batch["entries"][0]["e_tag"] = json!("x".repeat(6 << 20));
    batch
}

/// Starts the gateway again so that its log is as large as it can be.
async fn fill_the_disk(world: &mut World) {
    let log = std::fs::metadata(world.folder().join("batches.redb")).unwrap();
    let kib = log.len().div_ceil(1024);
    world.restart_with_small_files(kib).await;
}

#[tokio::test]
async fn a_log_that_cannot_grow_ends_the_gateway() {
    let mut world = world("").await;
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
    fill_the_disk(&mut world).await;
    let body = crate::client::full(large(&world, 3).to_string());
    let client = world.client().header("content-type", "application/json");
    // The process may end before the answer is out.
    if let Ok(reply) = client.send(Method::POST, BATCH, body).await {
        assert!(reply.status >= 500, "{reply:?}");
    }
    assert_eq!(world.ended().await, Some(3));
    let log = world.log();
    for words in [
        "batch log cannot be written",
        "File too large",
        "start the gateway again",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    // With room it goes on from what the disk holds.
    world.restart().await;
    settled(&world).await;
    assert_both(&world, &[1, 2], "what was acknowledged").await;
    world.client().post(BATCH, &pair(&world, 3)).await.ok();
    assert_both(&world, &[1, 2, 3], "and on").await;
}
