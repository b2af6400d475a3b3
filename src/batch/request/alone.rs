//! Batches that one catalog can do by itself: it is asked to, under the tables' locks.

use http::Response;

use super::answer::json;
use super::{BatchCall, Form};
use crate::backend::{Answer, Backend, Failure};
use crate::batch::log::Action;
use crate::batch::participant::{self, Asker, is_unsupported};
use crate::batch::plan::{Entry, Plan};
use crate::batch::{Batches, busy, unwritten};
use crate::body::Body;
use crate::config::BatchMode;
use crate::error::Error;
use crate::protocol::commit::CommitOperation;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;

impl Batches {
    /// Leaves a batch to its only catalog, where that can do it by itself; `None`: it is to be coordinated.
    pub(super) async fn by_one_catalog(
        &self,
        plan: &Plan,
        call: &BatchCall,
    ) -> Result<Option<Response<Body>>, Error> {
        let Entry { backend, .. } = &plan.entries[0];
        let one = |entry: &Entry| std::sync::Arc::ptr_eq(&entry.backend, backend);
        if !plan.entries.iter().all(one) {
            return Ok(None);
        }
        let able = match call.form {
            Form::Create => self.is_atomic(backend),
            Form::Commit => self.commits(backend),
        };
        let single = plan.entries.len() == 1;
        // What a key promises, nsgate's own memory keeps.
        if call.caller.idempotency_key.is_some() || (!single && able == Some(false)) {
            return Ok(None);
        }
        let came = tokio::time::Instant::now();
        let wait = self.coordinator.settings().lock_timeout;
        let hold = self.coordinator.locks.all_shared(plan.tables(), wait).await;
        let _hold = hold.map_err(|_| busy("a table is part of a batch that is not over yet"))?;
        let visibility = &self.coordinator.visibility;
        let versions = || {
            let entries = plan.entries.iter().enumerate();
            entries.filter_map(|(index, entry)| Some((index, &entry.line, entry.version()?)))
        };
        for (index, line, version) in versions() {
            // What follows another one of the batch is built on that one.
            let first = plan.shape.shares.iter().any(|share| share[0] == index);
            let allowed = match first {
                true => visibility.may_create(line, version, came),
                false => Ok(()),
            };
            allowed.map_err(|forbidden| forbidden.refusal(version).at(index).into_error())?;
        }
        for (_, line, version) in versions() {
            let contested = self.coordinator.contest(line, version).await;
            contested.map_err(unwritten)?;
        }
        let asker = self.asker(&call.caller);
        let fail = |failure: Failure| failure.into_error(backend.name());
        let response = if single && able != Some(true) {
            let answer = by_itself(&plan.entries[0], &asker).await.map_err(fail)?;
            match answer.status.is_success() {
                true => call.alone(answer.status, &answer.body)?,
                false => json(answer.status, answer.body),
            }
        } else {
            let answer = match call.form {
                Form::Create => {
                    let entries: Vec<&Entry> = plan.entries.iter().collect();
                    participant::grouped(backend, &entries, &asker).await
                }
                Form::Commit => whole(backend, plan, &call.operations, &asker).await,
            };
            let answer = answer.map_err(fail)?;
            let supported = !is_unsupported(answer.status, &answer.body);
            self.learn(call.form, backend, supported);
            if !supported && (call.form == Form::Commit || self.is_atomic(backend) == Some(false)) {
                return Ok(None);
            }
            json(answer.status, answer.body)
        };
        if response.status().is_success() {
            for (_, line, version) in versions() {
                self.coordinator.taken(line, version).await;
            }
        }
        Ok(Some(response))
    }

    /// Whether a catalog has an atomic batch-create of its own, where that is known.
    fn is_atomic(&self, backend: &Backend) -> Option<bool> {
        match backend.batch_mode() {
            BatchMode::Atomic => Some(true),
            BatchMode::Versions => Some(false),
            BatchMode::Auto => {
                let known = self.coordinator.atomic.get(backend.name());
                known.map(|known| *known)
            }
        }
    }

    /// What is not known yet is found out by asking.
    pub(super) fn may_be_atomic(&self, backend: &Backend) -> bool {
        self.is_atomic(backend) != Some(false)
    }

    /// Whether a catalog has a batch-commit of its own. One that is said to be atomic may have a batch-create only.
    fn commits(&self, backend: &Backend) -> Option<bool> {
        match backend.batch_mode() {
            BatchMode::Versions => Some(false),
            BatchMode::Atomic | BatchMode::Auto => {
                let known = self.commits.get(backend.name());
                known.map(|known| *known)
            }
        }
    }

    fn learn(&self, form: Form, backend: &Backend, supported: bool) {
        let known = match form {
            Form::Create if backend.batch_mode() == BatchMode::Auto => &*self.coordinator.atomic,
            Form::Create => return,
            Form::Commit => &self.commits,
        };
        known.insert(std::sync::Arc::clone(backend.name()), supported);
    }
}

/// The only change of a batch, as the single operation that it is.
async fn by_itself(entry: &Entry, asker: &Asker) -> Result<Answer, Failure> {
    let operation = match entry.action {
        Action::CreateVersion { .. } => Operation::CreateTableVersion,
        Action::Declare { .. } => Operation::DeclareTable,
        Action::Register { .. } => Operation::RegisterTable,
        Action::Deregister => Operation::DeregisterTable,
        Action::DeleteVersions { .. } => Operation::BatchDeleteTableVersions,
    };
    let mut ask = asker.ask(operation, &entry.line.table.table);
    ask.body = Some(entry.body.clone());
    entry.backend.ask(ask).await
}

/// The catalog's own batch-commit.
async fn whole(
    backend: &Backend,
    plan: &Plan,
    operations: &[CommitOperation],
    asker: &Asker,
) -> Result<Answer, Failure> {
    let mut body = b"{\"operations\":[".to_vec();
    for (operation, entry) in operations.iter().zip(&plan.entries) {
        if body.last() != Some(&b'[') {
            body.push(b',');
        }
        body.extend_from_slice(format!("{{\"{}\":", operation.kind()).as_bytes());
        body.extend_from_slice(&entry.body);
        body.push(b'}');
    }
    body.extend_from_slice(b"]}");
    let mut ask = asker.ask(Operation::BatchCommitTables, &Identifier::root());
    ask.body = Some(body.into());
    backend.ask(ask).await
}
