//! Requests that may be about anything in a catalog, as far as the path that it sees tells: only who has everything
//! there may send them.

use http::Request;

use super::World;
use crate::access::Rights;
use crate::body::Body;
use crate::error::Error;
use crate::protocol::error::Code;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Access, Kind, Operation};
use crate::route::Mount;

/// Refuses what names nothing but itself to the catalog, which calls it `there`, and would need more rights than the
/// caller has: a transaction whose table is not named, or an operation that the contract does not have on what is no
/// table perhaps, as `version` is none in `/v1/table/version/batch-create`.
pub(super) fn check(
    world: &World,
    mount: &Mount,
    operation: Operation,
    (id, there): (&Identifier, &Identifier),
    request: &Request<Body>,
) -> Result<(), Error> {
    let is_transaction = operation.kind() == Some(Kind::Transaction);
    let is_broad = is_transaction || operation == Operation::Unlisted(Kind::Table);
    if !is_broad || there.len() > 1 {
        return Ok(());
    }
    let rights = request.extensions().get::<Rights>();
    if is_open(rights, world, &mount.backend_name, operation.access()) {
        return Ok(());
    }
    Err(match is_transaction {
        true => not_known(id),
        false => Error::new(
            Code::PermissionDenied,
            format!(
                "what this does to {id} is not known: it needs leave to write in all of its catalog"
            ),
        ),
    })
}

/// Whether a caller may do this at all that a backend serves.
pub(super) fn is_open(
    rights: Option<&Rights>,
    world: &World,
    backend: &str,
    access: Access,
) -> bool {
    let Some(rights) = rights else { return true };
    let mounts = world.routes.mounts().iter();
    let mut of_it = mounts.filter(|mount| &*mount.backend_name == backend);
    of_it.all(|mount| rights.allow_all(access, &mount.namespace))
}

/// There is no transaction of that name for this caller.
pub(super) fn not_known(id: &Identifier) -> Error {
    let message = format!("transaction {id} is not known here");
    Error::new(Code::TransactionNotFound, message)
}
