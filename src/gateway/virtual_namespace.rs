//! Namespaces that exist because a mount is below them, whatever any catalog says.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};

use super::{Shared, World, extension, forward, identifier, payload};
use crate::body::Body;
use crate::error::Error;
use crate::protocol::error::Code;
use crate::protocol::operation::Operation;

/// Create, describe, drop and exists of a namespace.
///
/// Where mounts are below it, it can be neither created (409, code 2) nor dropped (409, code 3). It describes as
/// the catalog that owns that level has it, and as existing where none does.
pub(super) async fn serve(
    shared: &Shared,
    world: &World,
    mut request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let operation = extension::<Operation>(&request)?;
    let id = identifier(&request)?;
    let leads_to_mounts = world.routes.below(&id).next().is_some();
    if !leads_to_mounts {
        return forward::forward(shared, world, request).await;
    }
    let refusal = match operation {
        Operation::CreateNamespace => Some((Code::NamespaceAlreadyExists, "already exists")),
        Operation::DropNamespace => Some((Code::NamespaceNotEmpty, "is not empty")),
        _ => None,
    };
    if let Some((code, why)) = refusal {
        let message = format!("namespace {id} {why}: catalogs are mounted below it");
        return Err(Error::new(code, message));
    }
    if world.routes.find(&id).is_some() {
        let answer = forward::forward(shared, world, request).await?;
        if answer.status() != StatusCode::NOT_FOUND {
            return Ok(answer);
        }
    } else {
        payload::admit(&mut request, operation, Some(&id), shared.json_body, |_| {
            Ok(None)
        })
        .await?;
    }
    Ok(exists(operation))
}

fn exists(operation: Operation) -> Response<Body> {
    if operation == Operation::NamespaceExists {
        return Response::new(Body::empty());
    }
    let mut response = Response::new(Body::full(&b"{\"properties\":{}}"[..]));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
