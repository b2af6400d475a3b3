//! A gateway that is told to stop finishes the requests that it accepted, and accepts no others.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::audit;
use crate::batches::{self, pair, start, stored, until};
use crate::catalog::faults::{Fault, Gate, PATIENCE};
use crate::client::Reply;
use crate::harness::{Setup, World};
use crate::load::Connection;

const COUNT: &str = "/v1/table/west%24t1/count_rows";

/// Sends a request in a task of its own; its result is an error if the connection breaks.
fn count(world: &World) -> JoinHandle<Result<Reply, String>> {
    let client = world.client().header("content-type", "application/json");
    let body = crate::client::full("{}");
    tokio::spawn(async move { client.send(http::Method::POST, COUNT, body).await })
}

/// Waits until no connections are accepted any more.
async fn closed(world: &World) {
    let refused = async {
        while TcpStream::connect(world.address()).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, refused)
        .await
        .expect("the listener closes");
}

#[tokio::test]
async fn accepted_requests_finish_and_new_connections_are_refused() {
    let mut world = World::two().await;
    let gate = world.catalog("west").hold("count_table_rows");
    let clients = [world.client(), crate::client::Client::h2(world.address())];
    let bearer = format!("Bearer {}", crate::token::token(&json!({})));
    let asked = clients.map(|client| {
        let client = client
            .without("authorization")
            .header("authorization", &bearer);
        tokio::spawn(async move { client.post(COUNT, &json!({})).await })
    });
    gate.reached(1).await;
    world.catalog("west").called("count_table_rows", 2).await;
    world.terminate();
    closed(&world).await;
    gate.open();
    for reply in asked {
        assert_eq!(reply.await.unwrap().ok().body, "1");
    }
    assert_eq!(world.ended().await, Some(0));
}

#[tokio::test]
async fn an_idle_gateway_stops_though_connections_are_kept() {
    let mut world = World::two().await;
    let client = world.client();
    client.post(COUNT, &json!({})).await.ok();
    world.terminate();
    assert_eq!(world.ended().await, Some(0));
}

