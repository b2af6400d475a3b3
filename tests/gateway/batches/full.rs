//! A gateway that cannot write its batch log exits, because it could not keep its promises.

use std::process::Command;

use http::Method;
use serde_json::{Value, json};

use super::{BATCH, assert_both, pair, settled, world};
use crate::harness::World;
use crate::running_gateway::program;

/// Makes a batch whose INTENT is so large that the log's file must grow.
pub fn large(world: &World, version: u64) -> Value {
    let mut batch = pair(world, version);
    let entries = batch["entries"].as_array_mut().unwrap();
    let e_tag = "x".repeat(8000);
    for more in 1..=800 {
        entries.push(json!({
            "id": ["west", "t1"], "version": version + more, "manifest_path": "m", "e_tag": e_tag,
        }));
    }
    batch
}

/// Restarts the gateway with a file size limit that its log has already reached.
pub async fn fill_the_disk(world: &mut World) {
    let log = std::fs::metadata(world.folder().join("batches.redb")).unwrap();
    let kib = log.len().div_ceil(1024);
    world.restart_with_small_files(kib).await;
}

/// What was refused before it was written takes nothing of the share.
#[tokio::test]
async fn one_caller_has_its_share_of_the_log_and_leaves_the_rest_to_others() {
    let world = world("log_share: 1MiB").await;
    let client = world.client();
    let conflict = client.post(BATCH, &large(&world, 9)).await;
    assert_eq!(conflict.status, 409, "{conflict:?}");
    client.post(BATCH, &pair(&world, 2)).await.ok();
    // Another one may be larger than the share: it is this caller's first.
    let other = world.client_with(&json!({"sub": "other"}));
    let undone = other.post(BATCH, &large(&world, 3)).await;
    assert!([400, 404].contains(&undone.status), "{undone:?}");
    let refused = other.post(BATCH, &pair(&world, 3)).await;
    assert_eq!(refused.outcome(), (503, Some(17)), "{refused:?}");
    assert!(refused.words().contains("`batch.log_share`"), "{refused:?}");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    // The tables of the large one are being undone.
    let east = world.catalog("east");
    east.store().seed(&["east", "free"], 1);
    east.store().stage("free-2", "free 2");
    let free = json!({"entries": [
        {"id": ["east", "free"], "version": 2, "manifest_path": "free-2", "manifest_size": 6},
    ]});
    assert_eq!(other.post(BATCH, &free).await.status, 503);
    client.post(BATCH, &free).await.ok();
}

#[tokio::test]
async fn a_log_that_cannot_grow_ends_the_gateway() {
    let mut world = world("").await;
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
    fill_the_disk(&mut world).await;
    let body = crate::client::full(large(&world, 3).to_string());
    let client = world.client().header("content-type", "application/json");
    // The process may end before it has sent the answer.
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
    // Once there is room, the gateway continues from what is on disk.
    world.restart().await;
    settled(&world).await;
    assert_both(&world, &[1, 2], "what was acknowledged").await;
    world.client().post(BATCH, &pair(&world, 3)).await.ok();
    assert_both(&world, &[1, 2, 3], "and on").await;
}

#[tokio::test]
async fn a_start_on_a_full_disk_says_what_to_do() {
    let mut world = world("").await;
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
    world.kill();
    let limited = Command::new("sh")
        .args(["-c", "ulimit -f 0; exec \"$0\" serve --config gateway.yaml"])
        .arg(program())
        .current_dir(world.folder())
        .env_clear()
        .output();
    let limited = limited.unwrap();
    assert!(!limited.status.success());
    let said = String::from_utf8(limited.stderr).unwrap();
    for words in ["batches.redb", "Its disk is full", "make room"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    world.restart().await;
    assert_both(&world, &[1, 2], "what was acknowledged").await;
}
