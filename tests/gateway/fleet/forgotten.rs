//! A log that has forgotten something: a batch that is under way, whose owner ends, or the last heartbeats.

use super::*;

#[tokio::test]
async fn a_batch_whose_log_is_installed_again_is_not_refused() {
    let Some(server) = Postgres::start() else {
        return;
    };
    is_not_refused(&server, |_| {
        server.sql("DROP SCHEMA nsgate CASCADE");
        prepare(&server);
    })
    .await;
}

/// So it is at a standby that is promoted and lacks the batch.
#[tokio::test]
async fn nor_is_one_that_a_restarted_server_lacks() {
    let Some(server) = Postgres::start() else {
        return;
    };
    is_not_refused(&server, |world| {
        server.crash();
        world.kill();
        server.up();
        server.sql("DELETE FROM nsgate.batch");
    })
    .await;
}

/// Begins a batch, has the log forget it and its owner end, and expects that nobody is told that nothing of it stays.
async fn is_not_refused(server: &Postgres, forget: impl FnOnce(&mut World)) {
    let mut world = world(server, 1).await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client_at(0), pair(&world, 2));
    gate.reached(1).await;
    until("the first is prepared", || stored(&world, "west") == [1, 2]).await;
    forget(&mut world);
    gate.open();
    for name in ["west", "east"] {
        world.catalog(name).behave();
    }
    let answer = batch.await.unwrap();
    assert_eq!(answer.status, 503, "{:?}", answer.body);
    let said = answer.json();
    let words = "may have forgotten the first time. The batch may have been carried out";
    assert!(said["error"].as_str().unwrap().contains(words), "{said}");
    assert_eq!([&said["undecided"], &said["forgotten"]], [true, true]);
    assert_eq!(stored(&world, "west"), [1, 2]);
}

/// So it is at a standby that is promoted and is some seconds behind: the heartbeats go on from a lower number there.
#[tokio::test]
async fn gateways_live_on_at_a_server_that_lacks_their_last_heartbeats() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let lease = LEASE * 3;
    let mut world = world_with(&server, &server.socket(), lease, 1).await;
    server.crash();
    server.copy();
    server.up();
    until_it_serves(&world.client_at(0)).await;
    let owner = server.sql("SELECT owner FROM nsgate.log");
    tokio::time::sleep(lease * 2).await;
    server.crash();
    server.put_back();
    server.up();
    tokio::time::sleep(lease * 3 / 2).await;
    for log in [world.log(), world.log_at(0)] {
        assert!(!log.contains("dead"), "{log}");
    }
    assert_eq!(server.sql("SELECT owner FROM nsgate.log"), owner);
    assert_eq!(server.sql("SELECT count(*) FROM nsgate.instance"), "2");
    world.client_at(0).post(BATCH, &pair(&world, 2)).await.ok();
    assert_everywhere(&world, 1, &[1, 2], "after it").await;
    world.terminate();
    assert_eq!(world.ended().await, Some(0));
}
