//! Creates one table version at its catalog, with the checks that batches need.

use std::borrow::BorrowMut;
use std::sync::Arc;

use http::{Request, Response, StatusCode};
use serde::Deserialize;

use super::{Shared, audited, needed_locks};
use crate::backend::Backend;
use crate::batch::TableBranch;
use crate::body::Body;
use crate::error::Error;
use crate::error::facts::ErrorFacts;
use crate::gateway::detached_change::{LockedChange, send_locked};
use crate::gateway::request_body;
use crate::protocol::identifier::Identifier;
use crate::request::context::RequestContext;

/// Sends the create of one version to the catalog and holds the locks that it needs. `id` is the client's identifier of
/// the table, `there` the catalog's.
pub(super) fn create<R>(
    shared: &Shared,
    backend: &Arc<Backend>,
    (id, there): (&Identifier, &Identifier),
    mut request: R,
) -> impl Future<Output = Result<Response<Body>, Error>> + Send + use<R>
where
    R: BorrowMut<Request<Body>> + Send + 'static,
{
    let (batches, json_body) = (Arc::clone(&shared.batches), shared.bodies.json);
    let (backend, id, there) = (Arc::clone(backend), id.clone(), there.clone());
    let locking = async move {
        let came = RequestContext::of(request.borrow().extensions()).came();
        let version = asked(request.borrow_mut(), json_body).await?;
        if let Some((version, branch)) = &version {
            audited::note_version(request.borrow(), &id, *version, branch.as_ref());
        }
        let version = version.map(|(version, branch)| {
            let table = needed_locks::key(&backend, &there);
            (TableBranch::new(table, branch), version)
        });
        let held = match &version {
            Some((line, version)) => {
                let held = batches.hold_for_create(line, *version, came).await;
                Some(held.map_err(|error| with_table(error, &id, line, *version))?)
            }
            // The catalog refuses a create without a version number, so no lock is needed.
            None => None,
        };
        needed_locks::may_send(request.borrow_mut())?;
        Ok(LockedChange {
            takes_name: false,
            renumbers: false,
            table: version.as_ref().map(|(line, _)| line.table.clone()),
            batches,
            backend,
            held,
            version,
            request,
        })
    };
    send_locked(&shared.batches, locking, LockedChange::send)
}

/// Adds the table and, to a conflict, the version to the gateway's own refusal.
fn with_table(error: Error, id: &Identifier, line: &TableBranch, version: u64) -> Error {
    let expected = (error.status() == StatusCode::CONFLICT).then_some(version);
    error.with_facts(ErrorFacts {
        table: Some(id.names().map(str::to_owned).collect()),
        branch: line.branch.clone(),
        expected,
        ..ErrorFacts::default()
    })
}

/// Returns the version and the branch that are in the body.
async fn asked(
    request: &mut Request<Body>,
    limit: usize,
) -> Result<Option<(u64, Option<String>)>, Error> {
    #[derive(Deserialize)]
    struct Create {
        version: Option<u64>,
        branch: Option<String>,
    }
    let body = std::mem::take(request.body_mut());
    let body = request_body::read(body, limit).await?;
    *request.body_mut() = Body::full(body.clone());
    if body.is_empty() {
        return Ok(None);
    }
    let asked: Option<Create> = serde_json::from_slice(&body)
        .map_err(|error| Error::invalid(format!("`version` or `branch`: {error}")))?;
    Ok(asked.and_then(|Create { version, branch }| Some((version?, branch))))
}
