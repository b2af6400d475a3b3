//! Finished spans of a trace, as whoever records them is told.
//!
//! Names of facts are those of OpenTelemetry's semantic conventions; the gateway's own begin with `nsgate.`. Never
//! among them: tokens, context, bodies, paths, which hold identifiers.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use http::HeaderValue;

use crate::protocol::operation::Operation;
use crate::protocol::trace::SpanContext;

/// Where finished spans go. It must not make anybody wait.
pub trait Recorder: Send + Sync {
    /// Takes a span, or loses it.
    fn record(&self, span: Span);
}

/// A piece of work that is over.
#[derive(Clone, Debug)]
pub struct Span {
    /// Itself.
    pub context: SpanContext,
    /// What it is a part of; `None`: a whole trace.
    pub parent: Option<Parent>,
    /// Its part in a conversation.
    pub role: Role,
    /// What was done.
    pub name: String,
    /// When it was over.
    pub ended: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// Whether it failed.
    pub failed: bool,
    /// What else is known.
    pub facts: Vec<(&'static str, Fact)>,
}

/// The span that another one is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its id.
    pub span: u64,
    /// Somebody else's.
    pub remote: bool,
}

/// A span's part in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Answers somebody.
    Server,
    /// Asks somebody.
    Client,
    /// Neither.
    Internal,
}

/// The value of a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// One of a few words.
    Word(&'static str),
    /// A configured name.
    Name(Arc<str>),
    /// As it came in a header.
    Header(HeaderValue),
    /// Any text.
    Text(String),
    /// A number.
    Number(u64),
}

/// The place in a trace that further work is a part of, and where its spans go.
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

    /// Begins a part of it.
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

    /// A part of it took so long until now.
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
    /// Its own place in the trace.
    pub fn context(&self) -> SpanContext {
        self.traced.context
    }

    /// It is over.
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

/// The path of an operation with its parameters left open (`http.route`); `None` for an unlisted one.
pub fn route(operation: Operation) -> Option<&'static str> {
    static ROUTES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let all = Operation::LISTED.iter();
        all.map(|operation| path(*operation)).collect()
    });
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
        ];
        for (operation, expected) in cases {
            assert_eq!(route(operation), expected);
        }
    }
}
