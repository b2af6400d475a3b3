//! The log on disk: one redb file, one writer thread, many batches to an fsync.
//!
//! After a write whose fate is unknown nothing is acknowledged any more, and `on_failure` is told,
//! so that the process can end and recovery can read what the disk really holds.

mod file;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use tokio::sync::oneshot;

use file::LogFile;

use super::{BatchId, Intent, Line, Log, LogError, Logged, Record, Resolution, Verdict, replay};
use crate::batch::step::{Decision, Settled};

/// (batch, line number) → the line as JSON.
const LINES: TableDefinition<'_, (u128, u32), &[u8]> = TableDefinition::new("lines");
/// batch → when it ended, so that forgetting need not read lines.
const ENDED: TableDefinition<'_, u128, u64> = TableDefinition::new("ended");
/// Writes that wait for the writer; beyond it callers wait.
const QUEUE: usize = 4096;
/// Writes that share one fsync.
const GROUP: usize = 1024;

type Lines<'t> = redb::Table<'t, (u128, u32), &'static [u8]>;
type Ended<'t> = redb::Table<'t, u128, u64>;

/// A log in one file.
pub struct DiskLog {
    database: Arc<Database>,
    writes: Option<SyncSender<Write>>,
    writer: Option<JoinHandle<()>>,
}

/// One write and who waits for it.
struct Write {
    id: BatchId,
    what: What,
    done: oneshot::Sender<Option<Decision>>,
}

enum What {
    Line(Line),
    Forget { before: u64 },
}

impl DiskLog {
    /// Opens the log, or makes it with its folder. `on_failure` is called once, from the writer, when a write fails.
    pub fn open(
        path: &Path,
        on_failure: impl FnOnce(LogError) + Send + 'static,
    ) -> Result<Self, LogError> {
        let unusable = |cause: String| LogError::Unusable {
            path: path.display().to_string(),
            cause,
        };
        let open = || -> Result<Self, redb::Error> {
            let file = LogFile::at(path)?;
            let log = Self::over(file.open()?, on_failure)?;
            file.name()?;
            Ok(log)
        };
        open().map_err(|error| unusable(error.to_string()))
    }

    /// A log over an opened database, e.g. one over a storage of a test's own.
    pub fn over(
        database: Database,
        on_failure: impl FnOnce(LogError) + Send + 'static,
    ) -> Result<Self, redb::Error> {
        let begin = database.begin_write()?;
        begin.open_table(LINES)?;
        begin.open_table(ENDED)?;
        begin.commit()?;
        let database = Arc::new(database);
        let (writes, queue) = sync_channel(QUEUE);
        let written = Arc::clone(&database);
        let writer = std::thread::Builder::new()
            .name("batch-log".into())
            .spawn(move || {
                if let Err(error) = write_all(&written, &queue) {
                    on_failure(LogError::Write(error.to_string()));
                }
            })
            .map_err(redb::Error::Io)?;
        Ok(Self {
            database,
            writes: Some(writes),
            writer: Some(writer),
        })
    }

    /// Answers, once the write is durable, with the decision that stood before it, if it was a decision.
    async fn write(&self, id: BatchId, what: What) -> Result<Option<Decision>, LogError> {
        let stopped = || LogError::Write("it has stopped".into());
        let (done, answer) = oneshot::channel();
        let writes = self.writes.as_ref().ok_or_else(stopped)?;
        match writes.try_send(Write { id, what, done }) {
            Ok(()) => {}
            Err(TrySendError::Disconnected(_)) => return Err(stopped()),
            Err(TrySendError::Full(write)) => {
                let writes = writes.clone();
                tokio::task::spawn_blocking(move || writes.send(write).is_ok())
                    .await
                    .is_ok_and(|sent| sent)
                    .then_some(())
                    .ok_or_else(stopped)?;
            }
        }
        answer.await.map_err(|_| stopped())
    }
}

impl Drop for DiskLog {
    /// What waits is written, and the file is free when this returns.
    fn drop(&mut self) {
        drop(self.writes.take());
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has nothing left to write.
            let _ = writer.join();
        }
    }
}

