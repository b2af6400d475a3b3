//! Sends the requests of a batch to its catalogs, and makes an event of each answer.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::calls::{CallTurn, CreatePermission, pause_before_retry};
use super::{BatchRun, EffectOutcome};
use crate::backend::Authority;
use crate::batch::participant::{
    self, CallerContext, CreateOutcome, Found, Removal, UnclearAnswer,
};
use crate::batch::plan::Entry;
use crate::batch::step::{Event, Finding, Match, Refusal};
use crate::batch::visibility::LateArrival;
use crate::config::BatchMode;

impl BatchRun {
    pub(super) fn validate(&mut self, share: usize) -> BoxFuture<'static, EffectOutcome> {
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

    pub(super) fn create(
        &mut self,
        entry: usize,
        again: bool,
    ) -> BoxFuture<'static, EffectOutcome> {
        let turn = self.turn(entry, again);
        let group = self.plan.shape.groups[entry].filter(|group| self.together.is_one(*group));
        let permission = CreatePermission {
            given_up: Arc::clone(&self.given_up),
            fleet: turn.fleet.clone(),
        };
        let together = group.map(|group| {
            let (caller, permission) = (turn.caller.clone(), permission.clone());
            let together = &mut self.together;
            let most = self.coordinator.settings().in_flight;
            together.create(&self.plan, entry, group, (caller, most), permission)
        });
        let atomic = Arc::clone(&self.coordinator.atomic);
        let tags = self.coordinator.tags.clone();
        let registration = self.registration(entry);
        Box::pin(async move {
            let _call = turn.begins().await;
            let mut apart = None;
            let asked = registration.as_ref();
            let asked = asked.unwrap_or(&turn.plan.entries[entry]);
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
                None if !permission.is_given().await => CreateOutcome::Unsent(unsent()),
                None => match turn.plan.origin(entry) {
                    Some(origin) => participant::register(asked, origin, &turn.caller).await,
                    None => participant::create(asked, &turn.caller).await,
                }
                .at(entry),
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
                CreateOutcome::Strange(refusal) => Event::Strange(entry, refusal).into(),
                CreateOutcome::Conflicted(refusal) => Event::Conflicted(entry, refusal).into(),
                CreateOutcome::Lost(None) => Event::Lost(entry).into(),
                CreateOutcome::Lost(Some(refusal)) => Event::Lost(entry).but(entry, refusal),
            };
            EffectOutcome { apart, ..done }
        })
    }

    pub(super) fn find(
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
        let id = self.id;
        Box::pin(async move {
            let _call = turn.begins().await;
            let asked = &turn.plan.entries[entry];
            let found = participant::find(asked, proof.as_ref(), undoing, &turn.caller).await;
            let found = match found {
                Ok(found) if undoing && let Some(origin) = turn.plan.origin(entry) => {
                    participant::look_for_origin(asked, origin, found, &turn.caller).await
                }
                Ok(found) if undoing => participant::look_above(asked, found, &turn.caller).await,
                Ok(found) if let Some(origin) = turn.plan.origin(entry) => {
                    participant::look_for_versions(asked, origin, found, &turn.caller).await
                }
                found => found,
            };
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
            let shown = described.as_ref().and_then(|it| it.proof.e_tag.as_deref());
            if let Finding::Present { likeness, .. } = &mut finding
                && matches!(likeness, Match::Alike | Match::Incomparable)
                && let Some((version, tag)) = asked.version().zip(shown)
                && coordinator
                    .tags
                    .is_of_another(id, &asked.line, version, tag)
            {
                *likeness = Match::Unlike;
            }
            EffectOutcome {
                described: described.map(|described| (entry, described)),
                latest: latest.map(|latest| (entry, latest)),
                ..Event::Found(entry, finding).into()
            }
        })
    }

    pub(super) fn delete(
        &mut self,
        entry: usize,
        again: bool,
    ) -> BoxFuture<'static, EffectOutcome> {
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

    pub(super) fn remove(
        &mut self,
        entry: usize,
        again: bool,
    ) -> BoxFuture<'static, EffectOutcome> {
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

    /// The entry that registers a table with the properties that it had when its names were locked; `None` for other
    /// entries. Those from before may be of another table with its location.
    fn registration(&self, entry: usize) -> Option<Entry> {
        self.plan.origin(entry)?;
        let found = self.entries[entry + 1].described.as_ref()?;
        let planned = self.plan.entries[entry].clone();
        let body = participant::registration(&planned.line.table.table, found);
        Some(Entry { body, ..planned })
    }

    fn caller_context(&self) -> CallerContext {
        let own = || CallerContext {
            authority: Authority::Service,
            context: self.context.clone(),
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
        // Until the decision, the batch uses what its caller's request was routed by.
        if self.caller.is_none() {
            self.coordinator.follow(&mut self.plan, &mut self.backends);
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
            Self::Strange(refusal) => Self::Strange(refusal.at(entry)),
            Self::Conflicted(refusal) => Self::Conflicted(refusal.at(entry)),
            Self::Yes(_) | Self::Lost(_) => self,
        }
    }
}

/// The refusal of a create that was not sent. No client sees it, because the batch has failed already.
pub(super) fn unsent() -> Refusal {
    Refusal::unavailable("the batch was aborted before this was sent")
}
