//! What the head of a request tells those who follow it.

use std::sync::Arc;

use http::{HeaderValue, Method, Version};

use super::span::{Recorder, TraceContext};
use crate::protocol::trace::SpanContext;

/// What is known of a request from its head alone.
#[derive(Clone)]
pub struct RequestHead {
    /// Its id.
    pub id: HeaderValue,
    /// The gateway's own span.
    pub span: SpanContext,
    /// The caller's span, where it sent one.
    pub parent: Option<SpanContext>,
    /// Whether somebody will want to know more of it than is counted.
    pub told: bool,
    /// The client's IP address, where it is told.
    pub client: Option<HeaderValue>,
    /// Its method.
    pub method: Method,
    /// How the client speaks.
    pub version: Version,
    /// Where its spans go, if its trace is recorded.
    pub recorder: Option<Arc<dyn Recorder>>,
}

impl RequestHead {
    /// The id as text.
    pub fn id(&self) -> &str {
        self.id.to_str().unwrap_or("")
    }

    /// The place in the trace that the request's parts have; `None`: it is not recorded.
    pub fn traced(&self) -> Option<TraceContext> {
        let recorder = self.recorder.as_ref()?;
        Some(TraceContext::new(self.span, Arc::clone(recorder)))
    }
}
