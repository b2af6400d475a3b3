//! What a gateway that takes a log over reads.

use nsgate::batch::log::{BatchId, Log, Record};

use crate::house::{abort, commit, installed, intent, open};
use crate::postgres::Postgres;

async fn needed(log: &dyn Log) -> Vec<BatchId> {
    let mut read = Vec::new();
    let mut each = |record: Record| read.push(record.id);
    log.scan_needed(&mut each).await.unwrap();
    read
}

#[tokio::test]
async fn only_the_batches_that_have_not_ended_and_the_last_one_are_read() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let config = installed(&server, "takeover").await;
    let log = open(&config).await;
    assert!(needed(&log).await.is_empty());
    // More than two pages.
    let ids: Vec<BatchId> = (0..700).map(|_| BatchId::now_v7()).collect();
    for (number, id) in ids.iter().enumerate() {
        log.intend(*id, intent(None)).await.unwrap();
        let verdict = if number % 2 == 0 { commit() } else { abort() };
        log.decide(*id, verdict).await.unwrap();
    }
    assert_eq!(needed(&log).await, ids, "none has ended");
    for id in ids[..100].iter().chain(&ids[101..600]) {
        log.end(*id, 7).await.unwrap();
    }
    let open: Vec<BatchId> = [ids[100]]
        .into_iter()
        .chain(ids[600..].iter().copied())
        .collect();
    assert_eq!(needed(&log).await, open);
    for id in &ids[600..] {
        log.end(*id, 7).await.unwrap();
    }
    // Without the last one, a new batch could get an earlier id.
    assert_eq!(needed(&log).await, [ids[100], ids[699]]);
    let plan = server.sql(
        "SET search_path = takeover; SET enable_seqscan = off; EXPLAIN SELECT id FROM batch WHERE ended IS NULL AND id > gen_random_uuid() ORDER BY id LIMIT 256",
    );
    assert!(plan.contains("batch_open"), "{plan}");
    log.close().await.unwrap();
}