impl Log for DiskLog {
    fn intend(&self, id: BatchId, intent: Arc<Intent>) -> Logged<'_, ()> {
        Box::pin(async move {
            self.write(id, What::Line(Line::Intent(intent))).await?;
            Ok(())
        })
    }

    fn decide(&self, id: BatchId, verdict: Verdict) -> Logged<'_, Decision> {
        Box::pin(async move {
            let decision = verdict.decision();
            let standing = self.write(id, What::Line(Line::Verdict(verdict))).await?;
            Ok(standing.unwrap_or(decision))
        })
    }

    fn resolve(&self, id: BatchId, resolution: Resolution) -> Logged<'_, ()> {
        Box::pin(async move {
            self.write(id, What::Line(Line::Resolve(resolution)))
                .await?;
            Ok(())
        })
    }

    fn note(&self, id: BatchId, entry: usize, settled: Settled) -> Logged<'_, ()> {
        Box::pin(async move {
            let line = Line::Note(entry, settled.into());
            self.write(id, What::Line(line)).await?;
            Ok(())
        })
    }

    fn end(&self, id: BatchId, now: u64) -> Logged<'_, ()> {
        Box::pin(async move {
            self.write(id, What::Line(Line::End(now))).await?;
            Ok(())
        })
    }

    fn forget(&self, before: u64) -> Logged<'_, ()> {
        Box::pin(async move {
            self.write(BatchId::nil(), What::Forget { before }).await?;
            Ok(())
        })
    }

    fn scan(&self) -> Logged<'_, Vec<Record>> {
        let database = Arc::clone(&self.database);
        Box::pin(async move {
            let unreadable = |cause: String| LogError::Unusable {
                path: "(open)".into(),
                cause,
            };
            tokio::task::spawn_blocking(move || read_all(&database))
                .await
                .map_err(|error| unreadable(error.to_string()))?
                .map_err(unreadable)
        })
    }
}

fn read_all(database: &Database) -> Result<Vec<Record>, String> {
    let read = || -> Result<Vec<(u128, Vec<u8>)>, redb::Error> {
        let table = database.begin_read()?.open_table(LINES)?;
        let mut lines = Vec::new();
        for line in table.iter()? {
            let (key, value) = line?;
            lines.push((key.value().0, value.value().to_vec()));
        }
        Ok(lines)
    };
    let lines = read().map_err(|error| error.to_string())?;
    lines
        .chunk_by(|one, next| one.0 == next.0)
        .map(|batch| {
            let id = BatchId::from_u128(batch[0].0);
            let lines: Result<Vec<Line>, _> = batch
                .iter()
                .map(|(_, line)| serde_json::from_slice(line))
                .collect();
            replay(id, lines.map_err(|error| format!("batch {id}: {error}"))?)
        })
        .collect()
}

/// Takes what waits, writes it in one transaction, tells who waited; until the log is dropped or a write fails.
fn write_all(database: &Database, queue: &Receiver<Write>) -> Result<(), redb::Error> {
    while let Ok(first) = queue.recv() {
        let group: Vec<Write> = std::iter::once(first)
            .chain(queue.try_iter().take(GROUP - 1))
            .collect();
        let mut answers = Vec::with_capacity(group.len());
        let transaction = database.begin_write()?;
        {
            let mut lines = transaction.open_table(LINES)?;
            let mut ended = transaction.open_table(ENDED)?;
            for Write { id, what, done } in group {
                let standing = match what {
                    What::Line(line) => append(&mut lines, &mut ended, id.as_u128(), &line)?,
                    What::Forget { before } => {
                        forget(&mut lines, &mut ended, before)?;
                        None
                    }
                };
                answers.push((done, standing));
            }
        }
        transaction.commit()?;
        for (done, standing) in answers {
            // A write whose request has gone away is durable all the same.
            let _ = done.send(standing);
        }
    }
    Ok(())
}

/// Appends a line, but no second decision: then it answers with the first.
fn append(
    lines: &mut Lines<'_>,
    ended: &mut Ended<'_>,
    id: u128,
    line: &Line,
) -> Result<Option<Decision>, redb::Error> {
    let mut number = 0;
    for earlier in lines.range((id, 0)..=(id, u32::MAX))? {
        let (key, value) = earlier?;
        number = key.value().1 + 1;
        if matches!(line, Line::Verdict(_))
            && let Ok(Line::Verdict(verdict)) = serde_json::from_slice(value.value())
        {
            return Ok(Some(verdict.decision()));
        }
    }
    let bytes = serde_json::to_vec(line).map_err(|error| redb::Error::Io(error.into()))?;
    lines.insert((id, number), bytes.as_slice())?;
    if let Line::End(at) = line {
        ended.insert(id, at)?;
    }
    Ok(None)
}

fn forget(lines: &mut Lines<'_>, ended: &mut Ended<'_>, before: u64) -> Result<(), redb::Error> {
    let mut old = Vec::new();
    for entry in ended.iter()? {
        let (id, at) = entry?;
        if at.value() < before {
            old.push(id.value());
        }
    }
    for id in old {
        ended.remove(id)?;
        lines.retain_in((id, 0)..=(id, u32::MAX), |_, _| false)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
