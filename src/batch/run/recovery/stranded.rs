//! Batches with a backend that is not configured any more. Their unsettled entries and hazards stay locked and hidden,
//! until the backend is back or an operator ends the batch as it is. Freed numbers are in cool-down, and a version that
//! lands late stays hidden.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;

use super::{freed, let_be, let_be_verdict, take_over};
use crate::backend::Backend;
use crate::batch::api::outcomes::{BatchAnswer, Outcome};
use crate::batch::locks::Hold;
use crate::batch::log::{Action, IntentEntry, Record, VersionRange};
use crate::batch::plan::Plan;
use crate::batch::run::{Coordinator, WATCH};
use crate::batch::step::{Decision, Settled};
use crate::batch::visibility::commit_flag::CommitFlag;
use crate::batch::visibility::{LateArrival, Release, Subject};

pub(super) struct StrandedBatch {
    coordinator: Arc<Coordinator>,
    record: Record,
    outcome: Arc<Outcome>,
    commit_flag: CommitFlag,
    hold: Hold,
}

impl StrandedBatch {
    /// Locks the tables and hides the entries at once, and continues in a task of its own.
    pub(super) fn begin(coordinator: Arc<Coordinator>, record: Record, outcome: Arc<Outcome>) {
        let entries = unsettled(&record);
        let backends = missing(&coordinator, &record);
        tracing::error!(batch = %record.id, backends, "an unfinished batch needs a backend that is no longer configured; its tables stay locked until the backend is configured again. Run `nsgate batches show {}`", record.id);
        let table = |entry: &usize| record.intent.entries[*entry].line().table;
        let tables: Vec<_> = entries.iter().map(table).collect();
        let hold = coordinator.locks.exclusive_in_turn(tables.clone());
        let commit_flag = CommitFlag::default();
        for entry in entries {
            hide(&coordinator, &record, entry, &commit_flag);
        }
        rest(&coordinator, &record, &commit_flag);
        if decision(&record) == Some(Decision::Commit) {
            coordinator.visibility.names.reveal(&commit_flag, &tables);
        }
        // Whoever waits for its answer is told how to learn it: the backend may never be back.
        outcome.set(BatchAnswer::Unknown);
        let configured = coordinator.backends.subscribe();
        let stranded = Self {
            coordinator,
            record,
            outcome,
            commit_flag,
            hold,
        };
        tokio::spawn(stranded.wait(configured));
    }

    async fn wait(self, configured: watch::Receiver<Vec<Arc<Backend>>>) {
        let Record { id, intent, .. } = &self.record;
        tokio::select! {
            biased;
            kept = self.coordinator.strand(*id, intent) => {
                if kept.is_some() {
                    // If the log cannot be written, the process is about to end.
                    let _ = let_be(&self.coordinator, &self.record).await;
                    if let Some(refusal) = let_be_verdict().refusal() {
                        let written = true;
                        self.outcome.set(BatchAnswer::Refused { refusal, written });
                    }
                    show(&self.coordinator, &intent.entries, &self.commit_flag);
                }
            }
            plan = back(configured, &self.record) => self.go_on(plan),
        }
    }

    /// Continues the batch as if the process had started with the backends of `plan`.
    fn go_on(self, plan: Plan) {
        let Self {
            coordinator,
            mut record,
            outcome,
            commit_flag,
            hold,
        } = self;
        for (entry, settled) in used(&coordinator, &record, &commit_flag) {
            record.settled[entry] = Some(settled);
        }
        let entries = record.intent.entries.clone();
        for (entry, planned) in record.intent.entries.iter_mut().zip(&plan.entries) {
            entry.backend = Arc::clone(planned.backend.name());
            entry
                .catalog
                .known_as(planned.backend.name(), planned.backend.catalog());
        }
        take_over(&coordinator, plan, record, outcome, Some(hold));
        // From now on the batch itself hides its entries.
        show(&coordinator, &entries, &commit_flag);
    }
}

/// The names of the batch's backends that are not configured.
fn missing(coordinator: &Coordinator, record: &Record) -> String {
    let configured = coordinator.backends.borrow();
    let is_gone = |entry: &&IntentEntry| {
        let mut known = configured.iter().map(|backend| backend.catalog());
        !known.any(|known| known == entry.identity())
    };
    let gone = record.intent.entries.iter().filter(is_gone);
    let gone: BTreeSet<&str> = gone.map(|entry| &*entry.backend).collect();
    gone.into_iter().collect::<Vec<_>>().join(", ")
}

