//! Moves all batches from one log to another, so that exactly one of the two can be used at any moment.

use std::fmt::Display;
use std::path::PathBuf;

use futures_util::future::join_all;

use super::disk::DiskLog;
use super::disk::retired::LogFiles;
use super::move_note::MoveNote;
use super::postgres::PostgresLog;
use super::postgres::moving as postgres;
use super::{Log, LogError, Record, all};
use crate::config::PostgresLogConfig;

/// The number of batches that are written at a time.
const AT_ONCE: usize = 256;
/// The name of this process in a database.
const NAME: &str = "nsgate log move";

/// The place of a log.
#[derive(Debug)]
pub enum Place {
    /// A file.
    File(PathBuf),
    /// A schema in PostgreSQL, which is installed.
    Postgres(Box<PostgresLogConfig>),
}

/// A log that is open for the move.
enum Opened {
    File { log: DiskLog, files: LogFiles },
    Postgres(PostgresLog),
}

impl Place {
    fn unusable(&self, cause: impl Display) -> LogError {
        let path = match self {
            Self::File(path) => path.display().to_string(),
            Self::Postgres(config) => config.address.clone(),
        };
        LogError::Unusable {
            path,
            cause: cause.to_string(),
        }
    }

    /// Returns the name in notes. It is the same from any folder.
    fn name(&self) -> String {
        match self {
            Self::File(path) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                path.display().to_string()
            }
            Self::Postgres(config) => {
                format!("{} (schema {})", config.address, config.schema)
            }
        }
    }

    /// Reads where the batches are; `None` if the log itself has them, or does not say.
    async fn note(&self) -> Option<MoveNote> {
        match self {
            Self::File(path) => LogFiles::of(path).note(),
            Self::Postgres(config) => postgres::note(config).await,
        }
    }

    /// Opens the log that has the batches. With `accepts`, also one with this note: its move did not finish.
    async fn open_source(&self, accepts: Option<&MoveNote>) -> Result<Opened, LogError> {
        match self {
            Self::File(path) => {
                let files = LogFiles::of(path);
                match files.note() {
                    Some(note) if Some(&note) == accepts => {
                        files.bring_back().map_err(|words| self.unusable(words))?;
                    }
                    Some(note) => return Err(self.unusable(note)),
                    None if !path.exists() => return Err(self.unusable("there is no such file")),
                    None => {}
                }
                let log = DiskLog::open(path, |_| {})?;
                Ok(Opened::File { log, files })
            }
            Self::Postgres(config) => open_database(config, accepts).await,
        }
    }

    /// Opens an empty log. With `accepts`, one with this note is emptied first: its move did not finish.
    async fn open_target(&self, accepts: Option<&MoveNote>) -> Result<Opened, LogError> {
        let opened = match self {
            Self::File(path) if path.exists() => {
                return Err(self.unusable("it exists already; name a file that does not"));
            }
            Self::File(path) => {
                let files = LogFiles::of(path);
                match files.note() {
                    Some(note @ MoveNote::Unfinished(_)) if Some(&note) != accepts => {
                        return Err(self.unusable(note));
                    }
                    _ => files.remove_copy(),
                }
                let log = DiskLog::open(&files.copy(), |_| {})?;
                Opened::File { log, files }
            }
            Self::Postgres(config) => {
                let opened = open_database(config, accepts).await?;
                if let (Opened::Postgres(log), Some(_)) = (&opened, accepts) {
                    log.clear().await?;
                }
                opened
            }
        };
        if !all(opened.log()).await?.is_empty() {
            let _ = opened.log().close().await;
            return Err(self.unusable("it has batches already; name an empty log"));
        }
        Ok(opened)
    }

    /// Finishes a file that an earlier move has completed and named. Returns the number of batches.
    async fn finish_named(&self) -> Option<Result<usize, LogError>> {
        let Self::File(path) = self else {
            return None;
        };
        if !path.exists() {
            return None;
        }
        Some(
            async {
                let finished = LogFiles::of(path).finish();
                finished.map_err(|error| self.unusable(error))?;
                let log = DiskLog::open(path, |_| {})?;
                let records = all(&log).await?;
                log.close().await?;
                Ok(records.len())
            }
            .await,
        )
    }
}

