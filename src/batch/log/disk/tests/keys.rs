//! Finds a batch by its id and by its key, however old the version that wrote it.

use redb::ReadableTable;

use super::*;
use crate::batch::log::reread;
use crate::batch::step::Refusal;
use crate::error::origin::ErrorOrigin;

fn with_key(key: Option<&str>) -> Arc<Intent> {
    let mut intent = Intent::clone(&intent());
    intent.idempotency = key.map(str::to_owned);
    Arc::new(intent)
}

async fn found(log: &DiskLog, key: &str) -> Option<BatchId> {
    let record = log.find_by_key(key).await.unwrap();
    record.map(|record| record.id)
}

async fn ended(log: &DiskLog, key: Option<&str>, at: u64) -> BatchId {
    let id = Uuid::now_v7();
    log.intend(id, with_key(key)).await.unwrap();
    log.decide(id, abort()).await.unwrap();
    log.end(id, at).await.unwrap();
    id
}

#[tokio::test]
async fn a_batch_is_found_by_its_name_and_the_last_by_its_key_until_it_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut log = open(&path);
    assert_eq!(found(&log, "k").await, None);
    let (one, two) = (
        ended(&log, Some("k"), 10).await,
        ended(&log, Some("k"), 20).await,
    );
    let other = ended(&log, Some("other"), 10).await;
    let without = ended(&log, None, 20).await;
    for _ in 0..2 {
        assert_eq!(found(&log, "k").await, Some(two));
        assert_eq!(found(&log, "other").await, Some(other));
        for id in [one, two, other, without] {
            let record = log.find(id).await.unwrap().unwrap();
            assert_eq!((record.id, record.ended.is_some()), (id, true));
        }
        assert!(log.find(Uuid::now_v7()).await.unwrap().is_none());
        log.close().await.unwrap();
        drop(log);
        log = open(&path);
    }
    log.forget(15).await.unwrap();
    assert_eq!(found(&log, "k").await, Some(two), "begun later");
    assert_eq!(found(&log, "other").await, None);
    assert!(log.find(one).await.unwrap().is_none());
    log.forget(25).await.unwrap();
    assert_eq!(found(&log, "k").await, None);
    log.close().await.unwrap();
    let closed = log.find(two).await;
    assert!(matches!(closed, Err(LogError::Unusable { .. })));
    // Forgotten batches leave no key behind: only the row `LATEST` remains.
    drop(log);
    let database = Database::open(&path).unwrap();
    let write = database.begin_write().unwrap();
    let keys: TableDefinition<'_, &str, u128> = TableDefinition::new("keys");
    assert_eq!(write.open_table(keys).unwrap().iter().unwrap().count(), 1);
}

/// Reads a log without a table of keys, as older versions write it, and one whose table lacks the last batch, because
/// an older version ran in between.
#[tokio::test]
async fn the_keys_in_a_log_of_an_older_version_are_found() {
    for in_between in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = open(&path);
        let first = ended(&log, Some("first"), 10).await;
        log.close().await.unwrap();
        drop(log);
        let last = Uuid::now_v7();
        {
            let database = Database::open(&path).unwrap();
            let write = database.begin_write().unwrap();
            let keys: TableDefinition<'_, &str, u128> = TableDefinition::new("keys");
            if !in_between {
                assert!(write.delete_table(keys).unwrap());
            }
            let line = serde_json::to_vec(&Line::Intent(with_key(Some("last")))).unwrap();
            let mut lines = write.open_table(LINES).unwrap();
            lines.insert((last.as_u128(), 0), line.as_slice()).unwrap();
            drop(lines);
            write.commit().unwrap();
        }
        let log = open(&path);
        assert_eq!(found(&log, "first").await, Some(first), "{in_between}");
        assert_eq!(found(&log, "last").await, Some(last), "{in_between}");
    }
}

/// Reads lines that version 0.1.0 wrote before an ABORT held the status and code of its answer.
#[test]
fn lines_of_an_older_version_are_read() {
    let text = include_str!("keys/lines-before-answers.jsonl");
    let (mut aborted, mut committed) = (0, 0);
    for batch in text.split("\n\n") {
        let lines: Vec<&[u8]> = batch.lines().map(str::as_bytes).collect();
        let (record, written) = reread(&lines).unwrap();
        assert_eq!(lines, written, "they would be written as they were");
        assert!(record.ended.is_some());
        match record.verdict.unwrap() {
            Verdict::Commit(versions) => {
                committed += 1;
                assert_eq!(versions.len(), record.intent.entries.len());
            }
            abort => {
                aborted += 1;
                let refusal = abort.refusal().unwrap();
                let expected = Refusal {
                    origin: ErrorOrigin::Catalog,
                    ..Refusal::conflict("table t is busy").at(0)
                };
                assert_eq!(refusal, expected);
            }
        }
    }
    assert_eq!((aborted, committed), (1, 1));
}
