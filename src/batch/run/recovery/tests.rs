#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use uuid::{NoContext, Timestamp, Uuid};

use super::*;
use crate::batch::identities::Identities;
use crate::batch::log::disk::DiskLog;
use crate::batch::log::{Action, Intent, IntentEntry, Log};
use crate::batch::run::now_millis;
use crate::config::BatchConfig;
use crate::metrics::Metrics;
use crate::protocol::identifier::Identifier;

/// A start that met ids in the wrong order would take a later batch for an earlier one, and its versions for those that
/// an earlier one had undone.
#[tokio::test]
async fn new_batches_come_after_those_in_the_log_though_the_clock_was_set_back() {
    let (seconds, nanos) = Timestamp::now(NoContext).to_unix();
    let in_an_hour = Uuid::new_v7(Timestamp::from_unix(NoContext, seconds + 3600, nanos));
    let (coordinator, outcomes) = left(in_an_hour, Vec::new()).await;
    let finder = Identities::default();
    let finder = finder.finder(&[]);
    recover(&coordinator, &outcomes, &finder).await.unwrap();
    assert!(coordinator.ids.next() > in_an_hour);
    // Otherwise operators would not see for an hour that the batch is old.
    let open = coordinator.open.list();
    assert!(open[0].since_millis <= now_millis());
}

/// It may be a read that does not know of the batch, at a gateway that takes the log over.
#[tokio::test(start_paused = true)]
async fn a_table_in_use_is_locked_by_the_batch_that_an_earlier_life_left_on_it() {
    let (coordinator, outcomes) = left(Uuid::from_u128(7), vec![entry()]).await;
    let table = entry().line().table;
    let (locks, wait) = (&coordinator.locks, Duration::from_millis(10));
    let read = locks.shared(table.clone(), wait).await.unwrap();
    let finder = Identities::default();
    let finder = finder.finder(&[]);
    recover(&coordinator, &outcomes, &finder).await.unwrap();
    assert!(locks.shared(table.clone(), wait).await.is_err());
    drop(read);
    assert!(locks.shared(table, wait).await.is_err());
}

/// Returns a coordinator whose log has an undecided batch.
async fn left(id: BatchId, entries: Vec<IntentEntry>) -> (Arc<Coordinator>, Arc<Outcomes>) {
    let folder = tempfile::tempdir().unwrap();
    let log = DiskLog::open(&folder.path().join("log"), |error| panic!("{error}"));
    let log: Arc<dyn Log> = Arc::new(log.unwrap());
    let intent = Intent {
        entries,
        idempotency: None,
        fingerprint: "f".into(),
        context: Vec::new(),
    };
    log.intend(id, Arc::new(intent)).await.unwrap();
    let metrics = Metrics::new().batch().clone();
    let outcomes = Outcomes::new(
        Arc::clone(&log),
        now_millis,
        (Duration::from_secs(60), 1 << 20),
    );
    let coordinator = Coordinator::new(log, BatchConfig::default(), metrics);
    (Arc::new(coordinator), Arc::new(outcomes))
}

/// The entry of a batch that was to make version 2 of a table.
fn entry() -> IntentEntry {
    IntentEntry {
        backend: "lake".into(),
        table: Identifier::from_names(["t"]).unwrap(),
        branch: None,
        action: Action::CreateVersion {
            version: 2,
            manifest_size: None,
            e_tag: None,
        },
        contested: false,
        catalog: Default::default(),
    }
}

/// The record of a batch that was to make version 2 of a table.
fn record(id: u128, verdict: Verdict, settled: Option<Settled>, ended: Option<u64>) -> Record {
    Record {
        id: Uuid::from_u128(id),
        intent: Intent {
            entries: vec![entry()],
            idempotency: None,
            fingerprint: "f".into(),
            context: Vec::new(),
        },
        verdict: Some(verdict),
        settled: vec![settled],
        resolutions: Vec::new(),
        ended,
    }
}

/// A batch has its id before it has its tables, so one with a higher id may have had them before.
#[test]
fn a_version_that_an_unfinished_batch_has_made_is_not_claimed_by_another_whatever_their_ids() {
    let aborted = |id, settled| record(id, Verdict::abort(Vec::new(), None), Some(settled), None);
    let committed = |id, ended| record(id, Verdict::Commit(Vec::new()), None, ended);
    let let_go = |records: Vec<Record>| {
        let mut past = UnfinishedBatches::default();
        records.into_iter().for_each(|record| past.add(record));
        let is_aborted = |record: &&mut Record| !matches!(record.verdict, Some(Verdict::Commit(_)));
        let record = past.kept.iter_mut().find(is_aborted).unwrap();
        past.made.let_go(record)
    };
    let (contested, unseen) = (Settled::Contested, Settled::Unseen);
    assert_eq!(let_go(vec![committed(1, None), aborted(2, contested)]), [0]);
    assert_eq!(let_go(vec![aborted(1, unseen), committed(2, None)]), [0]);
    assert_eq!(let_go(vec![aborted(1, unseen), committed(2, Some(9))]), [0]);
    // Nobody was to make the version after it had been freed.
    assert!(let_go(vec![committed(1, None), aborted(2, unseen)]).is_empty());
    // It has said whose versions it took before it ended.
    assert!(let_go(vec![committed(1, Some(9)), aborted(2, contested)]).is_empty());
}
