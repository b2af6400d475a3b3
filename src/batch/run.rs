//! Runs batches: carries out the effects of `step` and reports the results to it.
//!
//! Each batch has its own task, apart from the request that began it, so a client that disconnects stops nothing.

pub(in crate::batch) mod admission;
pub(in crate::batch) mod audited;
mod begin;
mod calls;
mod cool_down;
mod coordinator;
mod effects;
mod entry;
#[cfg(test)]
mod fakes;
mod grouped_create;
pub(in crate::batch) mod guarding;
mod inspect;
pub(in crate::batch) mod log_share;
mod open;
mod panic_guard;
mod phase_times;
pub mod recovery;
mod requests;
mod resolve;
mod tags;
mod visible;
mod watch;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::sync::watch::Receiver;
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::backend::Backend;
use crate::batch::api::outcomes::Outcome;
use crate::batch::locks::Hold;
use crate::batch::log::{BatchId, Intent, Resolution};
use crate::batch::participant::{CallerContext, CatalogDescription};
use crate::batch::plan::{Entry, Plan};
use crate::batch::run::admission::Permit;
use crate::batch::run::grouped_create::GroupedCreates;
use crate::batch::step::{Decision, Effect, Event, Finding, Refusal, State, step};
use crate::batch::visibility::Claim;
use crate::batch::visibility::commit_flag::CommitFlag;
use crate::metrics::Phase;
use crate::protocol::context::Context;
use crate::request::origin::Origin;
use crate::util::budget::Rationed;
use audited::AuditedBatch;
use entry::EntryRun;
use phase_times::Timing;

pub use crate::batch::run::inspect::{BatchInspection, EntryInspection};
pub(crate) use coordinator::now_millis;
pub use coordinator::{Coordinator, WallClock};
pub use open::{BUILT_ON, BatchCaller, ONLY_NAME, ONLY_VERSION, OpenBatch, OpenBatches, OpenEntry};
pub use resolve::{Call, ResolveError, Resolver};
pub use watch::{STRAYS, WATCH};

/// The number of effects that are begun before other requests of the worker run. They take about 0.1 ms.
const AT_ONCE: usize = 32;
/// The requests to catalogs that go on before other requests of the worker run. They take about 1 ms (`growth`).
const REQUESTS_AT_ONCE: usize = 16;

/// One running batch.
pub struct BatchRun {
    coordinator: Arc<Coordinator>,
    id: BatchId,
    plan: Arc<Plan>,
    /// The configured backends. A reload may give a catalog another address, or other credentials.
    backends: Receiver<Vec<Arc<Backend>>>,
    intent: Arc<Intent>,
    outcome: Arc<Outcome>,
    commit_flag: CommitFlag,
    /// The caller until the decision; `None` after it, when the gateway acts for itself.
    caller: Option<CallerContext>,
    /// The context of the caller's request, which goes with every request of the batch.
    context: Context,
    /// The origin of the request that began the batch.
    origin: Origin,
    hold: Hold,
    /// The locks of a batch that was refused while its INTENT may be in the log; `None` for all others.
    withdrawing: Option<Hold>,
    /// True for each share whose table is unlocked.
    unlocked: Vec<bool>,
    /// The batch's place within the limits; a decided batch takes less.
    permit: Permit,
    /// The channel on which operators inspect the batch and decide about it.
    calls: mpsc::Receiver<Call>,
    /// The decisions of operators so far.
    resolved: Vec<Resolution>,
    /// The last of them in this process, and its time; `None` if there is none.
    decided: Option<(Instant, Decision)>,
    /// The creates that a catalog makes together with others, all or nothing.
    together: GroupedCreates,
    /// True once the batch is to be aborted: creates that were not sent yet are not sent any more.
    given_up: Arc<AtomicBool>,
    /// The entries, in request order.
    entries: Vec<EntryRun>,
    /// The time at which a removal last got no clear answer; `None` if there was none.
    removal_lost: Option<Instant>,
    /// Entries of earlier batches that would claim, after a restart, a version that this batch has made.
    superseded: Vec<Claim>,
    /// True if an INTENT is durable.
    written: bool,
    /// The lines in the audit log; `None` if there is none.
    audited: Option<AuditedBatch>,
    timing: Timing,
}

/// The result of an effect.
struct EffectOutcome {
    event: Event,
    hold: Option<Hold>,
    described: Option<(usize, CatalogDescription)>,
    trouble: Option<(usize, Refusal)>,
    /// The latest version of an entry's table.
    latest: Option<(usize, u64)>,
    /// A group whose catalog turned out to have no batch-create.
    apart: Option<usize>,
    /// An entry whose removal may have reached its catalog.
    may_be_gone: Option<usize>,
}

type Pending = FuturesUnordered<Rationed<BoxFuture<'static, EffectOutcome>>>;

impl BatchRun {
    /// Opens the batch for operators, from INTENT on: they can see it and decide about it.
    fn open(&mut self) {
        let (caller, calls) = mpsc::channel(1);
        self.calls = calls;
        let open = &self.coordinator.open;
        open.insert(self.id, &self.intent, &self.origin, caller);
        self.coordinator.tags.stage(self.id, &self.intent);
    }

