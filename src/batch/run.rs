//! Runs batches: carries out the effects of `step` and reports to it what happened.
//!
//! Each batch has a task of its own, apart from the request that started it: a client that disconnects stops nothing.

mod begin;
mod calls;
mod cool_down;
mod effects;
#[cfg(test)]
mod fakes;
mod grouped_create;
mod inspect;
mod open;
mod panic_guard;
pub(in crate::batch) mod permits;
pub mod recovery;
mod resolve;
mod tags;
mod visible;
mod watch;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::{ArcSwap, Guard};
use dashmap::DashMap;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::backend::Backend;
use crate::batch::api::outcomes::Outcome;
use crate::batch::ids::Ids;
use crate::batch::locks::{Hold, Locks, TableKey};
use crate::batch::log::{BatchId, Intent, Log, LogError, Proof, Resolution};
use crate::batch::participant::{CallerContext, CatalogDescription};
use crate::batch::plan::{Entry, Plan};
use crate::batch::run::grouped_create::GroupedCreates;
use crate::batch::run::permits::{Permit, Permits};
use crate::batch::step::{Decision, Effect, Event, Hazard, Refusal, Settled, State, step};
use crate::batch::visibility::commit_flag::CommitFlag;
use crate::batch::visibility::{Claim, TableBranch, Visibility};
use crate::config::BatchConfig;
use crate::metrics::{self, Phase};
use crate::request::origin::Origin;
use calls::CallLimits;
use tags::Tags;

/// A function that returns the milliseconds since the epoch.
pub type WallClock = fn() -> u64;

/// The state that all batches share.
pub struct Coordinator {
    /// The durable log.
    pub log: Arc<dyn Log>,
    /// The locks of tables and namespaces.
    pub locks: Locks,
    /// The versions and names that are hidden from readers or reserved.
    pub visibility: Visibility,
    settings: ArcSwap<BatchConfig>,
    /// The source of the ids of new batches.
    pub(in crate::batch) ids: Ids,
    /// The metrics.
    pub metrics: metrics::Batch,
    /// The unfinished batches: those with an INTENT and no end.
    pub open: OpenBatches,
    /// The clock for the times in the log.
    pub clock: WallClock,
    calls: CallLimits,
    /// The limits on the number of batches.
    pub(in crate::batch) permits: Arc<Permits>,
    /// The backends that were found to have an atomic batch-create of their own (true), or none (false).
    pub atomic: Arc<DashMap<Arc<str>, bool>>,
    /// The catalogs that keep the entity tags of staged manifests.
    tags: Tags,
    /// The backends of the configuration in use, as soon as it is not the first; empty until then.
    pub backends: tokio::sync::watch::Sender<Vec<Arc<Backend>>>,
}

pub use crate::batch::run::inspect::{BatchInspection, EntryInspection};
pub use open::{BUILT_ON, OpenBatch, OpenBatches, OpenEntry};
pub use resolve::{Call, ResolveError, Resolver};
pub use watch::{STRAYS, WATCH};

/// One batch as it runs.
pub struct BatchRun {
    coordinator: Arc<Coordinator>,
    id: BatchId,
    plan: Arc<Plan>,
    intent: Arc<Intent>,
    outcome: Arc<Outcome>,
    fate: CommitFlag,
    /// The caller's context until the decision; `None` after it, when the gateway's own is used.
    caller: Option<CallerContext>,
    /// The request that started the batch.
    origin: Origin,
    hold: Hold,
    /// True for each share that is unlocked.
    unlocked: Vec<bool>,
    /// The permit of the batch, which takes up less from its decision on.
    permit: Permit,
    /// The requests of operators about the batch.
    calls: mpsc::Receiver<Call>,
    /// The decisions of operators about the batch.
    resolved: Vec<Resolution>,
    /// The creates that one catalog carries out as a group.
    together: GroupedCreates,
    /// True once no create that was not sent yet may be sent any more.
    given_up: Arc<AtomicBool>,
    /// The proof from the answer to each entry's create.
    proofs: Vec<Option<Proof>>,
    /// True for each entry whose create was answered, and of which no removal has reached the catalog since, from
    /// this process or an earlier one: no other writer can have made what has its number.
    held: Vec<bool>,
    /// The description of each entry by its catalog.
    described: Vec<Option<CatalogDescription>>,
    /// The last error of each entry's catalog, until the entry is done.
    trouble: Vec<Option<String>>,
    /// The number of retries of each entry.
    pauses: Vec<u32>,
    /// The time at which a removal last got no clear answer.
    removal_lost: Option<Instant>,
    /// True for each entry whose number or name was freed and is reserved.
    reserved: Vec<bool>,
    /// True for each reserved entry whose cool-down or watch has begun.
    resting: Vec<bool>,
    /// True for each freed entry whose number another writer may have used since.
    contested: Vec<bool>,
    /// The entries of earlier batches that would claim, after a restart, a version that this batch has made.
    superseded: Vec<Claim>,
    /// The hazard of each entry that was last reported to operators.
    hazards_told: Vec<Option<Hazard>>,
    /// True if an INTENT is durable.
    written: bool,
    /// True if ABORT is durable and the duration of its undo is not recorded yet.
    undoing: bool,
    begun: Instant,
    phase_begun: Instant,
}

