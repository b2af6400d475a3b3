//! Renames in a batch: several tables get their names, and others their versions, in one step.

mod being_written;
mod old_name_gone;
mod refused;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::rename::{NO, assert_seen, names, over, versions, world};
use super::{settled, stage, told, until};
use crate::catalog::faults::{Fault, Gate};
use crate::client::{Client, Reply};
use crate::harness::World;

const COMMIT: &str = "/nsgate/v1/batch-commit";
const ORDERS: &str = "west$__nsgate_new_1";
const EVENTS: &str = "east$__nsgate_new_2";

fn rename(old: &str, new: &str) -> Value {
    let names = |name: &str| -> Vec<String> { name.split('$').map(str::to_owned).collect() };
    let mut namespace = names(new);
    let name = namespace.pop();
    json!({"rename_table": {"id": names(old), "new_namespace_id": namespace, "new_table_name": name}})
}

fn version(world: &World, name: &str, version: u64) -> Value {
    json!({"create_table_version": stage(world, name, version)})
}

/// Starts a world with two tables that are being written: their names are temporary.
async fn seeded(settings: &str) -> World {
    let world = match settings {
        "" => world().await,
        settings => over(settings).await,
    };
    let (west, east) = (world.catalog("west"), world.catalog("east"));
    west.store().seed(&["west", "__nsgate_new_1"], 1);
    east.store().seed(&["east", "__nsgate_new_2"], 2);
    world
}

/// Two renames, one of them into another catalog, between two versions.
fn batch(world: &World) -> Vec<Value> {
    vec![
        version(world, "west", 3),
        rename(ORDERS, "east$orders"),
        rename(EVENTS, "east$events"),
        version(world, "east", 3),
    ]
}

async fn commit(client: Client, operations: &[Value]) -> Reply {
    let body = json!({ "operations": operations });
    client.post(COMMIT, &body).await
}

fn start(world: &World, operations: Vec<Value>) -> JoinHandle<Reply> {
    let client = world.client();
    tokio::spawn(async move { commit(client, &operations).await })
}

/// Holds the registration of a table; the gateway tries one for each way of writing a location.
fn hold_register(world: &World, name: &str, fault: impl Fn(Gate) -> Fault) -> Gate {
    let gate = Gate::new();
    let east = world.catalog("east");
    east.fail_nth("register_table", &["east", name], 2, fault(gate.clone()));
    gate
}

fn hold_deregister(world: &World, table: &str) -> Gate {
    let gate = Gate::new();
    let (namespace, name) = table.split_once('$').unwrap();
    let fault = Fault::HoldBefore(gate.clone());
    let catalog = world.catalog(namespace);
    catalog.fail_nth("deregister_table", &[namespace, name], 1, fault);
    gate
}

async fn is_described(world: &World, table: &str) -> bool {
    let target = format!("/v1/table/{}/describe", table.replace('$', "%24"));
    world.client().post(&target, &json!({})).await.status == 200
}

/// Checks that readers see all of the batch, or nothing of it.
async fn assert_all(world: &World, done: bool, case: &str) {
    for table in ["east$orders", "east$events"] {
        assert_seen(world, table, done, case).await;
    }
    for table in [ORDERS, EVENTS] {
        assert_eq!(is_described(world, table).await, !done, "{case}: {table}");
    }
    let last = if done { &[1, 2, 3][..] } else { &[1, 2] };
    for table in ["west$t1", "east$t1"] {
        assert_eq!(versions(world, table).await, last, "{case}: {table}");
    }
}

/// Checks what the catalogs have in the end.
async fn assert_left(world: &World, done: bool, case: &str) {
    settled(world).await;
    let (west, east) = if done {
        (
            &["west$t1"][..],
            &["east$events", "east$orders", "east$t1"][..],
        )
    } else {
        (&[ORDERS, "west$t1"][..], &[EVENTS, "east$t1"][..])
    };
    until(case, || {
        names(world, "west") == west && names(world, "east") == east
    })
    .await;
    assert_all(world, done, case).await;
}

#[tokio::test]
async fn renames_and_versions_happen_in_one_step() {
    let world = seeded("").await;
    let gate = hold_register(&world, "events", Fault::HoldAfter);
    let removals = [ORDERS, EVENTS].map(|table| hold_deregister(&world, table));
    let batch = start(&world, batch(&world));
    gate.reached(1).await;
    until("the rest is prepared", || {
        let is_made = |name: &str| super::stored(&world, name) == [1, 2, 3];
        let east = names(&world, "east");
        ["west", "east"].into_iter().all(is_made) && east.contains(&"east$orders".to_owned())
    })
    .await;
    assert_all(&world, false, "undecided").await;
    gate.open();
    let answer = batch.await.unwrap().ok().json();
    // The old names are still at their catalogs.
    for removal in &removals {
        removal.reached(1).await;
    }
    assert_all(&world, true, "committed").await;
    for removal in &removals {
        removal.open();
    }
    assert_left(&world, true, "removed").await;
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 4, "{answer}");
    for (place, kind) in ["create_table_version", "rename_table", "rename_table"]
        .iter()
        .enumerate()
    {
        assert!(results[place].get(kind).is_some(), "{answer}");
    }
    assert_eq!(results[1], json!({"rename_table": {}}));
    let made = &results[3]["create_table_version"]["version"];
    assert_eq!(made["version"], 3, "{answer}");
    assert_eq!(told(&world, &answer["transaction_id"]).await, "Succeeded");
    for (table, expected) in [("east$orders", &[1][..]), ("east$events", &[1, 2])] {
        assert_eq!(versions(&world, table).await, expected, "{table}");
    }
    // The data stay where they are.
    let places = world.catalog("east").store().tables();
    let expected = ("east$orders".to_owned(), format!("file:///store/{ORDERS}"));
    assert!(places.contains(&expected), "{places:?}");
    // Whether a catalog deregisters is asked once for each namespace.
    let asked = |name: &str| {
        let seen = world.catalog(name).seen_of("deregister_table");
        seen.iter()
            .filter(|seen| seen.id[1].starts_with("nsgate-"))
            .count()
    };
    assert_eq!((asked("west"), asked("east")), (1, 1));
}

