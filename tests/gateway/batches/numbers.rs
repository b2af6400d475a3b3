//! The metrics of batches match the outcomes of the batches.

use serde_json::json;

use super::{BATCH, pair, stage, stored, until, world};
use crate::catalog::faults::{BROKEN, Fault, PATIENCE};
use crate::harness::World;

const STATES: [&str; 6] = [
    "undecided",
    "committed",
    "undoing",
    "hazard",
    "watching",
    "stranded",
];

async fn number(world: &World, sample: &str) -> u64 {
    world.metric(&format!("nsgate_batch{sample}")).await as u64
}

/// The counts of committed, aborted, refused, unknown and conflicting outcomes.
async fn outcomes(world: &World) -> [u64; 5] {
    let mut all = [0; 5];
    let words = ["committed", "aborted", "refused", "unknown", "conflict"];
    for (count, outcome) in all.iter_mut().zip(words) {
        *count = number(world, &format!("es_total{{outcome=\"{outcome}\"}}")).await;
    }
    all
}

/// The counts of each phase: lock, validate, prepare, decide, undo and total.
async fn phases(world: &World) -> [u64; 6] {
    let mut all = [0; 6];
    let names = ["lock", "validate", "prepare", "decide", "undo", "total"];
    for (count, phase) in all.iter_mut().zip(names) {
        *count = number(
            world,
            &format!("_duration_seconds_count{{phase=\"{phase}\"}}"),
        )
        .await;
    }
    all
}

/// Waits until `watched` batches are watched and no other batch is open.
async fn only_watched(world: &World, watched: u64) {
    let rest = async {
        for state in STATES {
            let expected = if state == "watching" { watched } else { 0 };
            let sample = format!("es_open{{state=\"{state}\"}}");
            while number(world, &sample).await != expected {
                tokio::task::yield_now().await;
            }
        }
    };
    let rests = tokio::time::timeout(PATIENCE, rest).await;
    assert!(rests.is_ok(), "{}", world.log());
}

#[tokio::test]
async fn each_batch_counts_once_and_in_the_phases_that_it_went_through() {
    let world = world("slot_cooldown: 0s").await;
    let (client, east) = (world.client(), world.catalog("east"));
    let once = client.header("idempotency-key", "once");
    let batch = pair(&world, 2);
    for _ in 0..3 {
        once.post(BATCH, &batch).await.ok();
    }
    only_watched(&world, 0).await;
    assert_eq!(outcomes(&world).await, [1, 0, 0, 0, 0]);
    assert_eq!(
        phases(&world).await,
        [1, 1, 1, 1, 0, 1],
        "nothing is undone"
    );

    assert_eq!(client.post(BATCH, &pair(&world, 2)).await.status, 409);
    assert_eq!(outcomes(&world).await, [1, 0, 0, 0, 1]);
    assert_eq!(phases(&world).await, [2, 1, 1, 1, 0, 2]);

    let refusal = Fault::Instead(400, r#"{"error":"no","code":13}"#);
    east.fail("create_table_version", refusal);
    assert_eq!(client.post(BATCH, &pair(&world, 3)).await.status, 400);
    until("it is undone", || stored(&world, "west") == [1, 2]).await;
    only_watched(&world, 0).await;
    assert_eq!(outcomes(&world).await, [1, 1, 0, 0, 1]);
    assert_eq!(phases(&world).await, [3, 2, 2, 2, 1, 3]);

    // A batch of one entry is a batch like any other.
    let alone = json!({"entries": [stage(&world, "west", 3)]});
    client.post(BATCH, &alone).await.ok();
    only_watched(&world, 0).await;
    assert_eq!(outcomes(&world).await, [2, 1, 0, 0, 1]);
    assert_eq!(number(&world, "_entries_count").await, 4);
    assert_eq!(number(&world, "_entries_sum").await, 7);
    assert_eq!(phases(&world).await, [4, 3, 3, 3, 1, 4]);
}

/// The batch is watched for another quarter of an hour, but its tables are free and no request
/// waits. So the time of its undo must end here.
#[tokio::test]
async fn an_undo_takes_no_longer_than_until_its_tables_are_free() {
    let world = world("prepare_timeout: 2s").await;
    let fails = Fault::Instead(500, BROKEN);
    world
        .catalog("east")
        .fail_always("create_table_version", fails);
    let reply = world.client().post(BATCH, &pair(&world, 2)).await;
    assert_eq!(reply.status, 503);
    world.catalog("east").behave();
    only_watched(&world, 1).await;
    assert_eq!(outcomes(&world).await, [0, 1, 0, 0, 0]);
    assert_eq!(phases(&world).await, [1, 1, 1, 1, 1, 1]);
}
