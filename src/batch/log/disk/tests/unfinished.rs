//! The part of a log that a start reads, however old the version that wrote it.

use redb::ReadableTable;

use super::*;

const UNFINISHED: TableDefinition<'_, u128, u128> = TableDefinition::new("unfinished");

async fn needed(log: &DiskLog) -> Vec<BatchId> {
    let mut read = Vec::new();
    let mut each = |record: Record| read.push(record.id);
    log.scan_needed(&mut each).await.unwrap();
    read
}

async fn begun(log: &DiskLog, count: usize) -> Vec<BatchId> {
    let ids: Vec<_> = (0..count).map(|_| Uuid::now_v7()).collect();
    for id in &ids {
        log.intend(*id, intent()).await.unwrap();
        log.decide(*id, abort()).await.unwrap();
    }
    ids
}

async fn reopened(log: DiskLog, path: &Path) -> DiskLog {
    log.close().await.unwrap();
    drop(log);
    open(path)
}

#[tokio::test]
async fn a_start_reads_from_the_first_unfinished_batch_on_and_the_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut log = open(&path);
    assert!(needed(&log).await.is_empty());
    let ids = begun(&log, 40).await;
    assert_eq!(needed(&log).await, ids, "none has ended");
    let mut ended = 0;
    for first in [3, 10, 39] {
        for id in &ids[ended..first] {
            log.end(*id, 10).await.unwrap();
        }
        ended = first;
        log = reopened(log, &path).await;
        assert_eq!(needed(&log).await, ids[first..]);
    }
    log.end(ids[39], 20).await.unwrap();
    log = reopened(log, &path).await;
    // Without it, a new batch could get an earlier id.
    assert_eq!(needed(&log).await, ids[39..], "the last one, in any case");
    log.forget(15).await.unwrap();
    assert_eq!(needed(&log).await, ids[39..]);
    log.forget(25).await.unwrap();
    assert!(needed(&log).await.is_empty());
}

/// Reads a log without a table of unfinished batches, as older versions write it, and one whose table lacks the last
/// batches, because an older version ran in between.
#[tokio::test]
async fn the_unfinished_batches_in_a_log_of_an_older_version_are_found() {
    for in_between in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = open(&path);
        let ids = begun(&log, 5).await;
        for ended in [0, 2, 4] {
            log.end(ids[ended], 10).await.unwrap();
        }
        log.close().await.unwrap();
        drop(log);
        let database = Database::open(&path).unwrap();
        let write = database.begin_write().unwrap();
        if in_between {
            let mut table = write.open_table(UNFINISHED).unwrap();
            table.retain(|_, _| false).unwrap();
            table.insert(0, ids[0].as_u128()).unwrap();
        } else {
            write.delete_table(UNFINISHED).unwrap();
        }
        write.commit().unwrap();
        drop(database);
        let log = open(&path);
        assert_eq!(needed(&log).await, ids[1..], "in between: {in_between}");
        log.end(ids[1], 10).await.unwrap();
        assert_eq!(needed(&log).await, ids[3..]);
    }
}

/// An index that grows with every batch would be a second log.
#[tokio::test]
async fn only_unfinished_batches_are_in_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = open(&path);
    let ids = begun(&log, 20).await;
    for id in &ids[1..] {
        log.end(*id, 10).await.unwrap();
    }
    log.close().await.unwrap();
    drop(log);
    let database = Database::open(&path).unwrap();
    let write = database.begin_write().unwrap();
    let rows = write
        .open_table(UNFINISHED)
        .unwrap()
        .iter()
        .unwrap()
        .count();
    assert_eq!(rows, 2, "one batch, and the latest that the table covers");
}
