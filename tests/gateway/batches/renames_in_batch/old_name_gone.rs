//! Restarts with a rename that is not decided, whose table does not have its old name any more: the log has lost that the
//! batch was committed, or somebody has taken the name. The new name is the only one that leads to the table.

use std::time::Duration;

use serde_json::Value;

use super::{EVENTS, ORDERS, assert_left, batch, hold_register, names, seeded, settled, start};
use crate::batches::{stored, until};
use crate::catalog::faults::{Fault, PATIENCE};
use crate::command::run;
use crate::harness::World;

fn id(table: &str) -> Vec<String> {
    table.split('$').map(str::to_owned).collect()
}

/// Takes the old names away, and starts the gateway that was killed.
async fn goes_on(world: &mut World) {
    for (name, table) in [("west", ORDERS), ("east", EVENTS)] {
        let catalog = world.catalog(name);
        catalog.behave();
        catalog.store().deregister_table(&id(table)).unwrap();
    }
    world.restart().await;
}

/// The batches that are open, as the admin address lists them.
async fn open(world: &World) -> Value {
    let listed = world.admin().get("/batches").await.ok().json();
    listed["batches"].clone()
}

async fn has_hazards(world: &World) {
    let hazards = async {
        while world.metric("nsgate_batch_hazards").await < 2.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, hazards).await.unwrap();
}

#[tokio::test]
async fn a_batch_that_was_made_whole_is_committed() {
    let mut world = seeded("").await;
    let gate = hold_register(&world, "events", Fault::HoldAfter);
    let batch = start(&world, batch(&world));
    gate.reached(1).await;
    until("the rest is made", || {
        let is_made = |name: &str| stored(&world, name) == [1, 2, 3];
        ["west", "east"].into_iter().all(is_made)
            && names(&world, "east").contains(&"east$orders".to_owned())
    })
    .await;
    world.kill();
    drop(batch);
    goes_on(&mut world).await;
    assert_left(&world, true, "committed").await;
}

#[tokio::test]
async fn a_name_that_is_the_only_one_is_not_taken_away_by_an_undo() {
    let mut world = seeded("").await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(&world, batch(&world));
    gate.reached(1).await;
    let both = ["east$events", "east$orders"].map(str::to_owned);
    let are_there = |world: &World| {
        let there = names(world, "east");
        both.iter().all(|name| there.contains(name))
    };
    until("the names are made", || are_there(&world)).await;
    world.kill();
    drop(batch);
    goes_on(&mut world).await;
    has_hazards(&world).await;
    assert!(are_there(&world), "{:?}", names(&world, "east"));
    let listed = open(&world).await;
    let why = "its table has no other name any more: the old one is gone";
    let entries = listed[0]["entries"].as_array().unwrap();
    let told = entries.iter().filter(|entry| entry["hazard"] == why);
    assert_eq!(told.count(), 2, "{listed:#}");

    // With its old name, nothing is lost by taking the new one away.
    for (table, at) in [(EVENTS, "east"), (ORDERS, "west")] {
        let mut store = world.catalog(at).store();
        store.register_table(&id(table), table).unwrap();
    }
    let admin = format!("http://{}", world.admin_address());
    let batch = listed[0]["id"].as_str().unwrap();
    let decide = [
        "batches", "--admin", &admin, "resolve", batch, "--abort", "--who", "ann",
    ];
    let (code, said, errors) = run(&world, &decide).await;
    assert_eq!(code, Some(0), "{said}{errors}");
    settled(&world).await;
    assert_left(&world, false, "aborted").await;
}
