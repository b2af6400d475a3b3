//! Undecided versions are hidden in describes of tables, too.
//!
//! Some catalogs show the latest version there without being told to.

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{BATCH, pair, prepared, prepared_on_branch, prepared_to_fail, stored, until, visible};
use crate::catalog::faults::{BROKEN, Fault, Gate};
use crate::client::Reply;
use crate::harness::{Setup, World};

/// One table, by the names that two mounts give it.
const TABLES: [&str; 2] = ["west%24t1", "mirror%24t1"];
const REFUSED: Fault = Fault::Instead(400, r#"{"error":"no","code":13}"#);

async fn world(settings: &str) -> World {
    let section = format!("batch: {{ log: batches.redb, slot_cooldown: 0s, {settings} }}");
    let setup = Setup::two().rerooted("[mirror]", "west", "[west]");
    setup.section(&section).start().await.seeded()
}

/// Makes west show `version` in every describe of a table from now on.
fn tells(world: &World, version: &Value) {
    let table = json!({
        "table": "t1", "namespace": ["west"], "location": "file:///store/west$t1", "version": version,
    });
    let west = world.catalog("west");
    west.can(
        "describe_table",
        200,
        "application/json",
        table.to_string().as_bytes(),
    );
}

async fn describe(world: &World, table: &str) -> Reply {
    let target = format!("/v1/table/{table}/describe");
    world.client().post(&target, &json!({})).await
}

fn describing(world: &World, table: &'static str) -> JoinHandle<Reply> {
    let client = world.client();
    let target = format!("/v1/table/{table}/describe");
    tokio::spawn(async move { client.post(&target, &json!({})).await })
}

fn shown(reply: Reply) -> Value {
    reply.ok().json()["version"].clone()
}

fn refused(reply: &Reply) {
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    assert!(reply.header("retry-after").is_some(), "{reply:?}");
}

#[tokio::test]
async fn a_version_that_is_not_decided_is_in_no_describe() {
    let world = world("").await;
    for table in TABLES {
        tells(&world, &json!(1));
        assert_eq!(shown(describe(&world, table).await), 1);
    }
    let (gate, batch) = prepared(&world, 2).await;
    // A describe that does not show the undecided version does not wait.
    for version in [json!(1), Value::Null] {
        tells(&world, &version);
        for table in TABLES {
            assert_eq!(shown(describe(&world, table).await), version);
        }
    }
    for version in [json!(2), json!("2"), json!(3)] {
        tells(&world, &version);
        let (one, other) = tokio::join!(describe(&world, TABLES[0]), describe(&world, TABLES[1]));
        refused(&one);
        refused(&other);
    }
    // A describe that waits for the batch shows the committed version.
    tells(&world, &json!(2));
    let waiting = TABLES.map(|table| describing(&world, table));
    gate.open();
    batch.await.unwrap().ok();
    for reply in waiting {
        assert_eq!(shown(reply.await.unwrap()), 2);
    }
}

#[tokio::test]
async fn a_version_that_lands_late_is_in_no_describe() {
    let world = world("prepare_timeout: 2s").await;
    let fails = Fault::Instead(500, BROKEN);
    world
        .catalog("west")
        .fail_always("create_table_version", fails);
    refused(&world.client().post(BATCH, &pair(&world, 2)).await);
    world.catalog("west").behave();
    let id = ["west".to_owned(), "t1".to_owned()];
    world.catalog("west").store().put(&id, 2, "west 2".into());
    tells(&world, &json!(2));
    for table in TABLES {
        refused(&describe(&world, table).await);
    }
    tells(&world, &json!(1));
    for table in TABLES {
        assert_eq!(shown(describe(&world, table).await), 1);
    }
}

/// The describe reaches the catalog before anything is hidden, and is answered while the version is
/// hidden.
#[tokio::test]
async fn a_describe_that_began_before_the_batch_shows_nothing_of_it() {
    for table in TABLES {
        let world = world("").await;
        let west = world.catalog("west");
        let asked = west.hold("describe_table");
        let described = describing(&world, table);
        asked.reached(1).await;
        let (gate, batch) = prepared(&world, 2).await;
        tells(&world, &json!(2));
        asked.open();
        refused(&described.await.unwrap());
        gate.open();
        batch.await.unwrap().ok();
        assert_eq!(shown(describe(&world, table).await), 2);
    }
}

#[tokio::test]
async fn a_describe_of_a_branch_that_began_before_the_batch_shows_nothing_of_it() {
    let world = world("").await;
    let asked = world.catalog("west").hold("describe_table");
    let client = world.client();
    let described = tokio::spawn(async move {
        let target = format!("/v1/table/{}/describe", TABLES[0]);
        client.post(&target, &json!({"branch": "dev"})).await
    });
    asked.reached(1).await;
    let (gate, batch) = prepared_on_branch(&world, "dev").await;
    tells(&world, &json!(2));
    asked.open();
    refused(&described.await.unwrap());
    gate.open();
    batch.await.unwrap().ok();
}

/// The answer contains the prepared version, and arrives only when it has been deleted and
/// forgotten.
#[tokio::test]
async fn a_describe_that_outlasts_the_batch_shows_nothing_of_it() {
    for (table, before) in [(TABLES[0], true), (TABLES[1], true), (TABLES[0], false)] {
        let world = world("").await;
        let west = world.catalog("west");
        let (asked, answered) = (Gate::new(), Gate::new());
        west.fail("describe_table", Fault::HoldBefore(asked.clone()));
        west.fail("describe_table", Fault::HoldAfter(answered.clone()));
        let mut described = None;
        if before {
            described = Some(describing(&world, table));
            asked.reached(1).await;
        }
        let (gate, batch) = prepared_to_fail(&world, 2, REFUSED).await;
        tells(&world, &json!(2));
        let described = described.unwrap_or_else(|| describing(&world, table));
        asked.open();
        answered.reached(1).await;
        gate.open();
        assert_eq!(batch.await.unwrap().status, 400);
        until("west is undone", || stored(&world, "west") == [1]).await;
        let open = "nsgate_batches_open{state=\"undoing\"}";
        while world.metric(open).await > 0.0 {
            tokio::task::yield_now().await;
        }
        tells(&world, &json!(1));
        answered.open();
        let reply = described.await.unwrap();
        if before {
            refused(&reply);
        } else {
            assert_eq!(shown(reply), 1, "asked for again");
        }
        assert_eq!(visible(&world, "west").await, [1]);
    }
}
