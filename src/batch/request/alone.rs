//! Batches that one catalog can do by itself: it is asked to, under the tables' locks.

use std::ops::ControlFlow;
use std::sync::Arc;

use dashmap::DashMap;
use http::Response;
use tokio::time::Instant;

use super::answer::json;
use super::{BatchCall, Form};
use crate::backend::{Answer, Backend, Failure};
use crate::batch::coordinator::Coordinator;
use crate::batch::log::Action;
use crate::batch::participant::{self, Asker, is_unsupported};
use crate::batch::permits::{Full, Permit};
use crate::batch::plan::{Entry, Plan};
use crate::batch::visibility::Forbidden;
use crate::batch::{Batches, TableKey, locked, unwritten};
use crate::body::Body;
use crate::config::BatchMode;
use crate::error::Error;
use crate::protocol::commit::understood;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;

/// A batch that is left to its only catalog.
struct Alone {
    coordinator: Arc<Coordinator>,
    commits: Arc<DashMap<Arc<str>, bool>>,
    form: Form,
    plan: Plan,
    /// The name of each operation.
    kinds: Vec<&'static str>,
    asker: Asker,
    permit: Permit,
}

/// The catalog's answer, or a batch that is to be coordinated.
type Left = ControlFlow<Response<Body>, Plan>;

impl Batches {
    /// Leaves a batch of several entries to its only catalog, where that can do it by itself. `Continue`: it is to be
    /// coordinated.
    ///
    /// In a task of its own, which has the locks until the catalog has answered: a client that goes away stops nothing.
    pub(super) async fn by_one_catalog(&self, plan: Plan, call: &BatchCall) -> Result<Left, Error> {
        let backend = &plan.entries[0].backend;
        let one = |entry: &Entry| Arc::ptr_eq(&entry.backend, backend);
        let able = match call.form {
            Form::Create => self.is_atomic(backend),
            Form::Commit => self.commits(backend),
        };
        // What a key promises, nsgate's own memory keeps.
        let has_key = call.caller.idempotency_key.is_some();
        let is_several = plan.entries.len() > 1 && plan.entries.iter().all(one);
        if has_key || !is_several || able == Some(false) {
            return Ok(ControlFlow::Continue(plan));
        }
        let entries = plan.entries.iter();
        let tables: Vec<TableKey> = entries.map(|entry| entry.line.table.clone()).collect();
        let permit = self.coordinator.permits.admit(&tables);
        let alone = Alone {
            permit: permit.map_err(Full::into_error)?,
            coordinator: Arc::clone(&self.coordinator),
            commits: Arc::clone(&self.commits),
            form: call.form,
            plan,
            kinds: call.operations.iter().map(|one| one.kind()).collect(),
            asker: self.asker(&call.caller),
        };
        let done = tokio::spawn(alone.run()).await;
        done.map_err(|error| Error::internal("the gateway failed on this request", error))?
    }

    /// Whether a catalog has an atomic batch-create of its own, where that is known.
    fn is_atomic(&self, backend: &Backend) -> Option<bool> {
        is_atomic(&self.coordinator, backend)
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
}

impl Alone {
    async fn run(mut self) -> Result<Left, Error> {
        let backend = Arc::clone(&self.plan.entries[0].backend);
        let came = Instant::now();
        let locking = self.coordinator.lock(&self.plan, false);
        let hold = self.permit.lock(locking).await;
        let message = "a table is part of a batch that is not over yet";
        let hold = hold.map_err(|error| locked(error, message))?;
        self.contest(came).await?;
        let answer = match self.form {
            Form::Create => {
                let entries: Vec<&Entry> = self.plan.entries.iter().collect();
                participant::grouped(&backend, &entries, &self.asker).await
            }
            Form::Commit => self.commit(&backend).await,
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(failure) => {
                if failure.may_have_acted() {
                    self.unanswered();
                }
                self.attempted().await;
                return Err(failure.into_error(backend.name()));
            }
        };
        let supported = !is_unsupported(answer.status, &answer.body);
        if supported && answer.status.is_server_error() {
            self.unanswered();
        }
        self.learn(&backend, supported);
        let is_atomic = || is_atomic(&self.coordinator, &backend) != Some(false);
        if !supported && (self.form == Form::Commit || !is_atomic()) {
            drop(hold);
            return Ok(ControlFlow::Continue(self.plan));
        }
        let response = json(answer.status, answer.body);
        if response.status().is_success() {
            for (_, entry, version) in self.versions() {
                self.coordinator.taken(&entry.line, version).await;
            }
        } else {
            self.attempted().await;
        }
        Ok(ControlFlow::Break(response))
    }

