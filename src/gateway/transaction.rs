//! `transaction/{id}`: whose it is cannot be read from its id.

use http::{Request, Response, StatusCode};

use super::{Shared, World, extension, forward, identifier, payload};
use crate::body::Body;
use crate::error::Error;
use crate::protocol::error::Code;
use crate::protocol::operation::Operation;

/// Asks the mounted backends in turn until one does not say 404.
pub(super) async fn serve(
    shared: &Shared,
    world: &World,
    mut request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let operation = extension::<Operation>(&request)?;
    let id = identifier(&request)?;
    let keep = |_: &_| Ok(None);
    payload::admit(&mut request, operation, Some(&id), shared.json_body, keep).await?;
    let (head, body) = request.into_parts();
    for backend in world.mounted() {
        // The body was read whole by the check.
        let body = body.copy().unwrap_or_default();
        let mut copy = Request::new(body);
        *copy.method_mut() = head.method.clone();
        *copy.uri_mut() = head.uri.clone();
        *copy.headers_mut() = head.headers.clone();
        *copy.extensions_mut() = head.extensions.clone();
        let answer = forward::send(backend, copy).await?;
        if answer.status() != StatusCode::NOT_FOUND {
            return Ok(answer);
        }
    }
    Err(Error::new(
        Code::TransactionNotFound,
        format!("transaction {id} is not known here"),
    ))
}
