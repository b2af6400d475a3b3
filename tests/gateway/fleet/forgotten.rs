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

/// Its owner lives on at a standby that is promoted and lacks the COMMIT. The batch is undone by nobody, although the next
/// owner would find one of its tables changed.
#[tokio::test]
async fn a_batch_whose_commit_is_lost_stays_committed_when_its_owner_ends_later() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut world = world(&server, 1).await;
    let committed = world.client().post(BATCH, &pair(&world, 2)).await;
    assert_eq!(committed.status, 200, "{:?}", committed.body);
    until("it is over", || server.sql(ENDED) == "1").await;
    let before = server.sql(VERDICTS);
    undecide(&server);
    server.crash();
    server.up();
    until_it_serves(&world.client()).await;
    // Without it, what follows tells more than that it never comes.
    for _ in 0..500 {
        if world.log().contains("has it again") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let dropped = "/v1/table/east%24t1/drop";
    world.client().post_nothing(dropped).await.ok();
    world.kill();
    let next = world.client_at(0);
    until_it_serves(&next).await;
    for _ in 0..50 {
        assert_eq!(visible_at(&next, "west").await, [1, 2]);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(stored(&world, "west"), [1, 2]);
    assert_eq!(server.sql(VERDICTS), before);
    assert_eq!(server.sql(ENDED), "1");
}

/// A table is still being removed when the COMMIT is lost. It is in the log again before the batch ends.
#[tokio::test]
async fn a_commit_that_is_lost_while_its_removals_go_on_is_written_again() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 0).await;
    let gate = world.catalog("west").hold("deregister_table");
    let remove = |name: &str| json!({"deregister_table": {"id": [name, "t1"]}});
    let deregister = json!({"operations": [remove("west"), remove("east")]});
    let commit = "/v1/table/batch-commit";
    world.client().post(commit, &deregister).await.ok();
    gate.reached(1).await;
    // Its name is free, and may be given to another table: the next owner must not remove that one.
    let noted = "SELECT count(*) FROM nsgate.entry WHERE settled IS NOT NULL";
    until("the other is removed", || server.sql(noted) == "1").await;
    undecide(&server);
    server.crash();
    server.up();
    until("so the log says again", || server.sql(noted) == "1").await;
    let verdict = "SELECT verdict, ended IS NULL FROM nsgate.batch";
    until("it is in the log again", || server.sql(verdict) == "c|t").await;
    gate.open();
    until("it is over", || server.sql(ENDED) == "1").await;
}

#[tokio::test]
async fn nothing_is_written_at_a_server_that_lacks_nothing_and_what_nobody_knows_is_reported() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 0).await;
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
    until("it is over", || server.sql(ENDED) == "1").await;
    let gate = world.catalog("east").hold("create_table_version");
    let running = start(world.client(), pair(&world, 3));
    gate.reached(1).await;
    let before = server.sql(BATCHES);
    // What a batch has left whose end nobody remembers.
    let other = "018f0000-0000-7000-8000-000000000001";
    server.sql(&format!(
        "INSERT INTO nsgate.batch (id, intent) SELECT '{other}', intent FROM nsgate.batch LIMIT 1"
    ));
    server.crash();
    server.up();
    until("it is reported", || {
        world.log().contains("lost how a batch ended")
    })
    .await;
    let log = world.log();
    let reports = log.lines().filter(|line| line.contains("lost how"));
    let reports: Vec<&str> = reports.collect();
    assert!(reports.len() == 1 && reports[0].contains(other), "{log}");
    assert!(!log.contains("has it again"), "nothing was missing: {log}");
    server.sql(&format!("DELETE FROM nsgate.batch WHERE id = '{other}'"));
    assert_eq!(server.sql(BATCHES), before);
    gate.open();
    assert_eq!(running.await.unwrap().status, 200);
}

/// The number of batches that are over; how each was decided; and all that there is of those that are over.
const ENDED: &str = "SELECT count(*) FROM nsgate.batch WHERE ended IS NOT NULL";
const VERDICTS: &str = "SELECT id, verdict, md5(body) FROM nsgate.batch ORDER BY id";
const BATCHES: &str = "SELECT id, verdict, md5(body), touched, ended FROM nsgate.batch WHERE ended IS NOT NULL ORDER BY id";

/// Takes away what a standby lacks that had only the INTENTs.
fn undecide(server: &Postgres) {
    server.sql("UPDATE nsgate.batch SET verdict = NULL, body = NULL, ended = NULL");
    server.sql("DELETE FROM nsgate.entry");
}
