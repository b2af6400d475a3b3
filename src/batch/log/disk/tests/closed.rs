//! The pages of a log are checked at a start, unless its file is as it was when it was closed with nothing to do.

use tempfile::TempDir;

use super::*;

/// Returns a folder with a closed log of one batch, and its path. `is_over`: the batch has ended.
async fn closed(is_over: bool) -> (TempDir, PathBuf, BatchId) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = open(&path);
    let id = Uuid::now_v7();
    log.intend(id, intent()).await.unwrap();
    log.decide(id, abort()).await.unwrap();
    if is_over {
        log.end(id, 10).await.unwrap();
    }
    log.close().await.unwrap();
    (folder, path, id)
}

fn note(path: &Path) -> PathBuf {
    file::with_suffix(path, "closed")
}

#[tokio::test]
async fn a_log_that_has_not_changed_since_it_was_closed_needs_no_check() {
    let (_folder, path, id) = closed(true).await;
    assert!(CloseNote::of(&path).take().unwrap());
    assert!(!CloseNote::of(&path).take().unwrap(), "it says so once");
    let log = open(&path);
    assert!(log.find(id).await.unwrap().is_some());
    assert!(!note(&path).exists(), "a crash now must leave none");
    drop(log);
    assert!(note(&path).exists());
}

/// An undo over a damaged log might delete another table or version instead of the batch's own.
#[tokio::test]
async fn a_log_that_was_damaged_since_it_was_closed_is_refused() {
    for is_over in [true, false] {
        let (_folder, path, _) = closed(is_over).await;
        assert_eq!(note(&path).exists(), is_over);
        damage(&path);
        // A second attempt must fail, too.
        for _ in 0..2 {
            let words = refused(&path);
            assert!(words.contains("It is damaged"), "{words}");
        }
    }
}

/// A change of the same length right after the note, by somebody who puts the old time back.
#[tokio::test]
async fn a_change_that_is_hidden_behind_the_old_time_is_noticed() {
    let (_folder, path, _) = closed(true).await;
    let before = std::fs::metadata(&path).unwrap().modified().unwrap();
    CloseNote::of(&path).leave().unwrap();
    damage(&path);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(before).unwrap();
    drop(file);
    assert!(refused(&path).contains("It is damaged"));
}

/// A copy is checked: this is how most damaged logs come about.
#[tokio::test]
async fn a_copy_is_checked_although_its_note_was_copied_with_it() {
    let (folder, path, _) = closed(true).await;
    let copy = folder.path().join("copy");
    std::fs::copy(&path, &copy).unwrap();
    std::fs::copy(note(&path), note(&copy)).unwrap();
    assert!(!CloseNote::of(&copy).take().unwrap());
}

/// A write that failed leaves it unknown what the file holds, so the next start has to look.
#[tokio::test]
async fn a_log_whose_writer_failed_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = DiskLog::open(&path, |_| {}).unwrap();
    std::fs::create_dir(folder.path().join("log.mark.new")).unwrap();
    // The lines are written, and the mark is not.
    let _ = log.end(Uuid::now_v7(), 10).await;
    assert!(log.close().await.is_err());
    assert!(!note(&path).exists());
}

#[tokio::test]
async fn a_note_that_cannot_be_removed_is_told() {
    let (_folder, path, _) = closed(true).await;
    std::fs::remove_file(note(&path)).unwrap();
    std::fs::create_dir(note(&path)).unwrap();
    let words = refused(&path);
    assert!(words.contains("log.closed: "), "{words}");
}

/// Takes away the assumption: a disk changes what it holds, and no time tells of it. Then a batch that is over is
/// remembered wrong; there is none that could be undone wrong.
#[tokio::test]
async fn a_disk_that_changes_a_closed_log_without_a_trace_changes_what_is_remembered() {
    let (_folder, path, id) = closed(true).await;
    damage(&path);
    CloseNote::of(&path).leave().unwrap();
    let record = open(&path).find(id).await.unwrap().unwrap();
    let table = Identifier::from_names(["prod", "u"]).unwrap();
    assert_eq!(record.intent.entries[0].table, table);
}