/// The result of an effect.
struct EffectOutcome {
    event: Event,
    hold: Option<Hold>,
    described: Option<(usize, CatalogDescription)>,
    trouble: Option<(usize, Refusal)>,
    /// The group whose catalog turned out to have no batch-create, if any.
    apart: Option<usize>,
    /// The entry of which a removal has reached its catalog, if any.
    may_be_gone: Option<usize>,
}

type Pending = FuturesUnordered<BoxFuture<'static, EffectOutcome>>;

impl Coordinator {
    /// Returns a coordinator over a log, with the system clock.
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
            permits: Arc::default(),
            atomic: Arc::default(),
            tags: Tags::default(),
            backends: tokio::sync::watch::Sender::default(),
        }
    }

    /// Returns the settings as they are now.
    pub fn settings(&self) -> Guard<Arc<BatchConfig>> {
        self.settings.load()
    }

    /// Replaces the settings for batches that begin from now on. The log stays where it is.
    pub fn configure(&self, settings: BatchConfig) {
        self.settings.store(Arc::new(settings));
    }

    /// Records that a create of this version, which the log does not know, is about to go to the catalog. Batches
    /// that had undone their own create of it must not claim the version after a restart; but their own may still
    /// land instead.
    pub async fn contest(&self, line: &TableBranch, version: u64) -> Result<(), LogError> {
        for ((id, entry), settled) in self.visibility.uncontested(line, version) {
            self.log.note(id, entry, settled).await?;
            self.visibility.noted(line, (id, entry));
        }
        self.visibility.contest(line, version);
        Ok(())
    }

    /// Records that a create which was let through has succeeded: the version is its writer's, also after a restart.
    /// Readers see it only once the log knows, because a version that was seen must not be hidden again.
    pub async fn taken(&self, line: &TableBranch, version: u64) {
        let claims = self.visibility.claims(line, version);
        if self.disclaim(claims).await.is_ok() {
            let rest = self.settings().slot_cooldown;
            self.visibility.taken(line, version, rest);
        }
    }

    /// Records that another writer's change ended without an answer: what it makes, `version` or one that its catalog
    /// chooses, may still land.
    pub fn unanswered(&self, table: &TableKey, version: Option<(&TableBranch, u64)>) {
        self.visibility.add_stray(table, version, STRAYS);
    }

    /// Records that a create of this version, or a change whose version the catalog chooses (`None`), has ended.
    /// Whatever was answered, it may have made a version that a batch released.
    pub async fn attempted(&self, table: &TableKey, version: Option<(&TableBranch, u64)>) {
        let rest = self.settings().slot_cooldown;
        let claims = self.visibility.attempted(table, version, rest);
        // If the log cannot write, the process is about to end.
        let _ = self.disclaim(claims).await;
    }

    /// Records that the name is about to go to another table, or to none.
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

impl BatchRun {
    /// Makes the batch visible to operators, who can decide about it from INTENT on.
    fn open(&mut self) {
        let (caller, calls) = mpsc::channel(1);
        self.calls = calls;
        self.coordinator.open.insert(self.id, &self.intent, caller);
    }

    /// Runs the batch to its end. A batch with a hazard keeps its table locked until an operator resolves it.
    ///
    /// The first effects are started before this returns, so that what a recovered batch made and released counts for
    /// visibility from the start.
    pub fn run(
        mut self,
        state: State,
        effects: Vec<Effect>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let pending = Pending::new();
        for effect in effects {
            self.perform(effect, &state, &pending);
        }
        self.go_on(state, pending)
    }

