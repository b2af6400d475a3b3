//! Gateways that share one batch log: batches and plain requests at any of them, and the death of each.

mod addresses;
mod certificates;
mod entrance;
mod forgotten;
mod half_reached;
mod status;
mod strays;
mod succession;

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use crate::batches::streamed::{OpenList, shown};
use crate::batches::streamed_names;
use crate::batches::{BATCH, assert_both, pair, start, stored, until};
use crate::catalog::faults::PATIENCE;
use crate::client::Client;
use crate::harness::{Setup, World};
use crate::postgres::Postgres;

/// The lease of the gateways under test.
const LEASE: Duration = Duration::from_secs(1);

/// Starts two catalogs, and gateways that share a log in a new schema; the first owns it.
async fn world(server: &Postgres, others: usize) -> World {
    world_at(server, &server.socket(), others).await
}

/// Does the same; the gateways reach the server at `address`.
async fn world_at(server: &Postgres, address: &str, others: usize) -> World {
    world_with(server, address, LEASE, others).await
}

async fn world_with(server: &Postgres, address: &str, lease: Duration, others: usize) -> World {
    joined(setup(server, address, lease, ""), others).await
}

/// Installs the schema. Makes a setup of two catalogs, and of gateways that share a log; `settings` are further keys of
/// `batch`.
fn setup(server: &Postgres, address: &str, lease: Duration, settings: &str) -> Setup {
    setup_with(server, address, lease, settings, "address: 127.0.0.1:0")
}

/// Does the same; `gateways` are the keys of `batch.gateways`.
fn setup_with(
    server: &Postgres,
    address: &str,
    lease: Duration,
    settings: &str,
    gateways: &str,
) -> Setup {
    prepare(server);
    let section = format!(
        "batch: {{ log: \"{address}\", log_password: {}, lease: {}s, gateways: {{ {gateways} }}, {settings} }}",
        crate::postgres::PASSWORD,
        lease.as_secs()
    );
    Setup::two().section(&section)
}

/// Installs the schema.
fn prepare(server: &Postgres) {
    let prepared = std::process::Command::new(env!("CARGO_BIN_EXE_nsgate"))
        .args(["log", "prepare", &server.socket()])
        .output();
    let prepared = prepared.unwrap();
    assert!(prepared.status.success(), "{prepared:?}");
}

/// Starts the gateways of a setup; the first owns the log.
async fn joined(setup: Setup, others: usize) -> World {
    let mut world = setup.start().await.seeded();
    for _ in 0..others {
        world.join().await;
    }
    world
}

/// The versions of `t1` that a reader sees through a gateway.
async fn visible_at(client: &Client, name: &str) -> Vec<u64> {
    let target = format!("/v1/table/{name}%24t1/version/list");
    let listed = client.post_nothing(&target).await.ok().json();
    let versions = listed["versions"].as_array().unwrap().iter();
    versions
        .map(|version| version["version"].as_u64().unwrap())
        .collect()
}

/// Waits until a gateway that has joined again serves tables.
async fn until_it_serves(client: &Client) {
    let begun = Instant::now();
    let list = "/v1/table/west%24t1/version/list";
    while client.post_nothing(list).await.status != 200 {
        assert!(begun.elapsed() < PATIENCE, "it never serves again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Checks that both tables show `versions` at every gateway.
async fn assert_everywhere(world: &World, others: usize, versions: &[u64], case: &str) {
    let clients = (0..others).map(|other| world.client_at(other));
    for client in std::iter::once(world.client()).chain(clients) {
        for name in ["west", "east"] {
            assert_eq!(visible_at(&client, name).await, versions, "{case}: {name}");
        }
    }
}

#[tokio::test]
async fn a_batch_at_any_gateway_is_seen_at_all_of_them() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 2).await;
    for (version, client) in [
        (2, world.client()),
        (3, world.client_at(0)),
        (4, world.client_at(1)),
    ] {
        client.post(BATCH, &pair(&world, version)).await.ok();
        let versions: Vec<u64> = (1..=version).collect();
        assert_everywhere(&world, 2, &versions, "after a batch").await;
    }
    let refused = world.client_at(1).post(BATCH, &pair(&world, 4)).await;
    assert_eq!(refused.status, 409, "{:?}", refused.body);
}

#[tokio::test]
async fn what_is_prepared_is_seen_at_no_gateway_and_then_at_all() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 2).await;
    for version in 2..5 {
        let before: Vec<u64> = (1..version).collect();
        assert_everywhere(&world, 2, &before, "before").await;
        let gate = world.catalog("east").hold("create_table_version");
        let batch = start(world.client_at(0), pair(&world, version));
        gate.reached(1).await;
        until("the first is prepared", || {
            stored(&world, "west").len() as u64 == version
        })
        .await;
        assert_everywhere(&world, 2, &before, "while it is prepared").await;
        gate.open();
        batch.await.unwrap().ok();
        let after: Vec<u64> = (1..=version).collect();
        assert_everywhere(&world, 2, &after, "after it").await;
    }
}

