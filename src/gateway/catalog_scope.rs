//! Refuses requests whose path does not show which part of a catalog they affect, but for callers with rights on the
//! whole catalog.

use std::sync::Arc;

use http::Request;

use super::RoutingSnapshot;
use crate::auth::access::Rights;
use crate::body::Body;
use crate::config::Unlisted;
use crate::error::Error;
use crate::error::code::Code;
use crate::protocol::identifier::Identifier;
use crate::protocol::mode;
use crate::protocol::operation::{Access, Kind, Operation};
use crate::protocol::query::Query;
use crate::route::Mount;

/// Refuses a request that may affect more than the identifier in its path (`there` in the catalog's spelling) if the
/// caller's rights do not cover that: a transaction whose table is not named, or an operation outside the contract.
pub(super) fn check(
    world: &RoutingSnapshot,
    mount: &Mount,
    operation: Operation,
    (id, there): (&Identifier, &Identifier),
    request: &Request<Body>,
) -> Result<(), Error> {
    let is_transaction = operation.kind() == Some(Kind::Transaction);
    if !is_transaction && !matches!(operation, Operation::Unlisted(_)) {
        return Ok(());
    }
    let Some(rights) = request.extensions().get::<Rights>() else {
        return Ok(());
    };
    let is_broad = if is_transaction {
        there.len() <= 1
    } else {
        is_broad(rights, world, mount, operation, (id, there))
    };
    if !is_broad || is_open(Some(rights), world, &mount.backend_name, operation.access()) {
        return Ok(());
    }
    Err(if is_transaction {
        not_known(id)
    } else {
        Error::new(
            Code::PermissionDenied,
            format!(
                "cannot tell which tables {id} affects: write permission on the whole catalog is required"
            ),
        )
    })
}

/// Refuses to overwrite a namespace if the caller may not write everything below it. Creating a new namespace affects
/// nothing below it.
pub(super) fn check_overwriting(id: &Identifier, request: &Request<Body>) -> Result<(), Error> {
    match request.extensions().get::<Rights>() {
        Some(rights) => rights.decide(Access::Write, id),
        None => Ok(()),
    }
}

/// True if the operation is a create that may overwrite what exists: its body requests it (`by_body`), or its query
/// does.
pub(super) fn overwrites(operation: Operation, by_body: bool, request: &Request<Body>) -> bool {
    let is_create = matches!(
        operation,
        Operation::CreateNamespace | Operation::CreateTable | Operation::CreateMaterializedView
    );
    let by_query = || match Query::new(request.uri().query()).get("mode") {
        Ok(mode) => mode.is_some_and(|mode| mode::overwrites(&mode)),
        Err(_) => true,
    };
    is_create && (by_body || by_query())
}

/// True if an operation outside the contract is treated as affecting everything in its catalog: as the rule says, or if
/// anything in the catalog is denied to the caller. Always true if the path may name no table, such as
/// `/v1/table/version/batch-create`, in which `version` is not a table.
fn is_broad(
    rights: &Rights,
    world: &RoutingSnapshot,
    mount: &Mount,
    operation: Operation,
    (id, there): (&Identifier, &Identifier),
) -> bool {
    if operation == Operation::Unlisted(Kind::Table) && there.len() <= 1 {
        return true;
    }
    match rights.unlisted(id) {
        Some(Unlisted::Catalog) => true,
        Some(Unlisted::Name) => false,
        None => {
            mounts_of(world, &mount.backend_name).any(|mount| rights.denies_in(&mount.namespace))
        }
    }
}

fn mounts_of<'a>(
    world: &'a RoutingSnapshot,
    backend: &'a str,
) -> impl Iterator<Item = &'a Arc<Mount>> {
    let mounts = world.routes.mounts().iter();
    mounts.filter(move |mount| &*mount.backend_name == backend)
}

/// True if the caller has this access to everything that a backend serves.
pub(super) fn is_open(
    rights: Option<&Rights>,
    world: &RoutingSnapshot,
    backend: &str,
    access: Access,
) -> bool {
    let Some(rights) = rights else { return true };
    mounts_of(world, backend).all(|mount| rights.allow_all(access, &mount.namespace))
}

/// Returns the error that hides a transaction from a caller: no transaction with this name is known.
pub(super) fn not_known(id: &Identifier) -> Error {
    let message = format!("transaction {id} is not known here");
    Error::new(Code::TransactionNotFound, message)
}
