//! The log in PostgreSQL, which one gateway owns at a time: its queues, and how long a batch waits for a server that
//! does not answer.
//!
//! The gateway that owns the log has a number, the fence; every write names it, and the server refuses a write with an
//! older one. No statement holds a lock over a round trip, so a gateway that stops in the middle blocks nobody.
//!
//! While the server does not answer, no batch begins, and what is under way waits: a write is tried again until it is
//! known to be in the log.

mod cause;
mod claims;
mod connect;
mod contact;
mod examine;
mod fence;
mod guards;
mod install;
mod keeper;
mod link;
mod lookups;
mod member;
pub(super) mod moving;
mod observer;
mod outage_report;
mod outside;
mod owner;
mod reader;
mod thread;
mod tls;
mod writer;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

pub use examine::examine;
pub use guards::PostgresGuards;
pub use install::prepare;
pub use outside::{Outside, Stream};

use reader::{Lookup, Wanted};
use thread::{Shared, Use, Work};
use writer::{Answer, Write, WriteKind};

use super::{BatchId, Intent, Line, Log, LogError, Logged, Record, Resolution, Verdict};
use crate::batch::fleet::Fleet;
use crate::batch::step::{Decision, Settled};
use crate::config::PostgresLogConfig;

/// The number of connections that write. The writes of one batch go through the same one, so they keep their order.
/// More of them gained nothing that could be told from noise; one transaction for each write took four times as long.
const WRITERS: i32 = 2;
/// The number of writes that may wait for each writer, and of lookups. Beyond it, callers wait.
const QUEUE: usize = 2048;
const LOOKUPS: usize = 64;
/// The least and the most of the longest time that an INTENT waits for the server, which is a lease otherwise. Nothing was
/// sent for its batch, which is then refused.
const INTENT: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(5));
/// The longest time that the end of the process waits for writes that were requested before.
const CLOSE: Duration = Duration::from_secs(10);
/// The time that a gateway waits for the log of another one, in leases.
const PATIENCE: u32 = 6;

/// A log in a schema of PostgreSQL.
pub struct PostgresLog {
    shared: Arc<Shared>,
    running: Mutex<Option<Running>>,
    /// The INTENTs that are being taken back, until [`Log::withdrawn`] is called for them.
    withdrawals: Mutex<HashMap<BatchId, oneshot::Receiver<()>>>,
}

/// The ways to the thread of the log.
#[derive(Clone)]
struct Queues {
    writers: Arc<[mpsc::Sender<Write>]>,
    lookups: mpsc::Sender<Lookup>,
}

struct Running {
    /// True to end without writing what waits.
    abandon: watch::Sender<bool>,
    /// True to end when it is written.
    finish: watch::Sender<bool>,
    work: Work,
}

impl PostgresLog {
    /// Opens the log, whose schema must be installed, for this gateway alone. Waits while another gateway uses it, up to
    /// six times the lease. `name` tells operators which process has it. `on_failure` is called once, when another
    /// gateway has taken the log over.
    ///
    /// # Errors
    /// The server cannot be reached or is not safe, the schema is not installed, or another gateway uses it.
    pub async fn open(
        config: &PostgresLogConfig,
        name: &str,
        on_failure: impl FnOnce(LogError) + Send + 'static,
    ) -> Result<Self, LogError> {
        let patience = config.lease.saturating_mul(PATIENCE);
        let usage = Use::Alone {
            patience,
            accepts: None,
        };
        let started = thread::start(config, name, usage, None, Box::new(on_failure)).await;
        started.map(|(log, _)| log)
    }

    /// Opens the log to share it with other gateways, which reach this one at `address`. Which of them owns the log is
    /// in [`fleet`](Self::fleet); nothing can be written before this one does.
    ///
    /// # Errors
    /// The server is not safe, or the schema is not installed. A server that cannot be reached is waited for.
    pub async fn share(
        config: &PostgresLogConfig,
        name: &str,
        address: String,
        on_failure: impl FnOnce(LogError) + Send + 'static,
    ) -> Result<(Self, PostgresGuards), LogError> {
        let usage = Use::Shared { address };
        thread::start(config, name, usage, None, Box::new(on_failure)).await
    }

