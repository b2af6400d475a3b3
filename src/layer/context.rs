//! Turns a request's context headers into its [`Context`], under the rule that a claim wins over a header.
//!
//! The headers themselves go no further. Entries of a body join later, where the body is read.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{self, Poll};

use futures_util::future::Either;
use http::{Request, Response};
use tower::{Layer, Service};

use crate::body::Body;
use crate::error::Error;
use crate::exchange::Exchange;
use crate::protocol::context::{ClaimEntries, Context, ContextRules};
use crate::protocol::principal::Principal;

/// Makes [`TakeContext`].
#[derive(Clone)]
pub struct TakeContextLayer {
    rules: Arc<ContextRules>,
    shown: Arc<[String]>,
}

/// The service. Sets the extension [`Context`].
#[derive(Clone)]
pub struct TakeContext<S> {
    inner: S,
    what: TakeContextLayer,
}

impl TakeContextLayer {
    /// `shown`: keys, in lower case, whose entries appear in the access log.
    pub fn new(rules: ContextRules, shown: &[String]) -> Self {
        Self {
            rules: Arc::new(rules),
            shown: shown.into(),
        }
    }

    fn take(&self, request: &mut Request<Body>) -> Result<(), Error> {
        let principal = request.extensions().get::<Principal>();
        let claims = principal.map_or_else(ClaimEntries::default, |p| p.context().clone());
        let context = Context::take(request.headers_mut(), &self.rules, &claims)?;
        if !self.shown.is_empty() {
            let shown = |key: &String| Some((key.clone(), context.get(key)?.to_owned()));
            Exchange::of(request).described(self.shown.iter().filter_map(shown).collect());
        }
        request.extensions_mut().insert(context);
        Ok(())
    }
}

impl<S> Layer<S> for TakeContextLayer {
    type Service = TakeContext<S>;

    fn layer(&self, inner: S) -> TakeContext<S> {
        TakeContext {
            inner,
            what: self.clone(),
        }
    }
}

impl<S> Service<Request<Body>> for TakeContext<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Error>,
{
    type Response = Response<Body>;
    type Error = Error;
    type Future = Either<S::Future, Ready<Result<Response<Body>, Error>>>;

    fn poll_ready(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        match self.what.take(&mut request) {
            Ok(()) => Either::Left(self.inner.call(request)),
            Err(error) => Either::Right(ready(Err(error))),
        }
    }
}
