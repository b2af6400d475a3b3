//! A table is not destroyed or renamed while an aborted rename may still make a name of it appear.

use serde_json::{Value, json};

use super::until;
use crate::catalog::faults::{BROKEN, Fault, PATIENCE};
use crate::client::{Client, Reply, full};
use crate::harness::{Setup, World};

const PLACE: &str = "west$ns$t";
const NO_RENAME: &[u8] = br#"{"error":"Not supported: rename_table not implemented","code":18}"#;

/// Starts a world with `west$ns$t` and `west$other`; `west$third` is a second name of the place of `west$ns$t`.
async fn world() -> World {
    let section = "batch: { log: batches.redb, prepare_timeout: 2s }";
    let world = Setup::two().section(section).start().await;
    for name in ["west", "east"] {
        let catalog = world.catalog(name);
        catalog.can("rename_table", 500, "application/json", NO_RENAME);
        catalog.store().seed_namespace(&[name]);
    }
    let west = world.catalog("west");
    west.store().seed(&["west", "ns", "t"], 1);
    west.store().seed(&["west", "other"], 1);
    let third = vec!["west".to_owned(), "third".to_owned()];
    west.store().register_table(&third, PLACE).unwrap();
    let (west, east) = (world.catalog("west"), world.catalog("east"));
    east.store().share(&west.store());
    world
}

async fn rename(client: &Client, table: &str, to: &[&str]) -> Reply {
    let (name, namespace) = to.split_last().unwrap();
    let body = json!({"new_table_name": name, "new_namespace_id": namespace});
    client
        .post(&format!("/v1/table/{table}/rename"), &body)
        .await
}

/// Starts a world with an aborted rename of `west$ns$t` whose register may still take effect.
async fn aborted(namespace: &'static str) -> World {
    let world = world().await;
    let catalog = world.catalog(namespace);
    catalog.fail_always("register_table", Fault::Instead(500, BROKEN));
    let reply = rename(&world.client(), "west%24ns%24t", &[namespace, "u"]).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    catalog.behave();
    watched(&world).await;
    world
}

async fn watched(world: &World) {
    let watches = async {
        while world
            .metric("nsgate_batches_open{state=\"watching\"}")
            .await
            < 1.0
        {
            tokio::task::yield_now().await;
        }
    };
    let watched = tokio::time::timeout(PATIENCE, watches).await;
    assert!(watched.is_ok(), "it is not watched");
}

fn refused(reply: &Reply, case: &str) {
    assert_eq!(reply.outcome(), (503, Some(17)), "{case}: {reply:?}");
    let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((800..=900).contains(&seconds), "{case}: {reply:?}");
}

async fn register(client: &Client, name: &str, operation: &str, location: &str) -> Reply {
    let target = format!("/v1/table/west%24{name}/{operation}");
    client.post(&target, &json!({"location": location})).await
}

/// Checks that requests are refused that would destroy the table or give its place another name.
async fn assert_refused(world: &World, case: &str) {
    let client = world.client();
    for table in ["west%24ns%24t", "west%24third"] {
        let reply = client
            .post_nothing(&format!("/v1/table/{table}/drop"))
            .await;
        refused(&reply, case);
        let reply = client
            .post(&format!("/v1/table/{table}/obliterate"), &json!({}))
            .await;
        refused(&reply, case);
        refused(&rename(&client, table, &["west", "v"]).await, case);
    }
    let reply = client
        .post("/v1/namespace/west%24ns/drop", &json!({}))
        .await;
    refused(&reply, case);
    let whole = format!("file:///store/{PLACE}");
    for location in [PLACE, &whole] {
        for operation in ["register", "declare"] {
            refused(&register(&client, "v", operation, location).await, case);
        }
    }
    let declare = json!({"declare_table": {"id": ["west", "v"], "location": PLACE}});
    let declare = json!({"operations": [declare]});
    refused(&client.post("/v1/table/batch-commit", &declare).await, case);
}

#[tokio::test]
async fn a_table_keeps_its_place_and_its_names_while_another_may_come_back() {
    for namespace in ["west", "east"] {
        let mut world = aborted(namespace).await;
        assert_refused(&world, namespace).await;
        world.kill();
        // By now the catalog supports renames.
        let west = world.catalog("west");
        west.can("rename_table", 200, "application/json", b"{}");
        let asked = west.seen_of("rename_table").len();
        world.restart().await;
        watched(&world).await;
        assert_refused(&world, "after a restart").await;
        assert_eq!(world.catalog("west").seen_of("rename_table").len(), asked);
        assert!(world.catalog("west").seen_of("drop_table").is_empty());
    }
}

#[tokio::test]
async fn whatever_else_is_possible_meanwhile() {
    let world = aborted("west").await;
    let client = world.client();
    let insert = "/v1/table/west%24ns%24t/insert";
    client.post_rows(insert, full("rows")).await.ok();
    register(&client, "fourth", "register", "west$other")
        .await
        .ok();
    client
        .post_nothing("/v1/table/west%24fourth/drop")
        .await
        .ok();
    let reply = rename(&client, "west%24other", &["west", "elsewhere"]).await;
    assert_ne!(reply.status, 503, "{reply:?}");
    // The name may be removed, and registered for its place again.
    let of_table = "/v1/table/west%24ns%24t";
    let deregister = format!("{of_table}/deregister");
    client.post(&deregister, &json!({})).await.ok();
    refused(&register(&client, "v", "register", PLACE).await, "no name");
    let again = json!({"location": PLACE});
    client
        .post(&format!("{of_table}/register"), &again)
        .await
        .ok();
}

/// The catalog has answered every request, so no name can appear late.
#[tokio::test]
async fn a_clean_abort_leaves_the_table_free() {
    let world = world().await;
    let no = r#"{"error":"not here","code":13}"#;
    world
        .catalog("west")
        .fail_always("register_table", Fault::Instead(400, no));
    let reply = rename(&world.client(), "west%24ns%24t", &["west", "u"]).await;
    assert_eq!(reply.outcome(), (406, Some(0)), "{reply:?}");
    world.catalog("west").behave();
    let open = async || {
        let mut open = 0.0;
        for state in ["undecided", "undoing", "watching"] {
            let sample = format!("nsgate_batches_open{{state=\"{state}\"}}");
            open += world.metric(&sample).await;
        }
        open
    };
    while open().await > 0.0 {
        tokio::task::yield_now().await;
    }
    register(&world.client(), "v", "register", PLACE).await.ok();
    world
        .client()
        .post_nothing("/v1/table/west%24v/drop")
        .await
        .ok();
}

/// The new name was registered and removed again, and the first deregister got no answer.
#[tokio::test]
async fn a_deregistration_without_an_answer_is_waited_for_too() {
    let world = world().await;
    let west = world.catalog("west");
    west.store().set_root("file:///elsewhere");
    west.fail_nth("deregister_table", &["west", "u"], 1, Fault::ResetBefore);
    let reply = rename(&world.client(), "west%24ns%24t", &["west", "u"]).await;
    assert_eq!(reply.outcome(), (406, Some(0)), "{reply:?}");
    until("it is taken back", || {
        let tables = world.catalog("west").store().tables();
        tables.iter().all(|(name, _)| name != "west$u")
    })
    .await;
    watched(&world).await;
    let drop = "/v1/table/west%24ns%24t/drop";
    refused(&world.client().post_nothing(drop).await, "taken back");
    let listed: Value = world
        .client()
        .get("/v1/namespace/west/table/list")
        .await
        .ok()
        .json();
    assert_eq!(listed["tables"], json!(["other", "third"]));
}
