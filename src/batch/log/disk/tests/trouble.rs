//! Logs that are refused, with the reason: open elsewhere, of a later version, without a file; and a writer that
//! cannot continue and says why to all its users.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::Receiver;

use redb::StorageBackend;
use redb::backends::InMemoryBackend;
use tokio::time::timeout;

use super::*;

const WELL: u8 = 0;
const FULL: u8 = 1;
const BROKEN: u8 = 2;

/// A disk whose syncs can be made to fail.
#[derive(Debug, Default)]
struct Disk {
    memory: InMemoryBackend,
    state: Arc<AtomicU8>,
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.memory.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.memory.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.memory.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        match self.state.load(Ordering::SeqCst) {
            FULL => Err(io::Error::other("no space is left")),
            BROKEN => panic!("a bug"),
            _ => self.memory.sync_data(),
        }
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.memory.write(offset, data)
    }
}

/// Returns a log on such a disk, the state of the disk, and the errors that the log reports.
fn log() -> (DiskLog, Arc<AtomicU8>, Receiver<LogError>) {
    let disk = Disk::default();
    let state = Arc::clone(&disk.state);
    let (tell, failure) = std::sync::mpsc::channel();
    let database = Database::builder().create_with_backend(disk).unwrap();
    let log = DiskLog::over(database, move |error| tell.send(error).unwrap());
    assert_eq!(state.load(Ordering::SeqCst), WELL);
    (log.unwrap(), state, failure)
}

/// A writer that only stopped would leave batches waiting forever, in a gateway that reports that
/// it is well.
#[tokio::test]
async fn a_writer_that_panics_has_the_process_end() {
    let (log, state, failure) = log();
    state.store(BROKEN, Ordering::SeqCst);
    assert!(log.intend(Uuid::now_v7(), intent()).await.is_err());
    let failure = failure.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(failure.to_string().contains("panicked: a bug"), "{failure}");
}

/// The close may be the only write, so that no other write has reported the failure before.
#[tokio::test]
async fn a_close_that_fails_says_why() {
    let (log, state, _told) = log();
    state.store(FULL, Ordering::SeqCst);
    let closed = timeout(Duration::from_secs(60), log.close()).await.unwrap();
    let words = closed.unwrap_err().to_string();
    assert!(words.contains("no space is left"), "{words}");
}

#[tokio::test]
async fn a_log_with_words_of_a_later_version_is_left_to_that() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = open(&path);
    let id = Uuid::now_v7();
    log.intend(id, intent()).await.unwrap();
    log.close().await.unwrap();
    drop(log);
    let later = Database::open(&path).unwrap();
    let transaction = later.begin_write().unwrap();
    let note: &[u8] = br#"{"Note":[0,"Shiny"]}"#;
    let mut lines = transaction.open_table(LINES).unwrap();
    lines.insert((id.as_u128(), 1), note).unwrap();
    drop(lines);
    transaction.commit().unwrap();
    drop(later);
    let words = all(&open(&path)).await.unwrap_err().to_string();
    for part in ["Shiny", "A newer gateway wrote it", path.to_str().unwrap()] {
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn a_second_gateway_is_told_that_the_log_has_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let _first = open(&path);
    let words = refused(&path);
    assert!(words.contains("another process has it open"), "{words}");
}

/// A gateway that did not look would start, and end with the first batch.
#[test]
fn a_mark_that_cannot_be_written_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    drop(open(&path));
    std::fs::create_dir(folder.path().join("log.mark.new")).unwrap();
    let words = refused(&path);
    assert!(words.contains("log.mark.new: "), "{words}");
}

/// The disk that a link points to may not be mounted.
#[test]
fn a_link_that_leads_nowhere_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    std::os::unix::fs::symlink(folder.path().join("away"), &path).unwrap();
    let words = refused(&path);
    assert!(words.contains("it is a link"), "{words}");
    assert!(path.is_symlink());
}

/// A pipe or a device has no bytes, so it would be removed as if it were a new log.
#[test]
fn what_is_no_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let words = refused(&path);
    assert!(words.contains("not a file"), "{words}");
    assert!(path.exists() && !path.is_file());
}
