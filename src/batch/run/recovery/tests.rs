#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use uuid::{NoContext, Timestamp, Uuid};

use super::*;
use crate::batch::identities::Identities;
use crate::batch::log::disk::DiskLog;
use crate::batch::log::{Intent, Log};
use crate::batch::run::now_millis;
use crate::config::BatchConfig;
use crate::metrics::Metrics;

/// A start that met ids in the wrong order would take a later batch for an earlier one, and its versions for those that
/// an earlier one had undone.
#[tokio::test]
async fn new_batches_come_after_those_in_the_log_though_the_clock_was_set_back() {
    let folder = tempfile::tempdir().unwrap();
    let log = DiskLog::open(&folder.path().join("log"), |error| panic!("{error}"));
    let log: Arc<dyn Log> = Arc::new(log.unwrap());
    let (seconds, nanos) = Timestamp::now(NoContext).to_unix();
    let in_an_hour = Uuid::new_v7(Timestamp::from_unix(NoContext, seconds + 3600, nanos));
    let intent = Intent {
        entries: Vec::new(),
        idempotency: None,
        fingerprint: "f".into(),
    };
    log.intend(in_an_hour, Arc::new(intent)).await.unwrap();
    let metrics = Metrics::new().batch().clone();
    let outcomes = Outcomes::new(
        Arc::clone(&log),
        now_millis,
        (Duration::from_secs(60), 1 << 20),
    );
    let (coordinator, outcomes) = (
        Arc::new(Coordinator::new(log, BatchConfig::default(), metrics)),
        Arc::new(outcomes),
    );
    let finder = Identities::default();
    let finder = finder.finder(&[]);
    recover(&coordinator, &outcomes, &finder).await.unwrap();
    assert!(coordinator.ids.next() > in_an_hour);
    // Otherwise operators would not see for an hour that the batch is old.
    let open = coordinator.open.list();
    assert!(open[0].since_millis <= now_millis());
}
