//! Atomic batches of changes over several catalogs, although no catalog knows of the others.
//!
//! Reading order: `step` is the protocol, a pure function; `plan` checks a request and orders its entries; `run`
//! carries out the effects, and `run::recovery` continues unfinished batches after a crash; `participant` sends
//! requests to one catalog; `api` starts batches and answers for them. All of these rest on `log`, `locks` and
//! `visibility`. `visibility::reads` answers `version/list` and `version/describe` without the hidden versions;
//! `visibility::names` does the same for table names.

pub mod api;
mod identities;
mod ids;
pub mod locks;
pub mod log;
pub mod participant;
pub mod plan;
pub mod run;
pub mod step;
pub mod visibility;
mod whereabouts;

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashSet;
use uuid::Uuid;

pub use crate::batch::api::rename::{RenameCall, RenameEnd};
pub use crate::batch::api::{BatchCall, Caller, Form, json};
pub use crate::batch::run::{
    BUILT_ON, BatchInspection, EntryInspection, OpenBatch, OpenEntry, ResolveError, Resolver,
};
pub use crate::batch::visibility::names::{Level, Names};
pub use identities::Identities;
pub use locks::{Free, Hold, TableKey};
pub use participant::is_unsupported;
pub use visibility::{Epoch, TableBranch};
pub use whereabouts::Whereabouts;

use crate::backend::Backend;
use crate::batch::api::outcomes::{BatchAnswer, Outcomes};
pub(crate) use crate::batch::run::now_millis;
use crate::batch::run::{Coordinator, WallClock};
use crate::config::BatchConfig;
use crate::error::Error;
use crate::metrics;
use locks::LockError;
use log::{BatchId, Log, LogError};
use step::Decision;

/// The longest time that a read waits for a table that is in a batch.
const READ_WAIT: Duration = Duration::from_secs(2);
/// The interval at which [`Batches::at_rest`] checks whether batches are still at work.
const AT_WORK_EVERY: Duration = Duration::from_millis(10);
/// The interval at which old batches are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// The batches of one gateway, as the rest of the gateway uses them.
pub struct Batches {
    coordinator: Arc<Coordinator>,
    outcomes: Arc<Outcomes>,
    /// The backends that were found to have no rename of their own.
    without_rename: DashSet<Arc<str>>,
    identities: Identities,
}

/// The number of things that batches hold in memory. Finished and forgotten batches hold nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// The number of locks that are held or waited for.
    pub locks: usize,
    /// The number of tables about which something is hidden or reserved.
    pub lines: usize,
    /// The number of unfinished batches.
    pub open: usize,
    /// The number of batches that are running or whose outcomes are in memory.
    pub outcomes: usize,
}

