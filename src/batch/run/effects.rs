//! Carries out the effects of the protocol: begins all of them, and has the locks, the writes to the log and the answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::BoxFuture;
use http::StatusCode;
use serde_json::value::RawValue;
use tokio::time::sleep;

use super::{BatchRun, EffectOutcome, Pending, REQUESTS_AT_ONCE};
use crate::batch::AWAY;
use crate::batch::api::outcomes::BatchAnswer;
use crate::batch::log::{Action, LogError, Verdict};
use crate::batch::plan::Entry;
use crate::batch::step::{Answer, Decision, Effect, Event, Refusal, Settled, State};
use crate::error::origin::ErrorOrigin;
use crate::metrics::Phase;
use crate::util::budget::Rationed;

/// The refusals of a batch that was not prepared in time: its catalogs were slow, or its gateway could not ask them.
const SLOW: &str =
    "the catalogs did not create the versions of the batch within `batch.prepare_timeout`";
const CUT_OFF: &str = "the gateway lost its contact to the batch log for longer than `batch.lease`, and could send nothing more for the batch within `batch.prepare_timeout`";

impl BatchRun {
    /// Carries out an effect at once, or starts it and adds it to `pending`.
    pub(super) fn perform(&mut self, effect: Effect, state: &State, pending: &Pending) {
        let begin = |effect| pending.push(Rationed::new(effect, REQUESTS_AT_ONCE));
        match effect {
            Effect::Lock => begin(self.lock()),
            Effect::Validate(share) => begin(self.validate(share)),
            Effect::LogIntent => begin(self.log_intent()),
            Effect::Hide => self.hide(|_| false),
            Effect::StartClock => begin(self.clock()),
            Effect::Create { entry, again } => begin(self.create(entry, again)),
            Effect::Find { entry, again } => begin(self.find(entry, again, state.is_undoing())),
            Effect::LogDecision(decision) => {
                self.lap(Phase::Prepare);
                let abort = decision == Decision::Abort;
                self.given_up.store(abort, Ordering::Relaxed);
                begin(self.log_decision(decision, state));
            }
            Effect::Reveal => self.reveal(),
            Effect::Answer(answer) => self.answer(answer),
            Effect::Delete { entry, again } => begin(self.delete(entry, again)),
            Effect::Remove { entry, again } => begin(self.remove(entry, again)),
            Effect::Show(entry) => self.show(entry),
            Effect::Reserve(entry) => self.reserve(entry),
            Effect::Watch(entry) => begin(self.watch(entry, state)),
            Effect::Free(entry) => self.unwatch(entry, state),
            Effect::Note(entry, settled) => {
                let settled = self.as_noted(entry, settled);
                let (log, id) = (Arc::clone(&self.coordinator.log), self.id);
                begin(logged(async move {
                    log.note(id, entry, settled).await?;
                    Ok(Event::Noted(entry))
                }));
            }
            Effect::Unlock(share) => self.unlock(share, state),
            Effect::LogEnd => {
                let log = Arc::clone(&self.coordinator.log);
                let (id, now) = (self.id, self.coordinator.clock);
                let superseded = std::mem::take(&mut self.superseded);
                begin(logged(async move {
                    // Once this batch has ended, its COMMIT may be forgotten. Then it no longer shows who made these
                    // versions.
                    for (other, entry) in superseded {
                        log.note(other, entry, Settled::Theirs).await?;
                    }
                    log.end(id, now()).await?;
                    Ok(Event::Ended)
                }));
            }
        }
    }

