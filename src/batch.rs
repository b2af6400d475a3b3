//! Batches of changes that span several catalogs. A batch happens completely or not at all, although no catalog knows
//! about the others.
//!
//! Reading order: `step` is the protocol, a pure function; `plan` admits a request; `run` carries out the effects, and
//! `run::recovery` continues after a crash; `participant` sends requests to one catalog; `api` begins batches and
//! answers for them; `log`, `locks` and `visibility` are the base for all of it. `visibility::reads` answers
//! `version/list` and `version/describe` without the hidden versions; `visibility::names` does the same for names of
//! tables.

pub mod api;
mod detached;
pub mod fleet;
mod identities;
mod ids;
pub mod locks;
pub mod log;
pub mod participant;
pub mod plan;
pub mod run;
mod sharing;
pub mod step;
pub mod visibility;
mod whereabouts;

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashSet;
use uuid::Uuid;

pub use crate::batch::api::rename::{RenameCall, RenameEnd};
pub use crate::batch::api::table_lock::READ_WAIT;
pub use crate::batch::api::{BatchCall, Caller, Form, json};
pub use crate::batch::run::{
    BUILT_ON, BatchCaller, BatchInspection, EntryInspection, ONLY_NAME, ONLY_VERSION, OpenBatch,
    OpenEntry, ResolveError, Resolver,
};
pub use crate::batch::visibility::names::{Level, Names};
pub use detached::DetachedChange;
pub use identities::Identities;
pub use locks::{Free, Hold, TableKey};
pub use participant::{is_unsupported, refused};
pub use visibility::{Epoch, TableBranch};
pub use whereabouts::Whereabouts;

use crate::backend::Backend;
use crate::batch::api::outcomes::{BatchAnswer, Outcomes};
pub(crate) use crate::batch::run::now_millis;
use crate::batch::run::{Coordinator, WallClock};
use crate::config::BatchConfig;
use crate::error::Error;
use crate::error::origin::ErrorOrigin;
use crate::error::retry_after::RetryAfter;
use crate::metrics::{self, Limit};
use crate::telemetry::audit::Audit;
use detached::DetachedChanges;
use ids::Ids;
use locks::{LockError, UNACKNOWLEDGED, UNGUARDED};
use log::{BatchId, Log, LogError};
use step::Decision;

/// The answer to a batch or a snapshot whose tables cannot be locked in time.
const LOCKED: &str =
    "one of the tables is locked by an unfinished batch or a long operation; retry later";
/// The answer to a request that needs the batch log while its server is away.
const AWAY: &str = "the batch log does not answer, so no batch can begin; retry later";
/// The length up to which a list of versions or tables is read whole before it is filtered, in bytes: about 300 versions.
const HELD_LIST: usize = 64 << 10;
/// The interval at which shutdown checks whether batches are still at work.
const AT_WORK_EVERY: Duration = Duration::from_millis(10);
/// The interval at which old batches are removed from memory and from the log.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// The batches of one gateway, as the gateway sees them.
pub struct Batches {
    coordinator: Arc<Coordinator>,
    outcomes: Arc<Outcomes>,
    /// The names of the backends that are known to have no rename of their own.
    without_rename: DashSet<Arc<str>>,
    identities: Identities,
    detached: DetachedChanges,
    /// The length up to which a list of versions or tables is read whole, in bytes.
    longest_held_list: usize,
}

/// Counts of the items that batches keep in memory. Finished batches that were forgotten are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// The number of locks that are held or waited for.
    pub locks: usize,
    /// The number of tables that have hidden or reserved versions.
    pub lines: usize,
    /// The number of batches that are not finished.
    pub open: usize,
    /// The number of running batches and of remembered outcomes.
    pub outcomes: usize,
}

/// A batch in the form of a contract transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The status of the batch.
    pub status: TransactionStatus,
    /// The tables that the batch changes, each once.
    pub tables: Box<[TableKey]>,
}

/// The state of a batch, in the contract's words for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// The batch is undecided.
    Running,
    /// COMMIT is durable.
    Succeeded,
    /// ABORT is durable.
    Failed,
}

impl Batches {
    /// Creates the batches over `log`, with the system clock.
    pub fn new(log: Arc<dyn Log>, settings: BatchConfig, metrics: metrics::Batch) -> Self {
        Self::over(Coordinator::new(log, settings, metrics))
    }

    /// Creates the batches with the given clock, for a simulation that must not depend on the time of day.
    pub fn with_clock(
        log: Arc<dyn Log>,
        settings: BatchConfig,
        metrics: metrics::Batch,
        clock: WallClock,
    ) -> Self {
        let mut coordinator = Coordinator::new(log, settings, metrics);
        coordinator.clock = clock;
        coordinator.ids = Ids::simulated(clock);
        Self::over(coordinator)
    }