    /// Does the same in a simulated world, in a task of the `LocalSet` of the caller.
    ///
    /// # Errors
    /// As [`share`](Self::share).
    #[doc(hidden)]
    pub async fn share_simulated(
        config: &PostgresLogConfig,
        name: &str,
        address: String,
        outside: Arc<dyn Outside>,
        on_failure: impl FnOnce(LogError) + Send + 'static,
    ) -> Result<(Self, PostgresGuards), LogError> {
        let usage = Use::Shared { address };
        thread::start(config, name, usage, Some(outside), Box::new(on_failure)).await
    }

    /// The gateways that use the log, as this one sees them.
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.shared.fleet
    }

    fn unreadable(&self, cause: String) -> LogError {
        LogError::Unusable {
            path: self.shared.address.clone(),
            cause,
        }
    }

    fn away(&self, cause: String) -> LogError {
        LogError::Away {
            path: self.shared.address.clone(),
            cause,
        }
    }

    /// Returns the error for a log that this gateway cannot write.
    fn to_error(&self) -> LogError {
        match self.shared.ownership.get() {
            Some(fence) => fence.to_error(),
            None => self.away("another gateway owns it".to_owned()),
        }
    }

    fn queues(&self) -> MutexGuard<'_, Option<Queues>> {
        self.shared
            .queues
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn withdrawals(&self) -> MutexGuard<'_, HashMap<BatchId, oneshot::Receiver<()>>> {
        self.withdrawals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_queues(&self) -> Result<Queues, LogError> {
        let queues = self.queues().clone();
        queues.ok_or_else(|| self.to_error())
    }

    /// Requests a write, and returns the channel of its answer. `gone` is for an INTENT that is taken back.
    async fn request(
        &self,
        id: BatchId,
        what: WriteKind,
        gone: Option<oneshot::Sender<()>>,
    ) -> Result<oneshot::Receiver<Answer>, LogError> {
        let queues = self.open_queues()?;
        let (done, answer) = oneshot::channel();
        let place = usize::try_from(id.as_u128() % queues.writers.len() as u128);
        let writer = &queues.writers[place.unwrap_or_default()];
        let write = Write {
            id,
            what,
            done,
            gone,
        };
        writer.send(write).await.map_err(|_| self.to_error())?;
        Ok(answer)
    }

    /// Returns when the write is durable.
    async fn write(&self, id: BatchId, what: WriteKind) -> Result<Answer, LogError> {
        let answer = self.request(id, what, None).await?;
        answer.await.map_err(|_| self.to_error())
    }

    async fn write_line(&self, id: BatchId, line: Line) -> Result<(), LogError> {
        self.write(id, WriteKind::Line(line)).await.map(drop)
    }

    /// Writes INTENT, or has it taken back.
    async fn begin(&self, id: BatchId, intent: Arc<Intent>) -> Result<(), LogError> {
        let (least, most) = INTENT;
        let patience = self.shared.fleet.lease().length().clamp(least, most);
        if let Some(cause) = self.shared.outage.cause(patience) {
            return Err(self.away(cause));
        }
        let write = WriteKind::Line(Line::Intent(intent));
        let (gone, is_gone) = oneshot::channel();
        let waited = timeout(patience, self.request(id, write, Some(gone))).await;
        let Ok(answer) = waited else {
            return Err(self.away("too many writes wait for it".into()));
        };
        let mut answer = answer?;
        if let Ok(answer) = timeout(patience, &mut answer).await {
            return answer.map(drop).map_err(|_| self.to_error());
        }
        // From here on, either the answer has come, or the writer finds that nobody waits, and takes the INTENT back.
        answer.close();
        match answer.try_recv() {
            Ok(_) => Ok(()),
            Err(_) => {
                self.withdrawals().insert(id, is_gone);
                let cause = self.shared.outage.cause(Duration::ZERO);
                Err(self.away(cause.unwrap_or_else(|| "it is too slow".into())))
            }
        }
    }
}

