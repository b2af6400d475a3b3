//! The changes of tables as the audit log names them.

use std::sync::Arc;

use http::Request;

use super::RoutingSnapshot;
use crate::body::Body;
use crate::error::Error;
use crate::gateway::request_body;
use crate::protocol::commit::CommitOperation;
use crate::protocol::identifier::Identifier;
use crate::protocol::named_versions;
use crate::protocol::operation::{Kind, Operation};
use crate::protocol::query::Query;
use crate::request::change::TableChange;
use crate::request::context::RequestContext;

/// Notes the changes of a batch in the record of its request.
pub(super) fn note_batch(
    world: &RoutingSnapshot,
    request: &http::Extensions,
    operations: &[CommitOperation],
) {
    let exchange = RequestContext::of(request).exchange.as_ref();
    if let Some(exchange) = exchange.filter(|exchange| exchange.is_observed()) {
        exchange.changes(operations.iter().map(|operation| change(world, operation)));
    }
}

fn change(world: &RoutingSnapshot, operation: &CommitOperation) -> TableChange {
    let table = operation.id();
    let mount = world.routes.owner(table, Kind::Table).ok();
    let mut change = TableChange {
        change: Some(operation.kind()),
        mount: mount.map(|mount| mount.namespace.clone()),
        backend: mount.map(|mount| Arc::clone(&mount.backend_name)),
        ..TableChange::of(table.clone())
    };
    match operation {
        CommitOperation::CreateTableVersion(create) => {
            change.version = Some(create.version);
            change.branch.clone_from(&create.branch);
        }
        CommitOperation::DeleteTableVersions(delete) => {
            change.deleted.clone_from(&delete.ranges);
            change.branch.clone_from(&delete.branch);
        }
        CommitOperation::RenameTable(rename) => change.new_name = Some(rename.new.clone()),
        CommitOperation::DeclareTable(_) | CommitOperation::DeregisterTable(_) => {}
    }
    change
}

/// Notes the version that a request creates.
pub(super) fn note_version(
    request: &Request<Body>,
    id: &Identifier,
    version: u64,
    branch: Option<&String>,
) {
    note(request, || TableChange {
        version: Some(version),
        branch: branch.cloned(),
        ..TableChange::of(id.clone())
    });
}

/// Notes the new name of a table.
pub(super) fn note_rename(request: &Request<Body>, id: &Identifier, new: &Identifier) {
    note(request, || TableChange {
        new_name: Some(new.clone()),
        ..TableChange::of(id.clone())
    });
}

/// Notes the versions that the body of a change names, if the operation is about versions. 400, code 13, if the catalog
/// could act on other ones than are noted.
pub(super) async fn note_named(
    request: &mut Request<Body>,
    operation: Operation,
    id: &Identifier,
    limit: usize,
) -> Result<(), Error> {
    let is_about_versions = matches!(
        operation,
        Operation::BatchDeleteTableVersions | Operation::RestoreTable
    );
    if !is_about_versions {
        return Ok(());
    }
    let query = Query::new(request.uri().query());
    for name in ["version", "ranges", "branch"] {
        if query.get(name)?.is_some() {
            return Err(Error::invalid(format!(
                "`{name}` is in the query, where the contract has none; write it into the body"
            )));
        }
    }
    let body = request_body::read(std::mem::take(request.body_mut()), limit).await?;
    *request.body_mut() = Body::full(body.clone());
    let named = named_versions::parse(&body)?;
    note(request, || TableChange {
        version: named.version,
        deleted: named.ranges,
        branch: named.branch,
        ..TableChange::of(id.clone())
    });
    Ok(())
}

fn note(request: &Request<Body>, change: impl FnOnce() -> TableChange) {
    let exchange = RequestContext::of(request.extensions()).exchange.as_ref();
    if let Some(exchange) = exchange.filter(|exchange| exchange.is_observed()) {
        exchange.changes([change()]);
    }
}
