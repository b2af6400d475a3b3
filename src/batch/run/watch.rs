//! Watches for requests that got no clear answer: how long, and how often the catalog is asked. A create may still land
//! after its batch was aborted and undone; a removal may still hit another writer's version that has the number or the
//! name by then.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep_until};

use super::{BatchRun, EffectOutcome, open};
use crate::batch::participant::{self, LOOKS_FOR_ABSENCE, UnclearAnswer};
use crate::batch::plan::Entry;
use crate::batch::step::{Event, Finding, Kind, State};
use crate::batch::visibility::{LateArrival, Subject};

/// The length of a watch. Everything that may delay an older request has given it up by then.
pub const WATCH: Duration = Duration::from_secs(15 * 60);
/// The time for which a create of another writer without an answer is remembered. A create that may land when a batch
/// begins is thus known until that batch is decided.
pub const STRAYS: Duration = Duration::from_secs(2 * 15 * 60);
/// The shortest and the longest pause between two lookups.
const LOOKS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

impl BatchRun {
    /// Looks the entry up from time to time, for as long as its create may land, and after that until the catalog has
    /// said that it has not landed. If it is found, locks the table and reports it as landed. Entries that only a removal
    /// may still hit, and committed ones, are not looked up; their watch only takes the same time.
    pub(super) fn watch(
        &mut self,
        entry: usize,
        state: &State,
    ) -> BoxFuture<'static, EffectOutcome> {
        let over = Instant::now() + WATCH;
        if state.is_kept(entry) || self.plan.entries[entry].action.kind() == Kind::Removed {
            return Box::pin(async move {
                sleep_until(over).await;
                Event::WatchOver(entry).into()
            });
        }
        let turn = self.turn(entry, false);
        let proof = self.entries[entry].proof.clone();
        let locks = self.coordinator.locks.clone();
        let wait = self.coordinator.settings().lock_timeout;
        let visibility = self.coordinator.visibility.clone();
        let (subject, commit_flag) = (self.subject(entry), self.commit_flag.clone());
        let (coordinator, id) = (Arc::clone(&self.coordinator), self.id);
        let (mut plan, mut backends) = (Arc::clone(&self.plan), self.backends.clone());
        Box::pin(async move {
            let table = &turn.plan.entries[entry].line.table;
            let taken = || visibility.watched(table, &subject, &commit_flag) == LateArrival::Taken;
            let (mut pause, longest) = LOOKS;
            let mut absent = 0;
            while absent < LOOKS_FOR_ABSENCE {
                let now = Instant::now();
                let next = now + pause;
                sleep_until(if now < over { over.min(next) } else { next }).await;
                pause = longest.min(pause * 2);
                if taken() {
                    break;
                }
                let began = Instant::now();
                let found = {
                    let _call = turn.begins().await;
                    coordinator.follow(&mut plan, &mut backends);
                    let watched = &plan.entries[entry];
                    participant::find(watched, proof.as_ref(), true, &turn.caller).await
                };
                let is_there = match found {
                    Ok(found) => found.finding != Finding::Absent,
                    Err(UnclearAnswer { is_there: true, .. }) => true,
                    Err(UnclearAnswer { refusal, .. }) => {
                        if began >= over {
                            let mut words = refusal.message;
                            words.extend(coordinator.way_back(&plan.entries[entry].backend));
                            coordinator.open.trouble(id, Some(words));
                        }
                        continue;
                    }
                };
                // The holder of the table's lock may keep it until after the watch. The version that was found stays
                // hidden meanwhile.
                if !is_there {
                    if began >= over {
                        absent += 1;
                        pause = LOOKS.0;
                    }
                    continue;
                }
                absent = 0;
                let Ok(hold) = locks.exclusive([table.clone()], wait).await else {
                    continue;
                };
                // The previous holder of the lock may have made it.
                if taken() {
                    break;
                }
                return EffectOutcome {
                    hold: Some(hold),
                    ..Event::Landed(entry).into()
                };
            }
            Event::WatchOver(entry).into()
        })
    }

    /// Handles a create that has landed late; its table is locked again.
    pub(super) fn landed(&mut self, entry: usize) {
        let Entry {
            backend,
            line,
            action,
            ..
        } = &self.plan.entries[entry];
        tracing::warn!(
            batch = %self.id, backend = %backend.name(), table = %line.table.table, change = open::change(action),
            "a create landed after its batch was rolled back; rolling it back too"
        );
        self.coordinator.metrics.late_create();
        self.coordinator.open.landed(self.id);
        self.timing.begin_undo();
        let shares = &self.plan.shape.shares;
        if let Some(share) = shares.iter().position(|share| share.contains(&entry)) {
            self.unlocked[share] = false;
        }
    }

    /// Ends the watch of an entry: no request that was sent can arrive any more, and the number or the name is free.
    pub(super) fn unwatch(&self, entry: usize, state: &State) {
        let visibility = &self.coordinator.visibility;
        let Entry { line, action, .. } = &self.plan.entries[entry];
        let is_removal = action.kind() == Kind::Removed;
        let committed = !is_removal && self.commit_flag.is_revealed();
        let subject = if committed {
            Subject::Table
        } else {
            self.subject(entry)
        };
        // Several entries of a batch may keep the same name.
        let keeps = |other: usize| {
            let Entry {
                line: of, action, ..
            } = &self.plan.entries[other];
            let keeps =
                state.is_kept(other) || (state.is_watched(other) && action.subject(of) == subject);
            other != entry && of.table == line.table && keeps
        };
        if subject != Subject::Table || !(0..self.plan.entries.len()).any(keeps) {
            visibility.unwatch(&line.table, &subject, &self.commit_flag);
        }
        if action.is_about_name() && !committed {
            self.forget(entry);
        }
    }
}

#[cfg(test)]
mod tests;
