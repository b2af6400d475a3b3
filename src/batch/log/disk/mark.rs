//! Tells the newest log from an old copy of it: the log counts its progress, and so does a small file beside it.
//!
//! The count is increased in the log first, together with lines, and then in the file, so that the file is never
//! ahead of its own log. A log that is behind its file is an old copy. A copy of both together cannot be told from
//! the original.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use redb::{Database, ReadableDatabase, TableDefinition, TableError, WriteTransaction};
use uuid::Uuid;

use super::file::{folder, sync_folder, with_suffix};
use crate::batch::log::move_note::MoveNote;

/// The id and the count of the log.
const MARK: TableDefinition<'_, (), (u128, u64)> = TableDefinition::new("mark");
/// The shortest time between two increases of the count. Lines that were written since the last one are not counted
/// yet.
const EVERY: Duration = Duration::from_secs(1);
/// The largest number of bytes that are read of the mark file, which is always shorter.
const FILE_MAX: u64 = 4096;
const WORDS: &str = "nsgate batch log";

/// The identity of a log, and its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    log: Uuid,
    count: u64,
}

/// The content of the file beside the log.
#[derive(Debug, PartialEq, Eq)]
enum MarkState {
    Nothing,
    /// An empty file: an operator says that the log is to be accepted as it is.
    Accept,
    Mark(Mark),
    /// The batches are in another log.
    Elsewhere(MoveNote),
}

/// Keeps a log and the mark file beside it in step.
pub(super) struct LogMarker {
    path: PathBuf,
    mark: Mark,
    /// The time when the count last increased; `None` before the first time.
    since: Option<Instant>,
    /// True if lines were written since.
    behind: bool,
}

/// The mark file beside a log, read before the log is opened.
pub(super) struct MarkFile {
    log: PathBuf,
    path: PathBuf,
    beside: MarkState,
}

impl MarkFile {
    /// Reads the mark file. The error says what is wrong and what can be done.
    pub(super) fn of(log: &Path) -> Result<Self, String> {
        let path = with_suffix(log, "mark");
        let beside = read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self {
            log: log.to_owned(),
            path,
            beside,
        })
    }

    /// Checks whether a log may be created where none exists.
    pub(super) fn allows_new(&self) -> Result<(), String> {
        match &self.beside {
            MarkState::Mark(Mark { count, .. }) if *count > 0 => Err(format!(
                "it is missing, and {mark} says that there was one. Restore it. To start a new log on purpose, delete {mark}: unfinished batches then stay half done in their catalogs, and the outcomes of all batches are lost",
                mark = self.path.display()
            )),
            MarkState::Elsewhere(note) => Err(note.to_string()),
            _ => Ok(()),
        }
    }

    /// Compares the log with the mark file, and brings both in step. The error says what is wrong and what can be
    /// done.
    pub(super) fn admit(&self, database: &Database) -> Result<LogMarker, String> {
        let inside = stored(database).map_err(|error| error.to_string())?;
        let mark = self.judge(inside)?;
        let marker = LogMarker {
            path: self.path.clone(),
            mark,
            since: None,
            behind: false,
        };
        let bring = || -> Result<(), redb::Error> {
            // The mark file of a new log is written first. A log that has a mark and no file is therefore not a new
            // one.
            if self.beside == MarkState::Nothing {
                marker.publish()?;
            }
            if inside != Some(mark) {
                let transaction = database.begin_write()?;
                marker.put(&transaction)?;
                transaction.commit()?;
            }
            // An unchanged mark is written, too: a folder that is not writable is then found now, and not by the
            // first batch.
            if self.beside != MarkState::Nothing {
                marker.publish()?;
            }
            Ok(())
        };
        bring().map_err(|error| error.to_string())?;
        Ok(marker)
    }

    /// Decides which mark the log continues from.
    fn judge(&self, inside: Option<Mark>) -> Result<Mark, String> {
        let mark = self.path.display();
        let fresh = |count| Mark {
            log: Uuid::new_v4(),
            count,
        };
        match (&self.beside, inside) {
            (MarkState::Nothing, None) => Ok(fresh(0)),
            // The mark gets a new id, so that the log that this one replaces is not accepted as a newer one.
            (MarkState::Accept, inside) => Ok(fresh(inside.map_or(0, |inside| inside.count))),
            (MarkState::Nothing, Some(_)) => Err(format!(
                "{mark} is missing. This file beside the log tells the newest log from an old copy: always move and copy both together. If this is certainly the newest log, create an empty file of that name"
            )),
            // The process ended while it created the log.
            (MarkState::Mark(beside), None) if beside.count == 0 => Ok(*beside),
            (MarkState::Mark(beside), Some(inside)) if inside.log == beside.log => {
                if inside.count >= beside.count {
                    Ok(inside)
                } else {
                    Err(self.refusal(&format!(
                        "it is an old copy: it has mark {}, and {mark} says that the newest log has mark {}",
                        inside.count, beside.count
                    )))
                }
            }
            (MarkState::Elsewhere(note), _) => Err(note.to_string()),
            (MarkState::Mark(_), _) => {
                Err(self.refusal(&format!("{mark} belongs to another log, or to a newer one")))
            }
        }
    }

    fn refusal(&self, why: &str) -> String {
        format!(
            "{why}. Batches that were answered since then would be forgotten or rolled back. Restore the newest log together with its own mark. If it is lost, empty {mark} (`: > {mark}`) to start with this log on purpose, and check every table that was in a batch since {log} was copied",
            mark = self.path.display(),
            log = self.log.display()
        )
    }
}

