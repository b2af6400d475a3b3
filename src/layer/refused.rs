//! The answer of a layer that goes no further.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;

use crate::body::Body;
use crate::error::Error;

/// A refusal, there at once. As small as its error: it takes no more room in a request's future than what goes on.
pub struct RefusedFuture(Option<Error>);

impl RefusedFuture {
    pub(super) fn with(error: impl Into<Error>) -> Self {
        Self(Some(error.into()))
    }
}

impl Future for RefusedFuture {
    type Output = Result<Response<Body>, Error>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        // Nobody polls a future again that was ready.
        self.0
            .take()
            .map_or(Poll::Pending, |error| Poll::Ready(Err(error)))
    }
}