/// A batch, described as a transaction of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The state of the batch.
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
    /// Returns the batches over a log, with the system clock.
    pub fn new(log: Arc<dyn Log>, settings: BatchConfig, metrics: metrics::Batch) -> Self {
        Self::over(Coordinator::new(log, settings, metrics))
    }

    /// Does the same as [`new`](Self::new) with a custom clock, for a simulation that must not depend on the time of
    /// day.
    pub fn with_clock(
        log: Arc<dyn Log>,
        settings: BatchConfig,
        metrics: metrics::Batch,
        clock: WallClock,
    ) -> Self {
        let mut coordinator = Coordinator::new(log, settings, metrics);
        coordinator.clock = clock;
        Self::over(coordinator)
    }

    fn over(coordinator: Coordinator) -> Self {
        let remember = coordinator.settings().remember_outcomes;
        let log = Arc::clone(&coordinator.log);
        let outcomes = Arc::new(Outcomes::new(log, coordinator.clock, remember));
        Self {
            coordinator: Arc::new(coordinator),
            outcomes,
            without_rename: DashSet::new(),
            identities: Identities::default(),
        }
    }

    /// Replaces the settings for batches that begin from now on. The log stays where it is.
    pub fn configure(&self, settings: BatchConfig) {
        self.outcomes.remember_for(settings.remember_outcomes);
        self.coordinator.configure(settings);
    }

    /// Replaces the configured backends. Running batches keep the backends that they began with; a batch that waits
    /// for a backend continues if it is configured again. Discards what was learned about a backend for which `new`
    /// returns true: it is a new one under an old name.
    pub fn backends_are(&self, backends: &[Arc<Backend>], new: impl Fn(&Arc<Backend>) -> bool) {
        for backend in backends.iter().filter(|backend| new(backend)) {
            self.without_rename.remove(backend.name());
            self.coordinator.atomic.remove(backend.name());
        }
        self.identities.are(backends);
        self.coordinator.backends.send_replace(backends.to_vec());
    }

    /// Returns the largest number of entries that one batch may have.
    pub fn max_entries(&self) -> usize {
        self.coordinator.settings().max_entries
    }

    /// Returns the identities of all catalogs since the process began.
    pub fn identities(&self) -> &Identities {
        &self.identities
    }

    /// Takes over the batches that are unfinished in the log and returns their number. Must complete before the
    /// gateway serves requests. `backends` are those of the configuration.
    pub async fn recover(&self, backends: &[Arc<Backend>]) -> Result<usize, LogError> {
        self.identities.are(backends);
        let finder = self.identities.finder(backends);
        crate::batch::run::recovery::recover(&self.coordinator, &self.outcomes, &finder).await
    }

    /// Calls [`forget`](Self::forget) at regular intervals. Runs until it is dropped, or until the log fails.
    pub async fn forget_old(&self) {
        let mut tick = tokio::time::interval(FORGET_EVERY);
        loop {
            tick.tick().await;
            if self.forget().await.is_err() {
                return;
            }
        }
    }

    /// Forgets finished batches that are older than `batch.remember_outcomes`, in memory and in the log.
    pub async fn forget(&self) -> Result<(), LogError> {
        let remember = self.coordinator.settings().remember_outcomes;
        self.outcomes.forget(|id| self.coordinator.open.has(id));
        self.coordinator.locks.sweep();
        self.coordinator.visibility.sweep_all();
        let before = (self.coordinator.clock)()
            .saturating_sub(u64::try_from(remember.as_millis()).unwrap_or(u64::MAX));
        self.coordinator.log.forget(before).await
    }

    /// Returns how much batches hold in memory.
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

    /// Returns the table names that batches hide.
    pub fn names(&self) -> &Names {
        &self.coordinator.visibility.names
    }

    /// Limits how many requests wait for locked tables: not more than can still be served, as `free` returns it.
    pub fn leave_places(&self, free: Free) {
        self.coordinator.locks.leave_places(free);
    }

    /// Waits until no batch is at work. The remaining batches then wait for a failing catalog, for an operator, or
    /// for requests that may still arrive. Never returns while a catalog neither acts nor answers.
    pub async fn at_rest(&self) {
        while self.coordinator.open.is_at_work() {
            tokio::time::sleep(AT_WORK_EVERY).await;
        }
    }

    /// Closes the log, as the last step before the process ends: writes that batches have requested are completed,
    /// later ones are not made.
    pub async fn close(&self) -> Result<(), LogError> {
        self.coordinator.log.close().await
    }

    /// Passes an operator's decision to a batch. ABORT aborts an undecided batch, or deletes its hazards; COMMIT
    /// keeps what undo or removal cannot finish.
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

    /// Returns the unfinished batches, the oldest first.
    pub fn open(&self) -> Vec<OpenBatch> {
        self.coordinator.open.list()
    }

    /// Returns the number of unfinished batches in each state.
    pub fn counts(&self) -> metrics::BatchCounts {
        self.coordinator.open.counts()
    }

    /// Returns an unfinished batch and the present state of each of its entries; `None` if no unfinished batch has
    /// this id.
    pub async fn look(&self, id: &str) -> Option<(OpenBatch, BatchInspection)> {
        let id = BatchId::from(Uuid::try_parse(id).ok()?);
        let look = self.coordinator.look(id).await?;
        Some((self.coordinator.open.get(id)?, look))
    }

    /// Returns a batch of this gateway that is running or remembered; `None` if the id belongs to no such batch.
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
    /// Returns the contract's word for the state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

impl step::Refusal {
    /// Converts the refusal into the answer to a request.
    fn into_error(self) -> Error {
        let status = http::StatusCode::from_u16(self.status).unwrap_or(self.code.status());
        let error = Error::new(self.code, self.message).with_status(status);
        match status {
            http::StatusCode::SERVICE_UNAVAILABLE => error.retry_after_as_said(),
            _ => error,
        }
    }
}

fn unwritten(error: LogError) -> Error {
    Error::internal("the batch log cannot be written", error)
}

/// Converts a failure to lock a table, or a namespace above it; `message` is for a wait that timed out.
fn locked(error: LockError, message: &str) -> Error {
    busy(match error {
        LockError::TimedOut => message,
        LockError::Crowded => "too many requests wait for locked tables; retry later",
    })
}

fn unread(error: LogError) -> Error {
    Error::internal("the batch log cannot be read", error)
}

fn busy(message: &str) -> Error {
    Error::unavailable(message).retry_after(1)
}
