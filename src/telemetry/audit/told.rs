//! The lines about batches that the file, or the one before it, has already: a restart does not repeat them.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use uuid::Uuid;

/// The part that is read: the end of the file, and if that is all of it, of the one that was renamed last.
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
    /// Reads the end of the file at `path`, and of the one before it. What cannot be read counts as not told: a line
    /// that is there twice is better than one that is missing.
    pub(super) fn read(path: &Path) -> Self {
        let mut told = Self::default();
        let of_file = told.add_end(path, READ).unwrap_or(0);
        if let Some(before) = renamed(path) {
            // A rotation that compresses leaves no text.
            let _ = told.add_end(&before, READ - of_file);
        }
        told
    }

    /// Adds the lines of the last `most` bytes of a file, and returns how many bytes these are.
    fn add_end(&mut self, path: &Path, most: u64) -> io::Result<u64> {
        // To open a pipe would wait for its writer.
        if !fs::metadata(path)?.is_file() {
            return Ok(0);
        }
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let read = length.min(most);
        file.seek(SeekFrom::Start(length - read))?;
        for line in BufReader::new(file.take(read)).split(b'\n') {
            self.add(&line?);
        }
        Ok(read)
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

/// Returns the newest file whose name is that of `path` with something behind it, as rotation makes them.
fn renamed(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.as_encoded_bytes();
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let renamed = entries.flatten().filter_map(|entry| {
        let other = entry.file_name();
        let rest = other.as_encoded_bytes().strip_prefix(name)?;
        let is_renamed = matches!(rest.first(), Some(b'.' | b'-'));
        let changed = entry.metadata().ok()?.modified().ok()?;
        is_renamed.then(|| (changed, entry.path()))
    });
    renamed.max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    const ONE: &str = "019a0c10-5f3e-7c1a-9d53-0242ac120002";
    const TWO: &str = "019a0c11-5f3e-7c1a-9d53-0242ac120002";

    fn line(event: &str, outcome: &str, id: &str) -> String {
        format!(r#"{{"schema":1,"event":"{event}","outcome":"{outcome}","transaction":"{id}"}}"#)
    }

    #[test]
    fn a_line_in_the_file_that_was_renamed_last_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let write = |name: &str, event: &str, id: &str, age: u64| {
            let path = folder.path().join(name);
            fs::write(&path, line("batch", event, id) + "\n").unwrap();
            let changed = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
            let file = File::options().append(true).open(&path).unwrap();
            file.set_modified(changed).unwrap();
        };
        write("audit.log", "rolled_back", ONE, 0);
        write("audit.log.1", "aborted", ONE, 60);
        write("audit.log-20261123", "aborted", TWO, 7200);
        // Another log.
        write("audit.logs", "committed", TWO, 1);
        let told = Told::read(&path);
        assert!(told.is_decided(ONE) && told.is_rolled_back(ONE) && !told.is_decided(TWO));
        // After the rename, before the gateway makes a new file.
        fs::remove_file(&path).unwrap();
        let told = Told::read(&path);
        assert!(told.is_decided(ONE) && !told.is_rolled_back(ONE));
    }

    #[test]
    fn only_whole_lines_about_batches_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
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