/// A gateway that does not run the batch does not know what it hides.
#[tokio::test]
async fn a_list_that_streams_at_another_gateway_is_cut_by_a_batch_and_delays_it_by_nothing() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 1).await;
    let follower = world.client_at(0);
    let list = "/v1/table/west%24t1/version/list";
    let open = OpenList::of(&world, &follower, list, &[1, 1]).await;
    let asked = Instant::now();
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
    println!("the batch took {:?}", asked.elapsed());
    let cut = open.end(&[2]).await;
    assert!(cut.is_err(), "{:?}", cut.map(|list| list.len()));
    // While a batch is on the table, the gateway that runs it serves the list, and knows what to leave out.
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 3));
    gate.reached(1).await;
    let open = OpenList::of(&world, &follower, list, &[1, 2]).await;
    gate.open();
    batch.await.unwrap().ok();
    assert_eq!(shown(open.end(&[3]).await), [1, 2]);
    assert_everywhere(&world, 1, &[1, 2, 3], "after both").await;
}

/// Names that a batch makes are hidden from listings at the gateway that runs it; others do not know them.
#[tokio::test]
async fn a_listing_that_streams_at_another_gateway_is_cut_by_a_batch_with_names() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 1).await;
    let follower = world.client_at(0);
    let list = streamed_names::begun(&world, &follower).await;
    let operations = streamed_names::declares("new");
    streamed_names::commit(&world.client(), &operations)
        .await
        .ok();
    let cut = list.end_with(",\"new\"".to_owned()).await;
    assert!(cut.is_err(), "{:?}", cut.map(|list| list.len()));
}

#[tokio::test]
async fn operators_see_batches_and_gateways_at_any_of_them() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 1).await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    for admin in [world.admin(), world.admin_at(0)] {
        let listed = admin.get("/batches").await.ok().json();
        assert_eq!(listed["batches"].as_array().unwrap().len(), 1);
        let id = listed["batches"][0]["id"].as_str().unwrap().to_owned();
        let shown = admin.get(&format!("/batches/{id}")).await.ok().json();
        assert_eq!(shown["state"], "undecided");
    }
    let listed = world.admin_at(0).get("/batches").await.ok().json();
    let id = listed["batches"][0]["id"].as_str().unwrap().to_owned();
    let decision = json!({"decision": "abort", "who": "somebody", "why": "a test"});
    let path = format!("/batches/{id}/resolve");
    world.admin_at(0).post(&path, &decision).await.ok();
    gate.open();
    assert_eq!(batch.await.unwrap().status, 409);
    let listed = world.admin_at(0).get("/gateways").await.ok().json();
    let gateways = listed["gateways"].as_array().unwrap();
    assert_eq!(gateways.len(), 2);
    let owners = gateways.iter().filter(|one| one["is_owner"] == true);
    assert_eq!(owners.count(), 1);
}

