//! A repeated request does not start a second batch.

mod reconfigured;

use serde_json::json;

use super::{BATCH, assert_both, pair, stage, start, stored, told, until, world};
use crate::catalog::faults::Fault;
use crate::harness::Setup;

const CREATE: &str = "create_table_version";

#[tokio::test]
async fn a_repeated_request_joins_the_one_that_runs() {
    let world = world("").await;
    let keyed = world.client().header("idempotency-key", "k1");
    for (version, client) in [(2, keyed), (3, world.client())] {
        let gate = world.catalog("east").hold(CREATE);
        let body = pair(&world, version);
        let first = start(client.clone(), body.clone());
        gate.reached(1).await;
        let others: Vec<_> = (0..3)
            .map(|_| start(client.clone(), body.clone()))
            .collect();
        // One more request in between makes it likely that the gateway has received the others.
        world
            .client()
            .post("/v1/table/west%24t1/exists", &json!({}))
            .await
            .ok();
        gate.open();
        let first = first.await.unwrap().ok().json();
        for other in others {
            let reply = other.await.unwrap();
            match version {
                2 => assert_eq!(reply.ok().json(), first),
                // Without a key it joins while the first one runs. Later it is a batch of its own, and too late.
                _ => assert!(reply.status == 409 || reply.json() == first, "{reply:?}"),
            }
        }
        assert_both(&world, &(1..=version).collect::<Vec<_>>(), "once").await;
    }
    for name in ["west", "east"] {
        assert_eq!(world.catalog(name).seen_of(CREATE).len(), 2, "{name}");
    }
}

#[tokio::test]
async fn a_finished_batch_is_answered_from_memory_also_after_a_restart() {
    let mut world = world("").await;
    let keyed = |world: &crate::harness::World| world.client().header("idempotency-key", "k1");
    let body = pair(&world, 2);
    let first = keyed(&world).post(BATCH, &body).await.ok().json();
    for _ in 0..2 {
        assert_eq!(keyed(&world).post(BATCH, &body).await.ok().json(), first);
        world.restart().await;
    }
    assert_eq!(world.catalog("west").seen_of(CREATE).len(), 1);
    let other = keyed(&world).post(BATCH, &pair(&world, 3)).await;
    assert_eq!(other.status, 422, "{other:?}");
    // The same key of another caller is another key.
    let stranger = world
        .client_with(&json!({"sub": "somebody else"}))
        .header("idempotency-key", "k1");
    stranger.post(BATCH, &pair(&world, 3)).await.ok();
    assert_both(&world, &[1, 2, 3], "two batches").await;
}

/// Such a client has a new token for each try.
#[tokio::test]
async fn a_client_without_a_subject_finds_its_batch_by_its_key_alone() {
    let auth = "auth: { issuers: [{ issuer: https://issuer.test, audiences: [catalog], algorithms: [ES256], keys: { file: keys.json }, require_subject: false }] }";
    let world = Setup::two().section(auth).start().await.seeded();
    let with = |claims| world.client_with(&claims).header("idempotency-key", "k1");
    let [before, after] = ["1", "2"].map(|token| with(json!({"sub": "", "jti": token})));
    let body = pair(&world, 2);
    let first = before.post(BATCH, &body).await.ok().json();
    assert_eq!(after.post(BATCH, &body).await.ok().json(), first);
    assert_both(&world, &[1, 2], "once").await;
}

