//! Runs batches: carries out the effects of `step` and tells it what happened.
//!
//! One task a batch, apart from the request that asked for it: a client that goes away stops nothing.

mod effects;
mod open;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::batch::locks::{Hold, Locks};
use crate::batch::log::{BatchId, Intent, Log, Proof};
use crate::batch::outcomes::Outcome;
use crate::batch::participant::{Asker, Described};
use crate::batch::plan::{Entry, Plan};
use crate::batch::step::{Effect, Event, State, step};
use crate::batch::visibility::{Fate, Visibility};
use crate::config::BatchConfig;
use crate::metrics::{self, Phase};

/// Questions to catalogs under way at a time, over all batches.
const CALLS: usize = 512;

/// What all batches share.
pub struct Coordinator {
    /// The durable memory.
    pub log: Arc<dyn Log>,
    /// Who may touch which table.
    pub locks: Locks,
    /// What readers may not see.
    pub visibility: Visibility,
    /// The bounds.
    pub settings: BatchConfig,
    /// The counters.
    pub metrics: metrics::Batch,
    /// The batches with an INTENT and no end.
    pub open: OpenBatches,
    calls: Arc<Semaphore>,
}

pub use open::{OpenBatch, OpenBatches, OpenEntry};

/// One batch as it runs.
pub struct Run {
    coordinator: Arc<Coordinator>,
    id: BatchId,
    plan: Arc<Plan>,
    intent: Arc<Intent>,
    outcome: Arc<Outcome>,
    fate: Fate,
    /// The caller's, until the decision; the gateway's own after it.
    caller: Option<Asker>,
    hold: Option<Hold>,
    /// What creates were answered with.
    proofs: Vec<Option<Proof>>,
    /// Versions as their catalogs describe them.
    described: Vec<Option<Described>>,
    /// How often each entry's catalog has been asked again.
    pauses: Vec<u32>,
    /// Freed numbers that rest.
    reserved: Vec<bool>,
    /// Whether the entry was made known as one that waits for a person.
    hazards_told: Vec<bool>,
    /// An INTENT is durable.
    written: bool,
    /// Counted as undecided, from INTENT to the decision.
    undecided: Option<metrics::Undecided>,
    begun: Instant,
    phase_begun: Instant,
}

/// What an effect came to.
struct Done {
    event: Event,
    hold: Option<Hold>,
    described: Option<(usize, Described)>,
}

type Pending = FuturesUnordered<BoxFuture<'static, Done>>;

impl Coordinator {
    /// A coordinator over a log.
    pub fn new(log: Arc<dyn Log>, settings: BatchConfig, metrics: metrics::Batch) -> Self {
        Self {
            log,
            locks: Locks::default(),
            visibility: Visibility::default(),
            settings,
            metrics,
            open: OpenBatches::default(),
            calls: Arc::new(Semaphore::new(CALLS)),
        }
    }
}

impl Run {
    /// A new batch on behalf of a caller.
    pub fn new(
        coordinator: Arc<Coordinator>,
        plan: Plan,
        intent: Intent,
        outcome: Arc<Outcome>,
        caller: Asker,
    ) -> Self {
        let mut run = Self::recovered(coordinator, plan, intent, outcome, Vec::new());
        run.coordinator.metrics.entries(run.plan.entries.len());
        run.caller = Some(caller);
        run.written = false;
        run
    }

    /// A batch from the log, with the proofs that it holds.
    pub fn recovered(
        coordinator: Arc<Coordinator>,
        plan: Plan,
        intent: Intent,
        outcome: Arc<Outcome>,
        mut proofs: Vec<Option<Proof>>,
    ) -> Self {
        let entries = plan.entries.len();
        proofs.resize(entries, None);
        Self {
            id: outcome.id,
            fate: Fate::default(),
            caller: None,
            hold: None,
            proofs,
            described: vec![None; entries],
            pauses: vec![0; entries],
            reserved: vec![false; entries],
            hazards_told: vec![false; entries],
            written: true,
            undecided: None,
            begun: Instant::now(),
            phase_begun: Instant::now(),
            coordinator,
            plan: Arc::new(plan),
            intent: Arc::new(intent),
            outcome,
        }
    }

    /// Takes over the tables of a recovered batch before anything is served: they are locked, and its versions hidden.
    pub fn take_over(&mut self, hold: Hold, age: Duration) {
        self.hold = Some(hold);
        self.undecided = Some(self.coordinator.metrics.undecided(age));
        self.coordinator.open.insert(self.id, &self.intent);
        self.hide();
    }

    /// Runs the batch to its end. One with a hazard never ends: it keeps its tables locked until a person resolves it.
    pub async fn run(mut self, mut state: State, mut effects: Vec<Effect>) {
        let mut pending = Pending::new();
        loop {
            for effect in effects {
                self.perform(effect, &state, &pending);
            }
            if state.is_ended() {
                self.coordinator.open.remove(self.id);
                return;
            }
            self.tell_hazards(&state);
            let Some(done) = pending.next().await else {
                return std::future::pending().await;
            };
            if let Some(hold) = done.hold {
                self.hold = Some(hold);
            }
            if let Some((entry, described)) = done.described {
                if matches!(done.event, Event::Created(_)) {
                    self.proofs[entry] = Some(described.proof.clone());
                }
                self.described[entry] = Some(described);
            }
            self.count(&done.event);
            (state, effects) = step(state, done.event);
        }
    }

    fn count(&mut self, event: &Event) {
        match event {
            Event::Locked => self.lap(Phase::Lock),
            Event::IntentDurable => {
                self.written = true;
                self.coordinator.open.insert(self.id, &self.intent);
                self.undecided = Some(self.coordinator.metrics.undecided(Duration::ZERO));
                self.lap(Phase::Validate);
            }
            Event::Decided(decision) => {
                self.coordinator.open.decided(self.id, *decision);
                self.undecided = None;
                self.lap(Phase::Decide);
            }
            Event::Ended => self.lap(Phase::Undo),
            _ => {}
        }
    }

    /// The phase is over, and the next one begins.
    fn lap(&mut self, phase: Phase) {
        let now = Instant::now();
        let took = now.duration_since(self.phase_begun);
        self.coordinator.metrics.phase(phase, took);
        self.phase_begun = now;
    }

    /// A version that waits for a person is made known, once.
    fn tell_hazards(&mut self, state: &State) {
        for (entry, hazard) in state.hazards() {
            if std::mem::replace(&mut self.hazards_told[entry], true) {
                continue;
            }
            self.coordinator.open.hazard(self.id, entry, hazard);
            let Entry { line, version, .. } = &self.plan.entries[entry];
            tracing::error!(
                batch = %self.id, backend = %line.table.backend, table = %line.table.table, version, ?hazard,
                "an aborted version could not be deleted safely; it stays hidden and its table locked"
            );
            self.coordinator.metrics.hazard();
        }
    }
}

impl From<Event> for Done {
    fn from(event: Event) -> Self {
        Self {
            event,
            hold: None,
            described: None,
        }
    }
}

/// Milliseconds since the epoch.
pub(crate) fn now_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}
