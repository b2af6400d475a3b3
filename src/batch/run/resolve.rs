//! Carries out an operator's decision about a batch, or says why the batch does not take it.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::{BatchInspection, BatchRun, Coordinator, WATCH, now_millis};
use crate::batch::log::{BatchId, Intent, Resolution};
use crate::batch::run::inspect::takes;
use crate::batch::step::{Decision, Event, Settled, State};
use crate::request::origin::Origin;

/// The longest wait for the answer of a batch that is busy with its log.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time for which a decision is carried out before another one is taken instead: `nsgate batches resolve` waits as
/// long, and then tells what its decision has led to.
const CARRIED_OUT: Duration = Duration::from_secs(10);
/// The text for operators about a batch whose task has panicked.
pub(super) const ABANDONED: &str = "the gateway stopped this batch because of a fault (see the panic in its log); restart the gateway to recover the batch";

/// The operator who decided, and the reason.
#[derive(Clone, Debug)]
pub struct Resolver {
    /// The operator's name, in their own words.
    pub who: String,
    /// The reason for the decision.
    pub why: String,
}

/// The reason why a decision was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// No open batch has this id.
    #[error("no unfinished batch has the id {0}: it is finished, or never existed")]
    Unknown(String),
    /// The batch has nothing that waits for this decision.
    #[error("{0}")]
    Refused(String),
}

/// A request of an operator to a running batch.
pub enum Call {
    /// Take a decision.
    Resolve(Request),
    /// Report the current state.
    Look(oneshot::Sender<BatchInspection>),
    /// Write the final states of entries to the log again, of which it has these; and say whether any was missing.
    NoteAgain(Vec<Option<Settled>>, oneshot::Sender<bool>),
}

/// A decision, and the channel for its result.
pub struct Request {
    decision: Decision,
    by: Resolver,
    answer: oneshot::Sender<Result<(), ResolveError>>,
}

impl Coordinator {
    /// The current state of an open batch; `None` if it is not open. The entries are empty if the batch did not answer
    /// in time.
    pub async fn look(&self, id: BatchId) -> Option<BatchInspection> {
        let batch = self.open.caller(id)?;
        Some(ask(&batch).await.unwrap_or_default())
    }

    /// Applies an operator's decision to an open batch.
    ///
    /// # Errors
    ///
    /// No open batch has this id, or the batch did not take the decision.
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
        // A task that ends removes its batch from the open ones; a task that panics does not.
        let ended = || {
            if self.open.has(id) {
                ResolveError::Refused(ABANDONED.into())
            } else {
                gone()
            }
        };
        let call = Call::Resolve(request);
        batch.send(call).await.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }

    /// Has an open batch write again the final states of its entries that the log lacks. `noted` are those that it has.
    /// Returns true if any was missing.
    pub(super) async fn note_again(&self, id: BatchId, noted: Vec<Option<Settled>>) -> bool {
        let Some(batch) = self.open.caller(id) else {
            return false;
        };
        let (answer, answered) = oneshot::channel();
        let asking = async {
            batch.send(Call::NoteAgain(noted, answer)).await.ok()?;
            answered.await.ok()
        };
        timeout(PATIENCE, asking).await.ok().flatten() == Some(true)
    }

    /// Serves the operators' calls for a batch whose backend is not configured any more. Returns after an operator
    /// decided to keep everything as it is; `None` if the log cannot be written.
    pub async fn strand(&self, id: BatchId, intent: &Intent) -> Option<()> {
        let (caller, mut calls) = mpsc::channel(1);
        self.open.insert(id, intent, &Origin::default(), caller);
        self.open.stranded(id);
        loop {
            let request = match calls.recv().await? {
                Call::Resolve(request) => request,
                Call::Look(answer) => {
                    let _ = answer.send(BatchInspection::stranded(intent));
                    continue;
                }
                Call::NoteAgain(_, answer) => {
                    let _ = answer.send(false);
                    continue;
                }
            };
            if request.decision == Decision::Abort {
                let why = "its backend is not configured, so nothing can be rolled back: configure it again, or keep the batch as it is with --commit";
                // The operator may have disconnected.
                let _ = request.answer.send(Err(ResolveError::Refused(why.into())));
                continue;
            }
            let written = self.log.resolve(id, record(id, &request, Vec::new())).await;
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
    /// Serves an operator's call. Returns an event if it was a decision that the batch takes.
    pub(super) async fn attend(&mut self, call: Call, state: &State) -> Option<Event> {
        match call {
            Call::Resolve(request) => self.resolution(request, state).await,
            Call::Look(answer) => {
                // The operator may have disconnected.
                let _ = answer.send(self.look(state));
                None
            }
            Call::NoteAgain(noted, answer) => {
                let is_missing = |entry: usize| noted.get(entry).is_none_or(Option::is_none);
                let missing: Vec<_> = state.settled().filter(|it| is_missing(it.0)).collect();
                for (entry, settled) in &missing {
                    let written = self.coordinator.log.note(self.id, *entry, *settled).await;
                    // If the log cannot be written, the process is about to end.
                    written.ok()?;
                }
                // The asker may have given up.
                let _ = answer.send(!missing.is_empty());
                None
            }
        }
    }

    /// The time for which a delete without an answer may still take away what `decision` would keep; `None` if there is
    /// no such delete.
    fn may_still_be_deleted(&self, state: &State, decision: Decision) -> Option<Duration> {
        let sent = self.removal_lost?;
        let mut hazards = state.hazards();
        let keeps =
            decision == Decision::Commit && hazards.any(|(entry, _)| state.is_leaving(entry));
        WATCH.checked_sub(sent.elapsed()).filter(|_| keeps)
    }

    /// Returns why `decision` has to wait, if somebody has decided otherwise just before.
    fn decided_otherwise(&self, decision: Decision) -> Option<String> {
        let (at, before) = self.decided.filter(|(_, before)| *before != decision)?;
        let rest = CARRIED_OUT.checked_sub(at.elapsed())?;
        let who = self.resolved.last().map_or("", |it| &it.who);
        let who = if who.is_empty() { "somebody" } else { who };
        Some(format!(
            "{who} has just decided on {}, and the gateway carries that out; if the batch still waits then, decide again in {} s",
            before.name(),
            rest.as_secs() + 1
        ))
    }

    /// Writes the decision to the log and returns it as an event; `None` if it was refused.
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
        if let Some(why) = self.decided_otherwise(request.decision) {
            let _ = request.answer.send(Err(ResolveError::Refused(why)));
            return None;
        }
        let hazards = state.hazards().map(|(entry, _)| entry).collect();
        let record = record(self.id, &request, hazards);
        // If the log cannot be written, the process is about to end.
        let written = self.coordinator.log.resolve(self.id, record.clone()).await;
        written.ok()?;
        self.resolved.push(record);
        self.decided = Some((Instant::now(), request.decision));
        let _ = request.answer.send(Ok(()));
        Some(Event::Resolved(request.decision))
    }
}

fn record(id: BatchId, request: &Request, hazards: Vec<usize>) -> Resolution {
    let Resolver { who, why } = request.by.clone();
    tracing::warn!(batch = %id, decision = request.decision.name(), who, why, "batch resolved by an operator");
    Resolution {
        commit: request.decision == Decision::Commit,
        who,
        why,
        at: now_millis(),
        hazards,
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
