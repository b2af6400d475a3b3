//! The request that the gateway's own questions to catalogs are asked for.

use std::fmt;
use std::sync::{Arc, Weak};

use http::{Extensions, HeaderMap};

use super::span::TraceContext;
use super::{CatalogWait, RequestHead, RequestRecord};
use crate::protocol::trace::{REQUEST_ID, TRACEPARENT};
use crate::request::context::RequestContext;

/// The request that a question is asked for: what the question carries of it, and who is told of the wait. It may be
/// over by then. The default: none, the question is the gateway's own.
#[derive(Clone, Default)]
pub struct Origin(Option<Arc<Request>>);

struct Request {
    head: RequestHead,
    exchange: Weak<RequestRecord>,
}

/// Its id; never what else its head says.
impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.0.as_ref().map(|request| request.head.id());
        f.debug_tuple("Origin").field(&id).finish()
    }
}

impl Origin {
    /// The request with these extensions.
    pub fn of(extensions: &Extensions) -> Self {
        if let Some(origin) = extensions.get::<Self>() {
            return origin.clone();
        }
        let exchange = RequestContext::of(extensions).exchange.as_ref();
        Self(exchange.and_then(|exchange| {
            Some(Arc::new(Request {
                head: exchange.head()?.clone(),
                exchange: Arc::downgrade(exchange),
            }))
        }))
    }

    /// Where the spans of a request with these extensions go; `None`: nowhere.
    pub fn traced_of(extensions: &Extensions) -> Option<TraceContext> {
        match extensions.get::<Self>() {
            Some(origin) => origin.traced(),
            None => RequestContext::of(extensions)
                .exchange
                .as_ref()?
                .head()?
                .traced(),
        }
    }

    /// Lets a question carry the request's id and its place in the trace.
    pub fn label(&self, headers: &mut HeaderMap) {
        if let Some(request) = &self.0 {
            headers.insert(REQUEST_ID, request.head.id.clone());
            headers.insert(TRACEPARENT, request.head.span.header().value());
        }
    }

    /// A catalog is waited for until what this returns is dropped; `None`: nobody waits.
    pub fn waiting(&self) -> Option<CatalogWait> {
        self.0.as_ref()?.exchange.upgrade()?.waiting()
    }

    /// Where the spans of its questions go; `None`: nowhere.
    pub fn traced(&self) -> Option<TraceContext> {
        self.0.as_ref()?.head.traced()
    }
}