    fn over(coordinator: Coordinator) -> Self {
        let settings = coordinator.settings();
        let kept = (settings.remember_outcomes, settings.outcome_memory);
        let log = Arc::clone(&coordinator.log);
        let outcomes = Arc::new(Outcomes::new(log, coordinator.clock, kept));
        Self {
            coordinator: Arc::new(coordinator),
            outcomes,
            without_rename: DashSet::new(),
            identities: Identities::default(),
            detached: DetachedChanges::default(),
            longest_held_list: HELD_LIST,
        }
    }

    /// Writes the decisions about batches to `audit`, too.
    pub fn audited_in(&self, audit: Audit) {
        let _ = self.coordinator.audit.set(audit);
    }

    /// Streams lists of versions and tables from this length on, in bytes, so that a simulation can have short ones streamed.
    #[must_use]
    pub fn streaming_lists_above(mut self, bytes: usize) -> Self {
        self.longest_held_list = bytes;
        self
    }

    /// Replaces the settings for batches that begin from now on. The log stays where it is.
    pub fn configure(&self, settings: BatchConfig) {
        self.outcomes
            .remember_for(settings.remember_outcomes, settings.outcome_memory);
        self.coordinator.configure(settings);
    }

    /// Takes over the backends of a new configuration. Undecided batches keep the backends that they began with; decided
    /// ones use the new ones at the same addresses. A batch that waits for a backend continues if the backend is in the
    /// list. Discards the learned properties of backends that are gone, or `new` under an old name.
    pub fn backends_are(&self, backends: &[Arc<Backend>], new: impl Fn(&Arc<Backend>) -> bool) {
        let names = self.coordinator.retain_backends(backends, new);
        self.without_rename.retain(|name| names.contains(name));
        self.identities.are(backends);
        self.coordinator.backends.send_replace(backends.to_vec());
        if self.fleet().is_some() {
            let coordinator = Arc::clone(&self.coordinator);
            tokio::spawn(async move { coordinator.guard_again().await });
        }
    }

    /// The largest number of entries in one batch.
    pub fn max_entries(&self) -> usize {
        self.coordinator.settings().max_entries
    }

    /// The identities of all catalogs that were seen since the process began.
    pub fn identities(&self) -> &Identities {
        &self.identities
    }

    /// Takes over the unfinished batches of the log and returns their number. Must be awaited before anything is
    /// served, or, if other gateways share the log, as soon as this one owns it. `backends` are the configured ones.
    ///
    /// # Errors
    ///
    /// The log cannot be read or written.
    pub async fn recover(&self, backends: &[Arc<Backend>]) -> Result<usize, LogError> {
        self.identities.are(backends);
        let finder = self.identities.finder(backends);
        let (coordinator, outcomes) = (&self.coordinator, &self.outcomes);
        let unfinished =
            crate::batch::run::recovery::recover(coordinator, outcomes, &finder).await?;
        coordinator.begin_owning().await?;
        Ok(unfinished)
    }

    /// Calls [`Self::forget`] once a minute, until the future is dropped or the log fails.
    pub async fn forget_old(&self) {
        let mut tick = tokio::time::interval(FORGET_EVERY);
        loop {
            tick.tick().await;
            if self.forget().await.is_err() {
                return;
            }
        }
    }

    /// Removes finished batches that are older than `batch.remember_outcomes`, from memory and from the log.
    ///
    /// # Errors
    ///
    /// The log cannot be written.
    pub async fn forget(&self) -> Result<(), LogError> {
        let settings = self.coordinator.settings();
        let (remember, share) = (settings.remember_outcomes, settings.log_share);
        drop(settings);
        self.coordinator.log_share.sweep(share, remember);
        self.outcomes.forget(|id| self.coordinator.open.has(id));
        self.coordinator.locks.sweep();
        self.coordinator.visibility.sweep_all();
        let before = (self.coordinator.clock)()
            .saturating_sub(u64::try_from(remember.as_millis()).unwrap_or(u64::MAX));
        self.coordinator.log.forget(before).await
    }

    /// Counts the items that batches keep in memory.
    pub fn kept(&self) -> MemoryUse {
        let Coordinator {
            locks,
            visibility,
            open,
            ..
        } = &*self.coordinator;
        MemoryUse {
            locks: locks.len(),
            lines: visibility.len(),
            open: open.len(),
            outcomes: self.outcomes.len(),
        }
    }

    /// The hidden names of tables.
    pub fn names(&self) -> &Names {
        &self.coordinator.visibility.names
    }

    /// Limits how many requests wait for locked tables. `free` returns the number of requests that may still be served.
    pub fn leave_places(&self, free: Free) {
        self.coordinator.locks.leave_places(free);
    }

