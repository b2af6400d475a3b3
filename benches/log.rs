//! What the batch log costs when it is old: its file, forgetting, and reading it at a start.
//!
//! `cargo bench --bench log -- [BATCHES]`; its file is in the folder for temporary files (`TMPDIR`).

#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a measurement that cannot be made ends"
)]

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use nsgate::batch::log::disk::DiskLog;
use nsgate::batch::log::{Action, BatchId, Intent, IntentEntry, Log, Verdict};
use nsgate::protocol::identifier::Identifier;
use serde_json::value::RawValue;

/// Batches that write at a time.
const AT_A_TIME: u64 = 1000;
/// Batches in the first part.
const PASSING: u64 = 200_000;
/// Of these so many are remembered.
const REMEMBERED: u64 = 20_000;
/// Batches in the second part, unless another number is asked for.
const KEPT: u64 = 1_000_000;

#[tokio::main]
async fn main() {
    let asked = std::env::args().find_map(|word| word.parse().ok());
    let folder = tempfile::tempdir().unwrap();
    passing(&folder.path().join("passing")).await;
    kept(&folder.path().join("kept"), asked.unwrap_or(KEPT)).await;
}

/// Batches come and are forgotten: the file must not go on growing.
async fn passing(path: &Path) {
    let log = DiskLog::open(path, |error| panic!("{error}")).unwrap();
    println!("{PASSING} batches, {REMEMBERED} of them remembered");
    let begun = Instant::now();
    for first in (0..PASSING).step_by(AT_A_TIME as usize) {
        batches(&log, first).await;
        log.forget(first.saturating_sub(REMEMBERED)).await.unwrap();
        if (first + AT_A_TIME) % (PASSING / 8) == 0 {
            println!(
                "  after {:>9}: {:>6.1} MiB, {:.1} s",
                first + AT_A_TIME,
                mib(path),
                begun.elapsed().as_secs_f64()
            );
        }
    }
}

/// A day's batches are remembered: what a start reads, and what forgetting them keeps waiting.
async fn kept(path: &Path, number: u64) {
    let open = || DiskLog::open(path, |error| panic!("{error}")).unwrap();
    {
        let log = open();
        for first in (0..number).step_by(AT_A_TIME as usize) {
            batches(&log, first).await;
        }
        println!("{number} batches that ended: {:.1} MiB", mib(path));
        let begun = Instant::now();
        log.forget(0).await.unwrap();
        println!("  forgetting none of them: {:.1?}", begun.elapsed());
    }
    let before = memory();
    let begun = Instant::now();
    let log = open();
    println!("  opening: {:.2?}", begun.elapsed());
    let begun = Instant::now();
    let records = log.scan().await.unwrap();
    println!(
        "  reading: {:.2?}, {} batches, {:.0} MiB of memory more",
        begun.elapsed(),
        records.len(),
        memory() - before
    );
    drop(records);

    // Somebody writes meanwhile.
    let longest = Cell::new(Duration::ZERO);
    let write_on = async {
        loop {
            let asked = Instant::now();
            log.intend(BatchId::now_v7(), intent()).await.unwrap();
            longest.set(longest.get().max(asked.elapsed()));
        }
    };
    let begun = Instant::now();
    tokio::select! {
        forgotten = log.forget(number) => forgotten.unwrap(),
        () = write_on => {}
    }
    println!(
        "  forgetting all of them: {:.1?}; the longest that another write waited: {:.1?}",
        begun.elapsed(),
        longest.get()
    );
}

/// Batches that begin, commit and end at the times `first`, `first + 1`, ….
async fn batches(log: &DiskLog, first: u64) {
    let batch = |number| async move {
        let id = BatchId::now_v7();
        log.intend(id, intent()).await.unwrap();
        log.decide(id, verdict()).await.unwrap();
        log.end(id, number).await.unwrap();
    };
    join_all((first..first + AT_A_TIME).map(batch)).await;
}

fn intent() -> Arc<Intent> {
    let entry = |table| IntentEntry {
        backend: "warehouse".into(),
        table: Identifier::from_names(["prod", "events", table]).unwrap(),
        branch: None,
        action: Action::CreateVersion {
            version: 4711,
            manifest_size: Some(8192),
            e_tag: None,
        },
    };
    Arc::new(Intent {
        entries: vec![entry("clicks"), entry("sessions")],
        idempotency: None,
        fingerprint: "0123456789abcdef0123456789abcdef".into(),
    })
}

fn verdict() -> Verdict {
    let version = r#"{"version":4711,"manifest_path":"prod/events/clicks/_versions/18446744073709546904.manifest","manifest_size":8192,"e_tag":"0123456789abcdef","timestamp_millis":1760000000000}"#;
    let version = || RawValue::from_string(version.into()).unwrap();
    Verdict::Commit(vec![version(), version()])
}

fn mib(path: &Path) -> f64 {
    std::fs::metadata(path).unwrap().len() as f64 / f64::from(1 << 20)
}

/// Resident, in MiB.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}
