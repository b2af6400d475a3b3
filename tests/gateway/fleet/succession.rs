//! Gateways and servers that die, stop or restart: another gateway owns the log, and no batch is lost.

use super::*;
use crate::catalog::faults::Fault;

#[tokio::test]
async fn an_owner_that_is_killed_in_the_middle_is_succeeded_and_the_client_gets_its_answer() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut world = world(&server, 2).await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client_at(0), pair(&world, 2));
    gate.reached(1).await;
    until("the first is prepared", || stored(&world, "west") == [1, 2]).await;
    world.kill();
    let killed = Instant::now();
    gate.open();
    for name in ["west", "east"] {
        world.catalog(name).behave();
    }
    let answer = batch.await.unwrap();
    let took = killed.elapsed();
    println!("answered {} after {took:?}", answer.status);
    let committed = answer.status == 200;
    assert!(
        committed || answer.status == 409 || answer.status == 503,
        "{:?}",
        answer.body
    );
    let versions: &[u64] = if committed { &[1, 2] } else { &[1] };
    for other in 0..2 {
        for name in ["west", "east"] {
            assert_eq!(visible_at(&world.client_at(other), name).await, versions);
        }
    }
    world.restart().await;
    let next = if committed { 3 } else { 2 };
    let again = json!(pair(&world, next));
    let begun = Instant::now();
    while world.client().post(BATCH, &again).await.status != 200 {
        assert!(begun.elapsed() < PATIENCE, "the batch never begins");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let versions: Vec<u64> = (1..=next).collect();
    assert_everywhere(&world, 2, &versions, "after the restart").await;
}

#[tokio::test]
async fn a_gateway_that_is_stopped_delays_a_batch_and_then_shows_nothing_of_it() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 2).await;
    assert_everywhere(&world, 2, &[1], "before").await;
    world.signal_at(1, "STOP");
    let begun = Instant::now();
    world.client_at(0).post(BATCH, &pair(&world, 2)).await.ok();
    println!("the batch took {:?}", begun.elapsed());
    world.signal_at(1, "CONT");
    let frozen = world.client_at(1);
    for _ in 0..200 {
        let listed = frozen
            .post_nothing("/v1/table/west%24t1/version/list")
            .await;
        match listed.status {
            200 => assert_eq!(listed.json()["versions"].as_array().unwrap().len(), 2),
            status => assert_eq!(status, 503, "{:?}", listed.body),
        }
    }
    until("it joins again", || {
        world.log_at(1).contains("it joins again")
    })
    .await;
    until_it_serves(&frozen).await;
    assert_everywhere(&world, 2, &[1, 2], "after it is back").await;
}

#[tokio::test]
async fn a_gateway_that_may_not_join_again_says_so_and_joins_once_it_may() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 1).await;
    assert_everywhere(&world, 1, &[1], "before").await;
    world.signal_at(0, "STOP");
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
    server.sql("ALTER FUNCTION nsgate.join_2 RENAME TO join_away");
    world.signal_at(0, "CONT");
    until("it says so", || {
        let log = world.log_at(0);
        log.contains("cannot share the batch log any more") && log.contains("nsgate log prepare")
    })
    .await;
    server.sql("ALTER FUNCTION nsgate.join_away RENAME TO join_2");
    until_it_serves(&world.client_at(0)).await;
    assert_everywhere(&world, 1, &[1, 2], "after it is back").await;
}

#[tokio::test]
async fn an_owner_that_is_stopped_is_succeeded_and_ends_when_it_goes_on() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut world = world(&server, 1).await;
    world.pause();
    let begun = Instant::now();
    world.client_at(0).post(BATCH, &pair(&world, 2)).await.ok();
    println!("the batch took {:?}", begun.elapsed());
    world.resume();
    assert_eq!(
        world.ended().await,
        None,
        "a timer of the kernel ends it before it runs"
    );
    assert_eq!(visible_at(&world.client_at(0), "west").await, [1, 2]);
    world.restart().await;
    assert_everywhere(&world, 1, &[1, 2], "after the restart").await;
}

#[tokio::test]
async fn an_owner_that_stops_in_order_hands_the_log_over_at_once() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut world = world(&server, 2).await;
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
    world.terminate();
    let begun = Instant::now();
    world.client_at(0).post(BATCH, &pair(&world, 3)).await.ok();
    println!("the batch took {:?}", begun.elapsed());
    assert_eq!(world.ended().await, Some(0));
    for other in 0..2 {
        assert_eq!(visible_at(&world.client_at(other), "west").await, [1, 2, 3]);
    }
    world.restart().await;
    assert_both(&world, &[1, 2, 3], "at the old owner").await;
}

#[tokio::test]
async fn an_owner_that_restarts_at_its_address_does_not_answer_for_the_one_before() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let mut world = world(&server, 1).await;
    let yaml = world.configuration();
    let fixed = format!("gateways: {{ address: 127.0.0.1:{port} }}");
    let own = yaml.replace("gateways: { address: 127.0.0.1:0 }", &fixed);
    // The first gateway gets a fixed address, and the log again.
    world.configure(&own);
    world.terminate();
    world.ended().await;
    world.restart().await;
    world.signal_at(0, "TERM");
    world.configure(&yaml);
    world.join().await;
    until("the first has the log", || {
        world.log().contains("serves the batch log now")
    })
    .await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client_at(1), pair(&world, 2));
    gate.reached(1).await;
    world.configure(&own);
    world.restart().await;
    gate.open();
    for name in ["west", "east"] {
        world.catalog(name).behave();
    }
    let answer = batch.await.unwrap();
    assert_ne!(answer.status, 403, "{:?}", answer.body);
    let committed = answer.status == 200;
    assert!(
        committed || answer.status == 409 || answer.status == 503,
        "{:?}",
        answer.body
    );
    let versions: &[u64] = if committed { &[1, 2] } else { &[1] };
    assert_eq!(visible_at(&world.client_at(1), "west").await, versions);
}

