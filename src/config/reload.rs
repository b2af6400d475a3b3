//! Reloading of the configuration: the files that it depends on, the differences, and what only a restart can
//! change.

mod difference;

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::load::{self, Loaded, Problems};

pub use super::load::digests::Digests;
pub use difference::{Difference, Fixed};

/// A configuration file as it was read, with the digests of the files that it names.
pub struct Reading {
    /// The configuration, or its problems.
    pub loaded: Result<Loaded, Problems>,
    /// The digests of the files, taken before they were read: if they differ later, the files must be read
    /// again.
    pub digests: Digests,
}

impl Reading {
    /// Reads the file at `path` and the files that it names. Blocks.
    pub fn of(path: &Path) -> Self {
        let loaded = load::from_path(path);
        let digests = match &loaded {
            Ok(loaded) => loaded.files.clone(),
            Err(problems) => problems.files.clone(),
        };
        Self { loaded, digests }
    }
}

/// The trigger of a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// SIGHUP.
    Signal,
    /// `POST /reload`.
    Request,
    /// A file that the configuration names has changed.
    File,
}

impl Trigger {
    /// Returns the word for it in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Signal => "SIGHUP",
            Self::Request => "POST /reload",
            Self::File => "a changed file",
        }
    }
}

/// The result of a reload.
#[derive(Debug, Clone)]
pub struct Report {
    /// The time, in UTC (RFC 3339).
    pub at: String,
    /// The trigger.
    pub trigger: Trigger,
    /// The changes that are active now, or every problem that kept them from it; then nothing has changed.
    pub outcome: Result<Applied, Vec<String>>,
}

/// The changes that a reload has activated.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Applied {
    /// The changed keys.
    #[serde(flatten)]
    pub difference: Difference,
    /// The files, besides the configuration itself, whose contents have changed.
    pub files: Vec<PathBuf>,
    /// The warnings for the author of the configuration.
    pub warnings: Vec<String>,
}
