#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::batch::log::disk::DiskLog;
use crate::batch::log::{BatchId, Intent, Log as _};

/// A folder with a log, its mark, and copies of both.
struct Shelf(TempDir);

impl Shelf {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn copy(&self, from: &str, to: &str) {
        fs::copy(self.at(from), self.at(to)).unwrap();
    }

    fn open(&self) -> Result<DiskLog, String> {
        let opened = DiskLog::open(&self.at("log"), |error| panic!("{error}"));
        opened.map_err(|error| error.to_string())
    }

    /// Opens the log, writes to it and closes it, as one process would.
    async fn lives(&self) -> Result<(), String> {
        write(&self.open()?).await;
        Ok(())
    }

    fn refused(&self, words: &[&str]) {
        let refusal = self.open().err().unwrap();
        for word in words {
            assert!(refusal.contains(word), "{word}: {refusal}");
        }
    }
}

async fn write(log: &DiskLog) {
    let intent = Intent {
        entries: Vec::new(),
        idempotency: None,
        fingerprint: String::new(),
        context: Vec::new(),
    };
    log.intend(BatchId::now_v7(), Arc::new(intent))
        .await
        .unwrap();
}

#[tokio::test]
async fn an_old_copy_is_refused_and_the_newest_log_is_not() {
    let shelf = Shelf::new();
    shelf.lives().await.unwrap();
    shelf.copy("log", "old");
    shelf.lives().await.unwrap();
    shelf.copy("log", "newest");
    shelf.copy("old", "log");
    shelf.refused(&["old copy", "mark 1,", "has mark 2", "log.mark", "empty "]);
    shelf.copy("newest", "log");
    shelf.lives().await.unwrap();
}

#[tokio::test]
async fn a_copy_taken_while_the_gateway_runs_is_told_apart() {
    let shelf = Shelf::new();
    let log = shelf.open().unwrap();
    write(&log).await;
    shelf.copy("log", "old");
    write(&log).await;
    // A crash counts nothing at the end, so the writer must count while it runs.
    let counted = async {
        while fs::read_to_string(shelf.at("log.mark"))
            .unwrap()
            .ends_with("mark 1\n")
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), counted).await;
    assert!(waited.is_ok(), "never counted");
    shelf.copy("log", "newest");
    drop(log);
    shelf.copy("old", "log");
    shelf.refused(&["old copy"]);
    shelf.copy("newest", "log");
    shelf.lives().await.unwrap();
}

#[tokio::test]
async fn a_copy_that_lacks_nothing_is_as_good() {
    let shelf = Shelf::new();
    shelf.lives().await.unwrap();
    shelf.copy("log", "copy");
    drop(shelf.open().unwrap());
    shelf.copy("copy", "log");
    shelf.lives().await.unwrap();
}

#[tokio::test]
async fn a_mark_that_is_behind_its_log_is_brought_up() {
    let shelf = Shelf::new();
    shelf.lives().await.unwrap();
    shelf.copy("log", "older");
    shelf.copy("log.mark", "older.mark");
    shelf.lives().await.unwrap();
    // This is the state after a crash between the two writes.
    shelf.copy("older.mark", "log.mark");
    drop(shelf.open().unwrap());
    shelf.copy("older", "log");
    shelf.refused(&["old copy"]);
}

#[tokio::test]
async fn a_log_that_is_gone_is_missed() {
    let shelf = Shelf::new();
    shelf.lives().await.unwrap();
    for gone in [
        |path: &Path| fs::remove_file(path),
        |path: &Path| fs::write(path, ""),
    ] {
        gone(&shelf.at("log")).unwrap();
        shelf.refused(&["it is missing", "Restore it", "delete"]);
    }
    assert_eq!(fs::read(shelf.at("log")).unwrap(), b"", "nothing is made");
    fs::remove_file(shelf.at("log.mark")).unwrap();
    shelf.lives().await.unwrap();
}

#[tokio::test]
async fn a_log_without_its_mark_needs_a_persons_word() {
    let shelf = Shelf::new();
    shelf.lives().await.unwrap();
    shelf.copy("log", "old");
    shelf.lives().await.unwrap();
    shelf.copy("log", "newest");
    shelf.copy("old", "log");
    fs::remove_file(shelf.at("log.mark")).unwrap();
    shelf.refused(&["log.mark is missing", "create an empty file"]);
    fs::write(shelf.at("log.mark"), "").unwrap();
    shelf.lives().await.unwrap();
    // From here on, the log that was replaced counts as another one.
    shelf.copy("newest", "log");
    shelf.refused(&["belongs to another log"]);
}

#[tokio::test]
async fn marks_of_other_logs_and_no_marks_are_refused() {
    let (shelf, other) = (Shelf::new(), Shelf::new());
    shelf.lives().await.unwrap();
    other.lives().await.unwrap();
    fs::copy(other.at("log.mark"), shelf.at("log.mark")).unwrap();
    shelf.refused(&["belongs to another log"]);
    fs::write(shelf.at("log.mark"), "nsgate batch log x mark 1").unwrap();
    shelf.refused(&["log.mark", "empty this file"]);
}

#[test]
fn a_crash_while_a_log_is_made_leaves_one_that_opens() {
    let shelf = Shelf::new();
    // A crash can leave the mark file and a log without a mark.
    drop(shelf.open().unwrap());
    let mark = fs::read_to_string(shelf.at("log.mark")).unwrap();
    assert!(mark.ends_with("mark 0\n"), "{mark}");
    fs::remove_file(shelf.at("log")).unwrap();
    drop(shelf.open().unwrap());
    assert_eq!(fs::read_to_string(shelf.at("log.mark")).unwrap(), mark);
    // This is a log from before there were marks.
    fs::remove_file(shelf.at("log")).unwrap();
    fs::remove_file(shelf.at("log.mark")).unwrap();
    drop(Database::create(shelf.at("log")).unwrap());
    drop(shelf.open().unwrap());
    drop(shelf.open().unwrap());
}
