//! The spans of requests to a catalog: one for each attempt, if the trace is recorded.

use std::sync::Arc;

use http::uri::Authority;
use http::{HeaderValue, Request};

use super::attempt::AttemptOutcome;
use crate::body::Body;
use crate::protocol::operation::Operation;
use crate::protocol::trace::TRACEPARENT;
use crate::request::context::RequestContext;
use crate::request::origin::Origin;
use crate::request::span::{Fact, OpenSpan, Role, TraceContext, route};

/// A request whose attempts are recorded.
#[derive(Clone)]
pub(in crate::backend) struct AttemptSpans {
    traced: TraceContext,
    operation: Option<Operation>,
    backend: Arc<str>,
}

/// The span of an attempt in progress. If it is dropped before its end, the attempt was cancelled.
pub(in crate::backend) struct AttemptSpan {
    begun: OpenSpan,
    name: String,
    facts: Vec<(&'static str, Fact)>,
    over: bool,
}

impl AttemptSpans {
    /// Returns the spans of a request with these extensions; `None` if its trace is not recorded.
    pub(in crate::backend) fn of(
        extensions: &http::Extensions,
        backend: &Arc<str>,
    ) -> Option<Self> {
        let traced = Origin::traced_of(extensions)?;
        Some(Self {
            traced,
            operation: RequestContext::of(extensions).operation,
            backend: Arc::clone(backend),
        })
    }

    /// Begins the span of an attempt at this `host`, after `before` earlier ones. The catalog sees
    /// the span as its parent.
    pub(in crate::backend) fn begin(
        &self,
        request: &mut Request<Body>,
        host: &HeaderValue,
        before: u32,
    ) -> Box<AttemptSpan> {
        let begun = self.traced.begin();
        let traceparent = begun.context().header().value();
        request.headers_mut().insert(TRACEPARENT, traceparent);
        let method = request.method().as_str();
        let template = self.operation.and_then(route);
        let name = match &template {
            Some(template) => format!("{method} {template}"),
            None => method.to_owned(),
        };
        let mut facts = vec![
            ("http.request.method", Fact::Text(method.to_owned())),
            ("nsgate.backend", Fact::Name(Arc::clone(&self.backend))),
        ];
        facts.extend(template.map(|template| ("url.template", Fact::Word(template))));
        let operation = self.operation.map(Operation::name);
        facts.extend(operation.map(|name| ("nsgate.operation", Fact::Word(name))));
        if before > 0 {
            facts.push(("http.request.resend_count", Fact::Number(before.into())));
        }
        facts.extend(address(host));
        Box::new(AttemptSpan {
            begun,
            name,
            facts,
            over: false,
        })
    }
}

/// Returns the attributes of the address that the attempt goes to.
fn address(host: &HeaderValue) -> Vec<(&'static str, Fact)> {
    let host = host.to_str().ok();
    let Some(host) = host.and_then(|host| host.parse::<Authority>().ok()) else {
        return Vec::new();
    };
    let mut facts = vec![("server.address", Fact::Text(host.host().to_owned()))];
    let port = host.port_u16();
    facts.extend(port.map(|port| ("server.port", Fact::Number(port.into()))));
    facts
}

impl AttemptSpan {
    /// Ends the span with the outcome of the attempt.
    pub(in crate::backend) fn end(&mut self, outcome: &AttemptOutcome) {
        let error = match outcome {
            AttemptOutcome::Answered(response) => {
                let status = response.status();
                self.facts.push((
                    "http.response.status_code",
                    Fact::Number(status.as_u16().into()),
                ));
                // A client span counts a refusal as a failure, too.
                let failed = status.is_client_error() || status.is_server_error();
                failed.then(|| Fact::Text(status.as_str().to_owned()))
            }
            AttemptOutcome::Unsent(..) | AttemptOutcome::Refused(_) => Some(Fact::Word("not_sent")),
            AttemptOutcome::Lost { .. } => Some(Fact::Word("lost")),
            AttemptOutcome::TimedOut { .. } => Some(Fact::Word("timeout")),
        };
        self.finish(error);
    }

    fn finish(&mut self, error: Option<Fact>) {
        self.over = true;
        let failed = error.is_some();
        let mut facts = std::mem::take(&mut self.facts);
        facts.extend(error.map(|error| ("error.type", error)));
        let name = std::mem::take(&mut self.name);
        self.begun.end(Role::Client, name, failed, facts);
    }
}

impl Drop for AttemptSpan {
    fn drop(&mut self) {
        if !self.over {
            self.finish(Some(Fact::Word("cancelled")));
        }
    }
}
