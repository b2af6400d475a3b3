//! However a catalog fails, the caller learns its name and not its address; the log has the cause.

use http::Method;

use crate::batches::{BATCH, pair};
use crate::catalog::Catalog;
use crate::catalog::faults::{Fault, Gate};
use crate::client::{Reply, empty, full};
use crate::harness::{Setup, World};

/// Sends a request for each way in which the gateway asks a catalog.
async fn asked(world: &World) -> Vec<(String, Reply)> {
    let batch = pair(world, 2).to_string();
    let requests = [
        (
            "forwarded",
            Method::POST,
            "/v1/table/west%24t1/exists",
            "{}".to_owned(),
        ),
        (
            "changed",
            Method::POST,
            "/v1/table/west%24t1/restore",
            "{}".to_owned(),
        ),
        (
            "versions",
            Method::POST,
            "/v1/table/west%24t1/version/list",
            String::new(),
        ),
        ("listed", Method::GET, "/v1/table", String::new()),
        ("batch", Method::POST, BATCH, batch),
    ];
    let mut replies = Vec::new();
    for (id, method, target, body) in requests {
        let client = world.client().header("x-request-id", id);
        let client = client.header("content-type", "application/json");
        let body = if body.is_empty() { empty() } else { full(body) };
        // An answer that breaks off in the middle of what is passed on is no answer.
        if let Ok(reply) = client.send(method, target, body).await {
            replies.push((id.to_owned(), reply));
        }
    }
    replies
}

const ASKED: [&str; 4] = [
    "table_exists",
    "restore_table",
    "list_table_versions",
    "list_all_tables",
];

fn fail(catalog: &Catalog, fault: &Fault) {
    for operation in ASKED {
        catalog.fail_always(operation, fault.clone());
    }
}

#[tokio::test]
async fn no_answer_tells_where_a_catalog_is() {
    let limits = "limits: { response_timeout: 300ms }";
    let gate = Gate::new();
    for kind in ["not sent", "lost", "half", "timed out", "too large"] {
        let world = Setup::two().section(limits).start().await.seeded();
        let west = world.catalog("west");
        match kind {
            "not sent" => west.stop().await,
            "lost" => fail(west, &Fault::ResetBefore),
            "half" => fail(west, &Fault::HalfAnswer),
            "timed out" => fail(west, &Fault::HoldBefore(gate.clone())),
            _ => {
                let vast = vec![b' '; 65 << 20];
                west.can("list_table_versions", 200, "application/json", &vast);
            }
        }
        let port = west.address.port().to_string();
        let mut failed = 0;
        for (id, reply) in asked(&world).await {
            let case = format!("{kind}, {id}: {reply:?}");
            for inside in ["127.0.0.1", &port] {
                let body = String::from_utf8_lossy(&reply.body);
                assert!(!body.contains(inside), "{case}");
                assert!(!format!("{:?}", reply.headers).contains(inside), "{case}");
            }
            if reply.status == 200 {
                continue;
            }
            failed += 1;
            assert_eq!(reply.outcome(), (503, Some(17)), "{case}");
            let shape = reply.json();
            assert!(shape["error"].as_str().unwrap().contains("west"), "{case}");
            assert!(shape["detail"].is_string(), "{case}");
            assert!(
                shape["instance"].as_str().unwrap().starts_with("/v1/table"),
                "{case}"
            );
            crate::batches::until("the log has the cause", || {
                let log = world.log();
                let of = format!("\"id\":\"{id}\"");
                let mut lines = log.lines().filter(|line| line.contains(&of));
                lines.any(|line| line.contains("\"WARN\"") && line.contains("\"cause\":\""))
            })
            .await;
        }
        // A list of versions streams, however long it is.
        let least = if kind == "too large" { 1 } else { 2 };
        assert!(failed >= least, "{kind}: {failed} of them failed");
    }
    gate.open();
}