/// The client already has its answer. If the delete were cut off, it might arrive later, and its number would have to
/// rest for minutes.
#[tokio::test]
async fn an_undo_that_is_under_way_is_finished() {
    let mut world = batches::world("").await;
    let refused = Fault::Instead(400, r#"{"error":"no","code":13}"#);
    world.catalog("east").fail("create_table_version", refused);
    let undo = world.catalog("west").hold("batch_delete_table_versions");
    let reply = world.client().post(batches::BATCH, &pair(&world, 2)).await;
    assert_eq!(reply.outcome(), (400, Some(13)), "{reply:?}");
    undo.reached(1).await;
    world.terminate();
    closed(&world).await;
    undo.open();
    assert_eq!(world.ended().await, Some(0));
    assert_eq!(stored(&world, "west"), [1]);
    world.restart().await;
    world
        .client()
        .post(batches::BATCH, &pair(&world, 2))
        .await
        .ok();
}

#[tokio::test]
async fn draining_has_an_end() {
    let setup = Setup::two().listen("drain_timeout: 100ms");
    let mut world = setup.start().await.seeded();
    let gate = world.catalog("west").hold("count_table_rows");
    let asked = count(&world);
    gate.reached(1).await;
    world.terminate();
    world.ended().await;
    assert!(asked.await.unwrap().is_err());
}

#[tokio::test]
async fn a_second_signal_ends_the_drain() {
    let mut world = Setup::two().start().await.seeded();
    let gate = world.catalog("west").hold("count_table_rows");
    let asked = count(&world);
    gate.reached(1).await;
    world.terminate();
    until("the gateway drains", || {
        world.log().contains("shutting down")
    })
    .await;
    assert!(!asked.is_finished());
    world.terminate();
    world.ended().await;
    assert!(asked.await.unwrap().is_err());
    let log = world.log();
    assert!(
        log.contains("stopped at once, because of a second signal"),
        "{log}"
    );
}

/// The number of clients that leave while a catalog works on their changes.
const LEAVING: usize = 20;

/// Sends changes that their catalog carries out, and returns once their clients have left. The answers wait at the gate.
async fn leave(world: &World) -> Gate {
    let gate = Gate::new();
    let held = Fault::HoldAfter(gate.clone());
    let west = world.catalog("west");
    west.fail_always("insert_into_table", held);
    let insert = "/v1/table/west%24t1/insert";
    let clients = (0..LEAVING).map(|number| {
        let id = format!("left-{number}");
        let client = world.client().header("x-request-id", &id);
        let rows = crate::client::full("rows");
        tokio::spawn(async move { client.post_rows(insert, rows).await })
    });
    let clients: Vec<_> = clients.collect();
    gate.reached(LEAVING).await;
    for client in clients {
        client.abort();
        let _ = client.await;
    }
    let left = async {
        while world.metric("nsgate_connections").await > 0.0 {
            tokio::task::yield_now().await;
        }
    };
    let left = tokio::time::timeout(PATIENCE, left).await;
    left.expect("the gateway sees its clients leave");
    gate
}

/// Returns the values at `key` in the audit log's lines of the clients that left; each has one line there, and one in
/// the access log.
async fn lines_of_those_that_left(world: &World, key: &str) -> Vec<Value> {
    let ids = |lines: &[Value], key: &str| {
        let ids = lines.iter().filter_map(|line| line[key].as_str());
        let mut ids: Vec<String> = ids
            .filter(|id| id.starts_with("left-"))
            .map(str::to_owned)
            .collect();
        ids.sort();
        ids
    };
    let mut all: Vec<String> = (0..LEAVING)
        .map(|number| format!("left-{number}"))
        .collect();
    all.sort();
    let audited = audit::lines(world);
    assert_eq!(ids(&audited, "request"), all);
    until("the log is read to its end", || {
        let log = world.log();
        let lines: Vec<Value> = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        ids(&lines, "id") == all
    })
    .await;
    let left = audited
        .iter()
        .filter(|line| line["outcome"] == "unanswered");
    left.map(|line| line[key].clone()).collect()
}

#[tokio::test]
async fn a_stop_waits_for_changes_whose_clients_have_left_and_for_their_lines() {
    for more in ["", "audit_required: true"] {
        let mut world = audit::world(more).await;
        let gate = leave(&world).await;
        world.terminate();
        closed(&world).await;
        // A gateway that did not wait would be gone after a few of these.
        for _ in 0..200 {
            assert_eq!(world.admin().get("/ready").await.status, 503);
        }
        gate.open();
        assert_eq!(world.ended().await, Some(0));
        let answers = lines_of_those_that_left(&world, "catalog_status").await;
        assert_eq!(answers, vec![json!(200); LEAVING], "{more}");
    }
}

#[tokio::test]
async fn changes_that_are_cut_off_by_the_end_of_the_drain_have_their_lines() {
    for more in ["", "audit_required: true"] {
        let setup = audit::setup(more).listen("drain_timeout: 100ms");
        let mut world = setup.start().await.seeded();
        let gate = leave(&world).await;
        world.terminate();
        assert_eq!(world.ended().await, Some(0));
        let answers = lines_of_those_that_left(&world, "catalog_status").await;
        assert_eq!(answers, vec![Value::Null; LEAVING], "{more}");
        let told = "stopped before catalogs answered changes whose clients had left";
        assert!(world.log().contains(told), "{}", world.log());
        gate.open();
    }
}

/// The number of times that the gateway is stopped under load; `NSGATE_DRAIN_ROUNDS` sets another one.
fn rounds() -> usize {
    let asked = std::env::var("NSGATE_DRAIN_ROUNDS");
    asked.map_or(3, |rounds| rounds.parse().unwrap())
}

#[tokio::test]
async fn a_stop_under_load_fails_no_request_and_every_connection_is_told() {
    let (mut served, mut connections) = (0, 0);
    for _ in 0..rounds() {
        let mut world = World::two().await;
        let never = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for n in 0..12 {
            let table = ["west%24t1", "east%24t1"][n % 2];
            let connection = Connection::open(&world, n % 3 == 0, table).await;
            clients.push(connection.go_on(&never));
        }
        world.catalog("west").called("count_table_rows", 100).await;
        world.catalog("east").called("count_table_rows", 100).await;
        assert!(!clients.iter().any(tokio::task::JoinHandle::is_finished));
        world.terminate();
        for client in clients {
            let asked = client.await.unwrap();
            assert!(asked.failed.is_none() && asked.told, "{asked:?}");
            served += asked.served;
            connections += 1;
        }
        assert_eq!(world.ended().await, Some(0));
    }
    println!(
        "{} stops: {served} requests on {connections} connections, none failed, every connection told",
        rounds()
    );
}

#[tokio::test]
async fn a_connection_that_is_quiet_during_the_stop_may_ask_once_more() {
    let world = World::two().await;
    let mut quiet = Connection::open(&world, false, "west%24t1").await;
    assert_eq!(quiet.ask().await.unwrap().header("connection"), None);
    world.terminate();
    closed(&world).await;
    let reply = quiet.ask().await.unwrap();
    assert_eq!(
        (reply.status, reply.header("connection")),
        (200, Some("close"))
    );
}

#[tokio::test]
async fn a_batch_that_runs_when_the_gateway_is_stopped_is_finished_or_recovered() {
    for (drain_timeout, in_time) in [("20s", true), ("200ms", false)] {
        let setup = Setup::two().listen(&format!("drain_timeout: {drain_timeout}"));
        let mut world = setup.start().await.seeded();
        let gate = world.catalog("west").hold("create_table_version");
        let batch = start(world.client(), pair(&world, 2));
        gate.reached(1).await;
        until("east is prepared", || stored(&world, "east") == [1, 2]).await;
        world.terminate();
        closed(&world).await;
        if in_time {
            assert_eq!(world.admin().get("/ready").await.status, 503);
            gate.open();
            batch.await.unwrap().ok();
            assert_eq!(world.ended().await, Some(0));
            world.restart().await;
            batches::assert_both(&world, &[1, 2], drain_timeout).await;
        } else {
            assert_eq!(world.ended().await, Some(0));
            assert!(batch.await.is_err(), "no answer");
            gate.open();
            world.catalog("west").behave();
            world.restart().await;
            batches::settled(&world).await;
            let (west, east) = (
                batches::visible(&world, "west").await,
                batches::visible(&world, "east").await,
            );
            assert_eq!(west, east, "both or neither");
        }
    }
}
