//! The log on disk: one redb file, one writer thread, one fsync for many batches.
//!
//! A failed write leaves it unknown what the disk holds. No write is acknowledged any more, and `on_failure` is called,
//! so that the process can end and recovery can read what the disk really holds.

mod cause;
mod closed;
mod file;
mod keys;
mod mark;
mod reader;
pub(super) mod retired;
mod unfinished;
mod writer;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use redb::{Database, TableDefinition};
use tokio::sync::{Semaphore, mpsc, oneshot};

use cause::Cause;
use closed::CloseNote;
use file::LogFile;
use mark::{LogMarker, MarkFile};
use writer::{Answer, LINGER, Write, WriteKind, write_all};

use super::{BatchId, Intent, Line, Log, LogError, Logged, Record, Resolution, Verdict};
use crate::batch::step::{Decision, Settled};

/// (batch, line number) → the line as JSON.
const LINES: TableDefinition<'_, (u128, u32), &[u8]> = TableDefinition::new("lines");
/// (time when it ended, batch). With it, forgetting reads only the batches that it forgets.
const ENDED: TableDefinition<'_, (u64, u128), ()> = TableDefinition::new("ended_at");
/// The number of writes that may wait for the writer. Beyond it, callers wait.
const QUEUE: usize = 4096;
/// The number of batches in one page of a scan, and the number of pages that may wait to be processed.
const PAGE: usize = 256;
const PAGES: usize = 4;
/// The number of lookups of single batches that may run at a time. Beyond it, callers wait.
const LOOKUPS: u32 = 8;

/// A log in one file.
pub struct DiskLog {
    /// The path of the file, for error messages.
    path: String,
    is_new: bool,
    writes: Option<SyncSender<Write>>,
    ended: Cause,
    lookups: Semaphore,
    /// The writer and the database; `None` once the log is closed.
    running: Mutex<Option<Running>>,
}

struct Running {
    database: Arc<Database>,
    /// The writer thread. It returns true if every write was made.
    writer: JoinHandle<bool>,
    /// The note to leave at the end; `None` if the log is not a file.
    note: Option<CloseNote>,
}

/// Returns what the operator must do if the folder of the log at `path` is missing; `None` if it exists.
pub fn missing_folder(path: &Path) -> Option<String> {
    file::missing_folder(path)
}

/// Creates the folder of the log at `path`, if it does not exist.
///
/// # Errors
/// Fails if the folder cannot be created.
pub fn make_folder(path: &Path) -> Result<(), LogError> {
    file::make_folder(file::folder(path)).map_err(|error| LogError::Unusable {
        path: path.display().to_string(),
        cause: format!("its folder cannot be made: {error}"),
    })
}

impl DiskLog {
    /// Opens the log, or creates it. Its folder must exist. `on_failure` is called once, from the writer thread, when a
    /// write fails.
    pub fn open(
        path: &Path,
        on_failure: impl FnOnce(LogError) + Send + 'static,
    ) -> Result<Self, LogError> {
        let name = path.display().to_string();
        let unusable = |cause: String| LogError::Unusable {
            path: name.clone(),
            cause,
        };
        let open = || -> Result<Self, String> {
            let file = LogFile::at(path).map_err(|error| error.to_string())?;
            let mark = MarkFile::of(path)?;
            if file.is_new() {
                mark.allows_new()?;
            }
            let database = file.open()?;
            file.name().map_err(|error| error.to_string())?;
            let marker = mark.admit(&database)?;
            let beside = Some((marker, CloseNote::of(path)));
            let log = Self::start(name.clone(), database, beside, LINGER, on_failure);
            let mut log = log.map_err(|error| error.to_string())?;
            log.is_new = file.is_new();
            Ok(log)
        };
        open().map_err(cause::with_cure).map_err(unusable)
    }

