#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

mod closed;
mod keys;
mod trouble;
mod unfinished;

use std::path::PathBuf;

use uuid::Uuid;

use super::*;
use crate::batch::log::{Action, IntentEntry, Proof, all};
use crate::protocol::identifier::Identifier;

fn intent() -> Arc<Intent> {
    let entry = |version| IntentEntry {
        backend: "lake".into(),
        table: Identifier::from_names(["prod", "t"]).unwrap(),
        branch: None,
        contested: false,
        action: Action::CreateVersion {
            version,
            manifest_size: Some(7),
            e_tag: None,
        },
        catalog: Default::default(),
    };
    Arc::new(Intent {
        entries: vec![entry(2), entry(3)],
        idempotency: Some("k".into()),
        fingerprint: "f".into(),
        context: Vec::new(),
    })
}

fn abort() -> Verdict {
    let proof = Proof {
        e_tag: Some("e".into()),
        ..Proof::default()
    };
    Verdict::Abort {
        proofs: vec![Some(proof), None],
        reason: "taken".into(),
        answer: None,
    }
}

fn open(path: &Path) -> DiskLog {
    DiskLog::open(path, |error| panic!("{error}")).unwrap()
}

fn refused(path: &Path) -> String {
    let opened = DiskLog::open(path, |error| panic!("{error}"));
    opened.err().expect("a refusal").to_string()
}

/// Damages a closed log: its batches name another table.
fn damage(path: &Path) {
    let (table, another) = (br#"["prod","t"]"#, br#"["prod","u"]"#);
    let mut bytes = std::fs::read(path).unwrap();
    let places = 0..bytes.len() - table.len();
    let places: Vec<_> = places
        .filter(|place| bytes[*place..].starts_with(table))
        .collect();
    assert!(!places.is_empty());
    for place in places {
        bytes[place..place + table.len()].copy_from_slice(another);
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_new_log_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("batches.redb");
    drop(open(&path));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn what_was_acknowledged_is_read_back_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/er/batches.redb");
    make_folder(&path).unwrap();
    let (one, two) = (Uuid::now_v7(), Uuid::now_v7());
    {
        let log = open(&path);
        log.intend(one, intent()).await.unwrap();
        log.intend(two, intent()).await.unwrap();
        assert_eq!(log.decide(one, abort()).await.unwrap(), Decision::Abort);
        log.note(one, 1, Settled::Gone).await.unwrap();
    }
    let records = all(&open(&path)).await.unwrap();
    assert_eq!(records.len(), 2);
    assert_eq!(records[0].id, one);
    assert_eq!(records[0].intent, *intent());
    assert_eq!(records[0].settled, [None, Some(Settled::Gone)]);
    assert!(
        matches!(&records[0].verdict, Some(Verdict::Abort { reason, .. }) if reason == "taken")
    );
    assert!(records[1].verdict.is_none());
}

#[tokio::test]
async fn the_first_decision_stands() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder.path().join("log"));
    let id = Uuid::now_v7();
    log.intend(id, intent()).await.unwrap();
    let commit = || Verdict::Commit(Vec::new());
    let (one, two) = tokio::join!(log.decide(id, commit()), log.decide(id, abort()));
    assert_eq!(one.unwrap(), two.unwrap());
    let standing = all(&log).await.unwrap()[0]
        .verdict
        .as_ref()
        .unwrap()
        .decision();
    assert_eq!(log.decide(id, commit()).await.unwrap(), standing);
}

#[tokio::test]
async fn only_batches_that_ended_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder.path().join("log"));
    let ids: Vec<Uuid> = (0..3).map(|_| Uuid::now_v7()).collect();
    for id in &ids {
        log.intend(*id, intent()).await.unwrap();
        log.decide(*id, abort()).await.unwrap();
    }
    log.end(ids[0], 10).await.unwrap();
    log.end(ids[1], 20).await.unwrap();
    log.forget(15).await.unwrap();
    let left: Vec<Uuid> = all(&log).await.unwrap().iter().map(|r| r.id).collect();
    assert_eq!(left, ids[1..]);
}

