//! The span of a whole request, if its trace is recorded.

use std::sync::Arc;
use std::time::SystemTime;

use http::Version;

use crate::body::End;
use crate::request::span::{Fact, Parent, Role, Span, route};
use crate::request::{CompletionObserver, RequestRecord};

/// Records the span when the request is over.
pub(super) struct ServerSpan;

impl CompletionObserver for ServerSpan {
    fn over(&self, exchange: &RequestRecord, how: End) {
        let recorder = exchange.head().and_then(|head| head.recorder.as_ref());
        if let (Some(recorder), Some(span)) = (recorder, span(exchange, how)) {
            recorder.record(span);
        }
    }
}

fn span(exchange: &RequestRecord, how: End) -> Option<Span> {
    let head = exchange.head()?;
    let method = head.method.as_str();
    let operation = exchange.operation();
    let route = operation.and_then(route);
    let name = match &route {
        Some(route) => format!("{method} {route}"),
        None => method.to_owned(),
    };
    let status = exchange.status().map_or(499, |status| status.as_u16());
    let failed = status >= 500 || how == End::Broken;
    let mut facts = vec![
        ("http.request.method", Fact::Text(method.to_owned())),
        ("http.response.status_code", Fact::Number(status.into())),
        (
            "http.request.body.size",
            Fact::Number(exchange.request_bytes()),
        ),
        (
            "http.response.body.size",
            Fact::Number(exchange.response_bytes()),
        ),
        (
            "network.protocol.version",
            Fact::Word(version(head.version)),
        ),
        ("nsgate.request_id", Fact::Header(head.id.clone())),
    ];
    facts.extend(route.map(|route| ("http.route", Fact::Word(route))));
    let client = head.client().cloned();
    facts.extend(client.map(|client| ("client.address", Fact::Header(client))));
    facts.extend(operation.map(|operation| ("nsgate.operation", Fact::Word(operation.name()))));
    facts.extend(
        exchange
            .mount()
            .map(|mount| ("nsgate.mount", Fact::Text(mount.to_string()))),
    );
    facts.extend(
        exchange
            .backend()
            .map(|backend| ("nsgate.backend", Fact::Name(Arc::clone(backend.name())))),
    );
    facts.extend(
        exchange
            .code()
            .map(|code| ("nsgate.code", Fact::Number(code.number().into()))),
    );
    let reason = exchange.reason();
    facts.extend(reason.map(|reason| ("nsgate.reason", Fact::Word(reason))));
    if failed {
        let kind = if status >= 500 {
            status.to_string()
        } else {
            "broken_body".to_owned()
        };
        facts.push(("error.type", Fact::Text(kind)));
    }
    if how == End::Aborted {
        facts.push(("nsgate.aborted_by", Fact::Word("connection")));
    }
    Some(Span {
        context: head.span,
        parent: head.parent.map(|parent| Parent {
            span: parent.span(),
            remote: true,
        }),
        role: Role::Server,
        name,
        ended: SystemTime::now(),
        took: exchange.age(),
        failed,
        facts,
    })
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_11 => "1.1",
        Version::HTTP_2 => "2",
        _ => "other",
    }
}
