//! What a request holds while its catalog works on it, so that nobody sees a batch half done.

use http::Response;
use http_body::Body as _;

use crate::backend::Backend;
use crate::batch::{Batches, Hold, TableKey};
use crate::body::{Body, End, Observer};
use crate::error::Error;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Access, Lock, Operation};

/// Whether `operation` must hold anything. `with_details`: a describe that looks into the latest version.
pub(super) fn is_needed(operation: Operation, with_details: bool) -> bool {
    match operation.lock() {
        Lock::Shared | Lock::Namespace => true,
        Lock::None => with_details && operation == Operation::DescribeTable,
        Lock::Versions | Lock::Batch => false,
    }
}

/// Takes what `operation` needs on `there`, the catalog's identifier.
pub(super) async fn take(
    batches: &Batches,
    backend: &Backend,
    operation: Operation,
    there: &Identifier,
) -> Result<Hold, Error> {
    match operation.lock() {
        Lock::Namespace => batches.hold_namespace(backend, there).await,
        _ => match operation.access() {
            Access::Read => batches.hold(key(backend, there), Access::Read).await,
            Access::Write => batches.hold_for_change(key(backend, there)).await,
        },
    }
}

/// A table as the locks know it.
pub(super) fn key(backend: &Backend, there: &Identifier) -> TableKey {
    TableKey {
        backend: backend.catalog().clone(),
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
