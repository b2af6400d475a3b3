//! A person looks at a batch, and decides what it cannot.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::{BatchInspection, BatchRun, Coordinator, WATCH, now_millis};
use crate::batch::log::{BatchId, Intent, Resolution};
use crate::batch::run::inspect::takes;
use crate::batch::step::{Decision, Event, State};

/// How long a batch that is busy with its log is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// What people are told of a batch whose task has panicked.
pub(super) const ABANDONED: &str = "the gateway stopped this batch because of a fault (see the panic in its log); restart the gateway to recover the batch";

/// Who decided, and why.
#[derive(Clone, Debug)]
pub struct Resolver {
    /// Who, in the person's own words.
    pub who: String,
    /// Why.
    pub why: String,
}

/// Why a decision was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// No open batch has this name.
    #[error("no unfinished batch has the id {0}: it is finished, or never existed")]
    Unknown(String),
    /// Nothing in the batch waits for this decision.
    #[error("{0}")]
    Refused(String),
}

/// What people want of a batch that runs.
pub enum Call {
    /// A decision on its way to it.
    Resolve(Request),
    /// To see how it stands.
    Look(oneshot::Sender<BatchInspection>),
}

/// A decision, and where to say what came of it.
pub struct Request {
    decision: Decision,
    by: Resolver,
    answer: oneshot::Sender<Result<(), ResolveError>>,
}

impl Coordinator {
    /// Looks at an open batch.
    pub async fn look(&self, id: BatchId) -> Option<BatchInspection> {
        let batch = self.open.caller(id)?;
        Some(ask(&batch).await.unwrap_or_default())
    }

    /// Has a batch take a person's decision.
    pub async fn resolve(
        &self,
        id: BatchId,
        decision: Decision,
        by: Resolver,
    ) -> Result<(), ResolveError> {
        let gone = || ResolveError::Unknown(id.to_string());
        let batch = self.open.caller(id).ok_or_else(gone)?;
        let (answer, answered) = oneshot::channel();
        let request = Request {
            decision,
            by,
            answer,
        };
        // A task that ends takes its batch away; one that panics does not.
        let ended = || match self.open.has(id) {
            true => ResolveError::Refused(ABANDONED.into()),
            false => gone(),
        };
        let call = Call::Resolve(request);
        batch.send(call).await.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }

    /// A batch whose backend is not configured any more keeps to the log, open to a person's decision to let it be.
    /// `None`: the log cannot write.
    pub async fn strand(&self, id: BatchId, intent: &Intent) -> Option<()> {
        let (caller, mut calls) = mpsc::channel(1);
        self.open.insert(id, intent, caller);
        self.open.stranded(id);
        loop {
            let request = match calls.recv().await? {
                Call::Resolve(request) => request,
                Call::Look(answer) => {
                    let _ = answer.send(BatchInspection::stranded(intent));
                    continue;
                }
            };
            if request.decision == Decision::Abort {
                let why = "its backend is not configured, so nothing can be rolled back: configure it again, or keep the batch as it is with --commit";
                // Who asked may have gone.
                let _ = request.answer.send(Err(ResolveError::Refused(why.into())));
                continue;
            }
            let written = self.log.resolve(id, record(id, &request)).await;
            written.ok()?;
            let _ = request.answer.send(Ok(()));
            return Some(());
        }
    }
}

async fn ask(batch: &mpsc::Sender<Call>) -> Option<BatchInspection> {
    let (answer, answered) = oneshot::channel();
    let asking = async {
        batch.send(Call::Look(answer)).await.ok()?;
        answered.await.ok()
    };
    timeout(PATIENCE, asking).await.ok()?
}

impl BatchRun {
    /// Does what a person wants; an event comes of it if that is a decision that is taken.
    pub(super) async fn attend(&mut self, call: Call, state: &State) -> Option<Event> {
        match call {
            Call::Resolve(request) => self.resolution(request, state).await,
            Call::Look(answer) => {
                // Who asked may have gone.
                let _ = answer.send(self.look(state));
                None
            }
        }
    }

    /// For how long a delete that got no answer may still take away what `decision` would keep.
    fn may_still_be_deleted(&self, state: &State, decision: Decision) -> Option<Duration> {
        let sent = self.removal_lost?;
        let mut hazards = state.hazards();
        let keeps =
            decision == Decision::Commit && hazards.any(|(entry, _)| state.is_leaving(entry));
        WATCH.checked_sub(sent.elapsed()).filter(|_| keeps)
    }

    /// The decision as an event, once it is in the log; `None`: it was refused.
    async fn resolution(&mut self, request: Request, state: &State) -> Option<Event> {
        if let Some(rest) = self.may_still_be_deleted(state, request.decision) {
            let why = format!(
                "an unanswered delete may still reach the catalog and remove what you keep; decide again in {} s",
                rest.as_secs() + 1
            );
            let _ = request.answer.send(Err(ResolveError::Refused(why)));
            return None;
        }
        if !takes(state, request.decision) {
            let why = refusal(state, request.decision);
            let _ = request.answer.send(Err(ResolveError::Refused(why)));
            return None;
        }
        let record = record(self.id, &request);
        // When the log cannot write, the process is about to end.
        let written = self.coordinator.log.resolve(self.id, record.clone()).await;
        written.ok()?;
        self.resolved.push(record);
        let _ = request.answer.send(Ok(()));
        Some(Event::Resolved(request.decision))
    }
}

fn record(id: BatchId, request: &Request) -> Resolution {
    let Resolver { who, why } = request.by.clone();
    tracing::warn!(batch = %id, decision = request.decision.name(), who, why, "batch resolved by an operator");
    Resolution {
        commit: request.decision == Decision::Commit,
        who,
        why,
        at: now_millis(),
    }
}

fn refusal(state: &State, decision: Decision) -> String {
    match (state.is_watching(), decision) {
        (true, _) => {
            "the batch is finished and its tables are unlocked; the gateway only watches for its unanswered requests"
        }
        (false, Decision::Commit) => {
            "not all of its changes are proven to be created, or they are being deleted already; the batch continues by itself"
        }
        (false, Decision::Abort) => {
            "nothing to decide: the batch is decided, and continues by itself"
        }
    }
    .into()
}