#[tokio::test]
async fn a_refusal_is_repeated_too() {
    let mut world = world("slot_cooldown: 10ms").await;
    let client = world.client().header("idempotency-key", "k1");
    let refusal = Fault::Instead(400, r#"{"error":"no","code":13}"#);
    world.catalog("east").fail(CREATE, refusal);
    let body = pair(&world, 2);
    let first = client.post(BATCH, &body).await;
    assert_eq!(first.outcome(), (400, Some(13)));
    until("west is undone", || stored(&world, "west") == [1]).await;
    for _ in 0..2 {
        let client = world.client().header("idempotency-key", "k1");
        let again = client.post(BATCH, &body).await;
        assert_eq!(again.outcome(), first.outcome());
        assert_eq!(again.words(), first.words());
        world.restart().await;
    }
    assert_both(&world, &[1], "refused").await;
}

/// A key that is kept for an answer that says "retry" would never let a retry succeed.
#[tokio::test]
async fn a_refusal_that_passes_frees_the_key() {
    for restarts in [false, true] {
        let mut world = world("slot_cooldown: 0s").await;
        let busy = Fault::Instead(429, r#"{"error":"too many","code":21}"#);
        world.catalog("east").fail(CREATE, busy);
        let gate = world.catalog("west").hold(CREATE);
        let body = pair(&world, 2);
        let client = world.client().header("idempotency-key", "k1");
        let batch = start(client, body.clone());
        gate.reached(1).await;
        let open = world.admin().get("/batches").await.ok().json();
        let failed = open["batches"][0]["id"].clone();
        gate.open();
        let first = batch.await.unwrap();
        assert_eq!(first.outcome(), (429, Some(21)), "{first:?}");
        until("west is undone", || stored(&world, "west") == [1]).await;
        // Requests that a killed gateway has sent may still arrive, so the rollback must be over before the
        // restart.
        while world.metric("nsgate_batches_open{state=\"undoing\"}").await > 0.0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        if restarts {
            world.restart().await;
        }
        assert_eq!(told(&world, &failed).await, "Failed");
        // West has consumed the staged manifest, so it is staged again.
        let body = Some(pair(&world, 2))
            .filter(|again| *again == body)
            .unwrap();
        let client = world.client().header("idempotency-key", "k1");
        let again = client.post(BATCH, &body).await.ok().json();
        assert_ne!(again["transaction_id"], failed);
        assert_both(&world, &[1, 2], "the second time").await;
        assert_eq!(told(&world, &failed).await, "Failed");
        assert_eq!(client.post(BATCH, &body).await.ok().json(), again);
    }
}

#[tokio::test]
async fn the_same_values_in_another_spelling_are_the_same_batch() {
    let mut world = world("").await;
    let keyed = |world: &crate::harness::World| world.client().header("idempotency-key", "k1");
    let body = pair(&world, 2);
    let first = keyed(&world).post(BATCH, &body).await.ok().json();
    let entries = body["entries"].as_array().unwrap().iter();
    let entries: Vec<String> = entries
        .map(|entry| {
            let (name, path) = (&entry["id"][0], entry["manifest_path"].as_str().unwrap());
            let path = path.replace('s', "\\u0073");
            let size = &entry["manifest_size"];
            format!(
                "{{\"manifest_size\" : {size},\n\"version\":2, \"manifest_path\":\"{path}\", \"id\":[ {name}, \"t1\" ]}}"
            )
        })
        .collect();
    let spelled = format!("{{\n \"entries\" : [{}]\n}}", entries.join(" , "));
    for _ in 0..2 {
        let again = keyed(&world).post_bytes(BATCH, spelled.clone()).await;
        assert_eq!(again.ok().json(), first);
        world.restart().await;
    }
    let other = spelled.replace("\"t1\"", "\"t2\"");
    let other = keyed(&world).post_bytes(BATCH, other).await;
    assert_eq!(other.status, 422, "{other:?}");
}

#[tokio::test]
async fn a_key_that_cannot_be_kept_is_refused() {
    let world = world("").await;
    let body = pair(&world, 2);
    let long = "k".repeat(256);
    for (keys, says) in [
        (&[""][..], "is empty"),
        (&[&long], "has 256 bytes"),
        (&["a", "b"], "more than once"),
        (&["a", "a"], "more than once"),
        (&["ü"], "visible ASCII"),
        (&["a\tb"], "visible ASCII"),
    ] {
        let client = keys.iter().fold(world.client(), |client, key| {
            client.header("idempotency-key", key)
        });
        for target in [BATCH, "/v1/table/batch-commit"] {
            let body = match target {
                BATCH => body.clone(),
                _ => json!({"operations": [{"create_table_version": body["entries"][0]}]}),
            };
            let reply = client.post(target, &body).await;
            assert_eq!(reply.outcome(), (400, Some(13)), "{keys:?}: {reply:?}");
            assert!(reply.words().contains(says), "{keys:?}: {reply:?}");
        }
    }
    assert_both(&world, &[1], "refused").await;
    let client = world.client().header("idempotency-key", &long[1..]);
    client.post(BATCH, &body).await.ok();
}

/// Batches that share tables in any order do not deadlock, and none is lost or half executed.
#[tokio::test]
async fn batches_that_meet_on_the_same_tables_take_turns() {
    let world = world("lock_timeout: 10s").await;
    let run = |writer: usize| {
        let mut entries = [stage(&world, "west", 2), stage(&world, "east", 2)].map(|mut entry| {
            let name = entry["id"][0].as_str().unwrap().to_owned();
            let (path, content) = (
                format!("{name} by {writer}"),
                format!("{name} 2 by {writer:02}"),
            );
            world.catalog(&name).store().stage(&path, &content);
            entry["manifest_path"] = json!(path);
            entry["manifest_size"] = json!(content.len());
            entry
        });
        if writer.is_multiple_of(2) {
            entries.reverse();
        }
        start(world.client(), json!({"entries": entries}))
    };
    let replies = futures_util::future::join_all((0..16).map(run)).await;
    let replies: Vec<_> = replies.into_iter().map(Result::unwrap).collect();
    let won = replies.iter().filter(|reply| reply.status == 200).count();
    let lost = replies
        .iter()
        .filter(|reply| reply.outcome() == (409, Some(14)))
        .count();
    assert_eq!((won, lost), (1, 15), "{replies:?}");
    assert_both(&world, &[1, 2], "one of them").await;
    let by = |name: &str| {
        let contents = world.catalog(name).store().contents(&[name, "t1"]).unwrap();
        contents[1].1.split(" by ").last().unwrap().to_owned()
    };
    assert_eq!(by("west"), by("east"));
}
