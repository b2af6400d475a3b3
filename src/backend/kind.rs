//! The kinds of connections to catalogs.

use std::mem::take;

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
    /// Sends a caller's request. The response's headers must arrive before `deadline`.
    pub(super) async fn pass(
        &self,
        deadline: Instant,
        request: &mut Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        match self {
            Self::Rest(rest) => rest.pass(deadline, request).await,
            #[cfg(feature = "dir")]
            Self::Dir(dir) => {
                RequestContext::spread(request.extensions_mut());
                Box::pin(dir.send_within(deadline, take(request))).await
            }
            Self::Own(catalog) => {
                RequestContext::spread(request.extensions_mut());
                Box::pin(catalog::send_within(&**catalog, deadline, take(request))).await
            }
        }
    }
}
