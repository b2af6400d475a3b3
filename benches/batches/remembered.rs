//! Logs of batches that are over.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::join_all;
use nsgate::batch::log::disk::DiskLog;
use nsgate::batch::log::{Action, BatchId, Intent, IntentEntry, Log as _, Verdict};
use nsgate::protocol::identifier::Identifier;
use serde_json::value::RawValue;

/// The number of batches that are written at a time.
const GROUP: usize = 1000;

/// Writes a log of so many batches that are over.
pub async fn write(path: &Path, batches: usize) {
    let log = DiskLog::open(path, |error| panic!("{error}")).unwrap();
    add(&log, batches).await;
    log.close().await.unwrap();
}

/// Adds so many batches that are over, at the time 1.
pub async fn add(log: &DiskLog, batches: usize) {
    let version = "{\"version\":2,\"manifest_path\":\"warehouse/events.lance/_versions/18446744073709551613.manifest\",\
        \"manifest_size\":1002,\"e_tag\":\"\\\"5d41402abc4b2a76b9719d911017c592\\\"\",\"timestamp_millis\":1763700000000}";
    let answer = || RawValue::from_string(version.to_owned()).unwrap();
    for first in (0..batches).step_by(GROUP) {
        let ids: Vec<BatchId> = (0..GROUP.min(batches - first))
            .map(|_| BatchId::now_v7())
            .collect();
        let intents = ids
            .iter()
            .enumerate()
            .map(|(at, id)| log.intend(*id, Arc::new(intent(first + at))));
        join_all(intents).await.into_iter().for_each(Result::unwrap);
        let decisions = ids
            .iter()
            .map(|id| log.decide(*id, Verdict::Commit(vec![answer(), answer()])));
        for decided in join_all(decisions).await {
            decided.unwrap();
        }
        let ends = ids.iter().map(|id| log.end(*id, 1));
        join_all(ends).await.into_iter().for_each(Result::unwrap);
    }
}

/// Returns the intent for versions of two tables of two catalogs.
pub fn intent(number: usize) -> Intent {
    let entries = ["c0", "c1"].map(|backend| IntentEntry {
        backend: backend.into(),
        table: Identifier::from_names([format!("t{number}")]).unwrap(),
        branch: None,
        action: Action::CreateVersion {
            version: 2,
            manifest_size: Some(1002),
            e_tag: None,
        },
        catalog: Default::default(),
        contested: false,
    });
    Intent {
        entries: entries.into(),
        idempotency: None,
        fingerprint: format!("{number:064x}"),
        context: Vec::new(),
    }
}
