//! The file of the audit log, or standard error: whole lines, outages that are stated once, and rotation.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::statvfs::fstatvfs;

use super::AuditRecord;
use crate::telemetry::writer::Sink;
use shortage::Space;
use whole_lines::{Medium, WholeLines};

mod shortage;
mod whole_lines;

/// The time after which a write that has not returned counts as a failure: its reader does not read.
const STALLED: Duration = Duration::from_secs(1);
/// The permissions of a new file: it says who does what.
const MODE: u32 = 0o640;

static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The state of the output, for those who do not write.
#[derive(Default)]
pub(super) struct Health {
    is_failing: AtomicBool,
    /// The error of the last write; `None` if it succeeded.
    error: Mutex<Option<String>>,
    reopen: AtomicBool,
    /// The milliseconds since [`BEGAN`] at which the running write began, plus 1; 0 if none runs.
    writing_since: AtomicU64,
}

/// The output.
pub(super) struct Output {
    to: WholeLines<Target>,
    health: Arc<Health>,
    /// The number of lost lines that are not stated yet.
    lost: u64,
}

enum Target {
    Stderr,
    File(File, PathBuf),
}

impl Health {
    /// True if the last write succeeded, and the running one has not taken long.
    pub(super) fn is_writable(&self) -> bool {
        let since = self.writing_since.load(Ordering::Relaxed);
        let has_stalled = since != 0 && now().saturating_sub(since) > millis(STALLED);
        !has_stalled && !self.is_failing.load(Ordering::Relaxed)
    }

    /// The error of the last write; `None` if it succeeded.
    pub(super) fn error(&self) -> Option<String> {
        let error = self.error.lock();
        error.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the outcome of a write. Returns true if the one before failed.
    fn note(&self, failure: Option<&io::Error>) -> bool {
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        if was_failing || failure.is_some() {
            let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
            *error = failure.map(ToString::to_string);
        }
        was_failing
    }

    /// Has the file opened again before the next write.
    pub(super) fn reopen(&self) {
        self.reopen.store(true, Ordering::Relaxed);
    }
}

impl Output {
    /// Opens a file, or standard error for `None`.
    pub(super) fn open(path: Option<&Path>, health: Arc<Health>) -> io::Result<Self> {
        let to = match path {
            None => Target::Stderr,
            Some(path) => Target::File(file(path)?, path.to_owned()),
        };
        Ok(Self {
            to: WholeLines::new(to),
            health,
            lost: 0,
        })
    }

    /// The file, or `stderr`.
    pub(super) fn target(&self) -> String {
        self.to.medium().shown()
    }

    /// Opens the file again if it was deleted: lines would go where nobody finds them. One that was renamed stays open
    /// until the gateway is told.
    fn find(&mut self) -> io::Result<()> {
        let Target::File(old, path) = self.to.medium() else {
            return Ok(());
        };
        if old.metadata()?.nlink() > 0 {
            return Ok(());
        }
        let path = path.clone();
        let shown = path.display().to_string();
        self.to = WholeLines::new(Target::File(file(&path)?, path));
        tracing::warn!(
            path = shown,
            "the audit log was deleted while it was open; it was created again, and the lines before are lost. Rename it instead, then send SIGHUP"
        );
        Ok(())
    }

    fn reopen(&mut self) {
        if !self.health.reopen.swap(false, Ordering::Relaxed) {
            return;
        }
        let Target::File(_, path) = self.to.medium() else {
            return;
        };
        let path = path.clone();
        let shown = path.display().to_string();
        match file(&path) {
            Ok(new) => {
                self.to = WholeLines::new(Target::File(new, path));
                tracing::info!(path = shown, "audit log opened again");
            }
            Err(error) => tracing::error!(
                path = shown, cause = %error,
                "the audit log cannot be opened again; lines still go to the file that was open. Correct the path or its permissions, then send SIGHUP again"
            ),
        }
    }

    fn state(&mut self, failure: Option<&io::Error>) {
        let was_failing = self.health.note(failure);
        match failure {
            Some(error) if !was_failing => tracing::error!(
                path = self.to.medium().shown(), cause = %error,
                "the audit log cannot be written; lines wait in memory, and are lost when there are too many. Make room on the disk, or correct the reader"
            ),
            None if was_failing => {
                tracing::warn!(
                    path = self.to.medium().shown(),
                    lost = self.lost,
                    "the audit log is written again"
                );
                self.lost = 0;
            }
            None if self.lost > 0 => {
                tracing::error!(
                    path = self.to.medium().shown(),
                    lost = self.lost,
                    "lines of the audit log were lost: its reader or its disk is too slow"
                );
                self.lost = 0;
            }
            _ => {}
        }
    }
}

impl Sink for Output {
    fn linger(&self) -> Duration {
        // A line is on its way at once: a crash loses none that was written.
        Duration::ZERO
    }

    fn write(&mut self, lines: &[u8]) -> usize {
        self.reopen();
        if lines.is_empty() {
            return 0;
        }
        self.health.writing_since.store(now(), Ordering::Relaxed);
        let (written, failure) = match self.find() {
            Ok(()) => self.to.put(lines),
            Err(error) => (0, Some(error)),
        };
        self.health.writing_since.store(0, Ordering::Relaxed);
        self.state(failure.as_ref());
        written
    }

    fn losses(&mut self, lost: u64) -> String {
        self.lost += lost;
        AuditRecord::lost(lost).line()
    }
}

impl Medium for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stderr => io::stderr().lock().write(bytes),
            Self::File(file, _) => file.write(bytes),
        }
    }

    fn take_back(&mut self, bytes: u64) -> bool {
        let Self::File(file, _) = self else {
            return false;
        };
        let length = file.metadata().map(|now| now.len().checked_sub(bytes));
        matches!(length, Ok(Some(length)) if file.set_len(length).is_ok())
    }

    fn space(&self) -> Option<Space> {
        let Self::File(file, _) = self else {
            return None;
        };
        let disk = fstatvfs(file).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.fragment_size());
        Some(Space {
            free: bytes(disk.blocks_free()),
            available: bytes(disk.blocks_available()),
        })
    }
}

impl Target {
    fn shown(&self) -> String {
        match self {
            Self::Stderr => "stderr".to_owned(),
            Self::File(_, path) => path.display().to_string(),
        }
    }
}

fn file(path: &Path) -> io::Result<File> {
    if is_foreign(path) {
        let words = "it holds something else than lines of an audit log";
        return Err(io::Error::new(io::ErrorKind::InvalidData, words));
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(MODE).open(path)
}

/// True for a file that begins as no audit log does, such as a batch log or a configuration.
fn is_foreign(path: &Path) -> bool {
    if !path.metadata().is_ok_and(|it| it.is_file()) {
        return false;
    }
    let mut first = [0];
    let read = File::open(path).and_then(|mut file| file.read(&mut first));
    matches!(read, Ok(1)) && !matches!(first, [b'{' | b'\n'])
}

fn now() -> u64 {
    millis(BEGAN.elapsed()) + 1
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
