//! The state that all batches of a process share, and what it records of changes outside of batches.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::{ArcSwap, Guard};
use dashmap::DashMap;
use tokio::sync::watch;

use super::admission::Permits;
use super::calls::CallLimits;
use super::guarding::Sharing;
use super::log_share::LogShare;
use super::tags::Tags;
use super::{OpenBatches, STRAYS};
use crate::backend::Backend;
use crate::batch::ids::Ids;
use crate::batch::locks::{Locks, TableKey};
use crate::batch::log::{Log, LogError};
use crate::batch::plan::{Entry, Plan};
use crate::batch::step::Settled;
use crate::batch::visibility::{Claim, TableBranch, Visibility};
use crate::config::BatchConfig;
use crate::metrics;
use crate::telemetry::audit::Audit;

/// Returns the time in milliseconds since the epoch.
pub type WallClock = fn() -> u64;

/// The state that all batches share.
pub struct Coordinator {
    /// The durable log of batches.
    pub log: Arc<dyn Log>,
    /// The locks of tables.
    pub locks: Locks,
    /// The versions and names that readers may not see.
    pub visibility: Visibility,
    pub(super) settings: ArcSwap<BatchConfig>,
    /// The generator of the ids of new batches.
    pub(in crate::batch) ids: Ids,
    /// The metrics of batches.
    pub metrics: metrics::Batch,
    /// The batches with a durable INTENT and no durable end.
    pub open: OpenBatches,
    /// The clock for the times that the log records.
    pub clock: WallClock,
    pub(super) calls: CallLimits,
    /// The audit log; empty if there is none.
    pub(in crate::batch) audit: OnceLock<Audit>,
    /// The gateways that share the log; `None` if the log is for one process only.
    pub(in crate::batch) sharing: Option<Sharing>,
    /// The limits on the number of batches.
    pub(in crate::batch) permits: Arc<Permits>,
    /// The part of the log that each caller has.
    pub(in crate::batch) log_share: LogShare,
    /// True for each backend, by name, whose catalog has an atomic batch-create; no entry if that is not known.
    pub atomic: Arc<DashMap<Arc<str>, bool>>,
    /// The catalogs that keep the entity tags of staged manifests.
    pub(super) tags: Tags,
    /// The backends of the configuration in use.
    pub backends: watch::Sender<Vec<Arc<Backend>>>,
}

impl Coordinator {
    /// Creates a coordinator over a log, with the system clock.
    pub fn new(log: Arc<dyn Log>, settings: BatchConfig, metrics: metrics::Batch) -> Self {
        Self {
            log,
            locks: Locks::default(),
            visibility: Visibility::default(),
            settings: ArcSwap::from_pointee(settings),
            ids: Ids::default(),
            metrics,
            open: OpenBatches::default(),
            clock: now_millis,
            calls: CallLimits::default(),
            audit: OnceLock::new(),
            sharing: None,
            permits: Arc::default(),
            log_share: LogShare::default(),
            atomic: Arc::default(),
            tags: Tags::default(),
            backends: watch::Sender::default(),
        }
    }

    /// The current settings.
    pub fn settings(&self) -> Guard<Arc<BatchConfig>> {
        self.settings.load()
    }

    /// Replaces the settings for batches that begin from now on. The log stays where it is.
    pub fn configure(&self, settings: BatchConfig) {
        self.settings.store(Arc::new(settings));
    }

    /// Discards what was learned of catalogs that are not among `backends`, or are `new` there. Returns the names of the
    /// others.
    pub fn retain_backends(
        &self,
        backends: &[Arc<Backend>],
        new: impl Fn(&Arc<Backend>) -> bool,
    ) -> HashSet<Arc<str>> {
        let mut names: HashSet<_> = backends.iter().map(|one| Arc::clone(one.name())).collect();
        // Requests that run keep their places.
        self.calls.retain(|name| names.contains(name));
        for backend in backends.iter().filter(|backend| new(backend)) {
            names.remove(backend.name());
        }
        self.tags.retain(|name| names.contains(name));
        self.atomic.retain(|name, _| names.contains(name));
        names
    }