    /// Runs the batch to its end. A batch with a hazard keeps its table locked until an operator resolves it.
    ///
    /// The first effects are begun before this returns, so that the versions that a recovered batch made or gave up are
    /// hidden from the start.
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
            for (place, effect) in effects.into_iter().enumerate() {
                if place % AT_ONCE == AT_ONCE - 1 {
                    yield_now().await;
                }
                self.perform(effect, &state, &pending);
            }
            if state.is_watching() || state.is_ended() {
                let metrics = &self.coordinator.metrics;
                self.timing.end_undo(metrics, &self.origin);
                self.audit_rollback(&state);
            }
            if state.is_ended() {
                for (entry, Entry { line, .. }) in self.plan.entries.iter().enumerate() {
                    let visibility = &self.coordinator.visibility;
                    visibility.disclaim(line, (self.id, entry));
                }
                self.coordinator.open.remove(self.id);
                self.coordinator.tags.unstage(self.id, &self.intent);
                return self.withdraw().await;
            }
            if state.is_watching() {
                self.coordinator.open.watching(self.id);
            }
            self.tell_hazards(&state);
            let event = tokio::select! {
                biased;
                Some(done) = pending.next() => match done.event {
                    // Undo has found it already: the table is locked, or free without this hold. While undo works on
                    // it, it stays hidden.
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
                // This cannot happen: an open batch keeps the sender of its calls.
                else => return std::future::pending().await,
            };
            (state, effects) = step(state, event);
        }
    }

    /// Keeps the tables locked until an INTENT that had no answer is out of the log. Another gateway that recovers the
    /// log before would roll the batch back, and take versions of other writers for the batch's own.
    async fn withdraw(self) {
        if self.withdrawing.is_some() && self.coordinator.log.withdrawn(self.id).await.is_err() {
            // The log is another's now, and so are the tables.
            std::future::pending().await
        }
    }

    /// Takes over the result of an effect and returns its event.
    fn learn(&mut self, mut done: EffectOutcome) -> Event {
        if let Some(hold) = done.hold {
            self.hold.join(hold);
        }
        if let Some(group) = done.apart {
            self.together.fall_apart(group);
        }
        if let Some(entry) = done.may_be_gone {
            self.entries[entry].is_held = false;
        }
        if let Event::PrepareTimedOut(refusal) = &mut done.event {
            self.add_trouble(refusal);
        }
        match done.event {
            Event::Landed(entry) => self.landed(entry),
            // The log is about to record that the watch is over. Contests that begin from now on must not be written
            // after that.
            Event::WatchOver(entry) => {
                let line = &self.plan.entries[entry].line;
                self.coordinator.visibility.noted(line, (self.id, entry));
            }
            // What was described before is gone.
            Event::Found(entry, Finding::Buried) => self.entries[entry].described = None,
            Event::Created(entry)
            | Event::Deleted(entry)
            | Event::Removed(entry)
            | Event::Noted(entry) => self.untroubled(entry),
            _ => {}
        }
        if let Some((entry, refusal)) = done.trouble {
            self.record_error(entry, refusal);
        }
        if let Some((entry, latest)) = done.latest {
            self.entries[entry].latest = Some(latest);
        }
        if let Some((entry, described)) = done.described {
            if matches!(done.event, Event::Created(_) | Event::Spoiled(..)) {
                self.entries[entry].proof = Some(described.proof.clone());
                self.entries[entry].is_held = true;
            }
            self.entries[entry].described = Some(described);
        }
        self.count(&done.event);
        done.event
    }

    fn count(&mut self, event: &Event) {
        match event {
            Event::RemovalLost(_) => self.removal_lost = Some(Instant::now()),
            Event::Locked => self.lap(Phase::Lock),
            // The client is told at once; only the locks wait.
            Event::IntentFailed(_) => {
                let none = Hold::none(&self.coordinator.locks);
                self.withdrawing = Some(std::mem::replace(&mut self.hold, none));
            }
            Event::IntentDurable => {
                self.written = true;
                self.open();
                self.lap(Phase::Validate);
            }
            Event::Decided(decision) => {
                self.permit.decided();
                self.audit_decision(*decision);
                self.coordinator.open.decided(self.id, *decision);
                self.lap(Phase::Decide);
                self.timing.undoing(*decision == Decision::Abort);
            }
            _ => {}
        }
    }

    /// Ends a phase and begins the next one.
    fn lap(&mut self, phase: Phase) {
        let metrics = &self.coordinator.metrics;
        self.timing.end(phase, metrics, &self.origin);
    }

    /// Reports entries that wait for an operator, once for each reason.
    fn tell_hazards(&mut self, state: &State) {
        if !state.is_decided() {
            return;
        }
        let mut hazards = vec![None; self.entries.len()];
        for (entry, hazard) in state.hazards() {
            hazards[entry] = Some(hazard);
        }
        for (entry, hazard) in hazards.into_iter().enumerate() {
            let reported = std::mem::replace(&mut self.entries[entry].reported_hazard, hazard);
            if reported == hazard {
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
                batch = %self.id, backend = %format_args!("{}{}", backend.name(), line.table.scope), table = %line.table.table, change = open::change(action), hazard = open::reason(hazard, open::name(action)),
                "a change of an aborted batch cannot be rolled back safely; it stays hidden and its table locked until an operator decides. Run `nsgate batches show {}`", self.id
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
            latest: None,
            apart: None,
            may_be_gone: None,
        }
    }
}
