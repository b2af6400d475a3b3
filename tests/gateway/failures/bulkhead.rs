//! A catalog that hangs delays only the requests to it.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde_json::json;

use crate::catalog::faults::{Fault, Gate};
use crate::client::{Client, Reply};
use crate::harness::Setup;

/// The interval at which the test checks whether all requests are accounted for.
const SOON: Duration = Duration::from_millis(20);
/// The number of requests that are sent at once.
const SENT: usize = 100;

/// Sends requests that hang in `operation` at west, and checks that east is served.
async fn leaves_places(operation: &'static str, ask: impl AsyncFn(&Client) -> Reply) {
    let setup = Setup::two().section("limits: { in_flight: 64 }");
    let world = setup.start().await.seeded();
    let gate = Gate::new();
    let west = world.catalog("west");
    west.fail_always(operation, Fault::HoldBefore(gate.clone()));
    let client = world.client();
    let mut asked: FuturesUnordered<_> = (0..SENT).map(|_| ask(&client)).collect();
    // Requests that do not get a place are refused at once. The number varies a little, since requests that
    // arrive at the same moment see the same count.
    let mut refused = 0;
    while refused + west.seen_of(operation).len() < SENT {
        let Ok(reply) = tokio::time::timeout(SOON, asked.next()).await else {
            continue;
        };
        let reply = reply.unwrap();
        assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
        assert!(reply.header("retry-after").is_some());
        refused += 1;
    }
    assert!((56..=68).contains(&refused), "{refused}");
    let target = "/v1/table/east%24t1/exists";
    for _ in 0..50 {
        client.post(target, &json!({})).await.ok();
    }
    gate.open();
    while let Some(reply) = asked.next().await {
        reply.ok();
    }
}

#[tokio::test]
async fn a_catalog_that_hangs_leaves_places_to_the_others() {
    let target = "/v1/table/west%24t1/exists";
    leaves_places("table_exists", async |client| {
        client.post(target, &json!({})).await
    })
    .await;
}

#[tokio::test]
async fn a_catalog_that_hangs_in_listings_of_all_does_so_too() {
    leaves_places("list_all_tables", async |client| {
        client.get("/v1/table").await
    })
    .await;
}
