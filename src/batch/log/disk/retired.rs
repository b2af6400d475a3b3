//! Takes the file of a log out of use once its batches are in another log, and brings it back if that move did not
//! finish.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::file::{LogFile, folder, sync_folder, with_suffix};
use super::mark;
use crate::batch::log::move_note::MoveNote;

/// The files of a log at one path, for `nsgate log move`.
pub(in crate::batch::log) struct LogFiles(PathBuf);

impl LogFiles {
    pub(in crate::batch::log) fn of(log: &Path) -> Self {
        Self(log.to_owned())
    }

    /// Returns the path of a file that belongs to the log.
    fn beside(&self, suffix: &str) -> PathBuf {
        with_suffix(&self.0, suffix)
    }

    /// Returns the path of a copy of a log that is not complete yet.
    pub(in crate::batch::log) fn copy(&self) -> PathBuf {
        self.beside("moving")
    }

    /// Reads where the batches are; `None` if the log itself has them, or there is none.
    pub(in crate::batch::log) fn note(&self) -> Option<MoveNote> {
        mark::note(&self.0)
    }

    /// Writes where the batches are. From then on no gateway starts with the log, nor with a new one in its place.
    ///
    /// # Errors
    /// The mark cannot be written.
    pub(in crate::batch::log) fn put_note(&self, note: &MoveNote) -> io::Result<()> {
        mark::write_note(&self.0, note)
    }

    /// Notes where the batches are, and gives the log another name. It may be open, and nothing may be written to it.
    ///
    /// # Errors
    /// The mark cannot be written, or the file not be renamed.
    pub(in crate::batch::log) fn retire(&self, note: &MoveNote) -> io::Result<()> {
        // The note comes first: a move that ends here finds it, and goes on.
        self.put_note(note)?;
        rename(&self.0, &self.beside("moved"))
    }

    /// Takes back what [`retire`](Self::retire) did.
    ///
    /// # Errors
    /// A process has the log open, or its files cannot be changed; the words are for the operator.
    pub(in crate::batch::log) fn bring_back(&self) -> Result<(), String> {
        let moved = self.beside("moved");
        let path = if self.0.exists() { &self.0 } else { &moved };
        // A move that still goes on has it open.
        drop(
            LogFile::at(path)
                .map_err(|error| error.to_string())?
                .open()?,
        );
        if *path == moved {
            rename(&moved, &self.0).map_err(|error| error.to_string())?;
        }
        // The name comes first: without a log, an empty mark allows a new one.
        mark::accept(&self.0).map_err(|error| error.to_string())
    }

    /// Removes the copy that an earlier move has left, which did not finish.
    pub(in crate::batch::log) fn remove_copy(&self) {
        let copy = self.copy();
        for suffix in ["mark", "closed"] {
            let _ = fs::remove_file(with_suffix(&copy, suffix));
        }
        let _ = fs::remove_file(copy);
    }

    /// Puts the copy in the place of the log. The mark comes last: until then the log has its note.
    ///
    /// # Errors
    /// A file cannot be renamed.
    pub(in crate::batch::log) fn finish(&self) -> io::Result<()> {
        let copy = self.copy();
        // It would not fit a file with another name.
        let _ = fs::remove_file(with_suffix(&copy, "closed"));
        if !self.0.exists() {
            rename(&copy, &self.0)?;
        }
        rename(&with_suffix(&copy, "mark"), &self.beside("mark"))
    }
}

/// Gives a file another name, durably.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    sync_folder(folder(to))
}
