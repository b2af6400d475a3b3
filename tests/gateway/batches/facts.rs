//! Conflicts and locks as data: the fields of an error beside its words.

use serde_json::{Value, json};

use super::{BATCH, assert_both, pair, settled, stage, start, visible, world};
use crate::client::Reply;
use crate::harness::{Setup, World};

const COMMIT: &str = "/v1/table/batch-commit";
const FACTS: [&str; 7] = [
    "table",
    "branch",
    "entry",
    "expected",
    "found",
    "locked_by",
    "decided",
];

/// The facts of an error. Checks that it has the outcome, and the contract's members.
fn facts(reply: &Reply, outcome: (u16, u64)) -> Value {
    assert_eq!(reply.outcome(), (outcome.0, Some(outcome.1)), "{reply:?}");
    let Value::Object(mut error) = reply.json() else {
        panic!("{reply:?}");
    };
    for member in ["error", "code", "detail", "instance"] {
        assert!(error.remove(member).is_some(), "{member}: {reply:?}");
    }
    assert!(
        error.keys().all(|key| FACTS.contains(&key.as_str())),
        "{reply:?}"
    );
    Value::Object(error)
}

/// The id of the only open batch.
async fn open(world: &World) -> Value {
    let open = world.admin().get("/batches").await.ok().json();
    let batches = open["batches"].as_array().or(open.as_array());
    let batches = batches.unwrap_or_else(|| panic!("{open}"));
    assert_eq!(batches.len(), 1, "{open}");
    batches[0]["id"].clone()
}

#[tokio::test]
async fn a_version_that_is_not_the_next_one_is_answered_with_the_latest() {
    let setup = Setup::new().mount("[west]", "west");
    let world = setup.rerooted("[far, lake]", "east", "[]").start().await;
    world.catalog("west").store().seed(&["west", "t1"], 3);
    world.catalog("east").store().seed(&["t1"], 1);
    let entry =
        |id: Value, version: u64| json!({"id": id, "version": version, "manifest_path": "m"});
    let west = entry(json!(["west", "t1"]), 4);
    let far = entry(json!(["far", "lake", "t1"]), 5);
    let mut dev = far.clone();
    dev["branch"] = json!("dev");
    let far_facts = json!({"table": ["far", "lake", "t1"], "entry": 1, "expected": 5, "found": 1});
    let mut dev_facts = far_facts.clone();
    dev_facts["branch"] = json!("dev");
    let deletes = json!({"id": ["west", "t1"], "ranges": [{"start_version": 1, "end_version": 4}]});
    let cases = [
        (BATCH, json!({"entries": [west, far]}), far_facts.clone()),
        (BATCH, json!({"entries": [west, dev]}), dev_facts),
        (
            COMMIT,
            json!({"operations": [{"create_table_version": west}, {"create_table_version": far}]}),
            far_facts,
        ),
        (
            COMMIT,
            json!({"operations": [{"delete_table_versions": deletes}]}),
            json!({"table": ["west", "t1"], "entry": 0, "found": 3}),
        ),
    ];
    for (target, body, expected) in cases {
        let reply = world.client().post(target, &body).await;
        assert_eq!(facts(&reply, (409, 14)), expected, "{body}");
    }
    let missing = json!({"entries": [west, entry(json!(["far", "lake", "none"]), 2)]});
    let reply = world.client().post(BATCH, &missing).await;
    let expected = json!({"table": ["far", "lake", "none"], "entry": 1});
    assert_eq!(facts(&reply, (404, 4)), expected);
}

/// Another writer makes the version behind the gateway's back, after the batch has found the table as it needs it.
#[tokio::test]
async fn a_conflict_in_a_catalog_is_remembered_with_the_version_that_was_found() {
    let mut world = world("").await;
    let gate = world.catalog("east").hold("create_table_version");
    let keyed = |world: &World| world.client().header("idempotency-key", "k1");
    let batch = pair(&world, 2);
    let (first, joined) = (
        start(keyed(&world), batch.clone()),
        start(keyed(&world), batch.clone()),
    );
    gate.reached(1).await;
    world.catalog("east").store().seed(&["east", "t1"], 2);
    gate.open();
    let expected = json!({
        "table": ["east", "t1"], "entry": 1, "expected": 2, "found": 2, "decided": true,
    });
    let first = first.await.unwrap();
    let code = first.outcome().1.unwrap();
    assert_eq!(facts(&first, (409, code)), expected);
    assert_eq!(joined.await.unwrap().body, first.body);
    settled(&world).await;
    for _ in 0..2 {
        let repeated = keyed(&world).post(BATCH, &batch).await;
        assert_eq!(repeated.body, first.body);
        world.restart().await;
    }
    assert_eq!(visible(&world, "west").await, [1]);
}

#[tokio::test]
async fn a_locked_table_is_answered_with_the_batch_that_locks_it() {
    let world = world("lock_timeout: 300ms").await;
    world.catalog("west").store().seed(&["west", "t2"], 1);
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    let holder = open(&world).await;
    let mut free = stage(&world, "west", 2);
    free["id"] = json!(["west", "t2"]);
    let other = json!({"entries": [free, stage(&world, "east", 2)]});
    let reply = world.client().post(BATCH, &other).await;
    let expected = json!({"table": ["east", "t1"], "entry": 1, "locked_by": holder});
    assert_eq!(facts(&reply, (503, 17)), expected);
    assert!(
        !reply.words().contains("entries["),
        "the words stay as they were"
    );

    let create = "/v1/table/east%24t1/version/create";
    let reply = world.client().post(create, &stage(&world, "east", 2)).await;
    let expected = json!({"table": ["east", "t1"], "locked_by": holder});
    assert_eq!(facts(&reply, (503, 17)), expected);
    let restore = "/v1/table/east%24t1/restore";
    let reply = world.client().post(restore, &json!({})).await;
    assert_eq!(facts(&reply, (503, 17)), json!({"locked_by": holder}));
    gate.open();
    batch.await.unwrap().ok();
    assert_both(&world, &[1, 2], "the first batch").await;

    let long = world.catalog("east").hold("query_table");
    let client = world.client();
    let query =
        tokio::spawn(async move { client.post("/v1/table/east%24t1/query", &json!({})).await });
    long.reached(1).await;
    let reply = world.client().post(BATCH, &pair(&world, 3)).await;
    let expected = json!({"table": ["east", "t1"], "entry": 1});
    assert_eq!(facts(&reply, (503, 17)), expected, "no batch holds it");
    long.open();
    query.await.unwrap().ok();
}