#[tokio::test]
async fn a_note_on_what_is_over_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder.path().join("log"));
    let id = Uuid::now_v7();
    log.intend(id, intent()).await.unwrap();
    log.decide(id, abort()).await.unwrap();
    log.note(id, 0, Settled::Unseen).await.unwrap();
    log.end(id, 10).await.unwrap();
    log.note(id, 0, Settled::Theirs).await.unwrap();
    let records = all(&log).await.unwrap();
    assert_eq!(records[0].settled[0], Some(Settled::Unseen));
    log.forget(15).await.unwrap();
    log.note(id, 0, Settled::Theirs).await.unwrap();
    assert!(all(&log).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_log_of_many_pages_is_read_whole_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder.path().join("log"));
    for pages in [0, 1, PAGES + 3] {
        let known = all(&log).await.unwrap().len();
        let ids: Vec<Uuid> = (known..pages * PAGE).map(|_| Uuid::now_v7()).collect();
        let written = ids.iter().map(|id| log.intend(*id, intent()));
        for written in futures_util::future::join_all(written).await {
            written.unwrap();
        }
        let read: Vec<Uuid> = all(&log).await.unwrap().iter().map(|it| it.id).collect();
        assert_eq!(read.len(), pages * PAGE);
        assert_eq!(read[known..], ids);
    }
}

/// The pages of forgotten batches are used again.
#[tokio::test]
async fn the_file_is_as_large_as_the_most_that_was_remembered_at_once() {
    const BATCHES: usize = 2000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = open(&path);
    let mut sizes = Vec::new();
    for _ in 0..5 {
        let ids: Vec<Uuid> = (0..BATCHES).map(|_| Uuid::now_v7()).collect();
        let written = ids.iter().map(async |id| {
            log.intend(*id, intent()).await.unwrap();
            log.decide(*id, abort()).await.unwrap();
            log.end(*id, 10).await.unwrap();
        });
        futures_util::future::join_all(written).await;
        log.forget(15).await.unwrap();
        sizes.push(std::fs::metadata(&path).unwrap().len());
    }
    println!("after each {BATCHES} batches: {sizes:?} bytes");
    assert!(sizes[4] <= 2 * sizes[0], "{sizes:?}");
}

#[tokio::test]
async fn a_file_that_is_no_log_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    std::fs::write(&path, vec![7; 9000]).unwrap();
    let error = DiskLog::open(&path, |_| {}).err().unwrap();
    assert!(error.to_string().contains("log"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), vec![7; 9000]);
}

#[test]
fn a_log_has_its_name_only_once_it_is_whole_and_never_takes_it_from_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/log");
    make_folder(&path).unwrap();
    let files = || std::fs::read_dir(path.parent().unwrap()).unwrap().count();
    let (one, two) = (LogFile::at(&path).unwrap(), LogFile::at(&path).unwrap());
    let (made, late) = (one.open().unwrap(), two.open().unwrap());
    assert!(!path.exists());
    one.name().unwrap();
    assert!(path.exists());
    assert!(two.name().is_err());
    drop((made, late, one, two));
    assert_eq!(files(), 1, "what was not finished is cleared away");
    drop(open(&path));
    assert_eq!(files(), 3, "the log, its mark, and the note of its close");
}

#[test]
fn an_empty_file_becomes_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    std::fs::write(&path, b"").unwrap();
    drop(open(&path));
    drop(open(&path));
}

#[tokio::test]
async fn lines_that_cannot_follow_each_other_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder.path().join("log"));
    log.end(Uuid::now_v7(), 1).await.unwrap();
    assert!(matches!(all(&log).await, Err(LogError::Unusable { .. })));
}

/// The folder may belong to a volume that is not mounted.
#[test]
fn a_folder_that_is_missing_is_not_made_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume/log");
    for _ in 0..2 {
        let error = DiskLog::open(&path, |_| {}).err().unwrap().to_string();
        let cure = format!("mkdir -p {}", folder.path().join("volume").display());
        assert!(error.contains(&cure), "{error}");
        assert!(error.contains("batch.create_folder: true"), "{error}");
    }
    assert!(missing_folder(&path).is_some());
    make_folder(&path).unwrap();
    assert!(missing_folder(&path).is_none());
    drop(open(&path));
    assert!(missing_folder(Path::new("log")).is_none(), "where it runs");
}

mod before;
