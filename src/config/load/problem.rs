//! The problems of a configuration, with their places: one line each, in the form that editors jump
//! to.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hasher as _};

use super::digests::Digests;

/// A position in the file; line and column count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// A problem to be fixed. Its text never holds the value of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file as it was named on the command line.
    pub file: String,
    /// The place in the file; `None` if the file could not be read.
    pub place: Option<Position>,
    /// The key, as `backends.warehouse.properties.uri`; empty for the file as a whole.
    pub key: String,
    /// The message: what is wrong, and what would be right.
    pub message: String,
    /// True if the gateway would start all the same.
    pub warning: bool,
}

/// Every error of one file, sorted by place; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems {
    /// The errors.
    pub errors: Vec<Problem>,
    /// The warnings that were found as well.
    pub warnings: Vec<Problem>,
    /// The file itself and the files that it names, as far as it was read.
    pub files: Digests,
}

/// The places of a configuration's keys, for problems that show only when parts are built from it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    pub(super) file: String,
    pub(super) places: Places,
}

impl Origin {
    /// Returns `file:line:column` of the value at the full key `key`, or of the nearest key above it.
    pub fn place(&self, key: &str) -> String {
        format!("{}:{}", self.file, self.places.nearest(key))
    }

    /// Creates a problem about the value at the full key `key`.
    pub fn problem(&self, key: &str, message: impl Into<String>) -> Problem {
        Problem {
            file: self.file.clone(),
            place: Some(self.places.nearest(key)),
            key: key.to_owned(),
            message: message.into(),
            warning: false,
        }
    }
}

impl Position {
    /// Creates a position from counts. A file has 32 MiB at most, so that they fit.
    pub(in crate::config) fn at(line: usize, column: usize) -> Self {
        let [line, column] = [line, column].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        Self { line, column }
    }

    /// The start of the file.
    pub(in crate::config) const START: Self = Self { line: 1, column: 1 };
}

/// The places of keys, by a hash of the full key. With 100,000 rules the keys themselves would take 60 MiB
/// while the gateway starts. Two keys with the same hash are less likely than a fault of the memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::config) struct Places(HashMap<u64, Position>);

impl Places {
    /// Notes the place of a full key.
    pub(super) fn insert(&mut self, key: &str, place: Position) {
        self.0.insert(hash(key), place);
    }

    /// Returns the place of a full key; `None` if the file does not have it.
    pub(super) fn get(&self, key: &str) -> Option<Position> {
        self.0.get(&hash(key)).copied()
    }

    /// Returns the place of a full key, or of the nearest key above it.
    pub(super) fn nearest(&self, key: &str) -> Position {
        let mut key = key;
        loop {
            if let Some(place) = self.get(key) {
                return place;
            }
            match key.rfind(['.', '[']) {
                Some(end) => key = &key[..end],
                None => return self.get("").unwrap_or(Position::START),
            }
        }
    }
}

fn hash(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key.as_bytes());
    hasher.finish()
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Writes `file:line:column: key: what was wrong; what would be right`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(place) = self.place {
            write!(f, ":{place}")?;
        }
        if self.warning {
            f.write_str(": warning")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Writes one line for each problem, errors and warnings together, sorted by place.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all: Vec<&Problem> = self.errors.iter().chain(&self.warnings).collect();
        all.sort_by_key(|problem| problem.place);
        for (index, problem) in all.into_iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}
