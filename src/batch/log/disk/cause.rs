//! Explains why the log cannot be used or written, so that an operator can act on it.

use std::any::Any;
use std::fmt::Display;
use std::io::ErrorKind;
use std::sync::{Arc, OnceLock};

use redb::{DatabaseError, StorageError};

use crate::batch::log::LogError;

/// The reason why the writer has ended, once it has.
#[derive(Clone, Default)]
pub(super) struct Cause(Arc<OnceLock<String>>);

impl Cause {
    /// Records the reason. Only the first one counts.
    pub(super) fn set(&self, words: String) {
        let _ = self.0.set(words);
    }

    /// Returns the error for a write that was not made.
    pub(super) fn to_error(&self) -> LogError {
        let words = self.0.get().cloned();
        LogError::Write(words.unwrap_or_else(|| "it has stopped".into()))
    }
}

/// Explains why a file cannot be opened as a log.
pub(super) fn unopened(error: &DatabaseError) -> String {
    match error {
        DatabaseError::DatabaseAlreadyOpen => {
            "another process has it open, and each gateway needs a log of its own. Stop that process first, or set another `batch.log` for this gateway"
                .into()
        }
        DatabaseError::Storage(StorageError::Io(cause)) => match cause.kind() {
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof => damaged(cause),
            _ => error.to_string(),
        },
        DatabaseError::Storage(StorageError::Corrupted(cause)) => damaged(cause),
        DatabaseError::UpgradeRequired(_) => damaged(error),
        other => other.to_string(),
    }
}

/// Explains a file that cannot be read.
pub(super) fn damaged(cause: &dyn Display) -> String {
    format!(
        "{cause}. It is damaged, or not a batch log of this version. Restore the newest log together with its own mark, and keep this file to find the cause"
    )
}

/// Adds what to do to the cause of a log that cannot be opened, if its disk is full.
pub(super) fn with_cure(cause: String) -> String {
    // The causes come as texts from several libraries; the numbers are those of EFBIG, ENOSPC and EDQUOT.
    let is_full = [27, 28, 122].map(|number| format!("(os error {number})"));
    if !is_full.iter().any(|number| cause.contains(number)) {
        return cause;
    }
    format!(
        "{cause}. Its disk is full, or has reached a limit, and a start writes a little: make room for some MiB (`df -h`), for example by moving old files of the audit log elsewhere, and start the gateway again. Leave the batch log and the files beside it where they are"
    )
}

/// Returns the message of a panic.
pub(super) fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").to_owned()
}
