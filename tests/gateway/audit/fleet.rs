//! Gateways that share a batch log: the one that does the change writes it, with the client that sent it.

use serde_json::json;

use super::matching;
use crate::batches::{BATCH, pair, until};
use crate::harness::{Setup, World};
use crate::postgres::{PASSWORD, Postgres};
use crate::token;

/// Starts two gateways with audit logs of their own, `audit.log` and `other.log`; the first owns the batch log.
async fn two(server: &Postgres, required: bool) -> World {
    let address = server.socket();
    let prepared = std::process::Command::new(crate::running_gateway::program())
        .args(["log", "prepare", &address])
        .output();
    assert!(prepared.unwrap().status.success());
    let section = format!(
        "batch: {{ log: \"{address}\", log_password: {PASSWORD}, lease: 1s, gateways: {{ address: 127.0.0.1:0 }} }}\n\
         telemetry: {{ audit: audit.log, audit_required: {required} }}"
    );
    let mut world = Setup::two().section(&section).start().await.seeded();
    let other = world.configuration().replace("audit.log", "other.log");
    world.join_with(&other).await;
    world
}

#[tokio::test]
async fn a_batch_that_is_passed_on_is_written_once_by_the_owner_with_its_client() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = two(&server, true).await;
    let client = world.client_at(0).header("x-request-id", "passed");
    client.post(BATCH, &pair(&world, 2)).await.ok();
    let found = matching(&world, "request", "passed", 2).await;
    let events: Vec<_> = found.iter().map(|line| line["event"].clone()).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        events.contains(&json!("change")) && events.contains(&json!("batch")),
        "{found:?}"
    );
    for line in &found {
        assert_eq!(
            (&line["subject"], &line["issuer"]),
            (&json!("tester"), &json!(token::ISSUER))
        );
        assert!(line["client"].as_str().unwrap().starts_with("127.0.0.1:"));
    }
    let other = std::fs::read_to_string(world.folder().join("other.log")).unwrap();
    assert!(!other.contains("\"passed\""), "{other}");
}

/// It was passed on to a gateway that is gone.
#[tokio::test]
async fn a_batch_that_a_gateway_does_itself_after_a_takeover_is_written_with_its_client() {
    let Some(server) = Postgres::start() else {
        return;
    };
    for required in [false, true] {
        let mut world = two(&server, required).await;
        world.kill();
        let client = world.client_at(0).header("x-request-id", "itself");
        client.post(BATCH, &pair(&world, 2)).await.ok();
        let is_written = || {
            let lines = std::fs::read_to_string(world.folder().join("other.log")).unwrap();
            let mut changes = lines
                .lines()
                .filter(|line| line.contains("\"event\":\"change\""));
            changes.any(|line| line.contains("\"itself\"") && line.contains("\"tester\""))
        };
        until("the change is in the audit log", is_written).await;
        drop(world);
        server.sql("DROP SCHEMA nsgate CASCADE");
    }
}
