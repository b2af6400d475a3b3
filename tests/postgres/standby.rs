//! Commits that wait for a synchronous standby: one that does not get it is never acknowledged.

use std::sync::Arc;

use nsgate::batch::log::{BatchId, Log};
use nsgate::batch::step::Decision;

use crate::house::{commit, installed, intent, open, until};
use crate::postgres::Postgres;

/// The connections whose write of batches waits for a standby.
const WAITING: &str =
    "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%write_1%'";

/// Ends the wait of a write with this function of the server. The write must be made again, and not be answered.
async fn is_written_again_after(function: &str) {
    let Some(server) = Postgres::start() else {
        return;
    };
    let log = Arc::new(open(&installed(&server, "nsgate").await).await);
    let id = BatchId::now_v7();
    log.intend(id, intent(None)).await.unwrap();
    server.miss_standby();
    let deciding = Arc::clone(&log);
    let decided = tokio::spawn(async move { deciding.decide(id, commit()).await.unwrap() });
    let waiting = || server.sql(&format!("SELECT pid {WAITING}"));
    until("it waits", async || !waiting().is_empty()).await;
    let first = waiting();
    server.sql(&format!("SELECT {function}({first})"));
    let again = format!("SELECT pid {WAITING} AND pid <> {first}");
    until("it is answered, or made again", async || {
        decided.is_finished() || !server.sql(&again).is_empty()
    })
    .await;
    assert!(!decided.is_finished(), "a failover could lose it");
    server.need_no_standby();
    assert_eq!(decided.await.unwrap(), Decision::Commit);
    log.close().await.unwrap();
}

/// The server warns then, and answers as ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_wait_for_a_standby_was_cancelled_is_not_acknowledged() {
    is_written_again_after("pg_cancel_backend").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_connection_was_ended_while_it_waited_is_not_acknowledged() {
    is_written_again_after("pg_terminate_backend").await;
}
