//! Batches whose log is in PostgreSQL: kills of the gateway, a second gateway, a server that is away.

use std::time::Duration;

use serde_json::json;

use super::{BATCH, assert_both, pair, settled, start, stored, until, visible};
use crate::catalog::faults::{BROKEN, Fault, PATIENCE};
use crate::client::{Client, empty};
use crate::harness::{Setup, World};
use crate::postgres::Postgres;

/// Starts two catalogs and a gateway whose log is in a new schema.
async fn world(server: &Postgres) -> World {
    world_with(server, "").await
}

/// Does the same, with further keys of `batch`.
async fn world_with(server: &Postgres, settings: &str) -> World {
    let address = server.socket();
    let prepared = std::process::Command::new(env!("CARGO_BIN_EXE_nsgate"))
        .args(["log", "prepare", &address])
        .output();
    let prepared = prepared.unwrap();
    assert!(prepared.status.success(), "{prepared:?}");
    let section = format!("batch: {{ log: \"{address}\", lease: 1s, {settings} }}");
    Setup::two().section(&section).start().await.seeded()
}

#[tokio::test]
async fn a_gateway_that_is_killed_between_intent_and_decision() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut world = world(&server).await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    until("the first is prepared", || stored(&world, "west") == [1, 2]).await;
    let undecided = "SELECT count(*) FROM nsgate.batch WHERE verdict IS NULL";
    assert_eq!(server.sql(undecided), "1");
    world.kill();
    gate.open();
    for name in ["west", "east"] {
        world.catalog(name).behave();
    }
    world.restart().await;
    settled(&world).await;
    let west = visible(&world, "west").await;
    let versions: &[u64] = if west == [1, 2] { &[1, 2] } else { &[1] };
    assert_both(&world, versions, "after the restart").await;
    assert_eq!(server.sql(undecided), "0");
    if versions == [1] {
        let sent = "SELECT count(*) FROM nsgate.entry WHERE sent = 2";
        assert_ne!(server.sql(sent), "0", "a delete left without its mark");
    }
    drop(batch);
    let again = world.client();
    let next = pair(&world, if west == [1, 2] { 3 } else { 2 });
    until_committed(&again, &next).await;
}

/// Writes the state of the only batch in the log as it is before its decision.
fn undecide(server: &Postgres) {
    server.sql("UPDATE nsgate.batch SET verdict = NULL, body = NULL, ended = NULL");
    server.sql("DELETE FROM nsgate.entry");
}

/// A lost answer looks so: the client was told that no batch can begin, and the INTENT is in the log.
#[tokio::test]
async fn removals_whose_intent_was_not_answered_are_not_carried_out_by_the_next_life() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut world = world(&server).await;
    let deregister = json!({"operations": [{"deregister_table": {"id": ["west", "t1"]}}]});
    let commit = "/v1/table/batch-commit";
    world.client().post(commit, &deregister).await.ok();
    let describe = "/v1/table/west%24t1/describe";
    let gone = world.client().post_nothing(describe).await;
    assert_ne!(gone.status, 200);
    world.kill();
    undecide(&server);
    world.catalog("west").store().seed(&["west", "t1"], 1);
    world.restart().await;
    settled(&world).await;
    assert_eq!(visible(&world, "west").await, [1]);
    let verdict = "SELECT verdict FROM nsgate.batch";
    assert_eq!(server.sql(verdict), "a");
}

#[tokio::test]
async fn a_recorded_decision_is_carried_out_by_the_next_life() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut world = world(&server).await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    world.kill();
    gate.open();
    // Both are made, so the batch would be committed.
    for name in ["west", "east"] {
        until("it is made", || stored(&world, name) == [1, 2]).await;
    }
    server.sql(
        "INSERT INTO nsgate.resolution SELECT id, 0, convert_to(
            '{\"Resolve\":{\"commit\":false,\"who\":\"ada\",\"why\":\"\",\"at\":1}}', 'UTF8') FROM nsgate.batch",
    );
    world.restart().await;
    settled(&world).await;
    assert_both(&world, &[1], "after the restart").await;
    assert_eq!(server.sql("SELECT verdict FROM nsgate.batch"), "a");
    drop(batch);
}

/// Sends a batch until the number of the version has rested.
async fn until_committed(client: &crate::client::Client, batch: &serde_json::Value) {
    for _ in 0..200 {
        let reply = client.post(BATCH, batch).await;
        if reply.status == 200 {
            return;
        }
        assert_eq!(reply.status, 503, "{:?}", reply.body);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the batch never begins");
}

#[tokio::test]
async fn a_second_gateway_waits_and_refuses_and_a_fenced_one_ends() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut world = world(&server).await;
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_nsgate"))
        .args(["serve", "--config"])
        .arg(world.folder().join("gateway.yaml"))
        .output();
    let second = second.unwrap();
    assert_eq!(second.status.code(), Some(3));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        said.contains("uses it, and its heartbeat goes on"),
        "{said}"
    );
    assert_both(&world, &[1, 2], "beside a second gateway").await;
    // As the one that takes over does.
    server
        .sql("UPDATE nsgate.log SET owner = NULL, fence = fence + 1; DELETE FROM nsgate.instance");
    assert_eq!(world.ended().await, Some(3));
    assert!(
        world.log().contains("has taken the batch log"),
        "{}",
        world.log()
    );
}

