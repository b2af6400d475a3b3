//! Finished spans of a trace, in the form that a recorder gets.
//!
//! Names of facts are those of OpenTelemetry's semantic conventions; the gateway's own begin with `nsgate.`.
//! Tokens, context, bodies, and paths, which hold identifiers, are never among them.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use http::HeaderValue;

use crate::protocol::operation::Operation;
use crate::protocol::trace::SpanContext;

/// The receiver of finished spans. It must not block.
pub trait Recorder: Send + Sync {
    /// Takes a span, or drops it.
    fn record(&self, span: Span);
}

/// A piece of work that is over.
#[derive(Clone, Debug)]
pub struct Span {
    /// The place of this span in the trace.
    pub context: SpanContext,
    /// The span that it is a part of; `None` if it is the first of its trace.
    pub parent: Option<Parent>,
    /// The role in the exchange of requests.
    pub role: Role,
    /// The name of the work.
    pub name: String,
    /// The time at which it ended.
    pub ended: SystemTime,
    /// The time that it took.
    pub took: Duration,
    /// True if it failed.
    pub failed: bool,
    /// Further facts about the work.
    pub facts: Vec<(&'static str, Fact)>,
}

/// The span that another one is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The id of that span.
    pub span: u64,
    /// True if the span is another process's.
    pub remote: bool,
}

/// The role of a span in the exchange of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Serves a request.
    Server,
    /// Sends a request.
    Client,
    /// Does neither.
    Internal,
}

/// The value of a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// One of a few fixed words.
    Word(&'static str),
    /// A configured name.
    Name(Arc<str>),
    /// The value of a header, as it came.
    Header(HeaderValue),
    /// Any text.
    Text(String),
    /// A number.
    Number(u64),
}

/// The place in a trace that further work is a part of, and the receiver of its spans.
#[derive(Clone)]
pub struct TraceContext {
    context: SpanContext,
    recorder: Arc<dyn Recorder>,
}

/// A span that has begun.
pub struct OpenSpan {
    traced: TraceContext,
    parent: u64,
    began: Instant,
}

impl TraceContext {
    pub(super) fn new(context: SpanContext, recorder: Arc<dyn Recorder>) -> Self {
        Self { context, recorder }
    }

    /// Begins a span that is a part of it.
    pub fn begin(&self) -> OpenSpan {
        OpenSpan {
            traced: Self {
                context: self.context.child(),
                recorder: Arc::clone(&self.recorder),
            },
            parent: self.context.span(),
            began: Instant::now(),
        }
    }

    /// Records a part of it that took so long until now.
    pub fn took(&self, name: impl Into<String>, took: Duration) {
        self.recorder.record(Span {
            context: self.context.child(),
            parent: Some(Parent {
                span: self.context.span(),
                remote: false,
            }),
            role: Role::Internal,
            name: name.into(),
            ended: SystemTime::now(),
            took,
            failed: false,
            facts: Vec::new(),
        });
    }
}

impl OpenSpan {
    /// The span's own place in the trace.
    pub fn context(&self) -> SpanContext {
        self.traced.context
    }

    /// Ends the span and records it.
    pub fn end(&self, role: Role, name: String, failed: bool, facts: Vec<(&'static str, Fact)>) {
        self.traced.recorder.record(Span {
            context: self.traced.context,
            parent: Some(Parent {
                span: self.parent,
                remote: false,
            }),
            role,
            name,
            ended: SystemTime::now(),
            took: self.began.elapsed(),
            failed,
            facts,
        });
    }
}

/// Returns the path of an operation with its parameters left open (`http.route`); `None` for an unlisted one.
pub fn route(operation: Operation) -> Option<&'static str> {
    static ROUTES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let all = Operation::LISTED.iter();
        all.map(|operation| path(*operation)).collect()
    });
    if operation == Operation::Snapshot {
        return Some("/nsgate/v1/snapshot");
    }
    Some(ROUTES.get(operation.number())?.as_str())
}

fn path(operation: Operation) -> String {
    let (collection, tail) = operation.route().unwrap_or_default();
    let id = operation.kind().map_or("", |_| "/{id}");
    let slash = if tail.is_empty() { "" } else { "/" };
    format!("/v1/{collection}{id}{slash}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::operation::Kind;

    #[test]
    fn a_route_is_the_contracts_path_without_anybodys_names() {
        let cases = [
            (Operation::DescribeTable, Some("/v1/table/{id}/describe")),
            (Operation::ListAllTables, Some("/v1/table")),
            (
                Operation::BatchCreateTableVersions,
                Some("/v1/table/version/batch-create"),
            ),
            (Operation::ListNamespaces, Some("/v1/namespace/{id}/list")),
            (Operation::Unlisted(Kind::Table), None),
            (Operation::Snapshot, Some("/nsgate/v1/snapshot")),
        ];
        for (operation, expected) in cases {
            assert_eq!(route(operation), expected);
        }
    }
}
