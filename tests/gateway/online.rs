//! The check of whether batches can work with a catalog, as an operator sees it.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::catalog::Seen;
use crate::catalog::faults::PATIENCE;
use crate::catalog::store::Store;
use crate::harness::{Setup, World};
use crate::running_gateway::program;

/// Runs `nsgate check --online` over the configuration of a gateway.
async fn check(world: &World) -> Output {
    let folder = world.folder().to_owned();
    let run = tokio::task::spawn_blocking(move || {
        Command::new(program())
            .args(["check", "--config", "gateway.yaml", "--online"])
            .current_dir(folder)
            .env_clear()
            .output()
            .unwrap()
    });
    run.await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn a_check_asks_each_catalog() {
    let setup = Setup::two().mount("[south]", "south");
    let setup = setup.backend("south", "managed_versioning: set");
    let world = setup.mount("[void]", "void").start().await.seeded();
    *world.catalog("void").store() = Store::default();
    let south = world.catalog("south");
    south.can("describe_table", 200, "application/json", b"{}");
    let good = check(&world).await;
    assert!(good.status.success(), "{good:?}");
    let lines = "east: works: it says managed_versioning
south: works: the gateway says managed_versioning for it; the catalog must be able to create versions
void: answers, but has no table to look at
west: works: it says managed_versioning
https://issuer.test: works: its keys can be had
ok
";
    assert_eq!(text(&good.stdout), lines);
    let asked = &world.catalog("west").seen_of("describe_table")[0];
    assert_eq!(
        asked.header("authorization"),
        Some("Bearer service-of-west")
    );

    let west = world.catalog("west");
    west.can("describe_table", 200, "application/json", b"{}");
    world.catalog("east").stop().await;
    let bad = check(&world).await;
    assert_eq!(bad.status.code(), Some(1), "{bad:?}");
    let said = text(&bad.stderr);
    assert!(said.contains("east: does not answer: "), "{said}");
    assert!(
        said.contains("west: does not say managed_versioning, "),
        "{said}"
    );
    assert!(said.contains("set `managed_versioning: set` if"), "{said}");
}

/// Waits until the admin page shows this of a backend.
pub async fn shown(world: &World, name: &str, expected: &Value) {
    let waits = async {
        loop {
            let page = world.admin().get("/backends").await.ok().json();
            let backends = page["backends"].as_array().unwrap();
            let backend = backends.iter().find(|backend| backend["name"] == name);
            if &backend.unwrap()["managed_versioning"] == expected {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let seen = tokio::time::timeout(PATIENCE, waits).await;
    assert!(seen.is_ok(), "{name} is never shown as {expected}");
}

#[tokio::test]
async fn health_checks_find_out_whether_versions_are_managed() {
    let health = "health: { interval: 20ms }";
    let setup = Setup::two().backend("west", health).backend("east", health);
    let setup = setup.mount("[south]", "south");
    let setup = setup.backend("south", "managed_versioning: set");
    let world = setup.start().await;
    let south = world.admin().get("/backends").await.ok().json()["backends"][1].clone();
    assert_eq!(south["managed_versioning"], "not seen yet");
    assert_eq!(south["managed_versioning_setting"], "set");
    let (west, east) = (world.catalog("west"), world.catalog("east"));
    east.can("describe_table", 200, "application/json", b"{}");
    for name in ["west", "east"] {
        world.catalog(name).store().seed(&[name, "t1"], 1);
    }
    shown(&world, "west", &json!("yes")).await;
    shown(&world, "east", &json!("no")).await;
    let asked = west.seen_of("describe_table").len();
    assert_eq!(asked, 1, "a catalog that has said yes is not asked again");
}

#[tokio::test]
async fn a_catalog_that_needs_no_credentials_is_asked_without_any() {
    let health = "health: { interval: 20ms }";
    let setup = Setup::two().backend("west", health).backend("east", health);
    let world = setup.start().await.seeded();
    let yaml = world.configuration();
    let yaml = yaml.replace(
        "service_authorization: Bearer service-of-west",
        "authorization: none",
    );
    let yaml = yaml.replace("    service_authorization: Bearer service-of-east\n", "");
    world.reload(&yaml).await.ok();
    for name in ["west", "east"] {
        world.catalog(name).forget();
    }
    let good = check(&world).await;
    assert!(good.status.success(), "{good:?}");
    let lines = "east: works: it says managed_versioning
west: works: it says managed_versioning
https://issuer.test: works: its keys can be had
ok
";
    assert_eq!(text(&good.stdout), lines);
    // The gateway itself may ask with the credentials of before a moment longer.
    let asked = world.catalog("east").seen_of("describe_table");
    let bare = |asked: &Seen| asked.header("authorization").is_none();
    assert!(asked.iter().any(bare), "{asked:?}");
    shown(&world, "west", &json!("yes")).await;

    let refusal = br#"{"error":"who are you?","code":16}"#;
    for operation in ["list_all_tables", "list_namespaces"] {
        let east = world.catalog("east");
        east.can(operation, 401, "application/json", refusal);
    }
    let bad = check(&world).await;
    assert_eq!(bad.status.code(), Some(1), "{bad:?}");
    let said = text(&bad.stderr);
    for words in [
        "east: answers 401 Unauthorized to a request for a list of its namespaces",
        "the gateway has no credentials of its own for it; set `service_authorization` or `oauth`",
        "`authorization: none`",
        "west: works",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}
