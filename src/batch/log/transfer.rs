//! Moves all batches from one log to another, so that exactly one of the two can be used at any moment.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::join_all;

use super::disk::{self, DiskLog};
use super::postgres::PostgresLog;
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
    File { log: DiskLog, path: PathBuf },
    Postgres(PostgresLog),
}

impl Place {
    fn unusable(&self, cause: impl Into<String>) -> LogError {
        let path = match self {
            Self::File(path) => path.display().to_string(),
            Self::Postgres(config) => config.address.clone(),
        };
        LogError::Unusable {
            path,
            cause: cause.into(),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Postgres(config) => {
                format!("{} (schema {})", config.address, config.schema)
            }
        }
    }

    async fn open_source(&self) -> Result<Opened, LogError> {
        match self {
            Self::File(path) if !path.exists() => Err(self.unusable("there is no such file")),
            Self::File(path) => Ok(Opened::File {
                log: DiskLog::open(path, |_| {})?,
                path: path.clone(),
            }),
            Self::Postgres(config) => open_database(config).await,
        }
    }

    async fn open_target(&self) -> Result<Opened, LogError> {
        let opened = match self {
            Self::File(path) if path.exists() => {
                return Err(self.unusable("it exists already; name a file that does not"));
            }
            Self::File(path) => {
                let moving = disk::beside(path, "moving");
                for old in [disk::beside(&moving, "mark"), moving.clone()] {
                    // What an earlier move left behind, which failed.
                    let _ = std::fs::remove_file(old);
                }
                let log = DiskLog::open(&moving, |_| {})?;
                Opened::File { log, path: moving }
            }
            Self::Postgres(config) => open_database(config).await?,
        };
        if !all(opened.log()).await?.is_empty() {
            let _ = opened.log().close().await;
            return Err(self.unusable("it has batches already; name an empty log"));
        }
        Ok(opened)
    }
}

impl Opened {
    fn log(&self) -> &dyn Log {
        match self {
            Self::File { log, .. } => log,
            Self::Postgres(log) => log,
        }
    }

    /// Makes the target unusable as long as it is not complete. A file has another name for as long.
    async fn begin(&self) -> Result<(), LogError> {
        if let Self::Postgres(log) = self {
            let words = "`nsgate log move` did not finish with it. Drop the schema, install it anew with `nsgate log prepare`, and move again";
            log.set_moved(Some(words.to_owned())).await?;
        }
        Ok(())
    }

    /// Makes the source unusable.
    async fn retire(self, to: &str) -> Result<(), LogError> {
        match self {
            Self::File { log, path } => {
                log.close().await?;
                disk::retire(&path, to).map_err(|error| LogError::Unusable {
                    path: path.display().to_string(),
                    cause: format!("it cannot be taken out of use: {error}"),
                })
            }
            Self::Postgres(log) => {
                log.set_moved(Some(format!("its batches were moved to {to}")))
                    .await?;
                log.close().await
            }
        }
    }

    /// Makes the target usable.
    async fn finish(self, place: &Place) -> Result<(), LogError> {
        match (self, place) {
            (Self::File { log, path }, Place::File(named)) => {
                log.close().await?;
                let marks = [&path, named].map(|path| disk::beside(path, "mark"));
                renamed(&marks[0], &marks[1])?;
                renamed(&path, named)
            }
            (Self::Postgres(log), _) => {
                log.set_moved(None).await?;
                log.close().await
            }
            (Self::File { log, .. }, Place::Postgres(_)) => log.close().await,
        }
    }
}

/// Moves all batches, and returns their number. Afterwards no gateway can use `from` any more.
///
/// # Errors
/// One of the logs cannot be used or is in use, or `to` is not empty. Then `from` is as it was, unless the error says
/// otherwise.
pub async fn transfer(from: &Place, to: &Place) -> Result<usize, LogError> {
    let source = from.open_source().await?;
    let target = match to.open_target().await {
        Ok(target) => target,
        Err(error) => {
            let _ = source.log().close().await;
            return Err(error);
        }
    };
    target.begin().await?;
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
    source.retire(&to.name()).await?;
    target.finish(to).await?;
    Ok(records.len())
}

async fn open_database(config: &PostgresLogConfig) -> Result<Opened, LogError> {
    let log = PostgresLog::open_within(config, NAME, Duration::ZERO, |_| {}).await?;
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

fn renamed(from: &Path, to: &Path) -> Result<(), LogError> {
    disk::rename(from, to).map_err(|error| LogError::Unusable {
        path: from.display().to_string(),
        cause: format!("it cannot be renamed to {}: {error}", to.display()),
    })
}