    /// The versions that it creates, each with its place among the entries.
    fn versions(&self) -> impl Iterator<Item = (usize, &Entry, u64)> {
        let entries = self.plan.entries.iter().enumerate();
        entries.filter_map(|(index, entry)| Some((index, entry, entry.version()?)))
    }

    /// Refuses versions that may not be created now, and names that may not be given or taken away; batches that had
    /// undone theirs learn of the others. `came`: when the batch was asked for.
    async fn contest(&self, came: Instant) -> Result<(), Error> {
        let visibility = &self.coordinator.visibility;
        for (index, Entry { line, action, .. }) in self.plan.entries.iter().enumerate() {
            if action.is_about_name() {
                let allowed = visibility.may_rename(&line.table);
                let refused = |forbidden: Forbidden| forbidden.of_name(&line.table.table);
                allowed.map_err(|forbidden| refused(forbidden).at(index).into_error())?;
            }
        }
        for (index, entry, version) in self.versions() {
            let mut shares = self.plan.shape.shares.iter();
            // What follows another one of the batch is built on that one.
            let allowed = if shares.any(|share| share[0] == index) {
                visibility.may_create(&entry.line, version, came)
            } else {
                visibility.may_follow(&entry.line, version)
            };
            allowed.map_err(|forbidden| forbidden.refusal(version).at(index).into_error())?;
        }
        for (_, entry, version) in self.versions() {
            let contested = self.coordinator.contest(&entry.line, version).await;
            contested.map_err(unwritten)?;
        }
        Ok(())
    }

    /// Whether the catalog has acted, or yet will, is not known.
    fn unanswered(&self) {
        for Entry { line, action, .. } in &self.plan.entries {
            let version = match action {
                Action::CreateVersion { version, .. } => Some((line, *version)),
                _ => None,
            };
            self.coordinator.unanswered(&line.table, version);
        }
    }

    /// Whatever was answered, freed versions may have been made again.
    async fn attempted(&self) {
        for (_, Entry { line, .. }, version) in self.versions() {
            let version = Some((line, version));
            self.coordinator.attempted(&line.table, version).await;
        }
    }

    /// The catalog's own batch-commit.
    async fn commit(&self, backend: &Backend) -> Result<Answer, Failure> {
        let mut body = b"{\"operations\":[".to_vec();
        for (kind, entry) in self.kinds.iter().zip(&self.plan.entries) {
            if body.last() != Some(&b'[') {
                body.push(b',');
            }
            body.extend_from_slice(format!("{{\"{kind}\":").as_bytes());
            body.extend_from_slice(&understood(kind, &entry.body));
            body.push(b'}');
        }
        body.extend_from_slice(b"]}");
        let root = Identifier::root();
        let mut ask = self.asker.ask(Operation::BatchCommitTables, &root);
        ask.body = Some(body.into());
        backend.ask(ask).await
    }

    fn learn(&self, backend: &Backend, supported: bool) {
        let known = match self.form {
            Form::Create if backend.batch_mode() == BatchMode::Auto => &*self.coordinator.atomic,
            Form::Create => return,
            Form::Commit => &self.commits,
        };
        known.insert(Arc::clone(backend.name()), supported);
    }
}

fn is_atomic(coordinator: &Coordinator, backend: &Backend) -> Option<bool> {
    match backend.batch_mode() {
        BatchMode::Atomic => Some(true),
        BatchMode::Versions => Some(false),
        BatchMode::Auto => {
            let known = coordinator.atomic.get(backend.name());
            known.map(|known| *known)
        }
    }
}
