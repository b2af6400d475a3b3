//! Requests that may be about anything in a catalog, as far as the path that it sees tells: only who has everything
//! there may send them.

use std::sync::Arc;

use http::Request;

use super::RoutingSnapshot;
use crate::auth::access::Rights;
use crate::body::Body;
use crate::config::Unlisted;
use crate::error::Error;
use crate::error::code::Code;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Access, Kind, Operation};
use crate::protocol::query::Query;
use crate::route::Mount;

/// Refuses what may act on more than its path names to the catalog, which calls that `there`, and would need more rights
/// than the caller has: a transaction whose table is not named, or an operation that the contract does not have.
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

/// Refuses to overwrite a namespace below which something may not be written; to create one reaches nothing there.
/// `overwrites`: whether the body says so; some servers may read the same in the query.
pub(super) fn check_overwriting(
    id: &Identifier,
    overwrites: bool,
    request: &Request<Body>,
) -> Result<(), Error> {
    let Some(rights) = request.extensions().get::<Rights>() else {
        return Ok(());
    };
    let mode = Query::new(request.uri().query()).get("mode");
    if overwrites || !matches!(mode, Ok(None)) {
        return rights.decide(Access::Write, id);
    }
    Ok(())
}

/// Whether an operation that the contract does not have is taken to act on everything in its catalog: as the rule says,
/// or where anything is denied there; always where the path names no table perhaps, as `version` is none in
/// `/v1/table/version/batch-create`.
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

/// Whether a caller may do this at all that a backend serves.
pub(super) fn is_open(
    rights: Option<&Rights>,
    world: &RoutingSnapshot,
    backend: &str,
    access: Access,
) -> bool {
    let Some(rights) = rights else { return true };
    mounts_of(world, backend).all(|mount| rights.allow_all(access, &mount.namespace))
}

/// There is no transaction of that name for this caller.
pub(super) fn not_known(id: &Identifier) -> Error {
    let message = format!("transaction {id} is not known here");
    Error::new(Code::TransactionNotFound, message)
}