impl Opened {
    fn log(&self) -> &dyn Log {
        match self {
            Self::File { log, .. } => log,
            Self::Postgres(log) => log,
        }
    }

    /// Makes the target unusable as long as it is not complete.
    async fn begin(&self, note: &MoveNote, place: &Place) -> Result<(), LogError> {
        match self {
            Self::File { files, .. } => files.put_note(note).map_err(|error| place.unusable(error)),
            Self::Postgres(log) => log.put_note(Some(note)).await,
        }
    }

    /// Makes the source unusable. It stays open, so that no other move begins before this one has finished.
    async fn retire(&self, note: &MoveNote, place: &Place) -> Result<(), LogError> {
        match self {
            Self::File { files, .. } => files.retire(note).map_err(|error| place.unusable(error)),
            Self::Postgres(log) => log.put_note(Some(note)).await,
        }
    }

    /// Makes the target usable.
    async fn finish(self, place: &Place) -> Result<(), LogError> {
        match self {
            Self::File { log, files } => {
                log.close().await?;
                files.finish().map_err(|error| place.unusable(error))
            }
            Self::Postgres(log) => {
                log.put_note(None).await?;
                log.close().await
            }
        }
    }
}

/// Moves all batches, and returns their number. Afterwards no gateway can use `from` any more.
///
/// At any moment at most one of the two can be used. A move that is interrupted can be run again, and goes on: as long as
/// the target is not finished it has a note, and `from` is what counts, even if that has a note already.
///
/// # Errors
/// One of the logs cannot be used or is in use, or `to` is not empty.
pub async fn transfer(from: &Place, to: &Place) -> Result<usize, LogError> {
    let moved = MoveNote::MovedTo(to.name());
    let unfinished = MoveNote::Unfinished(from.name());
    let goes_on = to.note().await.as_ref() == Some(&unfinished);
    if goes_on && let Some(finished) = to.finish_named().await {
        return finished;
    }
    // The source comes first: it is open until a move has finished, so that there is only one.
    let source = from.open_source(goes_on.then_some(&moved)).await?;
    let target = match to.open_target(goes_on.then_some(&unfinished)).await {
        Ok(target) => target,
        Err(error) => {
            let _ = source.log().close().await;
            return Err(error);
        }
    };
    target.begin(&unfinished, to).await?;
    let records = all(source.log()).await?;
    for some in records.chunks(AT_ONCE) {
        let written = join_all(some.iter().map(|record| write(target.log(), record))).await;
        written.into_iter().collect::<Result<(), _>>()?;
    }
    let copies = all(target.log()).await?;
    // Two records are equal if they are spelled equally: all of their parts are.
    let spelled = |record: &Record| format!("{record:?}");
    if !records.iter().map(spelled).eq(copies.iter().map(spelled)) {
        return Err(to.unusable(format!(
            "the copy is not equal to {}, which is unchanged. Report this",
            from.name()
        )));
    }
    source.retire(&moved, from).await?;
    target.finish(to).await?;
    source.log().close().await?;
    Ok(records.len())
}

async fn open_database(
    config: &PostgresLogConfig,
    accepts: Option<&MoveNote>,
) -> Result<Opened, LogError> {
    let log = PostgresLog::open_to_move(config, NAME, accepts).await?;
    Ok(Opened::Postgres(log))
}

/// Writes all lines of a batch.
async fn write(log: &dyn Log, record: &Record) -> Result<(), LogError> {
    let id = record.id;
    log.intend(id, record.intent.clone().into()).await?;
    for resolution in &record.resolutions {
        log.resolve(id, resolution.clone()).await?;
    }
    if let Some(verdict) = &record.verdict {
        log.decide(id, verdict.clone()).await?;
    }
    for (entry, settled) in record.settled.iter().enumerate() {
        if let Some(settled) = settled {
            log.note(id, entry, *settled).await?;
        }
    }
    match record.ended {
        Some(at) => log.end(id, at).await,
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
