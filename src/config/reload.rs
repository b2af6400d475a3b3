//! Reading the configuration again: which files it hangs on, what differs, and what only a restart can change.

mod difference;
mod digests;

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::load::{self, Loaded, Problems};

pub use difference::{Difference, Fixed};
pub use digests::Digests;

/// How often files are looked at again that a reading found named only as it read.
const ROUNDS: usize = 4;

/// A configuration file as it was read, with what was in every file it names.
pub struct Reading {
    /// What it says.
    pub loaded: Result<Loaded, Problems>,
    /// What was in the files before they were read: who finds something else there later must read again.
    pub digests: Digests,
}

impl Reading {
    /// Reads the file at `path` and the files that it names. Blocks.
    pub fn of(path: &Path) -> Self {
        let mut digests = Digests::default();
        let mut loaded = load::from_path(path);
        for _ in 0..ROUNDS {
            let files = match &loaded {
                Ok(loaded) => &loaded.files,
                Err(problems) => &problems.files,
            };
            if !digests.add(files) {
                break;
            }
            loaded = load::from_path(path);
        }
        Self { loaded, digests }
    }
}

/// What asked for a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// SIGHUP.
    Signal,
    /// `POST /reload`.
    Request,
    /// A file that the configuration names is not what it was.
    File,
}

/// What became of a reload.
#[derive(Debug, Clone)]
pub struct Report {
    /// When, in UTC (RFC 3339).
    pub at: String,
    /// Why.
    pub trigger: Trigger,
    /// What is in use now, or everything that kept it from being so: then nothing has changed.
    pub outcome: Result<Applied, Vec<String>>,
}

/// What a reload has brought into use.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Applied {
    /// What is different.
    #[serde(flatten)]
    pub difference: Difference,
    /// The files, besides the configuration itself, that have other contents.
    pub files: Vec<PathBuf>,
    /// What its author should know.
    pub warnings: Vec<String>,
}
