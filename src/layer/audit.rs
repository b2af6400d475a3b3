//! The rule of `telemetry.audit_required`: a change is made only while the audit log can be written, and acknowledged only
//! once its line is.
//!
//! Everything else about the audit log is done when a request is over: see [`crate::telemetry::audit`].

use std::borrow::BorrowMut;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower::{Layer, Service};

use crate::body::Body;
use crate::error::Error;
use crate::protocol::operation::Access;
use crate::request::RequestRecord;
use crate::request::context::RequestContext;
use crate::telemetry::audit::Audit;

/// Makes [`Audited`].
#[derive(Clone)]
pub struct AuditLayer(Option<Audit>);

/// The service. Reads, and all requests if no audit log is required, pass without a cost.
#[derive(Clone)]
pub struct Audited<S> {
    inner: S,
    audit: Option<Audit>,
}

type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, Error>> + Send>>;

impl AuditLayer {
    /// Requires lines in `audit`; `None` requires none.
    pub fn new(audit: Option<Audit>) -> Self {
        Self(audit)
    }
}

impl<S> Layer<S> for AuditLayer {
    type Service = Audited<S>;

    fn layer(&self, inner: S) -> Audited<S> {
        Audited {
            inner,
            audit: self.0.clone(),
        }
    }
}

impl<S, R> Service<R> for Audited<S>
where
    R: BorrowMut<Request<Body>>,
    S: Service<R, Response = Response<Body>, Error = Error, Future = ResponseFuture>,
{
    type Response = Response<Body>;
    type Error = Error;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: R) -> ResponseFuture {
        let Some(audit) = &self.audit else {
            return self.inner.call(request);
        };
        let operation = RequestContext::of(request.borrow().extensions()).operation;
        if operation.is_none_or(|operation| operation.access() == Access::Read) {
            return self.inner.call(request);
        }
        if let Err(error) = audit.check() {
            return Box::pin(std::future::ready(Err(error)));
        }
        let exchange = Arc::clone(RequestRecord::of(request.borrow_mut()));
        let change = self.inner.call(request);
        Box::pin(acknowledged(audit.clone(), exchange, change))
    }
}

/// Returns the answer to a change; if it succeeded, not before the change is in the audit log.
async fn acknowledged(
    audit: Audit,
    exchange: Arc<RequestRecord>,
    change: ResponseFuture,
) -> Result<Response<Body>, Error> {
    let response = change.await?;
    if response.status().is_success() {
        audit.acknowledge(&exchange, response.status()).await?;
    }
    Ok(response)
}
