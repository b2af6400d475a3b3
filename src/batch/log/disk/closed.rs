//! A note beside the log: how its file was when it was closed in order, with no batch unfinished.
//!
//! A start compares every page of the log with its checksum, which takes seconds for a log of gigabytes. It does not if
//! the file is still as the note says: nothing is to be undone then that a page could have been changed under. The note
//! is gone while the log is open, so a crash leaves none.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use super::file::{folder, sync_folder, with_suffix};

/// The time between the last write to the log and the note. It is longer than a tick of the file system's clock, so
/// that a later change has another time.
const TICK: Duration = Duration::from_millis(20);

/// The largest number of bytes that are read of the note, which is always shorter.
const NOTE_MAX: u64 = 4096;

/// The note beside a log.
pub(super) struct CloseNote {
    log: PathBuf,
    path: PathBuf,
}

impl CloseNote {
    /// Returns the note beside the log at `log`, which may exist or not.
    pub(super) fn of(log: &Path) -> Self {
        Self {
            log: log.to_owned(),
            path: with_suffix(log, "closed"),
        }
    }

    /// Removes the note, durably. Returns true if there was one and the log is as it says.
    pub(super) fn take(&self) -> io::Result<bool> {
        let mut noted = Vec::new();
        let read = File::open(&self.path).and_then(|it| it.take(NOTE_MAX).read_to_end(&mut noted));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(self.named(&error)),
        }
        fs::remove_file(&self.path).map_err(|error| self.named(&error))?;
        sync_folder(folder(&self.path))?;
        let log = fs::metadata(&self.log)?;
        Ok(words(&log).is_some_and(|words| words.as_bytes() == noted))
    }

    /// Writes the note, for a log that has just been closed. A note that is lost or cut only costs time at the next
    /// start, so it is not made durable.
    pub(super) fn leave(&self) -> io::Result<()> {
        sleep(TICK);
        match words(&fs::metadata(&self.log)?) {
            Some(words) => fs::write(&self.path, words),
            None => Ok(()),
        }
    }

    fn named(&self, error: &io::Error) -> io::Error {
        let words = format!("{}: {error}", self.path.display());
        io::Error::new(error.kind(), words)
    }
}

/// Returns what tells a file from itself after a change: its length, its inode, and the times of its last changes.
/// `None` if the file system counts whole seconds: a change soon after the note would have the same times.
fn words(file: &Metadata) -> Option<String> {
    let (modified, changed) = (file.mtime_nsec(), file.ctime_nsec());
    (modified != 0 || changed != 0).then(|| {
        format!(
            "nsgate batch log closed, {} bytes, inode {}, modified {}.{modified:09}, changed {}.{changed:09}\n",
            file.len(),
            file.ino(),
            file.mtime(),
            file.ctime(),
        )
    })
}