    async fn go_on(mut self, mut state: State, mut pending: Pending) {
        let mut effects = Vec::new();
        loop {
            for effect in effects {
                self.perform(effect, &state, &pending);
            }
            if (state.is_watching() || state.is_ended()) && std::mem::take(&mut self.undoing) {
                self.lap(Phase::Undo);
            }
            if state.is_ended() {
                for (entry, Entry { line, .. }) in self.plan.entries.iter().enumerate() {
                    let visibility = &self.coordinator.visibility;
                    visibility.disclaim(line, (self.id, entry));
                }
                self.coordinator.open.remove(self.id);
                return;
            }
            if state.is_watching() {
                self.coordinator.open.watching(self.id);
            }
            self.tell_hazards(&state);
            let event = tokio::select! {
                biased;
                Some(done) = pending.next() => match done.event {
                    // Undo has found it already: the table is locked, or free without this hold. What undo is working
                    // on stays hidden.
                    Event::Landed(entry) | Event::WatchOver(entry) if !state.is_watched(entry) => {
                        effects = Vec::new();
                        continue;
                    }
                    _ => self.learn(done),
                },
                Some(call) = self.calls.recv() => {
                    match self.attend(call, &state).await {
                        Some(event) => event,
                        None => {
                            effects = Vec::new();
                            continue;
                        }
                    }
                }
                // Neither source can end: an open batch keeps the sender of its operator requests.
                else => return std::future::pending().await,
            };
            (state, effects) = step(state, event);
        }
    }

    /// Stores what an effect has brought along, and returns its event.
    fn learn(&mut self, done: EffectOutcome) -> Event {
        if let Some(hold) = done.hold {
            self.hold.join(hold);
        }
        if let Some(group) = done.apart {
            self.together.fall_apart(group);
        }
        if let Some(entry) = done.may_be_gone {
            self.held[entry] = false;
        }
        match done.event {
            Event::Landed(entry) => self.landed(entry),
            // The log is about to record the end of the watch: a contest from now on must not be written after that.
            Event::WatchOver(entry) => {
                let line = &self.plan.entries[entry].line;
                self.coordinator.visibility.noted(line, (self.id, entry));
            }
            Event::Created(entry)
            | Event::Deleted(entry)
            | Event::Removed(entry)
            | Event::Noted(entry) => self.untroubled(entry),
            _ => {}
        }
        if let Some((entry, refusal)) = done.trouble {
            self.record_error(entry, refusal);
        }
        if let Some((entry, described)) = done.described {
            if matches!(done.event, Event::Created(_) | Event::Spoiled(..)) {
                self.proofs[entry] = Some(described.proof.clone());
                self.held[entry] = true;
            }
            self.described[entry] = Some(described);
        }
        self.count(&done.event);
        done.event
    }

    fn count(&mut self, event: &Event) {
        match event {
            Event::RemovalLost(_) => self.removal_lost = Some(Instant::now()),
            Event::Locked => self.lap(Phase::Lock),
            Event::IntentDurable => {
                self.written = true;
                self.open();
                self.lap(Phase::Validate);
            }
            Event::Decided(decision) => {
                self.permit.decided();
                self.coordinator.open.decided(self.id, *decision);
                self.lap(Phase::Decide);
                self.undoing = *decision == Decision::Abort;
            }
            _ => {}
        }
    }

    /// Records the duration of the phase that has ended, and begins the next one.
    fn lap(&mut self, phase: Phase) {
        let now = Instant::now();
        let took = now.duration_since(self.phase_begun);
        self.coordinator.metrics.phase(phase, took);
        if let Some(traced) = self.origin.traced() {
            traced.took(format!("batch {}", phase.as_str()), took);
        }
        self.phase_begun = now;
    }

    /// Reports the hazards that wait for an operator, once for each reason.
    fn tell_hazards(&mut self, state: &State) {
        let mut hazards = vec![None; self.hazards_told.len()];
        for (entry, hazard) in state.hazards() {
            hazards[entry] = Some(hazard);
        }
        for (entry, hazard) in hazards.into_iter().enumerate() {
            let told = std::mem::replace(&mut self.hazards_told[entry], hazard);
            if told == hazard {
                continue;
            }
            self.coordinator.open.hazard(self.id, entry, hazard);
            let Some(hazard) = hazard else {
                continue;
            };
            let Entry {
                backend,
                line,
                action,
                ..
            } = &self.plan.entries[entry];
            tracing::error!(
                batch = %self.id, backend = %backend.name(), table = %line.table.table, ?action, ?hazard,
                "a part of an aborted batch could not be undone safely; it stays hidden and its table locked: see `nsgate batches show`"
            );
        }
    }
}

impl From<Event> for EffectOutcome {
    fn from(event: Event) -> Self {
        Self {
            event,
            hold: None,
            described: None,
            trouble: None,
            apart: None,
            may_be_gone: None,
        }
    }
}

/// Returns the milliseconds since the epoch.
pub(crate) fn now_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
