//! Finds the requests that give a location in storage a name, and has them checked by `batch/api/second_name.rs`.

use std::mem::take;
use std::sync::Arc;

use http::Request;

use super::{Shared, commit, needed_locks};
use crate::backend::Backend;
use crate::body::Body;
use crate::error::Error;
use crate::gateway::request_body;
use crate::protocol::identifier::Identifier;
use crate::protocol::location::locations;
use crate::protocol::operation::Operation;

/// True if `operation` may give a name to a location in storage.
pub(super) fn is_given_by(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::RegisterTable | Operation::DeclareTable
    )
}

/// Refuses the location of another table while a batch changes that table.
pub(super) async fn check(
    shared: &Shared,
    backend: &Arc<Backend>,
    there: &Identifier,
    request: &mut Request<Body>,
) -> Result<(), Error> {
    let (head, body) = take(request).into_parts();
    let body = request_body::read(body, shared.bodies.json).await?;
    let caller = commit::caller(&head, &shared.world);
    *request = Request::from_parts(head, Body::full(body.clone()));
    let caller = caller?;
    let key = needed_locks::key(backend, there);
    for location in locations(&body)? {
        let allowed = shared.batches.may_name(backend, &key, &location, &caller);
        allowed.await?;
    }
    Ok(())
}
