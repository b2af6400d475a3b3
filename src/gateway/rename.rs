//! `rename`: forwarded to the catalog if it can do it, otherwise done by the gateway, between mounts too.

use std::sync::Arc;
use std::time::Duration;

use http::header::ACCEPT_ENCODING;
use http::{HeaderValue, Request, Response, StatusCode};

use super::send::waiting;
use super::{RoutingSnapshot, Shared, audited, bulkhead, commit, operation_of, outgoing};
use crate::auth::access::Rights;
use crate::backend::{Backend, read_answer};
use crate::batch::{
    Batches, Hold, RenameCall, RenameEnd, TableKey, Whereabouts, is_unsupported, json,
};
use crate::body::Body;
use crate::error::Error;
use crate::error::code::Code;
use crate::gateway::detached_change::{is_unclear, send_locked, settled};
use crate::gateway::request_body;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Access, Kind, Operation};
use crate::protocol::rename;
use crate::request::context::RequestContext;
use crate::route::Mount;

/// Gives a table another name, in its catalog or in another one.
pub(super) async fn rename(
    shared: &Shared,
    world: &Arc<RoutingSnapshot>,
    id: &Identifier,
    mut request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let operation = operation_of(&request)?;
    let mount = world.routes.find(id);
    let body = request_body::read_counted(&mut request, &shared.bodies).await?;
    *request.body_mut() = Body::full(body.clone());
    // Identifiers are spelled for the table's own catalog; another catalog never sees this body.
    let locate = |other: &Identifier| {
        let owner = world.routes.find(other);
        let same = owner.filter(|owner| {
            let is_one = mount.is_some_and(|mount| owner.backend == mount.backend);
            is_one && !owner.keeps_path()
        });
        Ok(same.map(|owner| owner.to_catalog(other)))
    };
    request_body::admit(&mut request, operation, Some(id), &shared.bodies, locate).await?;
    let new = rename::destination(id, &body)?;
    audited::note_rename(&request, id, &new);
    if let Some(rights) = request.extensions().get::<Rights>() {
        rights.decide(Access::Write, &new)?;
    }
    let (head, body) = request.into_parts();
    let caller = commit::caller(&head, world)?;
    let world = &world.seen_by(Some(&caller.context), &head.headers)?;
    // The answer that was given for an idempotency key stays valid, whatever is mounted and the catalog can do now.
    let repeated = shared.batches.repeated_rename(&caller, id, &new).await?;
    if let Some(response) = repeated {
        return Ok(response);
    }
    let call = RenameCall {
        old: old_end(world, id)?,
        new: end(world, new)?,
        caller,
    };
    if call.old.key() == call.new.key() {
        let message = format!("{id} and {} are the same table", call.new.asked);
        return Err(Error::invalid(message));
    }
    if let Some(response) = by_the_catalog(shared, &call, Request::from_parts(head, body)).await? {
        return Ok(response);
    }
    shared.batches.rename(call).await
}

/// Returns the backend and the catalog's identifier for the table that is renamed.
fn old_end(world: &RoutingSnapshot, asked: &Identifier) -> Result<RenameEnd, Error> {
    let mount = world.routes.owner(asked, Kind::Table)?;
    if *asked == mount.namespace {
        let message = format!("{asked} is a mount and not a table");
        return Err(Error::new(Code::TableNotFound, message));
    }
    at(world, mount, asked.clone())
}

/// Returns the backend and the catalog's identifier for a name of the rename.
pub(super) fn end(world: &RoutingSnapshot, asked: Identifier) -> Result<RenameEnd, Error> {
    let mount = world.routes.find(&asked).ok_or_else(|| {
        let namespace = asked.parent().unwrap_or_else(Identifier::root);
        let message = format!("namespace {namespace} is not served here");
        Error::new(Code::NamespaceNotFound, message)
    })?;
    if asked == mount.namespace {
        let message = format!("{asked} is a mount and cannot be a table");
        return Err(Error::invalid(message));
    }
    at(world, mount, asked)
}

fn at(world: &RoutingSnapshot, mount: &Mount, asked: Identifier) -> Result<RenameEnd, Error> {
    let there = mount.to_catalog(&asked);
    let backend = world.backend(mount).clone();
    there.check(backend.reading())?;
    Ok(RenameEnd {
        backend,
        there,
        asked,
    })
}

/// Sends the rename to the catalog; `None` if two catalogs are involved or the catalog has no rename.
async fn by_the_catalog(
    shared: &Shared,
    call: &RenameCall,
    mut request: Request<Body>,
) -> Result<Option<Response<Body>>, Error> {
    let RenameCall { old, new, .. } = call;
    let (batches, backend) = (&shared.batches, &old.backend);
    if backend.name() != new.backend.name() || !batches.may_rename(backend) {
        return Ok(None);
    }
    let named = (&old.there, old.asked != old.there);
    bulkhead::check(shared.free.as_ref(), &shared.world, backend)?;
    outgoing::address(
        &mut request,
        Operation::RenameTable,
        named,
        backend.reading(),
    )?;
    if named.1 {
        RequestContext::more(request.extensions_mut()).identifier = Some(old.there.clone());
    }
    let identity = HeaderValue::from_static("identity");
    request.headers_mut().insert(ACCEPT_ENCODING, identity);
    let mut renaming = RenameRequest {
        whereabouts: batches.whereabouts(call),
        batches: Arc::clone(batches),
        backend: Arc::clone(&old.backend),
        names: [old.key(), new.key()],
        request,
        timeout: shared.answer_timeout,
    };
    let locking = async {
        let [old, new] = renaming.names.clone();
        let held = renaming.batches.hold_both(old, new).await?;
        renaming.whereabouts.note(&renaming.batches).await?;
        Ok((renaming, held))
    };
    send_locked(batches, locking, |(renaming, held)| renaming.send(held)).await
}

/// A rename that is sent to its catalog.
struct RenameRequest {
    batches: Arc<Batches>,
    backend: Arc<Backend>,
    /// The old name and the new one.
    names: [TableKey; 2],
    whereabouts: Whereabouts,
    request: Request<Body>,
    /// The longest time for reading an answer that must be read whole.
    timeout: Duration,
}

impl RenameRequest {
    /// Sends the rename; `None` if the catalog has no rename.
    async fn send(mut self, held: Hold) -> Result<Option<Response<Body>>, Error> {
        let backend = &self.backend;
        let waiting = waiting(backend, &self.request);
        let outcome = backend.pass(&mut self.request).await;
        settled(waiting.as_ref(), &outcome);
        drop(waiting);
        let is_unclear = is_unclear(&outcome);
        let unanswered = || {
            for name in self.names.iter().filter(|_| is_unclear) {
                self.batches.unanswered(name, None);
            }
        };
        let response = outcome.map_err(|failure| {
            unanswered();
            failure.into_error(backend.name())
        })?;
        if response.status().is_success() {
            self.batches.renamed(&self.names).await;
            return Ok(Some(response));
        }
        let (head, body) = response.into_parts();
        let body = read_answer(body, self.timeout).await;
        let body = body.map_err(|failure| {
            unanswered();
            failure.into_error(backend.name())
        })?;
        if is_unsupported(head.status, &body) {
            let has_moved = self.whereabouts.has_moved().await;
            if has_moved.inspect_err(|_| unanswered())? {
                self.batches.renamed(&self.names).await;
                return Ok(Some(json(StatusCode::OK, "{}")));
            }
            self.batches.cannot_rename(backend);
            return Ok(None);
        }
        unanswered();
        drop(held);
        Ok(Some(Response::from_parts(head, Body::full(body))))
    }
}
