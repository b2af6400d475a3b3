//! `transaction/{id}`: an identifier that begins with a table's belongs to the mount of the table; a bare name does
//! not tell which backend it belongs to.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT_ENCODING, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode};

use super::send::send;
use super::{RoutingSnapshot, Shared, bulkhead, forward, operation_of, outgoing};
use crate::auth::access::Rights;
use crate::backend::{Backend, read_answer};
use crate::batch::{TableKey, TransactionStatus, is_unsupported};
use crate::body::Body;
use crate::error::Error;
use crate::error::code::Code;
use crate::gateway::{catalog_scope, request_body};
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Access, Operation};

/// Answers for the gateway's own batches. For other transactions, sends the request to the mounted backends in turn
/// until one knows the transaction. If none does, the first failure is the answer: the transaction may be there.
pub(super) async fn serve(
    shared: &Arc<Shared>,
    world: &RoutingSnapshot,
    id: &Identifier,
    mut request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let operation = operation_of(&request)?;
    if id.len() > 1 {
        return forward::forward(Arc::clone(shared), operation, id.clone(), request).await;
    }
    let keep = |_: &_| Ok(None);
    request_body::admit(&mut request, operation, Some(id), &shared.bodies, keep).await?;
    let (head, body) = request.into_parts();
    let rights = head.extensions.get::<Rights>();
    if let Some(name) = id.last()
        && let Some(batch) = shared.batches.transaction(name).await?
        && rights.is_none_or(|rights| is_of(rights, world, &batch.tables))
    {
        return answer(operation, batch.status);
    }
    // A catalog does not say which tables a transaction concerns, so the caller needs rights on all of it.
    let access = operation.access();
    let mounted = world.mounted();
    let (mut failed, mut unsupported, mut is_unknown) = (None, None, false);
    for backend in mounted.filter(|one| catalog_scope::is_open(rights, world, one.name(), access)) {
        // The check has read the body whole, so that it can be copied.
        let body = body.copy().unwrap_or_default();
        let mut again = Request::from_parts(head.clone(), body);
        let identity = HeaderValue::from_static("identity");
        again.headers_mut().insert(ACCEPT_ENCODING, identity);
        outgoing::check(backend, operation, (id, id))?;
        outgoing::address(&mut again, operation, (id, false), backend.reading())?;
        let has_room = bulkhead::check(shared.free.as_ref(), world, backend);
        if let Err(full) = has_room {
            failed.get_or_insert(Err(full));
            continue;
        }
        match answered(backend, &mut again, shared.answer_timeout).await {
            Ok(CatalogAnswer::Known(answer)) => return Ok(answer),
            Ok(CatalogAnswer::Unknown) => is_unknown = true,
            Ok(CatalogAnswer::Unsupported(answer)) => unsupported = Some(answer),
            Ok(CatalogAnswer::Failed(answer)) => {
                failed.get_or_insert(Ok(answer));
            }
            Err(error) => {
                failed.get_or_insert(Err(error));
            }
        }
    }
    match (failed, unsupported) {
        (Some(failed), _) => failed,
        (None, Some(answer)) if !is_unknown => Ok(answer),
        _ => Err(catalog_scope::not_known(id)),
    }
}

/// A catalog's answer about a transaction.
enum CatalogAnswer {
    /// The catalog knows the transaction, or refuses the request.
    Known(Response<Body>),
    /// There is no such transaction.
    Unknown,
    /// The catalog has no transactions.
    Unsupported(Response<Body>),
    /// The catalog has failed, so it may know the transaction.
    Failed(Response<Body>),
}

/// Sends the request to one catalog.
async fn answered(
    backend: &Backend,
    request: &mut Request<Body>,
    timeout: Duration,
) -> Result<CatalogAnswer, Error> {
    let answer = send(backend, request).await?;
    let status = answer.status();
    if !status.is_client_error() && !status.is_server_error() {
        return Ok(CatalogAnswer::Known(answer));
    }
    let (head, body) = answer.into_parts();
    let body = read_answer(body, timeout).await;
    let body = body.map_err(|failure| failure.into_error(backend.name()))?;
    let is_unsupported = is_unsupported(status, &body);
    let answer = Response::from_parts(head, Body::full(body));
    Ok(match status {
        StatusCode::NOT_FOUND => CatalogAnswer::Unknown,
        _ if is_unsupported => CatalogAnswer::Unsupported(answer),
        _ if status.is_server_error() => CatalogAnswer::Failed(answer),
        _ => CatalogAnswer::Known(answer),
    })
}

/// True if a caller may know of a batch: it may read or write each of the tables under one of their names. For all
/// other callers the batch does not exist.
fn is_of(rights: &Rights, world: &RoutingSnapshot, tables: &[TableKey]) -> bool {
    let has_part =
        |here: &Identifier| rights.read(here) || rights.decide(Access::Write, here).is_ok();
    let is_known = |table: &TableKey| {
        let mounts = world.routes.mounts().iter();
        let of_its_catalog =
            mounts.filter(|mount| *world.backend(mount).catalog() == table.backend);
        let mut names = of_its_catalog.filter_map(|mount| {
            let here = mount.to_client(&table.table)?;
            let owner = world.routes.find(&here)?;
            Arc::ptr_eq(owner, mount).then_some(here)
        });
        names.any(|here| has_part(&here))
    };
    tables.iter().all(is_known)
}

fn answer(operation: Operation, status: TransactionStatus) -> Result<Response<Body>, Error> {
    if operation == Operation::AlterTransaction {
        return Err(Error::new(
            Code::Unsupported,
            "the gateway decides a batch by itself; it cannot be altered",
        ));
    }
    let body = format!("{{\"status\":\"{}\"}}", status.as_str());
    let mut response = Response::new(Body::full(body));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    Ok(response)
}
