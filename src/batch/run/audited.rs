//! The lines of a batch in the audit log: its decision, and the end of its rollback. The request that began it has a line
//! of its own.

use std::sync::Arc;

use super::{BatchRun, Coordinator};
use crate::batch::log::{Action, BatchId, Intent, IntentEntry};
use crate::batch::step::{Decision, State};
use crate::protocol::commit::VersionRange;
use crate::request::change::TableChange;
use crate::request::origin::Origin;
use crate::telemetry::audit::{Audit, AuditRecord, BatchFacts, Who};

/// A batch whose decision goes to the audit log.
pub(in crate::batch) struct AuditedBatch {
    audit: Audit,
    facts: BatchFacts,
    /// True between an ABORT and the end of the rollback.
    is_rolling_back: bool,
}

impl AuditedBatch {
    /// Returns the batch that a request begins; `None` if there is no audit log.
    pub(in crate::batch) fn begun(
        coordinator: &Coordinator,
        id: BatchId,
        origin: &Origin,
    ) -> Option<Self> {
        let audit = coordinator.audit.get()?.clone();
        let exchange = origin.exchange()?;
        let changes = exchange.shared_changes().cloned();
        Some(Self {
            audit,
            facts: BatchFacts {
                transaction: id.to_string().into(),
                tables: changes.unwrap_or_default(),
                who: Who::of(&exchange),
                request: exchange.id().into(),
                operation: exchange.operation().map(|operation| operation.name()),
                is_recovered: false,
            },
            is_rolling_back: false,
        })
    }

    /// Returns a batch that the log held; `None` if there is no audit log. Its caller is not known, and its tables are
    /// spelled as their catalogs do.
    pub(super) fn recovered(
        coordinator: &Coordinator,
        id: BatchId,
        intent: &Intent,
    ) -> Option<Self> {
        let audit = coordinator.audit.get()?.clone();
        Some(Self {
            audit,
            facts: BatchFacts {
                transaction: id.to_string().into(),
                tables: intent.entries.iter().map(change).collect(),
                who: Who::default(),
                request: Box::default(),
                operation: None,
                is_recovered: true,
            },
            is_rolling_back: false,
        })
    }

    fn decided(&mut self, decision: Decision) {
        self.is_rolling_back = decision == Decision::Abort;
        let record = AuditRecord::decided(&self.facts, decision == Decision::Commit);
        self.audit.write(record);
    }

    /// Takes over a decision from the log. A crash may have come between it and its line.
    fn decided_before(&mut self, decision: Decision) {
        let (is_told, is_end_told) = self.audit.had(&self.facts.transaction);
        if is_told {
            self.is_rolling_back = decision == Decision::Abort && !is_end_told;
        } else {
            self.decided(decision);
        }
    }

    fn rolled_back(&mut self) {
        if std::mem::take(&mut self.is_rolling_back) {
            self.audit.write(AuditRecord::rolled_back(&self.facts));
        }
    }
}

impl BatchRun {
    /// Sets the lines that the batch has in the audit log.
    pub(in crate::batch) fn audited_as(&mut self, audited: Option<AuditedBatch>) {
        self.audited = audited;
    }

    /// Sets the lines of a batch from the log, and writes the decision that it had, unless the audit log has it.
    pub(super) fn audited_again(&mut self, decision: Option<Decision>) {
        self.audited = AuditedBatch::recovered(&self.coordinator, self.id, &self.intent);
        if let Some((audited, decision)) = self.audited.as_mut().zip(decision) {
            audited.decided_before(decision);
        }
    }

    /// Writes the decision to the audit log.
    pub(super) fn audit_decision(&mut self, decision: Decision) {
        if let Some(audited) = &mut self.audited {
            audited.decided(decision);
        }
    }

    /// Writes the end of a rollback to the audit log, once nothing of it is left to do.
    pub(super) fn audit_rollback(&mut self, state: &State) {
        if let Some(audited) = &mut self.audited
            && (state.is_watching() || state.is_ended())
        {
            audited.rolled_back();
        }
    }
}

/// Returns the change of an entry in the contract's words.
fn change(entry: &IntentEntry) -> TableChange {
    let mut change = TableChange {
        branch: entry.branch.clone(),
        backend: Some(Arc::clone(&entry.backend)),
        ..TableChange::of(entry.table.clone())
    };
    change.change = Some(match &entry.action {
        Action::CreateVersion { version, .. } => {
            change.version = Some(*version);
            "create_table_version"
        }
        Action::Declare { .. } => "declare_table",
        Action::Register { .. } => "register_table",
        Action::Deregister => "deregister_table",
        Action::DeleteVersions { ranges } => {
            let range = |range: &crate::batch::log::VersionRange| VersionRange {
                start: range.start,
                end: Some(range.end),
            };
            change.deleted = ranges.iter().map(range).collect();
            "delete_table_versions"
        }
    });
    change
}
