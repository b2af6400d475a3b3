//! Carries out the effects of the protocol: requests to catalogs, writes to the log, and changes of visibility.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use http::StatusCode;
use serde_json::value::RawValue;
use tokio::time::sleep;

use super::calls::{CallTurn, pause_before_retry};
use super::{BatchRun, EffectOutcome, Pending};
use crate::backend::Authority;
use crate::batch::AWAY;
use crate::batch::api::outcomes::BatchAnswer;
use crate::batch::locks::LockError;
use crate::batch::log::{Action, LogError, Verdict};
use crate::batch::participant::{
    self, CallerContext, CreateOutcome, Found, Removal, UnclearAnswer,
};
use crate::batch::plan::Entry;
use crate::batch::step::{
    Answer, Decision, Effect, Event, Finding, Match, Refusal, Settled, State,
};
use crate::batch::visibility::LateArrival;
use crate::config::BatchMode;
use crate::metrics::Phase;
use crate::protocol::context::Context;

impl BatchRun {
    /// Carries out an effect at once, or starts it and adds it to `pending`.
    pub(super) fn perform(&mut self, effect: Effect, state: &State, pending: &Pending) {
        match effect {
            Effect::Lock => pending.push(self.lock()),
            Effect::Validate(share) => pending.push(self.validate(share)),
            Effect::LogIntent => pending.push(self.log_intent()),
            Effect::Hide => self.hide(),
            Effect::StartClock => pending.push(self.clock()),
            Effect::Create { entry, again } => pending.push(self.create(entry, again)),
            Effect::Find { entry, again } => {
                pending.push(self.find(entry, again, state.is_undoing()))
            }
            Effect::LogDecision(decision) => {
                self.lap(Phase::Prepare);
                let abort = decision == Decision::Abort;
                self.given_up.store(abort, Ordering::Relaxed);
                pending.push(self.log_decision(decision, state));
            }
            Effect::Reveal => self.reveal(),
            Effect::Answer(answer) => self.answer(answer),
            Effect::Delete { entry, again } => pending.push(self.delete(entry, again)),
            Effect::Remove { entry, again } => pending.push(self.remove(entry, again)),
            Effect::Show(entry) => self.show(entry),
            Effect::Reserve(entry) => self.reserve(entry),
            Effect::Watch(entry) => pending.push(self.watch(entry, state)),
            Effect::Free(entry) => self.unwatch(entry, state),
            Effect::Note(entry, settled) => {
                let settled = self.as_noted(entry, settled);
                let (log, id) = (Arc::clone(&self.coordinator.log), self.id);
                pending.push(logged(async move {
                    log.note(id, entry, settled).await?;
                    Ok(Event::Noted(entry))
                }));
            }
            Effect::Unlock(share) => self.unlock(share, state),
            Effect::LogEnd => {
                let log = Arc::clone(&self.coordinator.log);
                let (id, now) = (self.id, self.coordinator.clock);
                let superseded = std::mem::take(&mut self.superseded);
                pending.push(logged(async move {
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
        let plan = Arc::clone(&self.plan);
        let mut locking: BoxFuture<'static, EffectOutcome> = Box::pin(async move {
            match coordinator.lock(&plan).await {
                Ok(hold) => EffectOutcome {
                    hold: Some(hold),
                    ..Event::Locked.into()
                },
                Err(error) => Event::LockTimedOut(coordinator.unlocked(&plan, error)).into(),
            }
        });
        match locking.as_mut().now_or_never() {
            Some(done) => Box::pin(ready(done)),
            None if self.permit.wait() => locking,
            None => {
                drop(locking);
                let crowded = self.coordinator.unlocked(&self.plan, LockError::Crowded);
                Box::pin(ready(Event::LockTimedOut(crowded).into()))
            }
        }
    }

    fn validate(&mut self, share: usize) -> BoxFuture<'static, EffectOutcome> {
        let first = self.plan.shape.shares[share][0];
        let turn = self.turn(first, false);
        let visibility = self.coordinator.visibility.clone();
        let came = self.timing.begun();
        Box::pin(async move {
            let _call = turn.begins().await;
            let mut known = None;
            if let Err(refusal) = participant::may_follow(&turn.plan, share, &visibility) {
                let refusal = Some(refusal);
                return Event::Validated { share, refusal }.into();
            }
            for &index in turn.plan.to_validate(share) {
                let entry = &turn.plan.entries[index];
                match participant::validate(entry, &visibility, came, &turn.caller).await {
                    Ok(described) => {
                        if let Some(refusal) = turn.plan.moved(index, described.as_ref()) {
                            let refusal = Some(refusal.at(index));
                            return Event::Validated { share, refusal }.into();
                        }
                        known = known.or(described.map(|described| (index, described)));
                    }
                    Err(refusal) => {
                        let refusal = Some(refusal.at(index));
                        return Event::Validated { share, refusal }.into();
                    }
                }
            }
            let refusal = None;
            EffectOutcome {
                described: known,
                ..Event::Validated { share, refusal }.into()
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
                Err(LogError::Away { .. }) => Ok(Event::IntentFailed(Refusal::unavailable(AWAY))),
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
        logged(async move { Ok(Event::Decided(log.decide(id, verdict).await?)) })
    }

    fn clock(&self) -> BoxFuture<'static, EffectOutcome> {
        let timeout = self.coordinator.settings().prepare_timeout;
        Box::pin(async move {
            sleep(timeout).await;
            Event::PrepareTimedOut(Refusal::unavailable(
                "the catalogs did not create the versions of the batch within `batch.prepare_timeout`",
            ))
            .into()
        })
    }

    fn create(&mut self, entry: usize, again: bool) -> BoxFuture<'static, EffectOutcome> {
        let turn = self.turn(entry, again);
        let group = self.plan.shape.groups[entry].filter(|group| self.together.is_one(*group));
        let together = group.map(|group| {
            let (caller, given_up) = (turn.caller.clone(), Arc::clone(&self.given_up));
            let together = &mut self.together;
            let most = self.coordinator.settings().in_flight;
            together.create(&self.plan, entry, group, (caller, most), given_up)
        });
        let atomic = Arc::clone(&self.coordinator.atomic);
        let tags = self.coordinator.tags.clone();
        let given_up = Arc::clone(&self.given_up);
        Box::pin(async move {
            let _call = turn.begins().await;
            let mut apart = None;
            let asked = &turn.plan.entries[entry];
            let created = match together {
                Some(together) => {
                    let (created, supported) = together.await;
                    apart = group.filter(|_| supported == Some(false));
                    if let Some(supported) = supported
                        && asked.backend.batch_mode() == BatchMode::Auto
                    {
                        atomic.insert(Arc::clone(asked.backend.name()), supported);
                    }
                    created
                }
                None if given_up.load(Ordering::Relaxed) => CreateOutcome::Unsent(unsent()),
                None => match turn.plan.origin(entry) {
                    Some(origin) => participant::register(asked, origin, &turn.caller).await,
                    None => participant::create(asked, &turn.caller).await,
                }
                .at(entry),
            };
            let created = match created {
                // A catalog that has never kept a size writes manifests of its own, so a different size means nothing.
                CreateOutcome::Strange(_, described) if !tags.keeps_sizes(asked) => {
                    CreateOutcome::Yes(described)
                }
                created => created,
            };
            if let CreateOutcome::Yes(described) = &created {
                tags.learn(asked, described);
            }
            let done = match created {
                CreateOutcome::Yes(described) => EffectOutcome {
                    described: Some((entry, described)),
                    ..Event::Created(entry).into()
                },
                CreateOutcome::Unsent(refusal) => Event::Unsent(entry, refusal).into(),
                CreateOutcome::Refused(refusal) => Event::Refused(entry, refusal).into(),
                CreateOutcome::Spoiled(refusal, described) => EffectOutcome {
                    described: described.map(|described| (entry, described)),
                    ..Event::Spoiled(entry, refusal).into()
                },
                CreateOutcome::Strange(refusal, _) => Event::Strange(entry, refusal).into(),
                CreateOutcome::Conflicted(refusal) => Event::Conflicted(entry, refusal).into(),
                CreateOutcome::Lost => Event::Lost(entry).into(),
            };
            EffectOutcome { apart, ..done }
        })
    }

    fn find(
        &mut self,
        entry: usize,
        again: bool,
        undoing: bool,
    ) -> BoxFuture<'static, EffectOutcome> {
        let turn = self.turn(entry, again);
        let known = &self.entries[entry];
        let proof = known.proof.clone();
        let coordinator = Arc::clone(&self.coordinator);
        let (subject, commit_flag) = (self.subject(entry), self.commit_flag.clone());
        let has_rival = self.intent.entries[entry].contested && !known.is_held;
        let contested_before = known.is_contested || has_rival;
        Box::pin(async move {
            let _call = turn.begins().await;
            let asked = &turn.plan.entries[entry];
            let found = participant::find(asked, proof.as_ref(), undoing, &turn.caller).await;
            let Found {
                mut finding,
                described,
                latest,
            } = match found {
                Ok(found) => found,
                Err(UnclearAnswer { refusal, is_there }) => {
                    let event = if is_there {
                        Event::Glimpsed(entry)
                    } else {
                        Event::Unanswered(entry)
                    };
                    return event.but(entry, refusal);
                }
            };
            let table = &asked.line.table;
            let visibility = &coordinator.visibility;
            // Another writer has created this number since the batch gave it up.
            let contested =
                || visibility.watched(table, &subject, &commit_flag) == LateArrival::Contested;
            // A version that looks alike counts as ours only if no other create can have made it.
            if let Finding::Present { likeness, .. } = &mut finding
                && *likeness == Match::Alike
                && asked.version().is_some()
                && (contested_before
                    || contested()
                    || coordinator.tags.denies(asked, described.as_ref()))
            {
                *likeness = Match::Incomparable;
            }
            EffectOutcome {
                described: described.map(|described| (entry, described)),
                latest: latest.map(|latest| (entry, latest)),
                ..Event::Found(entry, finding).into()
            }
        })
    }

    fn delete(&mut self, entry: usize, again: bool) -> BoxFuture<'static, EffectOutcome> {
        let turn = self.turn(entry, again);
        let recorded = self.recorded(entry);
        Box::pin(async move {
            let _call = turn.begins().await;
            recorded.await;
            let done = match participant::delete(&turn.plan.entries[entry], &turn.caller).await {
                Removal::Done => Event::Deleted(entry).into(),
                Removal::Unsent(refusal) => return Event::NotDeleted(entry).but(entry, refusal),
                Removal::Refused(refusal) => Event::NotDeleted(entry).but(entry, refusal),
                Removal::Lost(refusal) => Event::RemovalLost(entry).but(entry, refusal),
            };
            EffectOutcome {
                may_be_gone: Some(entry),
                ..done
            }
        })
    }

    fn remove(&mut self, entry: usize, again: bool) -> BoxFuture<'static, EffectOutcome> {
        let turn = self.turn(entry, again);
        let recorded = self.recorded(entry);
        Box::pin(async move {
            let _call = turn.begins().await;
            recorded.await;
            match participant::remove(&turn.plan.entries[entry], &turn.caller).await {
                Removal::Done => Event::Removed(entry).into(),
                Removal::Unsent(refusal) | Removal::Refused(refusal) => {
                    Event::NotRemoved(entry).but(entry, refusal)
                }
                Removal::Lost(refusal) => Event::RemovalLost(entry).but(entry, refusal),
            }
        })
    }

