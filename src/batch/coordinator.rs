//! Runs batches: carries out the effects of `step` and tells it what happened.
//!
//! One task a batch, apart from the request that asked for it: a client that goes away stops nothing.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::backend::Authority;
use crate::batch::locks::{Hold, Locks};
use crate::batch::log::{BatchId, Intent, Log, LogError, Proof, Verdict};
use crate::batch::outcomes::{Answered, Outcome};
use crate::batch::participant::{self, Asker, Created, Described, Staged};
use crate::batch::plan::{Entry, Plan};
use crate::batch::step::{Answer, Decision, Effect, Event, Refusal, State, step};
use crate::batch::visibility::{Fate, Visibility};
use crate::config::BatchConfig;
use crate::metrics::{self, Phase};
use crate::protocol::context::Context;
use crate::protocol::error::Code;

/// Questions to catalogs under way at a time, over all batches.
const CALLS: usize = 512;
/// The first pause before a catalog is asked again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

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
    calls: Arc<Semaphore>,
}

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
                return;
            }
            let Some(done) = pending.next().await else {
                self.park(&state).await;
                return;
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
                self.undecided = Some(self.coordinator.metrics.undecided(Duration::ZERO));
                self.lap(Phase::Validate);
            }
            Event::Decided(_) => {
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

    async fn park(&self, state: &State) {
        for (entry, hazard) in state.hazards() {
            let Entry { line, version, .. } = &self.plan.entries[entry];
            tracing::error!(
                batch = %self.id, backend = %line.table.backend, table = %line.table.table, version, ?hazard,
                "an aborted version could not be deleted safely; it stays hidden and its table locked"
            );
            self.coordinator.metrics.hazard();
        }
        std::future::pending::<()>().await;
    }

    fn perform(&mut self, effect: Effect, state: &State, pending: &Pending) {
        match effect {
            Effect::Lock => pending.push(self.lock()),
            Effect::Validate(share) => pending.push(self.validate(share)),
            Effect::LogIntent => pending.push(self.log_intent()),
            Effect::Hide => self.hide(),
            Effect::StartClock => pending.push(self.clock()),
            Effect::Create { entry, again } => pending.push(self.create(entry, again)),
            Effect::Find { entry, again } => pending.push(self.find(entry, again)),
            Effect::LogDecision(decision) => {
                self.lap(Phase::Prepare);
                pending.push(self.log_decision(decision, state));
            }
            Effect::Reveal => self.fate.reveal(),
            Effect::Answer(answer) => self.answer(answer),
            Effect::Delete { entry, again } => pending.push(self.delete(entry, again)),
            Effect::Show(entry) => self.forget(entry),
            Effect::Reserve(entry) => self.reserve(entry),
            Effect::Note(entry, settled) => {
                let log = Arc::clone(&self.coordinator.log);
                let id = self.id;
                pending.push(logged(async move {
                    log.note(id, entry, settled).await?;
                    Ok(Event::Noted(entry))
                }));
            }
            Effect::Unlock(share) => self.unlock(share),
            Effect::LogEnd => {
                let log = Arc::clone(&self.coordinator.log);
                let id = self.id;
                pending.push(logged(async move {
                    log.end(id, now_millis()).await?;
                    Ok(Event::Ended)
                }));
            }
        }
    }

    fn lock(&self) -> BoxFuture<'static, Done> {
        let locks = self.coordinator.locks.clone();
        let tables: Vec<_> = self.plan.tables().collect();
        let wait = self.coordinator.settings.lock_timeout;
        Box::pin(async move {
            match locks.exclusive(tables, wait).await {
                Ok(hold) => Done {
                    hold: Some(hold),
                    ..Event::Locked.into()
                },
                Err(_) => Event::LockTimedOut(busy()).into(),
            }
        })
    }

    fn validate(&self, share: usize) -> BoxFuture<'static, Done> {
        let plan = Arc::clone(&self.plan);
        let asker = self.asker();
        let visibility = self.coordinator.visibility.clone();
        let calls = Arc::clone(&self.coordinator.calls);
        Box::pin(async move {
            let index = plan.shares[share][0];
            let Entry {
                backend,
                line,
                version,
                ..
            } = &plan.entries[index];
            let _call = calls.acquire_owned().await;
            let latest = participant::latest(backend, line, &asker).await;
            // A number that rests is refused here, before anything is written.
            let refusal = match (latest, visibility.may_create(line, *version)) {
                (Err(refusal), _) => Some(refusal),
                (Ok(latest), _) if latest + 1 != *version => Some(taken(*version, latest)),
                (Ok(_), Err(forbidden)) => Some(forbidden.refusal(*version)),
                (Ok(_), Ok(())) => None,
            };
            let refusal = refusal.map(|refusal| refusal.at(index));
            Event::Validated { share, refusal }.into()
        })
    }

    fn log_intent(&self) -> BoxFuture<'static, Done> {
        let (log, id) = (Arc::clone(&self.coordinator.log), self.id);
        let intent = Arc::clone(&self.intent);
        logged(async move {
            log.intend(id, intent).await?;
            Ok(Event::IntentDurable)
        })
    }

    fn log_decision(&self, decision: Decision, state: &State) -> BoxFuture<'static, Done> {
        let (log, id) = (Arc::clone(&self.coordinator.log), self.id);
        let verdict = match decision {
            Decision::Commit => Verdict::Commit(self.versions()),
            Decision::Abort => Verdict::Abort {
                proofs: self.proofs.clone(),
                reason: state
                    .failure()
                    .map_or_else(String::new, |failure| failure.message.clone()),
            },
        };
        logged(async move { Ok(Event::Decided(log.decide(id, verdict).await?)) })
    }

    fn hide(&self) {
        for Entry { line, version, .. } in &self.plan.entries {
            let visibility = &self.coordinator.visibility;
            visibility.hide(line.clone(), *version, &self.fate);
        }
    }

    fn clock(&self) -> BoxFuture<'static, Done> {
        let timeout = self.coordinator.settings.prepare_timeout;
        Box::pin(async move {
            sleep(timeout).await;
            let message = "the catalogs did not prepare the batch in time".into();
            Event::PrepareTimedOut(Refusal {
                status: 503,
                code: Code::ServiceUnavailable,
                message,
            })
            .into()
        })
    }

    fn create(&mut self, entry: usize, again: bool) -> BoxFuture<'static, Done> {
        let pause = self.pause(entry, again);
        let (plan, asker) = (Arc::clone(&self.plan), self.asker());
        let calls = Arc::clone(&self.coordinator.calls);
        Box::pin(async move {
            sleep(pause).await;
            let _call = calls.acquire_owned().await;
            let Entry {
                backend,
                line,
                version,
                body,
                ..
            } = &plan.entries[entry];
            match participant::create(backend, line, *version, body.clone(), &asker).await {
                Created::Yes(described) => Done {
                    described: Some((entry, described)),
                    ..Event::Created(entry).into()
                },
                Created::Refused(refusal) => Event::Refused(entry, refusal.at(entry)).into(),
                Created::Conflicted(refusal) => Event::Conflicted(entry, refusal.at(entry)).into(),
                Created::Lost => Event::Lost(entry).into(),
            }
        })
    }

    fn find(&mut self, entry: usize, again: bool) -> BoxFuture<'static, Done> {
        let pause = self.pause(entry, again);
        let (plan, asker) = (Arc::clone(&self.plan), self.asker());
        let proof = self.proofs[entry].clone();
        let calls = Arc::clone(&self.coordinator.calls);
        Box::pin(async move {
            sleep(pause).await;
            let _call = calls.acquire_owned().await;
            let Entry {
                backend,
                line,
                version,
                manifest_size,
                e_tag,
                ..
            } = &plan.entries[entry];
            let staged = Staged {
                proof: proof.as_ref(),
                size: *manifest_size,
                e_tag: e_tag.as_deref(),
            };
            match participant::find(backend, line, *version, &staged, &asker).await {
                Some((finding, described)) => Done {
                    described: described.map(|described| (entry, described)),
                    ..Event::Found(entry, finding).into()
                },
                None => Event::Unanswered(entry).into(),
            }
        })
    }

    fn delete(&mut self, entry: usize, again: bool) -> BoxFuture<'static, Done> {
        let pause = self.pause(entry, again);
        let (plan, asker) = (Arc::clone(&self.plan), self.asker());
        let calls = Arc::clone(&self.coordinator.calls);
        Box::pin(async move {
            sleep(pause).await;
            let _call = calls.acquire_owned().await;
            let Entry {
                backend,
                line,
                version,
                ..
            } = &plan.entries[entry];
            participant::delete(backend, line, *version, &asker).await;
            Event::DeleteAsked(entry).into()
        })
    }

    fn answer(&mut self, answer: Answer) {
        let metrics = &self.coordinator.metrics;
        self.outcome.set(match answer {
            Answer::Committed => {
                metrics.committed();
                Answered::Committed(self.versions())
            }
            Answer::Refused(refusal) => {
                match self.written {
                    true => metrics.aborted(),
                    false => metrics.refused(),
                }
                let written = self.written;
                Answered::Refused { refusal, written }
            }
            Answer::Unknown => {
                metrics.unknown();
                Answered::Unknown
            }
        });
        metrics.phase(Phase::Total, self.begun.elapsed());
        // What is left to do is the gateway's own business, and the caller's token is not for it.
        if !matches!(self.outcome.get().as_deref(), Some(Answered::Unknown)) {
            self.caller = None;
        }
    }

    fn forget(&self, entry: usize) {
        let Entry { line, version, .. } = &self.plan.entries[entry];
        let visibility = &self.coordinator.visibility;
        visibility.forget(line, Some(*version), &self.fate);
    }

    fn reserve(&mut self, entry: usize) {
        self.reserved[entry] = true;
        let Entry { line, version, .. } = &self.plan.entries[entry];
        let rest = self.coordinator.settings.slot_cooldown;
        let visibility = self.coordinator.visibility.clone();
        visibility.release(line, *version, &self.fate, rest);
        let line = line.clone();
        tokio::spawn(async move {
            sleep(rest + Duration::from_millis(1)).await;
            visibility.sweep(&line);
        });
    }

    /// The table is free for others, unless another share of the batch is on it still.
    fn unlock(&mut self, share: usize) {
        for &entry in &self.plan.shares[share] {
            if !self.reserved[entry] {
                self.forget(entry);
            }
        }
        if let Some(hold) = &mut self.hold {
            hold.free(&self.plan.line(share).table);
        }
    }

    /// The versions to answer with, once every one has been described.
    fn versions(&self) -> Vec<Box<RawValue>> {
        let described = self.described.iter().flatten();
        described.map(|described| described.raw.clone()).collect()
    }

    fn asker(&self) -> Asker {
        self.caller.clone().unwrap_or_else(|| Asker {
            authority: Authority::Service,
            context: Context::default(),
            timeout: self.coordinator.settings.prepare_timeout,
        })
    }

    fn pause(&mut self, entry: usize, again: bool) -> Duration {
        if !again {
            return Duration::ZERO;
        }
        let (first, longest) = PAUSES;
        let pause = first.saturating_mul(1 << self.pauses[entry].min(10));
        self.pauses[entry] += 1;
        pause.min(longest)
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

impl Refusal {
    /// The refusal, naming the entry.
    pub(super) fn at(mut self, entry: usize) -> Self {
        self.message = format!("entries[{entry}]: {}", self.message);
        self
    }
}

/// A write to the log. When the log cannot write any more the process is about to end, and nothing may be told before it does.
fn logged(
    write: impl Future<Output = Result<Event, LogError>> + Send + 'static,
) -> BoxFuture<'static, Done> {
    Box::pin(async move {
        match write.await {
            Ok(event) => event.into(),
            Err(_) => std::future::pending().await,
        }
    })
}

/// Milliseconds since the epoch.
pub(super) fn now_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

fn busy() -> Refusal {
    Refusal {
        status: 503,
        code: Code::ServiceUnavailable,
        message: "another batch or a long operation is on one of the tables; try again".into(),
    }
}

fn taken(version: u64, latest: u64) -> Refusal {
    Refusal {
        status: 409,
        code: Code::ConcurrentModification,
        message: format!("version {version} is not the next one: the table's latest is {latest}"),
    }
}
