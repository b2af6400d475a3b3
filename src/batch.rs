//! Batches of changes that span catalogs: all or nothing, although no catalog knows of the others.
//!
//! Reading order: `step` is the protocol, a pure function; `plan` admits a request; `run` carries the effects out, and
//! `run::recovery` goes on after a crash; `participant` asks one catalog; `api` begins batches and answers for them;
//! `log`, `locks` and `visibility` are what all of it stands on. `visibility::reads` answers `version/list` and
//! `version/describe` without what is hidden; `visibility::names` does so for names of tables.

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

/// How long a read waits for a table that is in a batch.
const READ_WAIT: Duration = Duration::from_secs(2);
/// How often it is looked whether batches are still at work, when the process is to end.
const AT_WORK_EVERY: Duration = Duration::from_millis(10);
/// How often old batches are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// The batches of one gateway, as the gateway sees them.
pub struct Batches {
    coordinator: Arc<Coordinator>,
    outcomes: Arc<Outcomes>,
    /// Which catalogs have no rename of their own, as far as that has been found out.
    without_rename: DashSet<Arc<str>>,
    identities: Identities,
}

/// What is held in memory on account of batches, counted. Nothing of a batch that is over and forgotten is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Locks that somebody holds or waits for.
    pub locks: usize,
    /// Lines of versions about which something is hidden or reserved.
    pub lines: usize,
    /// Batches that are not over.
    pub open: usize,
    /// Batches that are running, and outcomes that are in memory.
    pub outcomes: usize,
}

/// A batch as a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Where it stands.
    pub status: TransactionStatus,
    /// The tables that it is about, each once.
    pub tables: Box<[TableKey]>,
}

/// The state of a batch, in the contract's words for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// Undecided.
    Running,
    /// COMMIT is durable.
    Succeeded,
    /// ABORT is durable.
    Failed,
}

impl Batches {
    /// Batches over a log.
    pub fn new(log: Arc<dyn Log>, settings: BatchConfig, metrics: metrics::Batch) -> Self {
        Self::over(Coordinator::new(log, settings, metrics))
    }

    /// The same with a clock of one's own, for a simulation that must not depend on the time of day.
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

    /// Other bounds, for what begins from now on. The log stays where it is.
    pub fn configure(&self, settings: BatchConfig) {
        self.outcomes.remember_for(settings.remember_outcomes);
        self.coordinator.configure(settings);
    }

    /// These backends are configured now. Batches that run keep those that they began with; one that waits for a
    /// backend goes on if it is there. What was found out about backends that are `new` under an old name is forgotten.
    pub fn backends_are(&self, backends: &[Arc<Backend>], new: impl Fn(&Arc<Backend>) -> bool) {
        for backend in backends.iter().filter(|backend| new(backend)) {
            self.without_rename.remove(backend.name());
            self.coordinator.atomic.remove(backend.name());
        }
        self.identities.are(backends);
        self.coordinator.backends.send_replace(backends.to_vec());
    }

    /// Entries that one batch may have.
    pub fn max_entries(&self) -> usize {
        self.coordinator.settings().max_entries
    }

    /// The identities of all catalogs since the process began.
    pub fn identities(&self) -> &Identities {
        &self.identities
    }

    /// Takes over what the log says is unfinished; to be awaited before anything is served. Answers how many there
    /// were. `backends`: those that are configured.
    pub async fn recover(&self, backends: &[Arc<Backend>]) -> Result<usize, LogError> {
        self.identities.are(backends);
        let finder = self.identities.finder(backends);
        crate::batch::run::recovery::recover(&self.coordinator, &self.outcomes, &finder).await
    }

    /// Forgets old batches from time to time; runs until it is dropped.
    pub async fn forget_old(&self) {
        let mut tick = tokio::time::interval(FORGET_EVERY);
        loop {
            tick.tick().await;
            if self.forget().await.is_err() {
                return;
            }
        }
    }

    /// Forgets the batches that are over and older than `batch.remember_outcomes`, here and in the log.
    pub async fn forget(&self) -> Result<(), LogError> {
        let remember = self.coordinator.settings().remember_outcomes;
        self.outcomes.forget(|id| self.coordinator.open.has(id));
        self.coordinator.locks.sweep();
        self.coordinator.visibility.sweep_all();
        let before = (self.coordinator.clock)()
            .saturating_sub(u64::try_from(remember.as_millis()).unwrap_or(u64::MAX));
        self.coordinator.log.forget(before).await
    }

    /// How much is held in memory on account of batches.
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

    /// The names of tables that are hidden.
    pub fn names(&self) -> &Names {
        &self.coordinator.visibility.names
    }

    /// The number of requests that may still be served, as `free` tells it, bounds how many wait for locked tables.
    pub fn leave_places(&self, free: Free) {
        self.coordinator.locks.leave_places(free);
    }

    /// Waits until no batch is at work: what is left waits for a catalog that fails, for a person, or for what may yet
    /// arrive. Endless where a catalog neither does its part nor says anything.
    pub async fn at_rest(&self) {
        while self.coordinator.open.is_at_work() {
            tokio::time::sleep(AT_WORK_EVERY).await;
        }
    }

    /// The last thing before the process ends: what batches asked the log to write is written, and nothing after it.
    pub async fn close(&self) -> Result<(), LogError> {
        self.coordinator.log.close().await
    }

    /// Has a batch take a person's decision: ABORT aborts one that is undecided, or has hazards deleted; COMMIT lets be
    /// what undo or removal cannot come to.
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

    /// The batches that are not over, the oldest first.
    pub fn open(&self) -> Vec<OpenBatch> {
        self.coordinator.open.list()
    }

    /// How many batches are open, by where they stand.
    pub fn counts(&self) -> metrics::BatchCounts {
        self.coordinator.open.counts()
    }

    /// An open batch, and each of its entries as it stands now; `None`: no open batch has this name.
    pub async fn look(&self, id: &str) -> Option<(OpenBatch, BatchInspection)> {
        let id = BatchId::from(Uuid::try_parse(id).ok()?);
        let look = self.coordinator.look(id).await?;
        Some((self.coordinator.open.get(id)?, look))
    }

    /// A batch of this gateway, running or remembered: `None` if the name is none of its batches'.
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
    /// The contract's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

impl step::Refusal {
    /// The refusal as the answer to a request.
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

/// Why a table, or what is above it, was not held: `message` where the wait for it was in vain.
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
