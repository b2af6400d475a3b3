//! The facts from the head of a request, for its observers.

use std::sync::Arc;

use http::{HeaderValue, Method, Version};

use super::peer::Peer;
use super::span::{Recorder, TraceContext};
use crate::protocol::trace::SpanContext;

/// The facts that are known from the head of a request alone.
#[derive(Clone)]
pub struct RequestHead {
    /// The request's id.
    pub id: HeaderValue,
    /// The gateway's own span.
    pub span: SpanContext,
    /// The caller's span; `None` if it sent none.
    pub parent: Option<SpanContext>,
    /// True if an observer needs more than the counters.
    pub is_observed: bool,
    /// The client; `None` if it is not recorded.
    pub peer: Option<Peer>,
    /// The clients for which the peer says that it sends the request, unverified; `None` if it names none, or that is
    /// not recorded.
    pub forwarded_for: Option<HeaderValue>,
    /// The method.
    pub method: Method,
    /// The client's HTTP version.
    pub version: Version,
    /// The receiver of its spans; `None` if its trace is not recorded.
    pub recorder: Option<Arc<dyn Recorder>>,
}

impl RequestHead {
    /// The id as text.
    pub fn id(&self) -> &str {
        self.id.to_str().unwrap_or("")
    }

    /// The client's IP address; `None` if it is not recorded.
    pub fn client(&self) -> Option<&HeaderValue> {
        self.peer.as_ref().map(Peer::forwarded_for)
    }

    /// The place in the trace for the request's parts; `None` if it is not recorded.
    pub fn traced(&self) -> Option<TraceContext> {
        let recorder = self.recorder.as_ref()?;
        Some(TraceContext::new(self.span, Arc::clone(recorder)))
    }
}