/// Waits for a configuration that has all backends of the batch, and plans the batch with it.
async fn back(mut configured: watch::Receiver<Vec<Arc<Backend>>>, record: &Record) -> Plan {
    loop {
        if configured.changed().await.is_err() {
            return std::future::pending().await;
        }
        let plan = {
            let backends = configured.borrow_and_update();
            let known_as = |identity: &str| {
                backends
                    .iter()
                    .find(|b| **b.catalog() == *identity)
                    .cloned()
            };
            Plan::recovered(&record.intent, known_as)
        };
        if let Some(plan) = plan {
            return plan;
        }
    }
}

fn decision(record: &Record) -> Option<Decision> {
    record.verdict.as_ref().map(|verdict| verdict.decision())
}

/// The entries with work left.
fn unsettled(record: &Record) -> Vec<usize> {
    let committed = decision(record) == Some(Decision::Commit);
    let entries = record.intent.entries.iter().zip(&record.settled);
    let left = entries.enumerate().filter(|(_, (entry, settled))| {
        // Versions that a COMMIT made are visible to all. Those that it removes may still exist.
        let removes = matches!(
            entry.action,
            Action::DeleteVersions { .. } | Action::Deregister
        );
        matches!(settled, None | Some(Settled::Hazard(_))) && (removes || !committed)
    });
    left.map(|(entry, _)| entry).collect()
}

fn hide(coordinator: &Coordinator, record: &Record, entry: usize, commit_flag: &CommitFlag) {
    let intent = &record.intent;
    let IntentEntry { action, .. } = &intent.entries[entry];
    let (line, origin) = (intent.entries[entry].line(), intent.origin(entry));
    let visibility = &coordinator.visibility;
    visibility.hide_action(&line, action, origin, commit_flag);
}

/// Puts freed numbers and names into cool-down, as a running batch does, and hides versions that may still land.
fn rest(coordinator: &Coordinator, record: &Record, commit_flag: &CommitFlag) {
    let visibility = &coordinator.visibility;
    let clean = Release::Clean(coordinator.pause());
    let entries = record.intent.entries.iter().zip(&record.settled);
    for (index, (entry, settled)) in entries.enumerate() {
        let Some(settled) = settled.filter(|settled| settled.is_free()) else {
            continue;
        };
        // Nobody looks for what lands late while the backend is away.
        let release = if settled.is_uncertain() {
            Release::Leaving(WATCH)
        } else {
            clean
        };
        let line = entry.line();
        let subject = entry.action.subject(&line);
        if subject == Subject::Name && release == clean {
            continue;
        }
        let claim = Some((record.id, index));
        visibility.release(&line, subject, commit_flag, release, claim);
        if settled.is_contested()
            && let Some(version) = entry.version()
        {
            visibility.contest(&line, version);
        }
        if entry.action.is_about_name() {
            hide(coordinator, record, index, commit_flag);
        }
    }
}

/// The entries whose numbers another writer has used since, or may have used. The log knows this already, or will
/// before it is forgotten.
fn used(
    coordinator: &Coordinator,
    record: &Record,
    commit_flag: &CommitFlag,
) -> Vec<(usize, Settled)> {
    let visibility = &coordinator.visibility;
    let used = freed(record).filter_map(|(entry, (line, version))| {
        let claims = visibility.claims(&line, version);
        if !claims.contains(&(record.id, entry)) {
            return Some((entry, Settled::Theirs));
        }
        let settled = record.settled[entry]?;
        let subject = record.intent.entries[entry].action.subject(&line);
        let watched = visibility.watched(&line.table, &subject, commit_flag);
        let contested = settled.may_land() && watched == LateArrival::Contested;
        contested.then_some((entry, Settled::Contested))
    });
    used.collect()
}

fn show(coordinator: &Coordinator, entries: &[IntentEntry], commit_flag: &CommitFlag) {
    let visibility = &coordinator.visibility;
    for entry in entries {
        let line = entry.line();
        visibility.unwatch(&line.table, &entry.action.subject(&line), commit_flag);
        match &entry.action {
            Action::CreateVersion { version, .. } => {
                visibility.forget(&line, Some(*version), commit_flag)
            }
            Action::DeleteVersions { ranges } => {
                for VersionRange { start, .. } in ranges {
                    visibility.forget(&line, Some(*start), commit_flag);
                }
            }
            Action::Declare { .. } | Action::Register { .. } | Action::Deregister => {
                visibility.names.forget(&line.table, commit_flag);
            }
        }
    }
}
