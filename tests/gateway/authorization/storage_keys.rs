//! The keys of a table's storage, which a catalog's description of it holds, go to those only who may write the table.

use serde_json::{Value, json};

use super::RULES;
use crate::audit;
use crate::client::{Client, empty};
use crate::harness::{Setup, World};

const DESCRIBE: &str = "/v1/table/own%24t1/describe";
const ANSWER: &str =
    r#"{"version":1,"location":"s3://lake/t1","storage_options":{"aws_secret_access_key":"k3y"}}"#;

async fn world(keep: &str) -> World {
    let there = format!("[own], storage_credentials: {keep}");
    let setup = Setup::new()
        .rerooted("[own]", "own", &there)
        .section(RULES)
        .section("telemetry: { audit: audit.log }");
    let world = setup.start().await.seeded();
    let own = world.catalog("own");
    own.can("describe_table", 200, "application/json", ANSWER.as_bytes());
    world
}

fn reader(world: &World) -> Client {
    world.client_with(&json!({"sub": "reader", "scope": "catalog.read"}))
}

fn writer(world: &World) -> Client {
    world.client_with(&json!({"sub": "writer", "scope": "catalog.read catalog.write"}))
}

async fn described(client: &Client) -> Value {
    client.post(DESCRIBE, &json!({})).await.ok().json()
}

#[tokio::test]
async fn who_may_only_read_a_table_does_not_get_them() {
    let world = world("strip").await;
    let whole: Value = serde_json::from_str(ANSWER).unwrap();
    let mut without = whole.clone();
    without["storage_options"] = Value::Null;
    assert_eq!(described(&reader(&world)).await, without);
    assert_eq!(described(&writer(&world)).await, whole);
    // Nobody knows what an answer holds that cannot be read.
    let own = world.catalog("own");
    for (kind, body) in [
        ("text/plain", ANSWER),
        ("application/json", &ANSWER[..ANSWER.len() - 1]),
    ] {
        own.can("describe_table", 200, kind, body.as_bytes());
        let reply = reader(&world).post(DESCRIBE, &json!({})).await;
        assert!(!reply.words().contains("k3y"), "{kind}: {reply:?}");
    }
    let own = world.catalog("own");
    own.can(
        "describe_table",
        200,
        "application/json",
        b"{\"storage_options\":[",
    );
    let reply = reader(&world).post(DESCRIBE, &json!({})).await;
    assert_eq!(reply.outcome(), (502, Some(17)), "{reply:?}");
}

/// The audit log names those who get them.
#[tokio::test]
async fn a_read_of_them_is_audited() {
    let world = world("strip").await;
    described(&reader(&world)).await;
    described(&writer(&world)).await;
    let given = audit::matching(&world, "event", "credentials", 1).await;
    assert_eq!(given.len(), 1, "{given:?}");
    assert_eq!(given[0]["subject"], "writer");
    assert_eq!(given[0]["operation"], "describe_table");
    assert_eq!(given[0]["tables"][0]["table"], "own$t1");
}

/// Describes are many, and no change may lack its line for them.
#[tokio::test]
async fn reads_of_them_have_a_bound_in_the_audit_log() {
    let world = world("strip").await;
    let client = writer(&world);
    for _ in 0..150 {
        described(&client).await;
    }
    let insert = client.post_rows("/v1/table/own%24t1/insert", empty()).await;
    assert_eq!(insert.status, 200, "{insert:?}");
    audit::matching(&world, "event", "change", 1).await;
    let given = audit::matching(&world, "event", "credentials", 100).await;
    assert_eq!(given.len(), 100);
}

#[tokio::test]
async fn where_a_mount_says_nothing_of_them_a_reader_gets_them() {
    let world = world("pass").await;
    let whole: Value = serde_json::from_str(ANSWER).unwrap();
    assert_eq!(described(&reader(&world)).await, whole);
}
