//! The future of a request that a layer refuses.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;

use crate::body::Body;
use crate::error::Error;

/// A refusal, ready at once. It is as small as its error, so that it takes no more room in a request's future than
/// an admitted request.
pub struct RefusedFuture(Option<Error>);

impl RefusedFuture {
    pub(super) fn with(error: impl Into<Error>) -> Self {
        Self(Some(error.into()))
    }
}

impl Future for RefusedFuture {
    type Output = Result<Response<Body>, Error>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        // A future is not polled again after it was ready.
        self.0
            .take()
            .map_or(Poll::Pending, |error| Poll::Ready(Err(error)))
    }
}
