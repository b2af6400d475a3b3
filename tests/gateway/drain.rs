//! A gateway that is asked to stop finishes what it accepted, and nothing else.

use serde_json::json;
use tokio::net::TcpStream;

use crate::catalog::faults::PATIENCE;
use crate::world::{Setup, World};

const COUNT: &str = "/v1/table/west%24t1/count_rows";

/// Waits until nobody accepts connections any more.
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
async fn an_idle_gateway_stops_at_once_though_connections_are_kept() {
    let mut world = World::two().await;
    let client = world.client();
    client.post(COUNT, &json!({})).await.ok();
    world.terminate();
    assert_eq!(world.ended().await, Some(0));
}

#[tokio::test]
async fn draining_has_an_end() {
    let setup = Setup::two().listen("drain_timeout: 100ms");
    let mut world = setup.start().await.seeded();
    let gate = world.catalog("west").hold("count_table_rows");
    let client = world.client().header("content-type", "application/json");
    let asked = tokio::spawn(async move {
        client
            .send(http::Method::POST, COUNT, crate::client::full("{}"))
            .await
    });
    gate.reached(1).await;
    world.terminate();
    world.ended().await;
    assert!(asked.await.unwrap().is_err());
}
