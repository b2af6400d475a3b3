//! What a request holds while its catalog works on it, so that nobody sees a batch half done.

use http::Response;
use http_body::Body as _;

use crate::backend::Backend;
use crate::batch::{Batches, Hold, TableKey};
use crate::body::{Body, End, Observer};
use crate::error::Error;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Lock, Operation};

/// Takes what `operation` needs on `there`, the catalog's identifier. `with_details`: a describe that looks into the
/// latest version.
pub(super) async fn take(
    batches: &Batches,
    backend: &Backend,
    operation: Operation,
    there: &Identifier,
    with_details: bool,
) -> Result<Option<Hold>, Error> {
    match operation.lock() {
        Lock::Shared => {}
        Lock::None if with_details && operation == Operation::DescribeTable => {}
        Lock::Namespace => {
            let hold = batches.hold_namespace(backend.name(), there).await?;
            return Ok(Some(hold));
        }
        Lock::None | Lock::Versions | Lock::Batch => return Ok(None),
    }
    let hold = batches.hold(key(backend, there), operation.access());
    hold.await.map(Some)
}

/// A table as the locks know it.
pub(super) fn key(backend: &Backend, there: &Identifier) -> TableKey {
    TableKey {
        backend: backend.name().clone(),
        table: there.clone(),
    }
}

/// Keeps what is held until the answer's body has ended.
pub(super) fn keep<H: Send + 'static>(response: Response<Body>, held: H) -> Response<Body> {
    if response.body().is_end_stream() {
        return response;
    }
    response.map(|body| body.observe(Box::new(Held { _held: held })))
}

struct Held<H> {
    _held: H,
}

impl<H: Send> Observer for Held<H> {
    fn end(&mut self, _: End) {}
}
