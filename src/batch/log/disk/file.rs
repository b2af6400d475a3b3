//! The log's file: it has its name only once it is a whole log, so that a crash while it is made leaves none.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use redb::{Builder, Database, DatabaseError};
use uuid::Uuid;

use super::cause;

/// What redb may keep of the file in memory.
const CACHE: usize = 64 << 20;

/// A log's file, opened or to be made.
pub(super) struct LogFile {
    path: PathBuf,
    /// Where it is made, if there is none.
    unnamed: Option<PathBuf>,
}

impl LogFile {
    /// The file at `path`, whose folder is there.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        if let Some(missing) = missing_folder(path) {
            return Err(io::Error::new(ErrorKind::NotFound, missing));
        }
        let is_there = match fs::metadata(path) {
            // A device or a pipe is empty by its length; it would be removed for a log.
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

    /// Whether it is still to be made.
    pub(super) fn is_new(&self) -> bool {
        self.unnamed.is_some()
    }

    /// The database in it. The error says what is wrong and what can be done.
    pub(super) fn open(&self) -> Result<Database, String> {
        // What is damaged may make no sense at all to who reads it.
        match catch_unwind(AssertUnwindSafe(|| self.look_into())) {
            Ok(opened) => opened.map_err(|error| cause::unopened(&error)),
            Err(panic) => Err(cause::damaged(&cause::said(&*panic))),
        }
    }

    /// Every page is compared with its checksum before anything is believed or written: one that went bad while nobody
    /// had the log open would change what batches are about.
    fn look_into(&self) -> Result<Database, DatabaseError> {
        let path = self.unnamed.as_ref().unwrap_or(&self.path);
        let repaired = Rc::new(Cell::new(false));
        let tell = Rc::clone(&repaired);
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE);
        builder.set_repair_callback(move |_| tell.set(true));
        let mut database = builder.create(path)?;
        // After a crash that was done already.
        if !self.is_new() && !repaired.get() {
            database.check_integrity()?;
        }
        Ok(database)
    }

    /// Gives what was made its name, unless another gateway was faster.
    pub(super) fn name(&self) -> io::Result<()> {
        let Some(unnamed) = &self.unnamed else {
            return Ok(());
        };
        if fs::metadata(&self.path).is_ok_and(|file| file.len() == 0) {
            fs::remove_file(&self.path)?;
        }
        // A link never replaces a file, as a rename does.
        fs::hard_link(unnamed, &self.path)?;
        fs::remove_file(unnamed)?;
        sync_folder(folder(&self.path))
    }
}

impl Drop for LogFile {
    /// What has no name is of no use.
    fn drop(&mut self) {
        if let Some(unnamed) = &self.unnamed {
            let _ = fs::remove_file(unnamed);
        }
    }
}

/// The path of a file beside another one.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// The folder of a file.
pub(super) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Names in a folder survive a power loss only once the folder itself is synced.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// What is to be done where the folder of a log is missing. It is not made unasked: it may be that of a volume that is
/// not mounted, and a new log would know nothing of what the batches in the old one have left to do.
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

/// Makes a folder and those above it, durably.
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
