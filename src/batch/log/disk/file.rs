//! Creates, checks and opens the log's file. It gets its name only once it is a complete log, so that a crash during its
//! creation leaves none.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{Builder, Database, DatabaseError, StorageError};
use uuid::Uuid;

use super::cause;
use super::closed::CloseNote;

/// The limit of redb's cache, in bytes. Batches in progress are in memory: only outcomes are read. With 64 MiB a batch costs
/// the same processor time (`batches rate`), and a start that compares every page takes 81 MiB instead of 9 (`batches start`).
const CACHE: usize = 8 << 20;

/// The mode of a new log: it has the names and places of tables, and who changed them.
const MODE: u32 = 0o600;

/// The file of a log, which exists or is to be created.
pub(super) struct LogFile {
    path: PathBuf,
    /// The temporary path at which it is created; `None` if the log exists.
    unnamed: Option<PathBuf>,
}

impl LogFile {
    /// Returns the file at `path`. Its folder must exist.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        if let Some(missing) = missing_folder(path) {
            return Err(io::Error::new(ErrorKind::NotFound, missing));
        }
        let is_there = match fs::metadata(path) {
            // A device or a pipe has length 0, so it would be removed as if it were an empty log.
            Ok(file) if !file.is_file() => {
                let words = "it is not a file, but a folder, a device, a pipe or a socket";
                return Err(io::Error::new(ErrorKind::InvalidInput, words));
            }
            Ok(file) => file.len() > 0,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if fs::symlink_metadata(path).is_ok() {
                    let words = "it is a link, and its target does not exist";
                    return Err(io::Error::new(error.kind(), words));
                }
                false
            }
            Err(error) => return Err(error),
        };
        let unnamed = || with_suffix(path, &format!("new-{}", Uuid::now_v7().simple()));
        Ok(Self {
            path: path.to_owned(),
            unnamed: (!is_there).then(unnamed),
        })
    }

    /// True if the log does not exist yet.
    pub(super) fn is_new(&self) -> bool {
        self.unnamed.is_some()
    }

    /// Opens the database. The error says what is wrong and what can be done.
    pub(super) fn open(&self) -> Result<Database, String> {
        // redb may panic on a damaged file.
        match catch_unwind(AssertUnwindSafe(|| self.look_into())) {
            Ok(opened) => opened.map_err(|error| cause::unopened(&error)),
            Err(panic) => Err(cause::damaged(&cause::said(&*panic))),
        }
    }

    /// Compares every page with its checksum before anything is trusted or written: a page that was damaged while the
    /// log was closed would change what batches are about. It is left out for a file that has not changed since it was
    /// closed with no batch unfinished.
    fn look_into(&self) -> Result<Database, DatabaseError> {
        let path = self.unnamed.as_ref().unwrap_or(&self.path);
        let is_as_closed =
            !self.is_new() && CloseNote::of(path).take().map_err(StorageError::Io)?;
        if self.is_new() {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(MODE);
            options.open(path).map_err(StorageError::Io)?;
        }
        Builder::new()
            .set_cache_size(CACHE)
            .set_check_integrity_on_open(!is_as_closed)
            .create(path)
    }

    /// Gives the new file its name, unless another gateway was faster.
    pub(super) fn name(&self) -> io::Result<()> {
        let Some(unnamed) = &self.unnamed else {
            return Ok(());
        };
        if fs::metadata(&self.path).is_ok_and(|file| file.len() == 0) {
            fs::remove_file(&self.path)?;
        }
        // Unlike a rename, a hard link never replaces a file.
        fs::hard_link(unnamed, &self.path)?;
        fs::remove_file(unnamed)?;
        sync_folder(folder(&self.path))
    }
}

impl Drop for LogFile {
    /// Removes a file that never got its name.
    fn drop(&mut self) {
        if let Some(unnamed) = &self.unnamed {
            let _ = fs::remove_file(unnamed);
        }
    }
}

/// Returns the path of a file beside another one.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// Returns the folder of a file.
pub(super) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Syncs a folder: names in it survive a power loss only after that.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Returns what the operator must do if the folder of a log is missing. It is not created without being told to: it
/// may belong to a volume that is not mounted, and a new log would know nothing about the unfinished batches in the
/// old one.
pub(super) fn missing_folder(log: &Path) -> Option<String> {
    let folder = folder(log);
    let is_missing =
        matches!(fs::metadata(folder), Err(error) if error.kind() == ErrorKind::NotFound);
    is_missing.then(|| {
        let folder = folder.display();
        format!(
            "its folder {folder} does not exist. Mount the volume that it is on; for a new log make the folder \
             (`mkdir -p {folder}`), or set `batch.create_folder: true`"
        )
    })
}

/// Creates a folder and its parents, durably.
pub(super) fn make_folder(wanted: &Path) -> io::Result<()> {
    if wanted.is_dir() {
        return Ok(());
    }
    let above = folder(wanted);
    make_folder(above)?;
    match fs::create_dir(wanted) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => sync_folder(above),
    }
}
