//! The client's request for which the gateway sends an internal request to a catalog.

use std::fmt;
use std::sync::{Arc, Weak};

use http::{Extensions, HeaderMap};

use super::span::TraceContext;
use super::{CatalogWait, RequestHead, RequestRecord};
use crate::protocol::principal::Principal;
use crate::protocol::trace::{REQUEST_ID, TRACEPARENT};
use crate::request::context::RequestContext;

/// The request for which an internal request is sent. The internal request carries its id, and the wait is noted in
/// its record; it may be over by then. The default is none: the internal request is the gateway's own.
#[derive(Clone, Default)]
pub struct Origin(Option<Arc<Request>>);

struct Request {
    head: RequestHead,
    exchange: Weak<RequestRecord>,
    caller: Option<Principal>,
}

/// Shows the id, and nothing else from the head.
impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.0.as_ref().map(|request| request.head.id());
        f.debug_tuple("Origin").field(&id).finish()
    }
}

impl Origin {
    /// Returns the origin of a request with these extensions.
    pub fn of(extensions: &Extensions) -> Self {
        if let Some(origin) = extensions.get::<Self>() {
            return origin.clone();
        }
        let exchange = RequestContext::of(extensions).exchange.as_ref();
        Self(exchange.and_then(|exchange| {
            Some(Arc::new(Request {
                head: exchange.head()?.clone(),
                exchange: Arc::downgrade(exchange),
                caller: exchange.caller().cloned(),
            }))
        }))
    }

    /// Returns the place in the trace of a request with these extensions; `None` if it is not recorded.
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

    /// Sets the request's id and its place in the trace in the headers of an internal request.
    pub fn label(&self, headers: &mut HeaderMap) {
        if let Some(request) = &self.0 {
            headers.insert(REQUEST_ID, request.head.id.clone());
            headers.insert(TRACEPARENT, request.head.span.header().value());
        }
    }

    /// Begins a wait for a catalog, which lasts until the returned value is dropped; `None` if no request waits, or
    /// waits are not recorded.
    pub fn waiting(&self) -> Option<CatalogWait> {
        self.0.as_ref()?.exchange.upgrade()?.waiting()
    }

    /// Notes the id of the request's batch in its record.
    pub fn began(&self, transaction: &(impl ToString + ?Sized)) {
        if let Some(exchange) = self.exchange() {
            exchange.began(transaction);
        }
    }

    /// The id of the request; `None` if the gateway acts for itself.
    pub fn request_id(&self) -> Option<&str> {
        self.0.as_ref().map(|request| request.head.id())
    }

    /// The caller; `None` if it is not known or not recorded.
    pub fn caller(&self) -> Option<&Principal> {
        self.0.as_ref()?.caller.as_ref()
    }

    /// Notes in the request's record that it has joined a batch that an earlier request began.
    pub fn repeats(&self) {
        if let Some(exchange) = self.exchange() {
            exchange.repeats();
        }
    }

    /// The request's record; `None` if there is none, or the request is over.
    pub fn exchange(&self) -> Option<Arc<RequestRecord>> {
        self.0.as_ref()?.exchange.upgrade()
    }

    /// The place in the trace for internal requests; `None` if it is not recorded.
    pub fn traced(&self) -> Option<TraceContext> {
        self.0.as_ref()?.head.traced()
    }
}