    /// Returns a log over an open database, for example over the storage of a test. It does not detect an old copy.
    pub fn over(
        database: Database,
        on_failure: impl FnOnce(LogError) + Send + 'static,
    ) -> Result<Self, redb::Error> {
        let name = "(open)".into();
        Self::start(name, database, None, Duration::ZERO, on_failure)
    }

    fn start(
        path: String,
        database: Database,
        beside: Option<(LogMarker, CloseNote)>,
        linger: Duration,
        on_failure: impl FnOnce(LogError) + Send + 'static,
    ) -> Result<Self, redb::Error> {
        let begin = database.begin_write()?;
        begin.open_table(LINES)?;
        begin.open_table(ENDED)?;
        keys::complete(&begin)?;
        unfinished::complete(&begin)?;
        begin.commit()?;
        let database = Arc::new(database);
        let (writes, queue) = sync_channel(QUEUE);
        let (written, ended) = (Arc::clone(&database), Cause::default());
        let (of_writer, at) = (ended.clone(), path.clone());
        let (marker, note) = beside.unzip();
        let writer = std::thread::Builder::new()
            .name("batch-log".into())
            .spawn(move || {
                // After a panic, no write may follow, because it may have left the data half changed.
                let work = || write_all(&written, &queue, marker, linger);
                let failure = match catch_unwind(AssertUnwindSafe(work)) {
                    Ok(Ok(())) => return true,
                    Ok(Err(error)) => error.to_string(),
                    Err(panic) => format!("its writer panicked: {}", cause::said(&*panic)),
                };
                of_writer.set(format!("{at}: {failure}"));
                on_failure(of_writer.to_error());
                false
            })
            .map_err(redb::Error::Io)?;
        Ok(Self {
            is_new: false,
            path,
            writes: Some(writes),
            ended,
            lookups: Semaphore::new(LOOKUPS as usize),
            running: Mutex::new(Some(Running {
                database,
                writer,
                note,
            })),
        })
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the database; an error if the log is closed.
    fn database(&self) -> Result<Arc<Database>, LogError> {
        let running = self.running();
        let running = running.as_ref();
        let database = running.map(|running| Arc::clone(&running.database));
        database.ok_or_else(|| self.unreadable("it is closed".into()))
    }

    fn unreadable(&self, cause: String) -> LogError {
        LogError::Unusable {
            path: self.path.clone(),
            cause,
        }
    }

    /// Finds one batch, on a thread that may wait for the disk.
    async fn look_up(
        &self,
        find: impl FnOnce(&Database) -> Result<Option<Record>, String> + Send + 'static,
    ) -> Result<Option<Record>, LogError> {
        let permit = self.lookups.acquire().await;
        let _permit = permit.map_err(|_| self.unreadable("it is closed".into()))?;
        let database = self.database()?;
        let found = tokio::task::spawn_blocking(move || find(&database)).await;
        let found = found.map_err(|error| error.to_string()).flatten();
        found.map_err(|cause| self.unreadable(cause))
    }

    /// Reads batches with `reader`, on a thread that may wait for the disk.
    async fn read(
        &self,
        reader: impl FnOnce(&Database, &mpsc::Sender<Vec<Record>>) -> Result<(), String>
        + Send
        + 'static,
        each: &mut (dyn FnMut(Record) + Send),
    ) -> Result<(), LogError> {
        let database = self.database()?;
        let (pages, mut read) = mpsc::channel(PAGES);
        let reader = tokio::task::spawn_blocking(move || reader(&database, &pages));
        while let Some(page) = read.recv().await {
            page.into_iter().for_each(&mut *each);
        }
        let whole = reader.await.map_err(|error| error.to_string()).flatten();
        whole.map_err(|cause| self.unreadable(cause))
    }

    /// Returns when the write is durable.
    async fn write(&self, id: BatchId, what: WriteKind) -> Result<Answer, LogError> {
        let stopped = || self.ended.to_error();
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
    /// Writes the requests that wait. The file is free when this returns.
    fn drop(&mut self) {
        drop(self.writes.take());
        if let Some(running) = self.running().take() {
            running.end();
        }
    }
}

impl Running {
    /// Waits until the writer thread has ended, and closes the file. After that, the file is free.
    fn end(self) {
        let wrote_all = self.writer.join().unwrap_or(false);
        let close = || -> Result<bool, redb::Error> {
            let is_over = wrote_all && unfinished::first(&self.database)?.is_none();
            // A reader of the log may still have it open.
            let database = Arc::into_inner(self.database);
            let closed = database.map(Database::close).transpose()?.is_some();
            Ok(is_over && closed)
        };
        // After a panic of the writer, closing the database may panic too. Nothing is left to write then.
        let closed = catch_unwind(AssertUnwindSafe(close));
        if let (Ok(Ok(true)), Some(note)) = (closed, self.note) {
            // Without the note, the next start takes longer.
            let _ = note.leave();
        }
    }
}

impl Log for DiskLog {
    fn is_new(&self) -> bool {
        self.is_new
    }

    fn intend(&self, id: BatchId, intent: Arc<Intent>) -> Logged<'_, ()> {
        Box::pin(async move {
            self.write(id, WriteKind::Line(Line::Intent(intent)))
                .await?;
            Ok(())
        })
    }

    fn decide(&self, id: BatchId, verdict: Verdict) -> Logged<'_, Decision> {
        Box::pin(async move {
            let decision = verdict.decision();
            let answer = self
                .write(id, WriteKind::Line(Line::Verdict(verdict)))
                .await?;
            Ok(answer.standing.unwrap_or(decision))
        })
    }

