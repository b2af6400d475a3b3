//! The kinds of connections to catalogs.

use std::mem::take;
use std::time::Duration;

use http::{Request, Response};
use tokio::time::Instant;

#[cfg(feature = "dir")]
use super::dir::Dir;
use super::rest::Rest;
use super::{Catalog, Failure, catalog};
use crate::body::Body;
use crate::request::context::RequestContext;

/// The kind of a backend's catalog.
pub(super) enum Kind {
    Rest(Box<Rest>),
    #[cfg(feature = "dir")]
    Dir(Dir),
    Own(Box<dyn Catalog>),
}

impl Kind {
    /// Sends a caller's request. `now` must be the current time, and is the time of the outcome
    /// afterwards.
    pub(super) async fn pass(
        &self,
        now: &mut Instant,
        limit: Duration,
        request: &mut Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        match self {
            Self::Rest(rest) => {
                let deadline = *now + limit;
                rest.pass(now, deadline, request).await
            }
            #[cfg(feature = "dir")]
            Self::Dir(dir) => {
                RequestContext::spread(request.extensions_mut());
                let outcome = Box::pin(dir.send_within(limit, take(request))).await;
                *now = Instant::now();
                outcome
            }
            Self::Own(catalog) => {
                RequestContext::spread(request.extensions_mut());
                let asking = catalog::send_within(&**catalog, limit, take(request));
                let outcome = Box::pin(asking).await;
                *now = Instant::now();
                outcome
            }
        }
    }
}
