//! Changes that a gateway leaves behind when it is gone: they may still land, and are never taken for a batch's.

use http::Method;

use super::*;
use crate::catalog::faults::{BROKEN, Fault};
use crate::client::full;

/// The most time that catalogs have for a batch, so that one which gets no answers ends soon.
const SETTINGS: &str = "prepare_timeout: 3s";
const TABLE: [&str; 2] = ["west", "t1"];
/// The content of the other writer's version: as long as that of the batch, and only its size is told.
const OTHERS: &str = "WEST 2";

/// The changes that a client may have under way at a gateway.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// Its version is known.
    Create,
    /// Its catalog chooses the version.
    Insert,
}

impl Change {
    fn operation(self) -> &'static str {
        match self {
            Self::Create => "create_table_version",
            Self::Insert => "insert_into_table",
        }
    }

    /// Begins the change at a gateway. The catalog has received it when this returns, and does nothing.
    async fn begin(self, world: &World, client: Client) {
        let gate = world.catalog("west").hold(self.operation());
        let (target, kind, body) = match self {
            Self::Create => {
                let create = crate::batches::stage(world, "west", 2);
                let target = "/v1/table/west%24t1/version/create";
                (target, "application/json", create.to_string())
            }
            Self::Insert => {
                let target = "/v1/table/west%24t1/insert";
                (target, "application/vnd.apache.arrow.stream", "rows".into())
            }
        };
        let client = client.header("content-type", kind);
        // It never gets an answer.
        tokio::spawn(async move { client.send(Method::POST, target, full(body)).await });
        gate.reached(1).await;
    }
}

/// Has the change land as the version that a batch creates in the table, whose own create gets no answer. Returns the
/// status of the batch.
async fn meet(world: &World) -> u16 {
    let west = world.catalog("west");
    let fails = Fault::Instead(500, BROKEN);
    west.fail_always("create_table_version", fails);
    let before = west.seen_of("create_table_version").len();
    let batch = start(world.client(), pair(world, 2));
    west.called("create_table_version", before + 1).await;
    west.store()
        .put(&TABLE.map(str::to_owned), 2, OTHERS.into());
    let answer = batch.await.unwrap();
    println!("{} {:?}", answer.status, answer.body);
    answer.status
}

/// Checks that the other writer's version was not taken for the batch's: it stays, and a person is asked.
async fn assert_not_taken(world: &World, status: u16, case: &str) {
    assert!([409, 503].contains(&status), "{case}: {status}");
    let begun = Instant::now();
    while world.metric("nsgate_batch_hazards").await != 1.0 {
        let admin = world.admin().get("/batches").await.json();
        assert!(
            begun.elapsed() < PATIENCE,
            "{case}: nobody is asked: {admin}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let contents = world.catalog("west").store().contents(&TABLE).unwrap();
    let expected = (2, OTHERS.to_owned());
    assert_eq!(contents.last(), Some(&expected), "{case}");
    until("the batch is undone", || stored(world, "east") == [1]).await;
    for client in [world.client(), world.client_at(1)] {
        assert_eq!(
            visible_at(&client, "west").await,
            [1],
            "{case}: it is hidden"
        );
    }
}

#[tokio::test]
async fn a_change_of_a_gateway_that_was_killed_is_not_taken_for_a_batchs() {
    for change in [Change::Create, Change::Insert] {
        let Some(server) = Postgres::start() else {
            return;
        };
        let setup = setup(&server, &server.socket(), LEASE, SETTINGS);
        let world = joined(setup, 2).await;
        change.begin(&world, world.client_at(0)).await;
        world.signal_at(0, "KILL");
        let status = meet(&world).await;
        assert_not_taken(&world, status, &format!("{change:?}")).await;
    }
}

#[tokio::test]
async fn a_change_of_a_gateway_that_ends_before_its_answer_is_not_taken_for_a_batchs() {
    for change in [Change::Create, Change::Insert] {
        let Some(server) = Postgres::start() else {
            return;
        };
        let setup = setup(&server, &server.socket(), LEASE * 7, SETTINGS);
        let world = joined(setup.listen("drain_timeout: 1s"), 2).await;
        change.begin(&world, world.client_at(0)).await;
        world.signal_at(0, "TERM");
        until("it has left", || {
            server.sql("SELECT count(*) FROM nsgate.instance") == "2"
        })
        .await;
        let begun = Instant::now();
        let status = meet(&world).await;
        assert!(begun.elapsed() < LEASE * 7, "the batch waits for no lease");
        assert_not_taken(&world, status, &format!("{change:?}")).await;
    }
}

/// A gateway that leaves nothing behind makes no work for anybody.
#[tokio::test]
async fn a_gateway_that_ends_without_a_change_under_way_leaves_no_doubt() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let setup = setup(&server, &server.socket(), LEASE * 7, SETTINGS);
    let world = joined(setup, 2).await;
    assert_eq!(visible_at(&world.client_at(0), "west").await, [1]);
    world.signal_at(0, "TERM");
    until("it has left", || {
        server.sql("SELECT count(*) FROM nsgate.instance") == "2"
    })
    .await;
    assert_eq!(server.sql("SELECT count(*) FROM nsgate.stray"), "0");
    assert_eq!(meet(&world).await, 200, "only the batch can have made it");
}
