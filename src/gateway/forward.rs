//! A request that one catalog owns: checked, sent on, and its answer passed back.
//!
//! Where the mount keeps the path, the bytes of path, query and body go upstream as they came.

use std::sync::Arc;
use std::time::Instant;

use http::header::ACCEPT_ENCODING;
use http::{HeaderValue, Request, Response};

use super::answer::Change;
use super::payload::{self, Said};
use super::{Shared, World, extension, identifier, reroot};
use crate::backend::Backend;
use crate::body::Body;
use crate::error::Error;
use crate::exchange::Exchange;
use crate::protocol::error::Code;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Kind, Operation};
use crate::route::Mount;

/// Has the owner of the route's identifier answer.
pub(super) async fn forward(
    shared: &Shared,
    world: &World,
    mut request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let operation = extension::<Operation>(&request)?;
    let id = identifier(&request)?;
    let kind = operation.kind().unwrap_or(Kind::Table);
    let mount = world.routes.owner(&id, kind)?;
    let backend = world.backend(mount);
    admit(shared, world, mount, &id, &mut request).await?;
    let change = Change {
        operation,
        asked: &id,
        mount,
        backend,
    };
    if !change.is_needed() {
        return send(backend, request).await;
    }
    let identity = HeaderValue::from_static("identity");
    request.headers_mut().insert(ACCEPT_ENCODING, identity);
    let response = send(backend, request).await?;
    change.apply(response, shared.answer_timeout).await
}

/// Sends a request that is as the catalog must see it, and notes who served it.
pub(super) async fn send(
    backend: &Backend,
    request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let exchange = request.extensions().get::<Arc<Exchange>>().cloned();
    let began = Instant::now();
    let outcome = backend.send(request).await;
    if let Some(exchange) = exchange {
        exchange.served_by(backend.name());
        exchange.waited(began.elapsed());
    }
    outcome.map_err(|failure| failure.into_error(backend.name()))
}

/// Checks the request's body and writes its path as the catalog must see it.
async fn admit(
    shared: &Shared,
    world: &World,
    mount: &Arc<Mount>,
    id: &Identifier,
    request: &mut Request<Body>,
) -> Result<Said, Error> {
    let operation = extension::<Operation>(request)?;
    let locate = |other: &Identifier| {
        let owner = world.routes.find(other);
        if !owner.is_some_and(|owner| Arc::ptr_eq(owner, mount)) {
            let message = format!("{id} and {other} do not belong to the same mount");
            return Err(Error::new(Code::Unsupported, message));
        }
        Ok((!mount.keeps_path()).then(|| mount.to_catalog(other)))
    };
    let said = payload::admit(request, operation, Some(id), shared.json_body, locate).await?;
    if !mount.keeps_path() {
        let there = mount.to_catalog(id);
        *request.uri_mut() = reroot::path(request.uri(), &there)?.into();
        request.extensions_mut().insert(there);
    }
    Ok(said)
}