#[tokio::test]
async fn gateways_that_find_tables_elsewhere_are_reported() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut world = world(&server, 1).await;
    let yaml = world.configuration();
    // The same catalog under another address.
    let other = yaml.replace("http://127.0.0.1:", "http://127.0.0.2:");
    assert_ne!(other, yaml);
    world.join_with(&other).await;
    until("the others say so", || {
        world.log().contains("has other mounts, or other addresses")
    })
    .await;
    let listed = world.admin().get("/gateways").await.ok().json();
    let gateways = listed["gateways"].as_array().unwrap();
    let differing = gateways.iter().filter(|one| one["routes_differ"] == true);
    assert_eq!(differing.count(), 1, "{listed}");
    // A reload that makes them alike ends it.
    std::fs::write(world.folder().join("other.yaml"), &yaml).unwrap();
    world.signal_at(1, "HUP");
    let metric = "nsgate_gateways_differing{log=\"postgres\"}";
    let begun = Instant::now();
    while world.metric(metric).await > 0.0 {
        assert!(begun.elapsed() < PATIENCE, "it is never forgotten");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn each_gateway_serves_plain_requests_by_itself() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 1).await;
    let passed_on = "nsgate_passed_on_total{log=\"postgres\",result=\"answered\"}";
    let count = async || {
        let page = world.admin_at(0).get("/metrics").await.ok();
        let page = String::from_utf8(page.body.to_vec()).unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix(passed_on));
        line.map_or(0, |count| count.trim().parse::<u64>().unwrap())
    };
    for _ in 0..20 {
        assert_eq!(visible_at(&world.client_at(0), "west").await, [1]);
    }
    assert_eq!(count().await, 0);
    world.client_at(0).post(BATCH, &pair(&world, 2)).await.ok();
    assert_eq!(visible_at(&world.client_at(0), "west").await, [1, 2]);
    assert!(count().await > 0, "the batch went to the owner");
    let listed = world.admin().get("/gateways").await.ok().json();
    let gateways = listed["gateways"].as_array().unwrap();
    let owner = gateways.iter().find(|one| one["is_owner"] == true).unwrap();
    let passed = format!("\"passed_on_to\":{}", owner["name"]);
    until("the access log names the owner", || {
        world.log_at(0).contains(&passed)
    })
    .await;
    until("the guard is released", || {
        server.sql("SELECT count(*) FROM nsgate.guard") == "0"
    })
    .await;
    let begun = Instant::now();
    loop {
        let before = count().await;
        assert_eq!(visible_at(&world.client_at(0), "west").await, [1, 2]);
        if count().await == before {
            break;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "it never serves the table again"
        );
    }
}

#[tokio::test]
async fn a_plain_write_of_a_gateway_that_lost_its_lease_meanwhile_is_not_said_to_be_done() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 1).await;
    let gate = world.catalog("west").hold("create_table_version");
    let client = world.client_at(0);
    let create = crate::batches::stage(&world, "west", 2);
    let write = "/v1/table/west%24t1/version/create";
    let write = tokio::spawn(async move { client.post(write, &create).await });
    gate.reached(1).await;
    world.signal_at(0, "STOP");
    tokio::time::sleep(LEASE * 2).await;
    gate.open();
    until("the catalog has it", || stored(&world, "west") == [1, 2]).await;
    world.signal_at(0, "CONT");
    let answer = write.await.unwrap();
    assert_eq!(answer.status, 503, "{:?}", answer.body);
    let said = answer.json().to_string();
    assert!(said.contains("look before you repeat it"), "{said}");
}

/// To ask the log for guards is no wait for a table.
#[tokio::test]
async fn a_catalog_that_hangs_takes_no_place_of_batches_that_wait_for_tables() {
    const BATCHES: u64 = 26;
    let Some(server) = Postgres::start() else {
        return;
    };
    let settings = "prepare_timeout: 8s";
    let world = joined(setup(&server, &server.socket(), LEASE, settings), 0).await;
    let west = world.catalog("west");
    let _gate = west.hold("create_table_version");
    let mut running = JoinSet::new();
    for number in 0..BATCHES {
        let table = format!("x{number}");
        west.store().seed(&["west", &table], 1);
        let create =
            |version: u64| json!({"id": ["west", table], "version": version, "manifest_path": "m"});
        let batch = json!({"entries": (2..1002).map(create).collect::<Vec<_>>()});
        let client = world.client();
        running.spawn(async move { client.post(BATCH, &batch).await });
        // One after the other: on a slow machine, many at once may wait for their guards.
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    for reply in running.join_all().await {
        assert_ne!(reply.status, 200, "nothing is staged");
        let words = "too many batches wait for locked tables";
        assert!(!reply.words().contains(words), "{reply:?}");
    }
}

#[tokio::test]
async fn reads_go_on_while_a_batch_waits_for_a_long_query_at_another_gateway() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 1).await;
    let gate = world.catalog("west").hold("query_table");
    let client = world.client_at(0);
    let query = tokio::spawn(async move {
        let query = "/v1/table/west%24t1/query";
        client.post(query, &json!({})).await
    });
    gate.reached(1).await;
    let batch = start(world.client(), pair(&world, 2));
    until("its tables are guarded", || {
        server.sql("SELECT count(*) FROM nsgate.guard") == "2"
    })
    .await;
    // This is longer than reads wait for a lock.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        for client in [world.client(), world.client_at(0)] {
            for name in ["west", "east"] {
                assert_eq!(visible_at(&client, name).await, [1]);
            }
        }
    }
    gate.open();
    query.await.unwrap().ok();
    batch.await.unwrap().ok();
    assert_everywhere(&world, 1, &[1, 2], "after it").await;
}
