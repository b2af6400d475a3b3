//! Renames by catalogs that do something other than they answer.

use serde_json::json;

use crate::catalog::faults::{Fault, Gate};
use crate::client::{Client, Reply};
use crate::harness::World;

const RENAME: &str = "/v1/table/west%24t1/rename";
/// The ways in which catalogs say that they have no rename.
const UNSUPPORTED: [(u16, &str); 5] = [
    (501, ""),
    (405, ""),
    (500, r#"{"error":"rename_table not implemented","code":18}"#),
    (406, r#"{"error":"no","code":0}"#),
    (404, ""),
];

async fn world() -> World {
    World::two().await
}

async fn rename(client: Client, to: &str) -> Reply {
    client.post(RENAME, &json!({"new_table_name": to})).await
}

/// The names of all tables in the catalog.
fn names(world: &World) -> Vec<String> {
    let tables = world.catalog("west").store().tables();
    tables.into_iter().map(|(name, _)| name).collect()
}

#[tokio::test]
async fn a_rename_that_acted_has_succeeded_whatever_was_answered() {
    for (status, body) in UNSUPPORTED {
        let world = world().await;
        let west = world.catalog("west");
        west.fail_always("rename_table", Fault::DoneBut(status, body));
        for (old, new) in [("t1", "u"), ("u", "v")] {
            let target = format!("/v1/table/west%24{old}/rename");
            let body = json!({"new_table_name": new});
            let reply = world.client().post(&target, &body).await;
            assert_eq!(reply.ok().json(), json!({}), "{status}");
            assert_eq!(names(&world), [format!("west${new}")], "{status}");
        }
        assert!(west.seen_of("register_table").is_empty(), "{status}");
        assert!(west.seen_of("deregister_table").is_empty(), "{status}");
    }
}

/// The table that already has the new name is another one, so the rename has not happened.
#[tokio::test]
async fn a_rename_of_nothing_has_not_succeeded() {
    let world = world().await;
    let west = world.catalog("west");
    west.store().seed(&["west", "u"], 1);
    west.fail_always("rename_table", Fault::Instead(501, ""));
    let target = "/v1/table/west%24nothing/rename";
    let body = json!({"new_table_name": "u"});
    let reply = world.client().post(target, &body).await;
    assert_eq!(reply.outcome(), (404, Some(4)), "{reply:?}");
}

/// The table is dropped while the rename waits, and another one gets the new name. That one must
/// not be taken for the renamed table.
#[tokio::test]
async fn a_rename_of_which_nobody_can_tell_is_not_confirmed() {
    let world = world().await;
    let west = world.catalog("west");
    let gate = Gate::new();
    west.fail("rename_table", Fault::HoldBefore(gate.clone()));
    west.fail("rename_table", Fault::Instead(501, ""));
    let client = world.client();
    let renamed = tokio::spawn(async move { rename(client, "u").await });
    gate.reached(1).await;
    let old = vec!["west".into(), "t1".into()];
    west.store().drop_table(&old).unwrap();
    west.store().seed(&["west", "u"], 1);
    gate.open();
    let reply = renamed.await.unwrap();
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    assert!(
        reply.words().contains("may have renamed the table"),
        "{reply:?}"
    );
}