#[tokio::test]
async fn a_client_whose_batch_is_lost_learns_how_to_ask_for_it() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut world = world(&server, 1).await;
    let gate = world.catalog("east").hold("create_table_version");
    let client = world.client_at(0);
    let batch = pair(&world, 2);
    let sent = batch.clone();
    let answer = tokio::spawn(async move { client.post(BATCH, &sent).await });
    gate.reached(1).await;
    // Nobody can take the log over.
    server.crash();
    world.kill();
    let answer = answer.await.unwrap();
    assert_eq!(answer.status, 503, "{:?}", answer.body);
    let said = answer.json()["error"].as_str().unwrap().to_owned();
    assert!(said.contains("may have been carried out"), "{said}");
    let (_, key) = said.split_once("`Idempotency-Key: ").unwrap();
    let key = key.split('`').next().unwrap();
    gate.open();
    for name in ["west", "east"] {
        world.catalog(name).behave();
    }
    server.up();
    let again = world.client_at(0).header("idempotency-key", key);
    let begun = Instant::now();
    let status = loop {
        let status = again.post(BATCH, &batch).await.status;
        if status != 503 {
            break status;
        }
        assert!(begun.elapsed() < PATIENCE, "it is never told");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let versions: &[u64] = if status == 200 { &[1, 2] } else { &[1] };
    for name in ["west", "east"] {
        assert_eq!(visible_at(&world.client_at(0), name).await, versions);
    }
}

#[tokio::test]
async fn a_batch_that_begins_while_the_server_restarts_is_not_refused() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world_with(&server, &server.socket(), LEASE * 7, 1).await;
    server.crash();
    begin_at_both_while_it_is_away(&server, &world).await;
}

/// Neither gateway knows which tables batches are on by then.
#[tokio::test]
async fn nor_is_one_that_begins_when_it_was_away_for_longer_than_the_lease() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 1).await;
    server.crash();
    tokio::time::sleep(LEASE * 2).await;
    let list = "/v1/table/west%24t1/version/list";
    let read = world.client().post_nothing(list).await;
    assert_eq!(read.status, 503, "plain requests do not wait: {read:?}");
    begin_at_both_while_it_is_away(&server, &world).await;
}

/// Begins the same batch at two gateways, starts the server again, and expects that one of them is carried out.
async fn begin_at_both_while_it_is_away(server: &Postgres, world: &World) {
    let batch = pair(world, 2);
    let sent = [world.client(), world.client_at(0)].map(|client| {
        let batch = batch.clone();
        tokio::spawn(async move { client.post(BATCH, &batch).await })
    });
    // Both batches find the server away.
    tokio::time::sleep(LEASE / 2).await;
    server.up();
    let mut statuses = Vec::new();
    for sent in sent {
        statuses.push(sent.await.unwrap().status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "one of them is first");
    assert_everywhere(world, 1, &[1, 2], "after both").await;
}

#[tokio::test]
async fn the_owner_stays_the_owner_when_the_server_was_away_for_longer_than_the_lease() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut world = world(&server, 2).await;
    world.client_at(0).post(BATCH, &pair(&world, 2)).await.ok();
    let owner = server.sql("SELECT owner FROM nsgate.log");
    for round in 0..3 {
        server.crash();
        tokio::time::sleep(LEASE * 2).await;
        server.up();
        for other in 0..2 {
            until_it_serves(&world.client_at(other)).await;
        }
        let batch = pair(&world, 3 + round);
        let begun = Instant::now();
        while world.client_at(1).post(BATCH, &batch).await.status != 200 {
            assert!(begun.elapsed() < PATIENCE, "batches never begin again");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(
            server.sql("SELECT owner FROM nsgate.log"),
            owner,
            "round {round}"
        );
    }
    assert_everywhere(&world, 2, &[1, 2, 3, 4, 5], "after it").await;
    world.terminate();
    assert_eq!(world.ended().await, Some(0));
}

/// The client is not told that its batch may have been carried out, nor that its request was wrong: what was created and
/// deleted again has used up what it had staged.
#[tokio::test]
async fn a_batch_that_a_takeover_has_aborted_is_refused_for_good() {
    let Some(server) = Postgres::start() else {
        return;
    };
    for others in [1, 2] {
        let mut world = world(&server, others).await;
        // No create gets as far as the catalog.
        world
            .catalog("east")
            .fail_always("create_table_version", Fault::ResetBefore);
        let batch = start(world.client_at(0), pair(&world, 2));
        until("the first is prepared", || stored(&world, "west") == [1, 2]).await;
        world.kill();
        // Also what the killed one has just sent is refused.
        let answer = batch.await.unwrap();
        assert_eq!(answer.outcome(), (409, Some(14)), "{answer:?}");
        let words = answer.json()["error"].to_string();
        assert!(
            words.contains("stopped before the batch was decided"),
            "{words}"
        );
        until("it is undone", || stored(&world, "west") == [1]).await;
        drop(world);
        server.sql("DROP SCHEMA nsgate CASCADE");
    }
}
