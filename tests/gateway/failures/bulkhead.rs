//! A catalog that hangs holds up those who ask it, and nobody else.

use serde_json::json;

use crate::catalog::faults::{Fault, Gate};
use crate::world::Setup;

#[tokio::test]
async fn a_catalog_that_hangs_leaves_the_others_alone() {
    let setup = Setup::two().section("limits: { in_flight: 64 }");
    let world = setup.start().await.seeded();
    let gate = Gate::new();
    let west = world.catalog("west");
    west.fail_always("table_exists", Fault::HoldBefore(gate.clone()));
    let client = world.client();
    let hung = tokio::spawn({
        let client = client.clone();
        async move {
            let ask = async || client.post("/v1/table/west%24t1/exists", &json!({})).await;
            futures_util::future::join_all((0..40).map(|_| ask())).await
        }
    });
    gate.reached(40).await;
    for _ in 0..50 {
        client
            .post("/v1/table/east%24t1/exists", &json!({}))
            .await
            .ok();
    }
    gate.open();
    for reply in hung.await.unwrap() {
        reply.ok();
    }
}