#[tokio::test]
async fn when_one_operation_fails_no_table_is_renamed() {
    type Lack = fn(&World);
    let cases: [(&str, (u16, u64), Lack); 3] = [
        ("operations[3]: ", (400, 13), |world| {
            let refused = Fault::Instead(400, r#"{"error":"no","code":13}"#);
            world.catalog("east").fail("create_table_version", refused);
        }),
        (
            "operations[1]: the table cannot be renamed: backend `east` does not support register",
            (406, 0),
            |world| {
                let east = world.catalog("east");
                let gone = Fault::Instead(500, NO);
                east.fail_nth("register_table", &["east", "orders"], 1, gone);
            },
        ),
        (
            "operations[2]: the table cannot be renamed: backend `east` does not accept the location",
            (406, 0),
            |world| {
                let no = || Fault::Instead(400, r#"{"error":"not here","code":13}"#);
                for nth in [1, 2] {
                    let east = world.catalog("east");
                    east.fail_nth("register_table", &["east", "events"], nth, no());
                }
            },
        ),
    ];
    for (words, (status, code), lack) in cases {
        let world = seeded("").await;
        lack(&world);
        let reply = commit(world.client(), &batch(&world)).await;
        assert_eq!(reply.outcome(), (status, Some(code)), "{words}: {reply:?}");
        assert!(reply.words().contains(words), "{words}: {}", reply.words());
        assert_left(&world, false, words).await;
        // No removal of an old name was sent.
        let seen = world.catalog("west").seen_of("deregister_table");
        assert!(
            seen.iter().all(|seen| seen.id[1] != "__nsgate_new_1"),
            "{words}"
        );
    }
}

#[tokio::test]
async fn a_batch_with_renames_is_done_once_for_its_key() {
    let mut world = seeded("").await;
    let keyed = |world: &World| world.client().header("idempotency-key", "once");
    let operations = batch(&world);
    let first = commit(keyed(&world), &operations).await.ok().json();
    let mut other = operations.clone();
    other[2] = rename(EVENTS, "east$others");
    let mut same = operations.clone();
    same[2] =
        json!({"rename_table": {"new_table_name": "events", "id": ["east", "__nsgate_new_2"]}});
    for _ in 0..2 {
        for again in [&operations, &same] {
            let again = commit(keyed(&world), again).await.ok().json();
            assert_eq!(again["results"].as_array().unwrap().len(), 4, "{again}");
            assert_eq!(again["transaction_id"], first["transaction_id"]);
        }
        assert_eq!(commit(keyed(&world), &other).await.status, 422);
        settled(&world).await;
        world.restart().await;
    }
    assert_left(&world, true, "once").await;
}

/// The operation that failed is named again after a restart, and not its entry in the log.
#[tokio::test]
async fn a_refusal_names_the_same_operation_after_a_restart() {
    let mut world = seeded("").await;
    let keyed = |world: &World| world.client().header("idempotency-key", "failing");
    let refused = Fault::Instead(400, r#"{"error":"no","code":13}"#);
    let operations = [rename(ORDERS, "east$x"), version(&world, "west", 3)];
    world.catalog("west").fail("create_table_version", refused);
    for _ in 0..2 {
        let reply = commit(keyed(&world), &operations).await;
        assert_eq!(reply.outcome(), (400, Some(13)), "{reply:?}");
        assert!(
            reply.words().contains("operations[1]: "),
            "{}",
            reply.words()
        );
        settled(&world).await;
        world.restart().await;
    }
}

#[tokio::test]
async fn killed_before_the_decision_all_of_it_or_nothing_has_happened() {
    // The catalog has not answered yet; it has either not acted or acted.
    for acted in [false, true] {
        let mut world = seeded("").await;
        let held: fn(Gate) -> Fault = if acted {
            Fault::HoldAfter
        } else {
            Fault::HoldBefore
        };
        let gate = hold_register(&world, "events", held);
        let batch = start(&world, batch(&world));
        gate.reached(1).await;
        until("the rest is prepared", || {
            let is_made = |name: &str| super::stored(&world, name) == [1, 2, 3];
            let east = names(&world, "east");
            ["west", "east"].into_iter().all(is_made) && east.contains(&"east$orders".to_owned())
        })
        .await;
        world.kill();
        assert!(batch.await.is_err());
        world.catalog("east").behave();
        world.restart().await;
        assert_left(
            &world,
            acted,
            if acted {
                "registered"
            } else {
                "not registered"
            },
        )
        .await;
        gate.open();
    }
}

#[tokio::test]
async fn killed_after_the_decision_the_old_names_go_in_the_end() {
    let mut world = seeded("").await;
    let gates = [ORDERS, EVENTS].map(|table| hold_deregister(&world, table));
    commit(world.client(), &batch(&world)).await.ok();
    for gate in &gates {
        gate.reached(1).await;
    }
    world.kill();
    for name in ["west", "east"] {
        world.catalog(name).behave();
    }
    let again = [ORDERS, EVENTS].map(|table| hold_deregister(&world, table));
    world.restart().await;
    for gate in &again {
        gate.reached(1).await;
    }
    assert_all(&world, true, "started again").await;
    for gate in &again {
        gate.open();
    }
    assert_left(&world, true, "rolled forward").await;
    for gate in &gates {
        gate.open();
    }
}