    fn resolve(&self, id: BatchId, resolution: Resolution) -> Logged<'_, ()> {
        Box::pin(async move {
            self.write(id, WriteKind::Line(Line::Resolve(resolution)))
                .await?;
            Ok(())
        })
    }

    fn note(&self, id: BatchId, entry: usize, settled: Settled) -> Logged<'_, ()> {
        Box::pin(async move {
            let line = Line::Note(entry, settled.into());
            self.write(id, WriteKind::Line(line)).await?;
            Ok(())
        })
    }

    fn end(&self, id: BatchId, now: u64) -> Logged<'_, ()> {
        Box::pin(async move {
            self.write(id, WriteKind::Line(Line::End(now))).await?;
            Ok(())
        })
    }

    fn forget(&self, before: u64) -> Logged<'_, ()> {
        Box::pin(async move {
            let forget = || self.write(BatchId::nil(), WriteKind::Forget { before });
            while forget().await?.has_more {}
            Ok(())
        })
    }

    fn find(&self, id: BatchId) -> Logged<'_, Option<Record>> {
        Box::pin(self.look_up(move |database| reader::find(database, id)))
    }

    fn find_by_key<'a>(&'a self, key: &'a str) -> Logged<'a, Option<Record>> {
        let key = key.to_owned();
        Box::pin(self.look_up(move |database| reader::find_by_key(database, &key)))
    }

    fn scan<'a>(&'a self, each: &'a mut (dyn FnMut(Record) + Send)) -> Logged<'a, ()> {
        Box::pin(self.read(reader::all, each))
    }

    fn scan_needed<'a>(&'a self, each: &'a mut (dyn FnMut(Record) + Send)) -> Logged<'a, ()> {
        Box::pin(self.read(reader::needed, each))
    }

    fn close(&self) -> Logged<'_, ()> {
        Box::pin(async move {
            let closed = self.write(BatchId::nil(), WriteKind::Close).await;
            // Lookups that are running keep the file open.
            let looks = self.lookups.acquire_many(LOOKUPS).await;
            self.lookups.close();
            drop(looks);
            let running = self.running().take();
            let finished = tokio::task::spawn_blocking(move || running.map(Running::end)).await;
            finished.map_err(|error| LogError::Write(error.to_string()))?;
            // The cause is known only once the writer has ended.
            closed.map(drop).map_err(|_| self.ended.to_error())
        })
    }
}

#[cfg(test)]
mod tests;