impl LogMarker {
    /// Returns how long the writer may wait for more lines before it counts those that it has written; `None` if
    /// there are none.
    pub(super) fn due(&self) -> Option<Duration> {
        let since = self.since.filter(|_| self.behind)?;
        Some(EVERY.saturating_sub(since.elapsed()))
    }

    /// Increases the count if it is due. Must be part of every transaction that writes lines, and of one without
    /// lines if lines wait to be counted. Returns true if the count increased.
    pub(super) fn count(
        &mut self,
        transaction: &WriteTransaction,
        writes_lines: bool,
    ) -> Result<bool, redb::Error> {
        let rests = self.since.is_some_and(|since| since.elapsed() < EVERY);
        if writes_lines && rests {
            self.behind = true;
            return Ok(false);
        }
        if !writes_lines && !self.behind {
            return Ok(false);
        }
        self.mark.count += 1;
        self.put(transaction)?;
        Ok(true)
    }

    /// Notes that the increased count is durable, and writes the mark file.
    pub(super) fn counted(&mut self) -> io::Result<()> {
        self.behind = false;
        self.since = Some(Instant::now());
        self.publish()
    }

    fn put(&self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        let mut table = transaction.open_table(MARK)?;
        table.insert((), (self.mark.log.as_u128(), self.mark.count))?;
        Ok(())
    }

    fn publish(&self) -> io::Result<()> {
        let Mark { log, count } = self.mark;
        write(&self.path, &format!("{WORDS} {log} mark {count}"))
    }
}

/// Returns where the batches of a log are; `None` if it does not say.
pub(super) fn note(log: &Path) -> Option<MoveNote> {
    match read(&with_suffix(log, "mark")) {
        Ok(MarkState::Elsewhere(note)) => Some(note),
        _ => None,
    }
}

/// Writes where the batches of a log are.
pub(super) fn write_note(log: &Path, note: &MoveNote) -> io::Result<()> {
    write(&with_suffix(log, "mark"), &format!("{WORDS}: {note}"))
}

/// Accepts a log as it is when it is opened next.
pub(super) fn accept(log: &Path) -> io::Result<()> {
    write(&with_suffix(log, "mark"), "")
}

/// Writes the mark file through a rename, so that after a crash it holds either the old or the new line.
fn write(path: &Path, line: &str) -> io::Result<()> {
    let unnamed = with_suffix(path, "new");
    let write = || {
        let mut file = File::create(&unnamed)?;
        writeln!(file, "{line}")?;
        file.sync_all()?;
        fs::rename(&unnamed, path)?;
        sync_folder(folder(path))
    };
    write().map_err(|error| {
        let words = format!("{}: {error}", unnamed.display());
        io::Error::new(error.kind(), words)
    })
}

fn read(path: &Path) -> Result<MarkState, String> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(MarkState::Nothing),
        Err(error) => return Err(error.to_string()),
    };
    let mut text = String::new();
    let read = file.take(FILE_MAX).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    if text.trim().is_empty() {
        return Ok(MarkState::Accept);
    }
    if let Some((WORDS, note)) = text.trim().split_once(": ")
        && let Some(note) = MoveNote::parse(note)
    {
        return Ok(MarkState::Elsewhere(note));
    }
    parse(&text).map(MarkState::Mark).ok_or_else(|| {
        "it does not say which log is the newest. Restore the file that belongs to the log; if the log is certainly the newest, empty this file"
            .into()
    })
}

fn parse(text: &str) -> Option<Mark> {
    let (log, count) = text.trim().strip_prefix(WORDS)?.split_once(" mark ")?;
    Some(Mark {
        log: Uuid::try_parse(log.trim()).ok()?,
        count: count.parse().ok()?,
    })
}

/// Reads the mark in the log.
fn stored(database: &Database) -> Result<Option<Mark>, redb::Error> {
    let table = match database.begin_read()?.open_table(MARK) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(table.get(())?.map(|mark| {
        let (log, count) = mark.value();
        Mark {
            log: Uuid::from_u128(log),
            count,
        }
    }))
}

#[cfg(test)]
mod tests;
