//! A catalog that gets another address while a batch is on one of its tables, as `deploy/gateways.md` says: the owner of
//! the log is reloaded, and the others start with the new address.

use http::Method;

use super::*;
use crate::batches::leave_hazard;
use crate::cable::Cable;
use crate::catalog::faults::Fault;

const REFUSED: Fault = Fault::Instead(400, r#"{"error":"no","code":13}"#);

/// Gives the catalog `west` another address: in the owner by a reload, in a gateway that starts with it. Returns a client
/// of that one.
async fn moved(world: &mut World) -> Client {
    let yaml = reloaded(world).await;
    joined_with(world, &yaml).await
}

/// Gives the catalog `west` another address in the first gateway. Returns its new configuration.
async fn reloaded(world: &World) -> String {
    let before = world.catalog("west").uri();
    let port = before.rsplit(':').next().unwrap().parse().unwrap();
    let after = format!("http://127.0.0.1:{}", Cable::to(port).await.port);
    let yaml = world.configuration().replace(&before, &after);
    world.reload(&yaml).await.ok();
    yaml
}

/// Starts a gateway with a configuration of its own, and returns a client of it once it serves.
async fn joined_with(world: &mut World, yaml: &str) -> Client {
    world.join_with(yaml).await;
    let other = world.client_at(0);
    until_it_serves(&other).await;
    other
}

/// Checks for two leases what a gateway shows of `west`. It passes requests on until it knows which tables batches are on,
/// and then asks the catalog itself.
async fn assert_stays(client: &Client, versions: &[u64]) {
    for _ in 0..20 {
        assert_eq!(visible_at(client, "west").await, versions);
        tokio::time::sleep(LEASE / 10).await;
    }
}

#[tokio::test]
async fn a_gateway_that_knows_only_the_new_address_shows_nothing_of_a_batch() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut world = world(&server, 0).await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    until("the first is prepared", || stored(&world, "west") == [1, 2]).await;
    let other = moved(&mut world).await;
    assert_eq!(visible_at(&other, "west").await, [1]);
    gate.open();
    batch.await.unwrap().ok();
    assert_everywhere(&world, 1, &[1, 2], "once it is committed").await;
}

/// The gateway that takes the log over learns the new address after it has read which tables are to be guarded.
#[tokio::test]
async fn nor_of_what_a_batch_has_left_when_the_address_changes_during_a_takeover() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut world = world(&server, 0).await;
    leave_hazard(&world).await;
    let shown = visible_at(&world.client(), "west").await;
    assert!(!shown.contains(&2), "{shown:?}");
    world.kill();
    let guards = server.lock("nsgate.guard");
    world.restart().await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    until("the takeover waits", || server.sql(waiting) != "0").await;
    let yaml = reloaded(&world).await;
    drop(guards);
    until_it_serves(&world.client()).await;
    let other = joined_with(&mut world, &yaml).await;
    assert_stays(&other, &shown).await;
}

#[tokio::test]
async fn nor_of_a_batch_that_waited_for_its_tables_when_the_address_changed() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut world = world(&server, 0).await;
    let gate = world.catalog("east").hold("create_table_version");
    let change = world.catalog("west").hold("insert_into_table");
    world.catalog("west").fail("insert_into_table", REFUSED);
    let client = world.client();
    let insert = "/v1/table/west%24t1/insert";
    let changing = tokio::spawn(async move {
        client
            .send(Method::POST, insert, crate::client::full("rows"))
            .await
    });
    change.reached(1).await;
    let batch = start(world.client(), pair(&world, 2));
    tokio::time::sleep(Duration::from_millis(200)).await;
    let other = moved(&mut world).await;
    assert_eq!(stored(&world, "west"), [1], "it waits");
    change.open();
    changing.await.unwrap().unwrap();
    gate.reached(1).await;
    until("the first is prepared", || stored(&world, "west") == [1, 2]).await;
    assert_stays(&other, &[1]).await;
    gate.open();
    batch.await.unwrap().ok();
    assert_everywhere(&world, 1, &[1, 2], "once it is committed").await;
}
