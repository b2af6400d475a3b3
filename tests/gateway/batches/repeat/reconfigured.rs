//! A request that repeats a batch which the configuration would refuse by now.

use serde_json::{Value, json};

use super::super::rename::over;
use super::*;
use crate::client::{Client, Reply};
use crate::harness::World;

fn keyed(world: &World, key: &str) -> Client {
    world.client().header("idempotency-key", key)
}

/// Returns the configuration without the lines that `is_dropped` names.
fn without(world: &World, is_dropped: impl Fn(&str) -> bool) -> String {
    let yaml = world.configuration();
    let kept = yaml.lines().filter(|line| !is_dropped(line));
    let kept: String = kept.flat_map(|line| [line, "\n"]).collect();
    assert!(kept.len() < yaml.len(), "{yaml}");
    kept
}

#[tokio::test]
async fn a_key_finds_its_renames_though_a_mount_of_them_was_removed() {
    async fn plain(world: &World, key: &str) -> Reply {
        let to = json!({"new_table_name": "u", "new_namespace_id": ["mirror"]});
        let client = keyed(world, key);
        client.post("/v1/table/west%24t1/rename", &to).await
    }
    async fn from(world: &World, key: &str) -> Reply {
        let to = json!({"new_table_name": "v", "new_namespace_id": ["west"]});
        let client = keyed(world, key);
        client.post("/v1/table/mirror%24u/rename", &to).await
    }
    async fn in_batch(world: &World, key: &str) -> Reply {
        let to =
            json!({"id": ["west", "v"], "new_table_name": "w", "new_namespace_id": ["mirror"]});
        let body = json!({"operations": [{"rename_table": to}]});
        let client = keyed(world, key);
        client.post("/nsgate/v1/batch-commit", &body).await
    }
    async fn all(world: &World, of: &str) -> Vec<Reply> {
        vec![
            plain(world, &format!("{of} plain")).await,
            from(world, &format!("{of} from")).await,
            in_batch(world, &format!("{of} batch")).await,
        ]
    }
    let world = over("").await;
    let answers = |replies: Vec<Reply>| -> Vec<Value> {
        replies.into_iter().map(|it| it.ok().json()).collect()
    };
    let first = answers(all(&world, "done").await);
    let yaml = without(&world, |line| line.contains("mirror"));
    world.reload(&yaml).await.ok();
    assert_eq!(answers(all(&world, "done").await), first);
    for reply in all(&world, "new").await {
        assert_eq!(reply.status, 404, "{reply:?}");
    }
}

#[tokio::test]
async fn a_key_finds_its_batch_though_fewer_entries_are_allowed() {
    let world = world("max_entries: 2").await;
    let body = pair(&world, 2);
    let first = keyed(&world, "done").post(BATCH, &body).await.ok().json();
    let yaml = world
        .configuration()
        .replace("max_entries: 2", "max_entries: 1");
    world.reload(&yaml).await.ok();
    let again = keyed(&world, "done").post(BATCH, &body).await.ok();
    assert_eq!(again.json(), first);
    let new = keyed(&world, "new").post(BATCH, &pair(&world, 3)).await;
    assert_eq!(new.outcome(), (400, Some(13)));
    let words = "`entries`: a batch has at most 1 entries, and this one has 2";
    assert!(new.words().contains(words), "{new:?}");
}
