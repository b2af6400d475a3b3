//! The files that a configuration names.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::digests::Digests;

/// The files that a configuration names, whether they exist or not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::config) struct NamedFiles(Rc<RefCell<Digests>>);

impl NamedFiles {
    /// Takes the digest of a file. Must be called before anything else reads it: a file that changes in between then has
    /// another digest, and is read again.
    pub(in crate::config) fn note(&self, path: &Path) {
        self.0.borrow_mut().add(path);
    }

    /// Returns the digests of all files.
    pub(super) fn all(&self) -> Digests {
        self.0.take()
    }
}

/// Describes why a file could not be read, and what to do about it.
pub(in crate::config) fn unreadable(path: &Path, error: &std::io::Error) -> String {
    let path = path.display();
    match error.kind() {
        std::io::ErrorKind::NotFound => format!(
            "there is no file {path}; create it, or correct the path, which starts from the folder of the configuration"
        ),
        std::io::ErrorKind::PermissionDenied => format!(
            "this user may not read the file {path}; change its owner or mode, or run as another user"
        ),
        _ => format!(
            "the file {path} cannot be read ({error}); put right what the system complains about"
        ),
    }
}

/// Returns `path` below `base` unless it is absolute, without `.` in between.
pub(in crate::config) fn resolve(base: &Path, path: impl AsRef<Path>) -> PathBuf {
    base.join(path).components().collect()
}