    /// Gives the plan of a batch the backends that its catalogs have now, with other credentials for example, if they have
    /// changed since it was last asked. A backend that has none of its addresses any more stays as it was: the new
    /// addresses may be those of another catalog.
    pub(super) fn follow(
        &self,
        plan: &mut Arc<Plan>,
        backends: &mut watch::Receiver<Vec<Arc<Backend>>>,
    ) {
        if !backends.has_changed().unwrap_or(false) {
            return;
        }
        let configured = backends.borrow_and_update();
        let by_catalog = configured
            .iter()
            .map(|backend| (backend.catalog(), backend));
        let by_catalog: HashMap<_, _> = by_catalog.collect();
        let now = |entry: &Entry| {
            let now = by_catalog.get(&entry.line.table.backend);
            now.filter(|now| now.shares_address(&entry.backend))
        };
        let has_moved =
            |entry: &Entry| now(entry).is_some_and(|now| !now.is_same_connection(&entry.backend));
        if !plan.entries.iter().any(has_moved) {
            return;
        }
        let entries = plan.entries.iter().map(|entry| Entry {
            backend: match now(entry) {
                Some(now) => now.in_scope(entry.backend.scope()),
                None => Arc::clone(&entry.backend),
            },
            ..entry.clone()
        });
        *plan = Arc::new(Plan {
            entries: entries.collect(),
            shape: plan.shape.clone(),
            held: plan.held.clone(),
        });
    }

    /// The words to add to an error of a backend none of whose addresses is configured any more; `None` if one is.
    pub(super) fn way_back(&self, backend: &Backend) -> Option<String> {
        let address = backend.addresses().first()?;
        let configured = self.backends.borrow();
        let is_configured = configured.iter().any(|one| one.shares_address(backend));
        (!is_configured).then(|| {
            format!("; the batch asks {address}, which is not configured any more. Configure it again and reload; or, if the catalog has moved, restart the gateway")
        })
    }

    /// Records that a create of this version is about to go to the catalog for a writer that the log does not know.
    /// Batches that had undone their version of this number must not take the new one for theirs after a restart; but
    /// theirs may still land instead.
    ///
    /// # Errors
    ///
    /// The log cannot be written.
    pub async fn contest(&self, line: &TableBranch, version: u64) -> Result<(), LogError> {
        for ((id, entry), settled) in self.visibility.uncontested(line, version) {
            self.log.note(id, entry, settled).await?;
            self.visibility.noted(line, (id, entry));
        }
        self.visibility.contest(line, version);
        Ok(())
    }

    /// Records that a create that was let through has succeeded: the version belongs to its writer, also after a
    /// restart. Readers see it only after the log has this, because a version that was seen must not be hidden again.
    pub async fn taken(&self, line: &TableBranch, version: u64) {
        let claims = self.visibility.claims(line, version);
        if self.disclaim(claims).await.is_ok() {
            let rest = self.settings().slot_cooldown;
            self.visibility.taken(line, version, rest);
        }
    }

    /// Records that another writer's change ended without an answer. The version that it makes may still land:
    /// `version`, or one that the catalog chooses (`None`).
    pub fn unanswered(&self, table: &TableKey, version: Option<(&TableBranch, u64)>) {
        self.visibility.add_stray(table, version, STRAYS);
    }

    /// Records that a create of this version, or a change whose version the catalog chose (`None`), has ended. Whatever
    /// the answer was, it may have made a version that a batch had given up.
    pub async fn attempted(&self, table: &TableKey, version: Option<(&TableBranch, u64)>) {
        let rest = self.settings().slot_cooldown;
        let claims = self.visibility.attempted(table, version, rest);
        // If the log cannot be written, the process is about to end.
        let _ = self.disclaim(claims).await;
    }

    /// Records that the name is about to go to another table, or to none. A restart must not find a version of that
    /// table and take it for one that a batch had given up.
    pub async fn unclaim(&self, table: &TableKey) {
        let _ = self.disclaim(self.visibility.unclaim(table)).await;
    }

    /// Records that the name has gone to another table, or to none.
    pub async fn renamed(&self, table: &TableKey) {
        let _ = self.disclaim(self.visibility.renamed(table)).await;
    }

    async fn disclaim(&self, claims: Vec<Claim>) -> Result<(), LogError> {
        for (id, entry) in claims {
            self.log.note(id, entry, Settled::Theirs).await?;
        }
        Ok(())
    }
}

/// The current time in milliseconds since the epoch.
pub(crate) fn now_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