    /// Waits until no batch is at work, and no change goes on whose client has left. The batches that remain wait for a failing catalog, for an operator, or for a
    /// request that may still arrive. Never returns while a catalog neither does its part nor answers.
    pub async fn at_rest(&self) {
        while self.coordinator.open.is_at_work() || self.detached() > 0 {
            tokio::time::sleep(AT_WORK_EVERY).await;
        }
    }

    /// Closes the log as the last step before the process ends. Writes of batches that were already requested are
    /// completed; later ones are not.
    pub async fn close(&self) -> Result<(), LogError> {
        self.coordinator.log.close().await
    }

    /// Applies an operator's decision to a batch. ABORT aborts an undecided batch, or has the hazards of an aborted one
    /// deleted. COMMIT keeps the versions and names that the undo or the removal cannot finish with.
    ///
    /// # Errors
    ///
    /// No open batch has this `id`, or nothing in the batch waits for this decision; see [`ResolveError`].
    pub async fn resolve(
        &self,
        id: &str,
        decision: Decision,
        by: Resolver,
    ) -> Result<(), ResolveError> {
        let named = Uuid::try_parse(id).map_err(|_| ResolveError::Unknown(id.to_owned()))?;
        self.coordinator
            .resolve(BatchId::from(named), decision, by)
            .await
    }

    /// The unfinished batches, the oldest first.
    pub fn open(&self) -> Vec<OpenBatch> {
        self.coordinator.open.list()
    }

    /// The numbers of open batches by phase.
    pub fn counts(&self) -> metrics::BatchCounts {
        self.coordinator.open.counts()
    }

    /// An open batch and the current state of each of its entries; `None` if no open batch has this id.
    pub async fn look(&self, id: &str) -> Option<(OpenBatch, BatchInspection)> {
        let id = BatchId::from(Uuid::try_parse(id).ok()?);
        let look = self.coordinator.look(id).await?;
        Some((self.coordinator.open.get(id)?, look))
    }

    /// A running or remembered batch of this gateway; `None` if none has this id.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub async fn transaction(&self, id: &str) -> Result<Option<Transaction>, Error> {
        let Ok(id) = Uuid::try_parse(id) else {
            return Ok(None);
        };
        let found = self.outcomes.batch(BatchId::from(id)).await;
        let found = found.map_err(unread)?;
        Ok(found.map(|outcome| Transaction {
            status: match outcome.get().as_deref() {
                None | Some(BatchAnswer::Unknown) => TransactionStatus::Running,
                Some(BatchAnswer::Committed(_)) => TransactionStatus::Succeeded,
                Some(BatchAnswer::Refused { .. }) => TransactionStatus::Failed,
            },
            tables: outcome.tables.clone(),
        }))
    }
}

impl TransactionStatus {
    /// The status in the contract's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

impl From<&Error> for step::Refusal {
    fn from(error: &Error) -> Self {
        Self {
            status: error.status().as_u16(),
            retry_after: error.retry_after().unwrap_or(RetryAfter::SOON),
            origin: error.origin(),
            ..Self::new(error.code(), error.message())
        }
    }
}

impl step::Refusal {
    /// Converts the refusal into the error that answers the request. It does not name the entry.
    fn into_error(self) -> Error {
        let status = http::StatusCode::from_u16(self.status).unwrap_or(self.code.status());
        let error = Error::new(self.code, self.message).of(self.origin);
        let error = error.with_status(status);
        match status {
            http::StatusCode::SERVICE_UNAVAILABLE => error.with_retry_after(self.retry_after),
            _ => error,
        }
    }
}

fn unwritten(error: LogError) -> Error {
    if matches!(error, LogError::Away { .. }) {
        return busy(AWAY).of(ErrorOrigin::BatchLog);
    }
    Error::internal("the batch log cannot be written", error)
}

/// Converts a failed wait for the lock of a table, or of a namespace above it. `message` is used when the wait timed
/// out.
fn locked(error: LockError, message: &str) -> Error {
    match error {
        LockError::TimedOut => busy(message),
        LockError::Crowded => busy("too many requests wait for locked tables; retry later")
            .because(Limit::Locks.as_str()),
        LockError::Unguarded => busy(UNGUARDED),
        LockError::Unacknowledged => busy(UNACKNOWLEDGED),
    }
}

fn unread(error: LogError) -> Error {
    if matches!(error, LogError::Away { .. }) {
        return busy(AWAY).of(ErrorOrigin::BatchLog);
    }
    Error::internal("the batch log cannot be read", error)
}

fn busy(message: &str) -> Error {
    Error::unavailable(message).with_retry_after(RetryAfter::SOON)
}
