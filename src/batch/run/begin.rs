//! Constructs the run of a batch: a new one for a caller, or one that is recovered from the log.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::entry::EntryRun;
use super::phase_times::Timing;
use super::{BatchRun, Coordinator};
use crate::batch::api::outcomes::Outcome;
use crate::batch::locks::Hold;
use crate::batch::log::{Intent, Proof, Resolution};
use crate::batch::participant::CallerContext;
use crate::batch::plan::Plan;
use crate::batch::run::admission::Permit;
use crate::batch::run::grouped_create::GroupedCreates;
use crate::batch::step::{Decision, Settled};
use crate::batch::visibility::commit_flag::CommitFlag;
use crate::protocol::context::Context;
use crate::request::origin::Origin;

impl BatchRun {
    /// Creates a batch on behalf of a caller, whose request came then.
    pub(in crate::batch) fn new(
        coordinator: Arc<Coordinator>,
        plan: Plan,
        intent: Intent,
        outcome: Arc<Outcome>,
        (caller, came): (CallerContext, Instant),
        permit: Permit,
    ) -> Self {
        let hold = Hold::none(&coordinator.locks);
        let mut run = Self::build(coordinator, plan, intent, outcome, hold, permit);
        run.coordinator.metrics.entries(run.plan.entries.len());
        run.origin = caller.origin.clone();
        run.caller = Some(caller);
        run.timing = Timing::since(came);
        run.written = false;
        run
    }

    /// Creates a batch from the log, with the recorded proofs, before anything is served. Its tables are already
    /// locked; [`Self::settled_before`] hides its versions and names.
    pub fn recovered(
        coordinator: Arc<Coordinator>,
        plan: Plan,
        intent: Intent,
        outcome: Arc<Outcome>,
        proofs: Vec<Option<Proof>>,
        decision: Option<Decision>,
        hold: Hold,
    ) -> Self {
        let backends = plan.entries.iter().map(|entry| entry.backend.name());
        let permit = coordinator.permits.recovered(backends);
        let mut run = Self::build(coordinator, plan, intent, outcome, hold, permit);
        for (entry, proof) in run.entries.iter_mut().zip(proofs) {
            entry.proof = proof;
        }
        run.open();
        run.audited_again(decision);
        if let Some(decision) = decision {
            run.coordinator.open.decided(run.id, decision);
            run.timing.undoing(decision == Decision::Abort);
        }
        run
    }

    fn build(
        coordinator: Arc<Coordinator>,
        plan: Plan,
        intent: Intent,
        outcome: Arc<Outcome>,
        mut hold: Hold,
        permit: Permit,
    ) -> Self {
        let entries = plan.entries.len();
        hold.belongs_to(outcome.id);
        Self {
            id: outcome.id,
            commit_flag: CommitFlag::default(),
            caller: None,
            context: Context::of(&intent.context),
            origin: Origin::default(),
            hold,
            withdrawing: None,
            unlocked: vec![false; plan.shape.shares.len()],
            permit,
            // Closed until the batch is open to operators.
            calls: mpsc::channel(1).1,
            resolved: Vec::new(),
            decided: None,
            together: GroupedCreates::new(&plan),
            given_up: Arc::default(),
            entries: vec![EntryRun::default(); entries],
            removal_lost: None,
            superseded: Vec::new(),
            written: true,
            audited: None,
            timing: Timing::since(Instant::now()),
            backends: coordinator.backends.subscribe(),
            coordinator,
            plan: Arc::new(plan),
            intent: Arc::new(intent),
            outcome,
        }
    }

    /// Takes over the decisions that operators had taken before a restart.
    pub fn resolved_before(&mut self, resolved: Vec<Resolution>) {
        self.resolved = resolved;
    }

    /// Takes over the final states of entries from before a restart. Hides the versions and names of the batch, but for
    /// versions that it has deleted: others may have their numbers by now.
    pub fn settled_before(&mut self, decision: Option<Decision>, settled: &[Option<Settled>]) {
        for (entry, settled) in self.entries.iter_mut().zip(settled) {
            // Its version may still be another writer's.
            entry.is_contested = settled.is_some_and(Settled::is_contested);
        }
        self.hide(|entry| {
            let is_deleted = settled.get(entry) == Some(&Some(Settled::Removed));
            is_deleted && !self.plan.entries[entry].action.is_about_name()
        });
        if decision == Some(Decision::Commit) {
            self.reveal();
        }
    }
}

#[cfg(test)]
mod tests;
