//! The status of a gateway that does not own the batch log: it has the batches of the owner.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{LEASE, world, world_with};
use crate::batches::{BATCH, pair, start};
use crate::catalog::faults::PATIENCE;
use crate::command::{Ended, run};
use crate::harness::World;
use crate::postgres::Postgres;

/// Runs `nsgate status` at the gateway that has joined.
async fn command(world: &World) -> Ended {
    let admin = format!("http://{}", world.admin_address_at(0));
    run(world, &["status", "--admin", &admin]).await
}

async fn status(world: &World) -> Value {
    world.admin_at(0).get("/status").await.ok().json()
}

#[tokio::test]
async fn in_a_healthy_fleet_nobody_has_to_act_and_every_gateway_shows_the_batches_of_the_owner() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 1).await;
    let (code, said, errors) = command(&world).await;
    assert_eq!((code, &*errors), (Some(0), ""), "{said}");
    assert!(said.starts_with("ready\n"), "{said}");
    assert!(said.contains("every batch is finished"), "{said}");

    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    let told = status(&world).await;
    assert_eq!(told["batches"][0]["state"], "undecided", "{told:#}");
    assert_eq!(told["findings"], json!([]), "{told:#}");

    // Nothing distinguishes it from the version of the batch, so a person must decide.
    let id = ["east".to_owned(), "t1".to_owned()];
    world.catalog("east").store().put(&id, 2, "EAST 2".into());
    gate.open();
    assert_eq!(batch.await.unwrap().status, 409);
    let begun = Instant::now();
    while status(&world).await["batches"][0]["state"] != "hazard" {
        assert!(begun.elapsed() < PATIENCE, "{:#}", status(&world).await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (code, said, _) = command(&world).await;
    assert_eq!(code, Some(1), "{said}");
    let headline = "east$t1 waits for a person's decision\n";
    assert!(said.starts_with(headline), "{said}");
}

#[tokio::test]
async fn an_owner_that_does_not_answer_is_a_finding_with_its_name() {
    let Some(server) = Postgres::start() else {
        return;
    };
    // It stays the owner while it is silent.
    let world = world_with(&server, &server.socket(), LEASE * 7, 1).await;
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
    let listed = world.admin().get("/gateways").await.ok().json();
    let gateways = listed["gateways"].as_array().unwrap();
    let owner = gateways.iter().find(|one| one["is_owner"] == true).unwrap();
    world.pause();
    let told = status(&world).await;
    world.resume();
    let why = told["batches_unknown"].as_str().unwrap();
    let name = format!("gateway `{}`", owner["name"].as_str().unwrap());
    assert!(
        why.starts_with(&name) && why.contains("does not answer"),
        "{why}"
    );
    assert_eq!(told["needs_person"], true);
    let what = told["findings"][0]["what"].as_str().unwrap();
    assert_eq!(what, format!("the batches are not known: {why}"));
}

/// The catalog is not to blame for what the owner has answered.
#[tokio::test]
async fn a_request_that_the_owner_refused_points_to_the_log_of_the_owner() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 1).await;
    world.catalog("east").stop().await;
    let refused = world.client_at(0).post(BATCH, &pair(&world, 2)).await;
    let begun = Instant::now();
    let mut told = status(&world).await;
    while told["failed"] == json!([]) {
        assert!(begun.elapsed() < PATIENCE, "{told:#}");
        told = status(&world).await;
    }
    let cause = told["failed"][0]["cause"].as_str().unwrap();
    let words = format!("the gateway with the batch log answered {}", refused.status);
    assert!(
        refused.status >= 500 && cause.starts_with(&words),
        "{cause}"
    );
}

/// A log that cannot be read has no batches to show, which does not mean that there are none.
#[tokio::test]
async fn an_owner_that_still_recovers_does_not_say_that_every_batch_is_finished() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut world = world(&server, 1).await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    let session = server.lock_out("nsgate.batch");
    world.kill();
    drop(batch);
    gate.open();
    let ready = async || world.admin_at(0).get("/ready").await;
    let begun = Instant::now();
    while ready().await.status == 200 {
        assert!(begun.elapsed() < PATIENCE, "it never takes the log over");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let missing = ready().await.json()["missing"].to_string();
    assert!(missing.contains("being recovered"), "{missing}");
    let words = "still recovers its batches, so it does not know which are open";
    let admin = format!("http://{}", world.admin_address_at(0));
    let (code, said, errors) = run(&world, &["batches", "--admin", &admin, "list"]).await;
    assert_eq!((code, &*said), (Some(1), ""), "{errors}");
    assert!(errors.contains(words), "{errors}");
    let told = status(&world).await;
    let unknown = told["batches_unknown"].as_str().unwrap();
    assert!(
        unknown.contains(words) && told["needs_person"] == true,
        "{told:#}"
    );
    drop(session);
    while ready().await.status != 200 {
        assert!(begun.elapsed() < PATIENCE, "{}", world.log_at(0));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (_, said, errors) = run(&world, &["batches", "--admin", &admin, "list"]).await;
    assert!(errors.is_empty() && !said.contains(words), "{said}{errors}");
}
