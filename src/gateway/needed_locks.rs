//! Decides which locks a request holds while its catalog works on it, so that no client sees a batch half done.

use std::sync::Arc;

use http::Request;

use crate::backend::Backend;
use crate::batch::fleet::Passage;
use crate::batch::{Batches, Hold, TableKey};
use crate::body::Body;
use crate::error::Error;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Lock, Operation};
use crate::protocol::query::Query;

/// True if `operation` needs a lock. `with_details`: true for a describe that opens the latest version.
pub(super) fn is_needed(operation: Operation, with_details: bool) -> bool {
    match operation.lock() {
        Lock::Shared | Lock::Namespace => true,
        Lock::None => with_details && operation == Operation::DescribeTable,
        Lock::Versions | Lock::Batch => false,
    }
}

/// True if the query requests details for which the catalog must open the latest version.
pub(super) fn asks_for_details(operation: Operation, request: &Request<Body>) -> bool {
    const DETAILS: &str = "load_detailed_metadata";
    let query = request.uri().query();
    operation == Operation::DescribeTable
        && query.is_some_and(|query| {
            // No encoding makes the name shorter, so a shorter query cannot contain it.
            if query.len() < DETAILS.len() {
                return false;
            }
            let details = Query::new(Some(query)).get(DETAILS);
            !matches!(&details, Ok(None)) && !matches!(&details, Ok(Some(no)) if no == "false")
        })
}

/// Takes the locks that `operation`, a change, needs on `there`, the catalog's identifier. A create of a namespace is a
/// change if it overwrites one. `is_destructive`: see [`may_destroy`].
pub(super) async fn for_change(
    batches: &Batches,
    backend: &Backend,
    operation: Operation,
    is_destructive: bool,
    there: &Identifier,
) -> Result<Hold, Error> {
    match operation {
        _ if operation.lock() == Lock::Namespace || operation == Operation::CreateNamespace => {
            batches.hold_namespace(backend, there).await
        }
        _ if is_destructive => {
            let table = key(backend, there);
            batches.hold_to_destroy(backend, &table).await
        }
        _ if operation.is_about_name() => batches.hold_for_name(key(backend, there)).await,
        Operation::BatchDeleteTableVersions
        | Operation::CreateTableBranch
        | Operation::DeleteTableBranch => batches.hold_to_delete(key(backend, there)).await,
        _ => batches.hold_for_change(key(backend, there)).await,
    }
}

/// True if the operation may delete a table's data, and not only its name. `overwrites`: true if it may overwrite what
/// exists.
pub(super) fn may_destroy(operation: Operation, overwrites: bool) -> bool {
    match operation {
        Operation::DropTable | Operation::Unlisted(_) => true,
        Operation::CreateTable | Operation::CreateMaterializedView => overwrites,
        _ => false,
    }
}

/// Refuses a request that holds its locks if a batch of another gateway may have begun since it came.
pub(super) fn may_send(request: &Request<Body>) -> Result<(), Error> {
    match request.extensions().get::<Arc<Passage>>() {
        Some(passage) => passage.check_locked(),
        None => Ok(()),
    }
}

/// Returns the key of a table for the locks.
pub(super) fn key(backend: &Backend, there: &Identifier) -> TableKey {
    TableKey::at(backend, there.clone())
}
