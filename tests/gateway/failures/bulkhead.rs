//! A catalog that hangs delays only the requests to it.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde_json::json;

use crate::catalog::faults::{Fault, Gate};
use crate::harness::Setup;

/// The interval at which the test checks whether all requests are accounted for.
const SOON: Duration = Duration::from_millis(20);
const EXISTS: &str = "/v1/table/west%24t1/exists";

#[tokio::test]
async fn a_catalog_that_hangs_leaves_places_to_the_others() {
    let setup = Setup::two().section("limits: { in_flight: 64 }");
    let world = setup.start().await.seeded();
    let gate = Gate::new();
    let west = world.catalog("west");
    west.fail_always("table_exists", Fault::HoldBefore(gate.clone()));
    let client = world.client();
    let ask = async |target: &str| client.post(target, &json!({})).await;
    let mut asked: FuturesUnordered<_> = (0..100).map(|_| ask(EXISTS)).collect();
    // Requests that do not get a place are refused at once. The number varies a little, since requests that
    // arrive at the same moment see the same count.
    let mut refused = 0;
    while refused + west.seen_of("table_exists").len() < 100 {
        let Ok(reply) = tokio::time::timeout(SOON, asked.next()).await else {
            continue;
        };
        let reply = reply.unwrap();
        assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
        assert!(reply.header("retry-after").is_some());
        refused += 1;
    }
    assert!((56..=68).contains(&refused), "{refused}");
    for _ in 0..50 {
        ask("/v1/table/east%24t1/exists").await.ok();
    }
    gate.open();
    while let Some(reply) = asked.next().await {
        reply.ok();
    }
}
