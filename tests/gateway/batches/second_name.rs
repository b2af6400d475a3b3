//! A table gets no second name while something of it is hidden.

use serde_json::{Value, json};

use super::{prepared, visible, world};
use crate::harness::World;

/// The location of `west$t1`, as the catalog describes it.
async fn location(world: &World) -> String {
    let describe = "/v1/table/west%24t1/describe";
    let described = world.client().post(describe, &json!({})).await.ok().json();
    described["location"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_register_waits_for_the_batch_that_is_on_the_table_at_its_location() {
    let world = world("").await;
    let location = location(&world).await;
    let (_, below_the_root) = location.rsplit_once('/').unwrap();
    let (gate, batch) = prepared(&world, 2).await;
    let client = world.client();
    let name = async |operation: &str, location: &str| {
        let body = json!({"location": location});
        let target = format!("/v1/table/west%24second/{operation}");
        client.post(&target, &body).await
    };
    for operation in ["register", "declare"] {
        for location in [below_the_root, &location] {
            let reply = name(operation, location).await;
            assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
            assert!(reply.headers.contains_key("retry-after"));
        }
    }
    let declare = json!({"operations": [{"declare_table": {"id": ["west", "second"], "location": location}}]});
    let reply = client.post("/v1/table/batch-commit", &declare).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    // Another location is not affected.
    world.catalog("west").store().seed(&["west", "other"], 1);
    let other = below_the_root.replace("t1", "other");
    name("register", &other).await.ok();
    gate.open();
    batch.await.unwrap().ok();
    let registered = json!({"location": below_the_root});
    let third = "/v1/table/west%24third/register";
    client.post(third, &registered).await.ok();
    let listed = client
        .post_nothing("/v1/table/west%24third/version/list")
        .await;
    let versions: Vec<Value> = listed.ok().json()["versions"].as_array().unwrap().clone();
    assert_eq!(versions.len(), visible(&world, "west").await.len());
}
