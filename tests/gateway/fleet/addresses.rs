//! A catalog that gets another address while a batch is on one of its tables, as `deploy/gateways.md` says: the owner of
//! the log is reloaded, and the others start with the new address.

use super::*;
use crate::cable::Cable;

#[tokio::test]
async fn a_gateway_that_knows_only_the_new_address_shows_nothing_of_a_batch() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut world = world(&server, 0).await;
    let (before, gate) = (world.catalog("west").uri(), world.catalog("east"));
    let gate = gate.hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    until("the first is prepared", || stored(&world, "west") == [1, 2]).await;
    let port = before.rsplit(':').next().unwrap().parse().unwrap();
    let after = format!("http://127.0.0.1:{}", Cable::to(port).await.port);
    let yaml = world.configuration().replace(&before, &after);
    world.reload(&yaml).await.ok();
    world.join_with(&yaml).await;
    let other = world.client_at(0);
    until_it_serves(&other).await;
    assert_eq!(visible_at(&other, "west").await, [1]);
    gate.open();
    batch.await.unwrap().ok();
    assert_everywhere(&world, 1, &[1, 2], "once it is committed").await;
}
