//! Gateways and servers that work by half: an address that answers nothing, one that two have, a log that lost a batch.

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use super::*;
use crate::cable::Cable;

/// The question that only the keeper of the guards asks.
const KEEPERS_QUESTION: &str = "SELECT owner, ticket, released";

#[tokio::test]
async fn a_gateway_that_cannot_learn_of_batches_is_left_behind_until_it_can() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut world = world(&server, 0).await;
    let cable = Cable::to(server.port).await;
    cable.mark(KEEPERS_QUESTION);
    let yaml = std::fs::read_to_string(world.folder().join("gateway.yaml")).unwrap();
    let through = yaml.replace(&server.socket(), &server.loopback(cable.port));
    assert_ne!(through, yaml);
    world.join_with(&through).await;
    let other = world.client_at(0);
    until_it_serves(&other).await;
    cable.hold_marked();
    let begun = Instant::now();
    let answer = world.client().post(BATCH, &pair(&world, 2)).await;
    println!("{} after {:?}", answer.status, begun.elapsed());
    assert_eq!(answer.status, 200, "{:?}", answer.body);
    // It shows nothing that is not so.
    let listed = other.post_nothing("/v1/table/west%24t1/version/list").await;
    assert!(listed.status == 503 || listed.json()["versions"].as_array().unwrap().len() == 2);
    until("it says so", || {
        let log = world.log_at(0);
        log.contains("does not learn which tables batches are on")
    })
    .await;
    world.client().post(BATCH, &pair(&world, 3)).await.ok();
    cable.open();
    until_it_serves(&other).await;
    assert_everywhere(&world, 1, &[1, 2, 3], "after it is back").await;
}

#[tokio::test]
async fn an_owner_that_takes_connections_and_answers_nothing_is_not_waited_for_without_end() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateways = format!(
        "address: 127.0.0.1:0, advertise: \"{}\"",
        deaf.local_addr().unwrap()
    );
    tokio::spawn(async move {
        let mut taken = Vec::new();
        while let Ok((stream, _)) = deaf.accept().await {
            taken.push(stream);
        }
    });
    let setup = setup_with(&server, &server.socket(), LEASE, "", &gateways);
    let world = joined(setup, 1).await;
    let begun = Instant::now();
    let answer = world.client_at(0).post(BATCH, &pair(&world, 2)).await;
    println!("{} after {:?}", answer.status, begun.elapsed());
    assert_eq!(answer.status, 503, "{:?}", answer.body);
    let words = answer.json()["error"].to_string();
    assert!(words.contains("may have been carried out"), "{words}");
    assert!(words.contains("does not answer"), "{words}");
}

/// The owner may have recorded it before its connection broke.
#[tokio::test]
async fn a_decision_that_is_not_answered_may_be_recorded() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let breaking = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = breaking.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = breaking.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
        }
    });
    let gateways = format!("address: 127.0.0.1:0, advertise: \"{address}\"");
    let setup = setup_with(&server, &server.socket(), LEASE, "", &gateways);
    let world = joined(setup, 1).await;
    let decision = json!({"decision": "abort", "who": "somebody", "why": "a test"});
    let resolve = format!("/batches/{}/resolve", uuid::Uuid::nil());
    let decided = world.admin_at(0).post(&resolve, &decision).await;
    let listed = world.admin_at(0).get("/batches").await;
    for (answer, advice) in [
        (decided, "look at the batch before you decide again"),
        (listed, "try again in some seconds"),
    ] {
        assert_eq!(answer.status, 503, "{:?}", answer.body);
        let words = answer.json()["error"].to_string();
        assert!(words.contains(advice), "{words}");
    }
}

#[tokio::test]
async fn a_batch_that_the_database_has_lost_is_written_again_and_ends() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 1).await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    server.sql("DELETE FROM nsgate.batch");
    gate.open();
    batch.await.unwrap().ok();
    assert_everywhere(&world, 1, &[1, 2], "at the end").await;
    let words = ["t1 in west", "t1 in east", "which it had acknowledged"];
    until("it is reported", || {
        let log = world.log();
        words.iter().all(|words| log.contains(words))
    })
    .await;
    let kept = server.sql("SELECT count(*) FROM nsgate.batch WHERE verdict = 'c'");
    assert_eq!(kept, "1");
}

#[tokio::test]
async fn two_gateways_that_tell_the_same_address_are_reported() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let gateways = "address: 127.0.0.1:0, advertise: 127.0.0.1:9";
    let setup = setup_with(&server, &server.socket(), LEASE, "", gateways);
    let world = joined(setup, 1).await;
    until("it is reported", || {
        world.log().contains("two gateways tell the same address")
    })
    .await;
}

/// The owner says that no batch can begin, before another gateway takes the log over.
#[tokio::test]
async fn batches_that_were_passed_on_to_an_owner_without_the_log_wait_for_the_next_owner() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let cable = Cable::to(server.port).await;
    let mut world = world_with(&server, &server.loopback(cable.port), LEASE * 7, 0).await;
    let direct = world
        .configuration()
        .replace(&server.loopback(cable.port), &server.socket());
    world.join_with(&direct).await;
    let other = world.client_at(0);
    other.post(BATCH, &pair(&world, 2)).await.ok();
    cable.pull().await;
    let begun = Instant::now();
    // The owner looks their keys up for 5 s, and has its lease for longer.
    let with_key = world.client_at(0).header("idempotency-key", "its own");
    let batches = [other, with_key].map(|client| start(client, pair(&world, 3)));
    let own = world.client().post(BATCH, &pair(&world, 3)).await;
    println!("the owner: {} after {:?}", own.status, begun.elapsed());
    assert_eq!(own.status, 503, "{:?}", own.body);
    assert!(String::from_utf8_lossy(&own.body).contains("no batch can begin"));
    let mut statuses = Vec::new();
    for batch in batches {
        statuses.push(batch.await.unwrap().status);
    }
    println!("the other one: {statuses:?} after {:?}", begun.elapsed());
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "one of them is first");
    assert_eq!(visible_at(&world.client_at(0), "west").await, [1, 2, 3]);
}

/// It waits for another owner first, and none is about to take the log over.
#[tokio::test]
async fn a_batch_is_refused_with_the_reason_while_no_gateway_reaches_the_log() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 1).await;
    server.crash();
    let begun = Instant::now();
    let refused = world.client_at(0).post(BATCH, &pair(&world, 2)).await;
    println!("{} after {:?}", refused.status, begun.elapsed());
    assert_eq!(refused.status, 503, "{:?}", refused.body);
    let words = refused.json()["error"].to_string();
    assert!(words.contains("its contact to the batch log"), "{words}");
    assert!(words.contains("retry later"), "{words}");
    server.up();
    until_it_serves(&world.client_at(0)).await;
    let again = start(world.client_at(0), pair(&world, 2));
    again.await.unwrap().ok();
}

/// It answers what the log says, although it may not serve tables meanwhile.
#[tokio::test]
async fn a_batch_that_is_committed_after_the_lease_is_answered_so() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let cable = Cable::to(server.port).await;
    cable.mark(KEEPERS_QUESTION);
    let world = world_at(&server, &server.loopback(cable.port), 0).await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    cable.hold_marked();
    let list = "/v1/table/west%24t1/version/list";
    let begun = Instant::now();
    while world.client().post_nothing(list).await.status != 503 {
        assert!(begun.elapsed() < PATIENCE, "the lease is never over");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    gate.open();
    batch.await.unwrap().ok();
    cable.open();
    until_it_serves(&world.client()).await;
    assert_both(&world, &[1, 2], "after it").await;
}
