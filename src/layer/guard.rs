//! The common part of layers that inspect a request, note what they learn, and admit or refuse it.

use std::borrow::BorrowMut;
use std::task::{Context, Poll};

use futures_util::future::Either;
use http::{Request, Response};
use tower::Service;

use super::refused::RefusedFuture;
use crate::body::Body;
use crate::error::Error;

/// The check that such a layer makes.
pub trait Guard {
    /// Admits a request; the error is the refusal.
    fn admit(&self, request: &mut Request<Body>) -> Result<(), Error>;
}

/// The service of a layer that is a guard.
#[derive(Clone)]
pub struct GuardService<S, G> {
    inner: S,
    guard: G,
}

impl<S, G> GuardService<S, G> {
    pub(super) fn new(inner: S, guard: G) -> Self {
        Self { inner, guard }
    }
}

impl<S, G, R> Service<R> for GuardService<S, G>
where
    R: BorrowMut<Request<Body>>,
    S: Service<R, Response = Response<Body>, Error = Error>,
    G: Guard,
{
    type Response = Response<Body>;
    type Error = Error;
    type Future = Either<S::Future, RefusedFuture>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: R) -> Self::Future {
        match self.guard.admit(request.borrow_mut()) {
            Ok(()) => Either::Left(self.inner.call(request)),
            Err(error) => Either::Right(RefusedFuture::with(error)),
        }
    }
}
