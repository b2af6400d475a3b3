//! The same operations give the same records in a file and in PostgreSQL.

use nsgate::batch::log::disk::DiskLog;
use nsgate::batch::log::{BatchId, Log, Resolution};
use nsgate::batch::step::{Hazard, Settled};

use crate::house::{abort, commit, held, installed, intent, open};
use crate::postgres::Postgres;
use crate::random::Random;

const OPERATIONS: u64 = 600;
const SETTLED: [Settled; 11] = [
    Settled::Gone,
    Settled::Unseen,
    Settled::Contested,
    Settled::Leaving,
    Settled::LeavingContested,
    Settled::Theirs,
    Settled::Kept,
    Settled::Removed,
    Settled::Hazard(Hazard::BuiltOn),
    Settled::Hazard(Hazard::OnlyVersion),
    Settled::Hazard(Hazard::Unproven),
];

/// A batch, as far as the operations need to know it.
struct Batch {
    id: BatchId,
    key: String,
    is_decided: bool,
    is_ended: bool,
}

/// Does one operation of a gateway that keeps the protocol with both logs, and compares the answers.
async fn operate(random: &mut Random, batches: &mut Vec<Batch>, logs: [&dyn Log; 2], now: u64) {
    let [file, database] = logs;
    let picked = random.below(batches.len() as u64 * 9 / 8 + 1);
    let Some(batch) = batches.get_mut(usize::try_from(picked).unwrap()) else {
        let (id, key) = (BatchId::now_v7(), format!("key-{now}"));
        let key = if random.chance(50) { Some(key) } else { None };
        for log in logs {
            log.intend(id, intent(key.as_deref())).await.unwrap();
        }
        return batches.push(Batch {
            id,
            key: key.unwrap_or_default(),
            is_decided: false,
            is_ended: false,
        });
    };
    let (id, entry) = (batch.id, usize::try_from(random.below(2)).unwrap());
    match random.below(8) {
        0 | 1 => {
            let verdict = if random.chance(50) { commit() } else { abort() };
            if batch.is_ended && !batch.is_decided {
                return;
            }
            batch.is_decided = true;
            let first = file.decide(id, verdict.clone()).await.unwrap();
            assert_eq!(first, database.decide(id, verdict).await.unwrap());
        }
        2 | 3 if batch.is_decided => {
            let settled = SETTLED[usize::try_from(random.below(SETTLED.len() as u64)).unwrap()];
            for log in logs {
                log.sending(id, entry).await.unwrap();
                log.note(id, entry, settled).await.unwrap();
            }
        }
        4 if !batch.is_ended => {
            let resolution = Resolution {
                commit: random.chance(50),
                who: "ann".into(),
                why: "ä \u{1} \"".into(),
                at: now,
                hazards: vec![1, 0],
            };
            for log in logs {
                log.resolve(id, resolution.clone()).await.unwrap();
            }
        }
        5 if batch.is_decided && !batch.is_ended => {
            batch.is_ended = true;
            for log in logs {
                log.end(id, now).await.unwrap();
            }
        }
        6 => {
            for log in logs {
                log.note(BatchId::now_v7(), 0, Settled::Gone).await.unwrap();
            }
        }
        _ => {
            let found = [file.find(id).await, database.find(id).await];
            let [one, other] = found.map(|found| format!("{:?}", found.unwrap()));
            assert_eq!(one, other);
            let key = &batch.key;
            if key.is_empty() {
                return;
            }
            let found = [file.find_by_key(key).await, database.find_by_key(key).await];
            let [one, other] = found.map(|found| format!("{:?}", found.unwrap()));
            assert_eq!(one, other);
        }
    }
}

#[tokio::test]
async fn random_operations_give_equal_records() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let config = installed(&server, "conformance").await;
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..2 {
        let path = folder.path().join(format!("{seed}.redb"));
        let file = DiskLog::open(&path, |error| panic!("{error}")).unwrap();
        let database = open(&config).await;
        assert_eq!(database.is_new(), seed == 0);
        let mut random = Random::new(seed, 1);
        let mut batches = Vec::new();
        for now in 0..OPERATIONS {
            operate(&mut random, &mut batches, [&file, &database], now).await;
            if now % 200 == 199 {
                assert_eq!(held(&file).await, held(&database).await);
                let before = now - random.below(150);
                for log in [&file as &dyn Log, &database] {
                    log.forget(before).await.unwrap();
                }
                let left = held(&file).await;
                assert_eq!(left, held(&database).await);
                let ids: Vec<BatchId> = nsgate::batch::log::all(&file)
                    .await
                    .unwrap()
                    .iter()
                    .map(|record| record.id)
                    .collect();
                batches.retain(|batch| ids.contains(&batch.id));
            }
        }
        // What was acknowledged is there after the next start, too.
        let before = held(&database).await;
        assert!(before.len() > 20, "{} batches", before.len());
        database.close().await.unwrap();
        assert!(
            database
                .intend(BatchId::now_v7(), intent(None))
                .await
                .is_err()
        );
        let database = open(&config).await;
        assert_eq!(before, held(&database).await);
        database.forget(u64::MAX).await.unwrap();
        database.close().await.unwrap();
        server.sql("DELETE FROM conformance.batch; DELETE FROM conformance.entry; DELETE FROM conformance.resolution");
    }
}