impl Drop for PostgresLog {
    /// Ends the connections. A log that was not closed is not given up either: the next gateway waits for a lease.
    fn drop(&mut self) {
        if let Some(running) = self.running().take() {
            running.abandon.send_replace(true);
            if let Work::Thread(thread) = running.work {
                let _ = thread.join();
            }
        }
    }
}

impl Log for PostgresLog {
    fn is_new(&self) -> bool {
        self.shared
            .ownership
            .get()
            .is_some_and(|fence| fence.number() == 1)
    }

    fn intend(&self, id: BatchId, intent: Arc<Intent>) -> Logged<'_, ()> {
        Box::pin(self.begin(id, intent))
    }

    fn withdrawn(&self, id: BatchId) -> Logged<'_, ()> {
        let is_gone = self.withdrawals().remove(&id);
        Box::pin(async move {
            match is_gone {
                Some(is_gone) => is_gone.await.map_err(|_| self.to_error()),
                None => Ok(()),
            }
        })
    }

    fn decide(&self, id: BatchId, verdict: Verdict) -> Logged<'_, Decision> {
        Box::pin(async move {
            let answer = self.write(id, WriteKind::Line(Line::Verdict(verdict)));
            if let Answer::Decision(decision) = answer.await? {
                return Ok(decision);
            }
            Err(LogError::Lost {
                path: self.shared.address.clone(),
                id,
            })
        })
    }

    fn resolve(&self, id: BatchId, resolution: Resolution) -> Logged<'_, ()> {
        Box::pin(self.write_line(id, Line::Resolve(resolution)))
    }

    fn note(&self, id: BatchId, entry: usize, settled: Settled) -> Logged<'_, ()> {
        Box::pin(self.write_line(id, Line::Note(entry, settled.into())))
    }

    fn sending(&self, id: BatchId, entry: usize) -> Logged<'_, ()> {
        Box::pin(async move {
            let written = self.write(id, WriteKind::Sending(entry)).await;
            written.map(drop)
        })
    }

    fn end(&self, id: BatchId, now: u64) -> Logged<'_, ()> {
        Box::pin(self.write_line(id, Line::End(now)))
    }

    fn trouble(&self) -> Option<String> {
        self.shared.outage.cause(Duration::ZERO)
    }

    fn forget(&self, before: u64) -> Logged<'_, ()> {
        Box::pin(async move {
            let forget = || self.write(BatchId::nil(), WriteKind::Forget { before });
            while forget().await? == Answer::HasMore(true) {}
            Ok(())
        })
    }

    fn find(&self, id: BatchId) -> Logged<'_, Option<Record>> {
        Box::pin(self.look_up_soon(Wanted::Id(id)))
    }

    fn find_by_key<'a>(&'a self, key: &'a str) -> Logged<'a, Option<Record>> {
        Box::pin(self.look_up_soon(Wanted::Key(key.to_owned())))
    }

    fn scan<'a>(&'a self, each: &'a mut (dyn FnMut(Record) + Send)) -> Logged<'a, ()> {
        Box::pin(async move { self.pages(Wanted::PageAfter, each).await.map(drop) })
    }

    /// Reads only the batches that have not ended, and the last one: a batch ends after it is noted with earlier ones whose
    /// freed versions it made.
    fn scan_needed<'a>(&'a self, each: &'a mut (dyn FnMut(Record) + Send)) -> Logged<'a, ()> {
        Box::pin(async move {
            let read = self.pages(Wanted::OpenAfter, each).await?;
            match self.look_up_one(Wanted::Last).await? {
                Some(last) if last.id != read => each(last),
                _ => {}
            }
            Ok(())
        })
    }

    fn close(&self) -> Logged<'_, ()> {
        Box::pin(async move {
            // Without senders, the writers end once their queues are empty.
            drop(self.queues().take());
            let Some(running) = self.running().take() else {
                return Ok(());
            };
            let Running {
                abandon,
                finish,
                work,
            } = running;
            finish.send_replace(true);
            let ended = work.ended();
            if timeout(CLOSE, ended).await.is_ok() {
                return Ok(());
            }
            abandon.send_replace(true);
            let cause = self.shared.outage.cause(Duration::ZERO);
            Err(self.away(cause.unwrap_or_else(|| "it is too slow".into())))
        })
    }
}
