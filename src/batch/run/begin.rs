//! Creates batch runs: for a caller or, after a restart, from the log.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{BatchRun, Coordinator};
use crate::batch::api::outcomes::Outcome;
use crate::batch::locks::Hold;
use crate::batch::log::{Intent, Proof, Resolution};
use crate::batch::participant::CallerContext;
use crate::batch::plan::Plan;
use crate::batch::run::grouped_create::GroupedCreates;
use crate::batch::run::permits::Permit;
use crate::batch::step::{Decision, Settled};
use crate::batch::visibility::commit_flag::CommitFlag;
use crate::request::origin::Origin;

impl BatchRun {
    /// Returns a new batch on behalf of a caller.
    pub(in crate::batch) fn new(
        coordinator: Arc<Coordinator>,
        plan: Plan,
        intent: Intent,
        outcome: Arc<Outcome>,
        caller: CallerContext,
        permit: Permit,
    ) -> Self {
        let hold = Hold::none(&coordinator.locks);
        let mut run = Self::build(coordinator, plan, intent, outcome, hold, permit);
        run.coordinator.metrics.entries(run.plan.entries.len());
        run.origin = caller.origin.clone();
        run.caller = Some(caller);
        run.written = false;
        run
    }

    /// Returns a batch from the log, with the proofs that the log holds. Its tables are locked by `hold`. When this
    /// returns, its versions are hidden or, after a COMMIT, revealed. Called before the gateway serves requests, or
    /// when a stranded batch continues.
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
        for (entry, proof) in proofs.into_iter().enumerate().take(run.proofs.len()) {
            run.proofs[entry] = proof;
        }
        run.open();
        if let Some(decision) = decision {
            run.coordinator.open.decided(run.id, decision);
            run.undoing = decision == Decision::Abort;
        }
        run.hide();
        if decision == Some(Decision::Commit) {
            run.reveal();
        }
        run
    }

    fn build(
        coordinator: Arc<Coordinator>,
        plan: Plan,
        intent: Intent,
        outcome: Arc<Outcome>,
        hold: Hold,
        permit: Permit,
    ) -> Self {
        let entries = plan.entries.len();
        Self {
            id: outcome.id,
            fate: CommitFlag::default(),
            caller: None,
            origin: Origin::default(),
            hold,
            unlocked: vec![false; plan.shape.shares.len()],
            permit,
            // Closed until the batch is open to operators.
            calls: mpsc::channel(1).1,
            resolved: Vec::new(),
            together: GroupedCreates::new(&plan),
            given_up: Arc::default(),
            proofs: vec![None; entries],
            held: vec![false; entries],
            described: vec![None; entries],
            trouble: vec![None; entries],
            pauses: vec![0; entries],
            removal_lost: None,
            reserved: vec![false; entries],
            resting: vec![false; entries],
            contested: vec![false; entries],
            superseded: Vec::new(),
            hazards_told: vec![None; entries],
            written: true,
            undoing: false,
            begun: Instant::now(),
            phase_begun: Instant::now(),
            coordinator,
            plan: Arc::new(plan),
            intent: Arc::new(intent),
            outcome,
        }
    }

    /// Restores the decisions that operators took before a restart.
    pub fn resolved_before(&mut self, resolved: Vec<Resolution>) {
        self.resolved = resolved;
    }

    /// Restores which entries were contested before a restart: they may still be another writer's.
    pub fn contested_before(&mut self, settled: &[Option<Settled>]) {
        for (contested, settled) in self.contested.iter_mut().zip(settled) {
            *contested = settled.is_some_and(Settled::is_contested);
        }
    }
}

#[cfg(test)]
mod tests;