    /// Takes the locks at once, or waits for them in the waiting room, where the batch does not block the place of
    /// another.
    fn lock(&mut self) -> BoxFuture<'static, EffectOutcome> {
        let coordinator = Arc::clone(&self.coordinator);
        let (plan, place) = (Arc::clone(&self.plan), self.permit.place().clone());
        Box::pin(async move {
            match coordinator.lock(&plan, || place.wait()).await {
                Ok(hold) => EffectOutcome {
                    hold: Some(hold),
                    ..Event::Locked.into()
                },
                Err(error) => Event::LockTimedOut(coordinator.unlocked(&plan, error)).into(),
            }
        })
    }

    /// Writes INTENT. The tables are locked, so a foreign create that may land as a version of the batch was sent
    /// before.
    fn log_intent(&mut self) -> BoxFuture<'static, EffectOutcome> {
        let visibility = &self.coordinator.visibility;
        for (entry, Entry { line, action, .. }) in self.plan.entries.iter().enumerate() {
            if let Action::CreateVersion { version, .. } = action
                && visibility.may_be_anothers(line, *version)
            {
                Arc::make_mut(&mut self.intent).entries[entry].contested = true;
            }
        }
        let (coordinator, id) = (Arc::clone(&self.coordinator), self.id);
        let (plan, intent) = (Arc::clone(&self.plan), Arc::clone(&self.intent));
        logged(async move {
            // If this batch cannot be undone safely and an operator keeps its version, no other batch may delete that
            // version.
            for entry in &plan.entries {
                if let Some(version) = entry.version() {
                    coordinator.contest(&entry.line, version).await?;
                }
            }
            match coordinator.log.intend(id, intent).await {
                Err(LogError::Away { .. }) => Ok(Event::IntentFailed(Refusal {
                    origin: ErrorOrigin::BatchLog,
                    ..Refusal::unavailable(AWAY)
                })),
                written => written.map(|()| Event::IntentDurable),
            }
        })
    }

    fn log_decision(&self, decision: Decision, state: &State) -> BoxFuture<'static, EffectOutcome> {
        let (log, id) = (Arc::clone(&self.coordinator.log), self.id);
        let verdict = match decision {
            Decision::Commit => Verdict::Commit(self.answers()),
            Decision::Abort => {
                let proofs = self.entries.iter().map(|entry| entry.proof.clone());
                let failure = state.failure().map(|failure| self.with_found(failure));
                Verdict::abort(proofs.collect(), failure.as_ref())
            }
        };
        let (plan, intent) = (Arc::clone(&self.plan), Arc::clone(&self.intent));
        logged(async move {
            loop {
                match log.decide(id, verdict.clone()).await {
                    Err(lost @ LogError::Lost { .. }) => {
                        let tables = plan.entries.iter().map(|entry| &entry.line.table);
                        let tables = tables.map(|it| format!("{} in {}", it.table, it.backend));
                        let tables: Vec<String> = tables.collect();
                        tracing::error!(
                            batch = %id,
                            ?tables,
                            cause = %lost,
                            "a batch is written to its log again; meanwhile other gateways may have shown a part of it"
                        );
                        if log.intend(id, Arc::clone(&intent)).await.is_err() {
                            log.withdrawn(id).await?;
                        }
                    }
                    decided => return Ok(Event::Decided(decided?)),
                }
            }
        })
    }

    fn clock(&self) -> BoxFuture<'static, EffectOutcome> {
        let timeout = self.coordinator.settings().prepare_timeout;
        let sharing = self.coordinator.sharing.as_ref();
        let fleet = sharing.map(|sharing| Arc::clone(&sharing.fleet));
        Box::pin(async move {
            sleep(timeout).await;
            let is_cut_off = fleet.is_some_and(|fleet| !fleet.knows_of_batches());
            Event::PrepareTimedOut(Refusal::unavailable(if is_cut_off {
                CUT_OFF
            } else {
                SLOW
            }))
            .into()
        })
    }

    fn answer(&mut self, answer: Answer) {
        let metrics = &self.coordinator.metrics;
        self.outcome.set(match answer {
            Answer::Committed => {
                metrics.committed();
                BatchAnswer::Committed(self.answers())
            }
            Answer::Refused(refusal) => {
                let refusal = self.with_found(&refusal);
                let written = self.written;
                if refusal.is_another_writers() {
                    metrics.conflicted();
                } else if written {
                    metrics.aborted();
                } else {
                    metrics.refused();
                }
                BatchAnswer::Refused { refusal, written }
            }
            Answer::Unknown => {
                metrics.unknown();
                BatchAnswer::Unknown
            }
        });
        metrics.phase(Phase::Total, self.timing.begun().elapsed());
        // The remaining work is the gateway's own and must not use the caller's token.
        if !matches!(self.outcome.get().as_deref(), Some(BatchAnswer::Unknown)) {
            self.caller = None;
        }
    }

    /// Adds the table's latest version to a conflict that a catalog has found, if the lookup after it showed it.
    fn with_found(&self, refusal: &Refusal) -> Refusal {
        let is_conflict = refusal.status == StatusCode::CONFLICT;
        let latest = refusal.entry.filter(|_| is_conflict);
        let latest = latest.and_then(|entry| self.entries[entry].latest);
        let found = refusal.found.or(latest);
        Refusal {
            found,
            ..refusal.clone()
        }
    }

    /// The catalogs' descriptions of the entries, for the answer; `null` where there is none.
    fn answers(&self) -> Vec<Box<RawValue>> {
        let described = self.entries.iter().map(|entry| &entry.described);
        let said = described.map(|described| described.as_ref().map(|found| found.raw.clone()));
        said.map(|raw| raw.unwrap_or_else(|| RawValue::NULL.to_owned()))
            .collect()
    }
}

/// Writes to the log. When the log cannot be written any more, the process is about to end, and nothing may be reported
/// before it does. The future then never completes.
fn logged(
    write: impl Future<Output = Result<Event, LogError>> + Send + 'static,
) -> BoxFuture<'static, EffectOutcome> {
    Box::pin(async move {
        match write.await {
            Ok(event) => event.into(),
            Err(_) => std::future::pending().await,
        }
    })
}
