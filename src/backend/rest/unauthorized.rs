//! Requests that need a token from a token server, and the retry after the catalog refuses the token.

use std::time::Duration;

use http::{Request, Response, StatusCode};
use tokio::time::{Instant, timeout};

use super::Rest;
use crate::backend::credentials::{IssuedToken, TokenLookup};
use crate::backend::{Authority, Failure};
use crate::body::Body;
use crate::protocol::operation::Access;
use crate::request::context::RequestContext;

impl Rest {
    /// Sends a request, see [`crate::backend::Backend::pass`]. The response's headers must arrive before `deadline`.
    pub(in crate::backend) async fn pass(
        &self,
        deadline: Instant,
        request: &mut Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        match self.token(request) {
            None => self.send_within(deadline, request).await,
            // Boxed, because it would make the future of every request large.
            Some(found) => Box::pin(self.send_with(found, deadline, request)).await,
        }
    }

    fn token(&self, request: &Request<Body>) -> Option<TokenLookup> {
        let authority = request.extensions().get::<Authority>();
        self.credentials.token(authority, request.headers())
    }

    /// Sends a request with a token. If the catalog refuses the token, forgets it, and sends a read once more with a
    /// new one. A write is not repeated: a catalog that answers 401 should not have acted, but that is not certain
    /// enough to do it twice.
    async fn send_with(
        &self,
        found: TokenLookup,
        deadline: Instant,
        request: &mut Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        let left = || deadline.saturating_duration_since(Instant::now());
        let lent = come(found, left()).await?;
        let mut spare = None;
        if reads(request) {
            spare = copy(request);
        }
        request.extensions_mut().insert(lent.clone());
        let response = self.send_within(deadline, request).await?;
        if response.status() != StatusCode::UNAUTHORIZED || !lent.refused() {
            return Ok(response);
        }
        let Some(mut spare) = spare else {
            return Ok(response);
        };
        let Some(found) = self.token(&spare) else {
            return Ok(response);
        };
        let Ok(lent) = come(found, left()).await else {
            return Ok(response);
        };
        spare.extensions_mut().insert(lent);
        drop(response);
        self.send_within(deadline, &mut spare).await
    }
}

async fn come(found: TokenLookup, limit: Duration) -> Result<IssuedToken, Failure> {
    match found {
        TokenLookup::Token(lent) => Ok(lent),
        TokenLookup::Refused(refusal) => Err(Failure::NoToken(refusal)),
        TokenLookup::Coming(coming) => timeout(limit, coming.over())
            .await
            .unwrap_or_else(|_| Err(crate::backend::Refusal::late()))
            .map_err(Failure::NoToken),
    }
}

/// Copies a request; `None` if its body is not in memory.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().copy()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

fn reads(request: &Request<Body>) -> bool {
    let operation = RequestContext::of(request.extensions()).operation;
    operation.is_some_and(|operation| operation.access() == Access::Read)
}
