//! Runs batches: carries out the effects of `step` and tells it what happened.
//!
//! One task a batch, apart from the request that asked for it: a client that goes away stops nothing.

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

/// Tells milliseconds since the epoch.
pub type WallClock = fn() -> u64;

/// What all batches share.
pub struct Coordinator {
    /// The durable memory.
    pub log: Arc<dyn Log>,
    /// Who may touch which table.
    pub locks: Locks,
    /// What readers may not see.
    pub visibility: Visibility,
    settings: ArcSwap<BatchConfig>,
    /// What new batches are called.
    pub(in crate::batch) ids: Ids,
    /// The counters.
    pub metrics: metrics::Batch,
    /// The batches with an INTENT and no end.
    pub open: OpenBatches,
    /// The time that the log is told.
    pub clock: WallClock,
    calls: CallLimits,
    /// How many batches there may be.
    pub(in crate::batch) permits: Arc<Permits>,
    /// Which catalogs have an atomic batch-create of their own, where that has been found out.
    pub atomic: Arc<DashMap<Arc<str>, bool>>,
    /// Which catalogs keep the entity tags of staged manifests.
    tags: Tags,
    /// The backends of the configuration in use, as soon as it is not the first.
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
    /// The caller's, until the decision; the gateway's own after it.
    caller: Option<CallerContext>,
    /// The request that asked for it.
    origin: Origin,
    hold: Hold,
    /// The shares that are unlocked.
    unlocked: Vec<bool>,
    /// Room for it, less from its decision on.
    permit: Permit,
    /// What people want of it.
    calls: mpsc::Receiver<Call>,
    /// What they have decided.
    resolved: Vec<Resolution>,
    /// What one catalog makes together with others.
    together: GroupedCreates,
    /// Nothing that was not sent yet is created any more.
    given_up: Arc<AtomicBool>,
    /// What creates were answered with.
    proofs: Vec<Option<Proof>>,
    /// Its create was answered, and no removal has reached the catalog since, of this life or of an earlier one: nobody
    /// else can have made what has its number.
    held: Vec<bool>,
    /// Versions as their catalogs describe them.
    described: Vec<Option<CatalogDescription>>,
    /// What catalogs last said instead of doing what they were asked for.
    trouble: Vec<Option<String>>,
    /// How often each entry's catalog has been asked again.
    pauses: Vec<u32>,
    /// When a removal last got no clear answer.
    removal_lost: Option<Instant>,
    /// Freed numbers that rest.
    reserved: Vec<bool>,
    /// Those whose rest has begun.
    resting: Vec<bool>,
    /// Freed numbers that somebody else may have used since.
    contested: Vec<bool>,
    /// Entries of earlier batches that would claim, after a restart, a version that this one has made.
    superseded: Vec<Claim>,
    /// The entries that were made known as waiting for a person.
    hazards_told: Vec<Option<Hazard>>,
    /// An INTENT is durable.
    written: bool,
    /// ABORT is durable, and how long its undo takes is not counted yet.
    undoing: bool,
    begun: Instant,
    phase_begun: Instant,
}

/// What an effect came to.
struct EffectOutcome {
    event: Event,
    hold: Option<Hold>,
    described: Option<(usize, CatalogDescription)>,
    trouble: Option<(usize, Refusal)>,
    /// A group whose catalog has no batch-create.
    apart: Option<usize>,
    /// An entry of which a removal has reached its catalog.
    may_be_gone: Option<usize>,
}

type Pending = FuturesUnordered<BoxFuture<'static, EffectOutcome>>;

impl Coordinator {
    /// A coordinator over a log.
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

    /// The bounds as they are now.
    pub fn settings(&self) -> Guard<Arc<BatchConfig>> {
        self.settings.load()
    }

    /// Other bounds, for what begins from now on. The log stays where it is.
    pub fn configure(&self, settings: BatchConfig) {
        self.settings.store(Arc::new(settings));
    }

    /// A create of this version, by somebody whom the log does not know, is about to go to the catalog. Batches that
    /// had undone theirs must not take it for their own after a restart; but theirs may still land instead.
    pub async fn contest(&self, line: &TableBranch, version: u64) -> Result<(), LogError> {
        for ((id, entry), settled) in self.visibility.uncontested(line, version) {
            self.log.note(id, entry, settled).await?;
            self.visibility.noted(line, (id, entry));
        }
        self.visibility.contest(line, version);
        Ok(())
    }

    /// A create that was let through has succeeded: that version is its writer's, after a restart, too. Nobody sees it
    /// before the log knows, for what has been seen must not be hidden again.
    pub async fn taken(&self, line: &TableBranch, version: u64) {
        let claims = self.visibility.claims(line, version);
        if self.disclaim(claims).await.is_ok() {
            let rest = self.settings().slot_cooldown;
            self.visibility.taken(line, version, rest);
        }
    }

    /// A change of somebody else has ended without an answer: what it makes, `version` or one that its catalog chooses, may
    /// still land.
    pub fn unanswered(&self, table: &TableKey, version: Option<(&TableBranch, u64)>) {
        self.visibility.add_stray(table, version, STRAYS);
    }

    /// A create of this version, or a change of which the catalog chose the version (`None`), has ended: whatever was
    /// answered, it may have made a version that was let go.
    pub async fn attempted(&self, table: &TableKey, version: Option<(&TableBranch, u64)>) {
        let rest = self.settings().slot_cooldown;
        let claims = self.visibility.attempted(table, version, rest);
        // When the log cannot write, the process is about to end.
        let _ = self.disclaim(claims).await;
    }

    /// The name is about to go to another table, or to none.
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
    /// From INTENT on, the batch is there for people to see and to decide about.
    fn open(&mut self) {
        let (caller, calls) = mpsc::channel(1);
        self.calls = calls;
        self.coordinator.open.insert(self.id, &self.intent, caller);
    }

    /// Runs the batch to its end. One with a hazard keeps its table locked until a person resolves it.
    ///
    /// What is to be done first is begun before this returns: what a recovered batch made, and what it let go, is seen
    /// from the start.
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
                    // It was found by undo already: the table is locked, or free without this hold; and as long as
                    // undo has it in hand, it stays hidden.
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
                // Neither can happen: an open batch keeps its caller.
                else => return std::future::pending().await,
            };
            (state, effects) = step(state, event);
        }
    }

    /// Takes what an effect has brought along.
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
            // The log is told that it is over: nothing that is contested from now on may be written after that.
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

    /// The phase is over, and the next one begins.
    fn lap(&mut self, phase: Phase) {
        let now = Instant::now();
        let took = now.duration_since(self.phase_begun);
        self.coordinator.metrics.phase(phase, took);
        if let Some(traced) = self.origin.traced() {
            traced.took(format!("batch {}", phase.as_str()), took);
        }
        self.phase_begun = now;
    }

    /// What waits for a person is made known, once for each reason.
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
                "a change of an aborted batch cannot be rolled back safely; it stays hidden and its table locked until an operator decides. Run `nsgate batches show ID`"
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

/// Milliseconds since the epoch.
pub(crate) fn now_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
