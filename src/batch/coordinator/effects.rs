//! What each effect of the protocol is: a question to a catalog, a write to the log, a change of who sees what.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::value::RawValue;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
use tokio::time::sleep;

use super::{Done, Pending, Run, now_millis};
use crate::backend::Authority;
use crate::batch::log::{LogError, Verdict};
use crate::batch::outcomes::Answered;
use crate::batch::participant::{self, Asker, Created, Staged};
use crate::batch::plan::{Entry, Plan};
use crate::batch::step::{Answer, Decision, Effect, Event, Refusal, State};
use crate::metrics::Phase;
use crate::protocol::context::Context;
use crate::protocol::error::Code;

/// The first pause before a catalog is asked again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

impl Run {
    /// Carries an effect out at once, or begins to.
    pub(super) fn perform(&mut self, effect: Effect, state: &State, pending: &Pending) {
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

    fn validate(&mut self, share: usize) -> BoxFuture<'static, Done> {
        let index = self.plan.shares[share][0];
        let turn = self.turn(index, false);
        let visibility = self.coordinator.visibility.clone();
        Box::pin(async move {
            let Entry {
                backend,
                line,
                version,
                ..
            } = &turn.plan.entries[index];
            let _call = turn.begins().await;
            let latest = participant::latest(backend, line, &turn.asker).await;
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

    /// Hides the versions of the batch from readers.
    pub(super) fn hide(&self) {
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
        let turn = self.turn(entry, again);
        Box::pin(async move {
            let _call = turn.begins().await;
            let Entry {
                backend,
                line,
                version,
                body,
                ..
            } = &turn.plan.entries[entry];
            match participant::create(backend, line, *version, body.clone(), &turn.asker).await {
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
        let turn = self.turn(entry, again);
        let proof = self.proofs[entry].clone();
        Box::pin(async move {
            let _call = turn.begins().await;
            let Entry {
                backend,
                line,
                version,
                manifest_size,
                e_tag,
                ..
            } = &turn.plan.entries[entry];
            let staged = Staged {
                proof: proof.as_ref(),
                size: *manifest_size,
                e_tag: e_tag.as_deref(),
            };
            match participant::find(backend, line, *version, &staged, &turn.asker).await {
                Some((finding, described)) => Done {
                    described: described.map(|described| (entry, described)),
                    ..Event::Found(entry, finding).into()
                },
                None => Event::Unanswered(entry).into(),
            }
        })
    }

    fn delete(&mut self, entry: usize, again: bool) -> BoxFuture<'static, Done> {
        let turn = self.turn(entry, again);
        Box::pin(async move {
            let _call = turn.begins().await;
            let Entry {
                backend,
                line,
                version,
                ..
            } = &turn.plan.entries[entry];
            participant::delete(backend, line, *version, &turn.asker).await;
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

    /// The next question about an entry; `again` after a pause that grows.
    fn turn(&mut self, entry: usize, again: bool) -> Turn {
        let mut pause = None;
        if again {
            let (first, longest) = PAUSES;
            let grown = first.saturating_mul(1 << self.pauses[entry].min(10));
            self.pauses[entry] += 1;
            pause = Some(grown.min(longest));
        }
        Turn {
            plan: Arc::clone(&self.plan),
            asker: self.asker(),
            calls: Arc::clone(&self.coordinator.calls),
            pause,
        }
    }
}

/// What a question to a catalog takes with it.
struct Turn {
    plan: Arc<Plan>,
    asker: Asker,
    calls: Arc<Semaphore>,
    pause: Option<Duration>,
}

impl Turn {
    /// Waits for the pause, if there is one, and until one more question may be under way.
    async fn begins(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        if let Some(pause) = self.pause {
            sleep(pause).await;
        }
        self.calls.acquire().await
    }
}

impl Refusal {
    /// The refusal, naming the entry.
    pub(in crate::batch) fn at(mut self, entry: usize) -> Self {
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
