//! The lines about batches that the file has already: a restart does not repeat them.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use serde::Deserialize;
use uuid::Uuid;

/// The part of the file that is read, from its end.
const READ: u64 = 16 << 20;

/// The batches of which the file has lines.
#[derive(Default)]
pub(super) struct Told {
    decided: HashSet<Uuid>,
    rolled_back: HashSet<Uuid>,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    event: &'a str,
    #[serde(borrow)]
    outcome: &'a str,
    #[serde(borrow)]
    transaction: &'a str,
}

impl Told {
    /// Reads the end of the file. What cannot be read counts as not told: a line that is there twice is better than one
    /// that is missing.
    pub(super) fn read(path: &Path) -> Self {
        let mut told = Self::default();
        let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
        let Ok(mut file) = File::open(path) else {
            return told;
        };
        let length = file.metadata().map_or(0, |found| found.len());
        let from = SeekFrom::Start(length.saturating_sub(READ));
        if !is_file || file.seek(from).is_err() {
            return told;
        }
        for line in BufReader::new(file.take(READ)).split(b'\n') {
            let Ok(line) = line else { break };
            told.add(&line);
        }
        told
    }

    fn add(&mut self, line: &[u8]) {
        // Most lines are about requests.
        if memchr::memmem::find(line, br#""event":"batch""#).is_none() {
            return;
        }
        let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else {
            return;
        };
        let Ok(id) = Uuid::try_parse(line.transaction) else {
            return;
        };
        match (line.event, line.outcome) {
            ("batch", "committed" | "aborted") => self.decided.insert(id),
            ("batch", "rolled_back") => self.rolled_back.insert(id),
            _ => false,
        };
    }

    /// True if the decision about a batch is in the file.
    pub(super) fn is_decided(&self, transaction: &str) -> bool {
        Uuid::try_parse(transaction).is_ok_and(|id| self.decided.contains(&id))
    }

    /// True if the end of its rollback is.
    pub(super) fn is_rolled_back(&self, transaction: &str) -> bool {
        Uuid::try_parse(transaction).is_ok_and(|id| self.rolled_back.contains(&id))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    #[test]
    fn only_whole_lines_about_batches_count() {
        const ONE: &str = "019a0c10-5f3e-7c1a-9d53-0242ac120002";
        const TWO: &str = "019a0c11-5f3e-7c1a-9d53-0242ac120002";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let line = |event: &str, outcome: &str, id: &str| {
            format!(
                r#"{{"schema":1,"event":"{event}","outcome":"{outcome}","transaction":"{id}"}}"#
            )
        };
        let torn = &line("batch", "rolled_back", ONE)[..70];
        let text = [
            &line("batch", "aborted", ONE),
            &line("change", "done", TWO),
            torn,
        ]
        .join("\n");
        std::fs::write(&path, text).unwrap();
        let told = Told::read(&path);
        assert!(told.is_decided(ONE) && !told.is_rolled_back(ONE) && !told.is_decided(TWO));
        assert!(!Told::read(&folder.path().join("none")).is_decided(ONE));
    }
}
