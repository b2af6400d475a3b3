//! A person decides what a batch cannot.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::{Coordinator, Run, now_millis};
use crate::batch::log::{BatchId, Intent, Resolution};
use crate::batch::step::{Decision, Event, State, step};

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
    #[error("no open batch is called {0}: it has ended, or never was")]
    Unknown(String),
    /// Nothing in the batch waits for this decision.
    #[error("{0}")]
    Refused(String),
}

/// A decision on its way to the batch.
pub struct Request {
    decision: Decision,
    by: Resolver,
    answer: oneshot::Sender<Result<(), ResolveError>>,
}

impl Coordinator {
    /// Has a batch take a person's decision.
    pub async fn resolve(
        &self,
        id: BatchId,
        decision: Decision,
        by: Resolver,
    ) -> Result<(), ResolveError> {
        let gone = || ResolveError::Unknown(id.to_string());
        let resolver = self.open.resolver(id).ok_or_else(gone)?;
        let (answer, answered) = oneshot::channel();
        let request = Request {
            decision,
            by,
            answer,
        };
        resolver.send(request).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// A batch whose backend is not configured any more keeps to the log, open to a person's decision to let it be.
    /// `None`: the log cannot write.
    pub async fn strand(&self, id: BatchId, intent: &Intent) -> Option<()> {
        let (resolver, mut requests) = mpsc::channel(1);
        self.open.insert(id, intent, resolver);
        self.open.stranded(id);
        loop {
            let request = requests.recv().await?;
            if request.decision == Decision::Abort {
                let why = "its backend is not configured, so nothing can be undone: configure it again, or let the batch be with --commit";
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

impl Run {
    /// The decision as an event, once it is in the log; `None`: it was refused.
    pub(super) async fn resolution(&self, request: Request, state: &State) -> Option<Event> {
        let event = Event::Resolved(request.decision);
        if step(state.clone(), event.clone()).1.is_empty() {
            let why = refusal(state, request.decision);
            let _ = request.answer.send(Err(ResolveError::Refused(why)));
            return None;
        }
        let record = record(self.id, &request);
        // When the log cannot write, the process is about to end.
        self.coordinator.log.resolve(self.id, record).await.ok()?;
        let _ = request.answer.send(Ok(()));
        Some(event)
    }
}

fn record(id: BatchId, request: &Request) -> Resolution {
    let Resolver { who, why } = request.by.clone();
    tracing::warn!(batch = %id, decision = ?request.decision, who, why, "a person has resolved a batch");
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
            "the batch is undone and its tables are free; only a create that may still arrive is being watched for"
        }
        (false, Decision::Commit) => {
            "the batch cannot be committed: not every part of it is proven created, or it is already deleting them. It goes on by itself"
        }
        (false, Decision::Abort) => {
            "nothing in the batch waits for a person: it is decided, and goes on by itself"
        }
    }
    .into()
}

/// How long ago a batch began: its name says so.
pub(super) fn age(id: BatchId) -> Duration {
    let began = id.get_timestamp().map_or(0, |time| {
        let (seconds, nanos) = time.to_unix();
        seconds * 1000 + u64::from(nanos / 1_000_000)
    });
    Duration::from_millis(now_millis().saturating_sub(began))
}