#[tokio::test]
async fn a_server_that_is_away() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server).await;
    server.crash();
    // Nobody knows whether this one was carried out. It is looked up for longer than the lease.
    let repeats = world.client().header("idempotency-key", "k");
    let repeats = start(repeats, pair(&world, 2));
    let refused = world.client().post(BATCH, &pair(&world, 2)).await;
    assert_eq!(refused.status, 503);
    let said = repeats.await.unwrap().json().to_string();
    let words = "the batch log does not answer. If this batch was sent before, it may have been carried out";
    assert!(said.contains(words), "{said}");
    let said = refused.json();
    let said = said.to_string();
    assert!(said.contains("the batch log does not answer"), "{said}");
    let list = "/v1/table/west%24t1/version/list";
    let refuses = async {
        while world.client().post_nothing(list).await.status != 503 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let refused = tokio::time::timeout(PATIENCE, refuses).await;
    assert!(refused.is_ok(), "another gateway may have the log by now");
    let namespaces = world.client().get("/v1/namespace/%24/list").await;
    assert_eq!(namespaces.status, 200, "{:?}", namespaces.body);
    assert_eq!(stored(&world, "west"), [1]);
    server.up();
    until_committed(&world.client(), &pair(&world, 2)).await;
    assert_both(&world, &[1, 2], "with the log again").await;
    let log = world.log();
    assert!(
        log.contains("the batch log does not answer; no batch begins"),
        "{log}"
    );
    assert!(log.contains("the batch log answers again"), "{log}");
    let shown = world.admin().get("/config").await.ok().json();
    assert_eq!(shown["batch"]["schema"], json!("nsgate"));
}

/// The server answers whatever only reads, meanwhile.
#[tokio::test]
async fn a_synchronous_standby_that_is_away_is_named_until_something_is_written() {
    const NAMED: &str = "it waits for a synchronous standby that does not confirm";
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server).await;
    server.miss_standby();
    until("it is named", || world.log().contains(NAMED)).await;
    let list = "/v1/table/west%24t1/version/list";
    let refuses = async {
        while world.client().post_nothing(list).await.status != 503 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let refused = tokio::time::timeout(PATIENCE, refuses).await;
    assert!(refused.is_ok(), "another gateway may have the log by now");
    let refused = world.client().post(BATCH, &pair(&world, 2)).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    let status = world.admin().get("/status").await.ok().json();
    let mut findings = status["findings"].as_array().unwrap().iter();
    let named = findings.any(|it| it["detail"].as_str().is_some_and(|it| it.contains(NAMED)));
    assert!(named, "{status}");
    let log = world.log();
    assert!(!log.contains("answers again"), "{log}");
    assert_eq!(
        log.matches("`synchronous_standby_names`").count(),
        1,
        "{log}"
    );
    server.need_no_standby();
    until_committed(&world.client(), &pair(&world, 2)).await;
    until("it is over", || world.log().contains("answers again")).await;
}

/// A probe must not end a process that waits for its log.
#[tokio::test]
async fn probes_are_answered_before_the_log_can_be_written() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut world = world(&server).await;
    world.terminate();
    world.ended().await;
    server.miss_standby();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = socket.local_addr().unwrap();
    drop(socket);
    let yaml = world.configuration();
    let line = "admin: { address: 127.0.0.1:0 }";
    assert!(yaml.contains(line), "{yaml}");
    world.configure(&yaml.replace(line, &format!("admin: {{ address: {admin} }}")));
    let mut starting = std::process::Command::new(env!("CARGO_BIN_EXE_nsgate"));
    starting
        .args(["serve", "--config"])
        .arg(world.folder().join("gateway.yaml"))
        .current_dir(world.folder())
        .stderr(std::process::Stdio::piped());
    let starting = starting.spawn().unwrap();
    let probe = async |target: &str| {
        let client = Client::new(admin);
        let get = client.send(http::Method::GET, target, empty());
        let answer = tokio::time::timeout(Duration::from_secs(2), get).await;
        answer.ok().and_then(Result::ok).map(|reply| reply.status)
    };
    let lives = async {
        while probe("/live").await != Some(200) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let lives = tokio::time::timeout(PATIENCE, lives).await;
    let ready = probe("/ready").await;
    let output = starting.wait_with_output().unwrap();
    assert!(lives.is_ok(), "{output:?}");
    assert_eq!(ready, Some(503));
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let words = "cannot be used: PostgreSQL commits nothing, because it waits";
    assert!(said.contains(words), "{said}");
}

/// The look at a create that got no answer would be a request of the batch.
#[tokio::test]
async fn a_batch_whose_gateway_may_not_send_does_not_blame_its_catalogs() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world_with(&server, "prepare_timeout: 6s").await;
    let gate = world.catalog("east").hold("create_table_version");
    let fails = Fault::Instead(500, BROKEN);
    world.catalog("east").fail("create_table_version", fails);
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    server.crash();
    tokio::time::sleep(Duration::from_secs(2)).await;
    gate.open();
    tokio::time::sleep(Duration::from_secs(5)).await;
    server.up();
    let answer = batch.await.unwrap();
    assert_eq!(answer.outcome(), (503, Some(17)), "{answer:?}");
    let said = answer.json()["error"].to_string();
    assert!(said.contains("lost its contact to the batch log"), "{said}");
    until("it is undone", || stored(&world, "west") == [1]).await;
}

#[tokio::test]
async fn tables_are_served_without_the_log_where_it_is_configured() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world_with(&server, "without_log: serve").await;
    server.crash();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_both(&world, &[1], "without the log").await;
    assert_eq!(
        world.client().post(BATCH, &pair(&world, 2)).await.status,
        503
    );
    server.up();
    until_committed(&world.client(), &pair(&world, 2)).await;
    assert_both(&world, &[1, 2], "with the log again").await;
}
