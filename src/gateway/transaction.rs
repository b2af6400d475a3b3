//! `transaction/{id}`: a table's identifier and a name below it belong to the table's mount; of a name alone it cannot
//! be read whose it is.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};

use super::{Shared, World, extension, forward, payload};
use crate::batch::TransactionStatus;
use crate::body::Body;
use crate::error::Error;
use crate::protocol::error::Code;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;

/// Answers for the gateway's own batches; for others asks the mounted backends in turn until one does not say 404.
pub(super) async fn serve(
    shared: &Shared,
    world: &World,
    id: &Identifier,
    mut request: Request<Body>,
) -> Result<Response<Body>, Error> {
    if id.len() > 1 {
        return forward::forward(shared, world, id, request).await;
    }
    let operation = extension::<Operation>(&request)?;
    let keep = |_: &_| Ok(None);
    payload::admit(&mut request, operation, Some(id), shared.json_body, keep).await?;
    let own = id.last().and_then(|name| shared.batches.transaction(name));
    if let Some(status) = own {
        return answer(operation, status);
    }
    let (head, body) = request.into_parts();
    for backend in world.mounted() {
        // The body was read whole by the check.
        let body = body.copy().unwrap_or_default();
        let again = Request::from_parts(head.clone(), body);
        let answer = forward::send(backend, again).await?;
        if answer.status() != StatusCode::NOT_FOUND {
            return Ok(answer);
        }
    }
    Err(Error::new(
        Code::TransactionNotFound,
        format!("transaction {id} is not known here"),
    ))
}

fn answer(operation: Operation, status: TransactionStatus) -> Result<Response<Body>, Error> {
    if operation == Operation::AlterTransaction {
        return Err(Error::new(
            Code::Unsupported,
            "a batch decides by itself and cannot be altered",
        ));
    }
    let body = format!("{{\"status\":\"{}\"}}", status.as_str());
    let mut response = Response::new(Body::full(body));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    Ok(response)
}