    /// Records that a delete or deregister may leave. If another gateway owns the log now, it may be working on the
    /// same version: then this never completes, so that nothing is sent, and the process is about to end.
    fn recorded(&self, entry: usize) -> impl Future<Output = ()> + Send + 'static {
        let (log, id) = (Arc::clone(&self.coordinator.log), self.id);
        async move {
            if log.sending(id, entry).await.is_err() {
                std::future::pending().await
            }
        }
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

    fn caller_context(&self) -> CallerContext {
        let own = || CallerContext {
            authority: Authority::Service,
            context: Context::default(),
            origin: self.origin.clone(),
            timeout: Duration::ZERO,
        };
        CallerContext {
            // A third of the time limit leaves time for a second attempt.
            timeout: self.coordinator.settings().prepare_timeout / 3,
            ..self.caller.clone().unwrap_or_else(own)
        }
    }

    /// The next request about an entry; with `again`, after a pause that grows with each retry.
    pub(super) fn turn(&mut self, entry: usize, again: bool) -> CallTurn {
        let mut pause = None;
        if again {
            pause = Some(pause_before_retry(self.entries[entry].retries));
            self.entries[entry].retries += 1;
        }
        let most = self.coordinator.settings().in_flight;
        let backend = self.plan.entries[entry].backend.name();
        CallTurn {
            plan: Arc::clone(&self.plan),
            caller: self.caller_context(),
            calls: self.coordinator.calls.to(backend, most),
            pause,
            fleet: self
                .coordinator
                .sharing
                .as_ref()
                .map(|sharing| Arc::clone(&sharing.fleet)),
        }
    }
}

impl Event {
    /// Combines the event with the catalog's error about the entry, which operators are shown.
    fn but(self, entry: usize, refusal: Refusal) -> EffectOutcome {
        EffectOutcome {
            trouble: Some((entry, refusal)),
            ..self.into()
        }
    }
}

impl CreateOutcome {
    /// Adds the index of the entry to a refusal.
    pub(super) fn at(self, entry: usize) -> Self {
        match self {
            Self::Unsent(refusal) => Self::Unsent(refusal.at(entry)),
            Self::Refused(refusal) => Self::Refused(refusal.at(entry)),
            Self::Spoiled(refusal, described) => Self::Spoiled(refusal.at(entry), described),
            Self::Strange(refusal, described) => Self::Strange(refusal.at(entry), described),
            Self::Conflicted(refusal) => Self::Conflicted(refusal.at(entry)),
            Self::Yes(_) | Self::Lost => self,
        }
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

/// The refusal of a create that was not sent. No client sees it, because the batch has failed already.
pub(super) fn unsent() -> Refusal {
    Refusal::unavailable("the batch was aborted before this was sent")
}
