//! Encodes spans as the protocol defines them.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{self as proto, ResourceSpans, ScopeSpans, Status};
use prost::Message as _;
use uuid::Uuid;

use crate::request::span::{Fact, Role, Span};

/// A bit of `flags`: it is known whether the parent is remote. The next bit says that it is.
const REMOTE_IS_KNOWN: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// The values that are the same for all spans of this run.
pub(super) struct Wire {
    resource: Resource,
    scope: InstrumentationScope,
}

impl Wire {
    pub(super) fn new() -> Self {
        let name = env!("CARGO_PKG_NAME");
        let version = env!("CARGO_PKG_VERSION");
        let attributes = vec![
            fact("service.name", Fact::Word(name)),
            fact("service.version", Fact::Word(version)),
            fact(
                "service.instance.id",
                Fact::Text(Uuid::new_v4().to_string()),
            ),
        ];
        Self {
            resource: Resource {
                attributes,
                ..Resource::default()
            },
            scope: InstrumentationScope {
                name: name.to_owned(),
                version: version.to_owned(),
                ..InstrumentationScope::default()
            },
        }
    }

    /// Returns the body of a request to the collector.
    pub(super) fn encode(&self, spans: Vec<Span>) -> Bytes {
        let scope = ScopeSpans {
            scope: Some(self.scope.clone()),
            spans: spans.into_iter().map(span).collect(),
            ..ScopeSpans::default()
        };
        let request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![scope],
                ..ResourceSpans::default()
            }],
        };
        request.encode_to_vec().into()
    }
}

fn span(span: Span) -> proto::Span {
    let ended = span.ended.duration_since(UNIX_EPOCH).unwrap_or_default();
    let remote = span.parent.is_some_and(|parent| parent.remote);
    let kind = match span.role {
        Role::Server => SpanKind::Server,
        Role::Client => SpanKind::Client,
        Role::Internal => SpanKind::Internal,
    };
    proto::Span {
        trace_id: span.context.trace().to_be_bytes().to_vec(),
        span_id: span.context.span().to_be_bytes().to_vec(),
        parent_span_id: span
            .parent
            .map(|parent| parent.span.to_be_bytes().to_vec())
            .unwrap_or_default(),
        flags: u32::from(span.context.flags())
            | REMOTE_IS_KNOWN
            | if remote { IS_REMOTE } else { 0 },
        name: span.name,
        kind: kind.into(),
        start_time_unix_nano: nanos(ended.saturating_sub(span.took)),
        end_time_unix_nano: nanos(ended),
        attributes: span
            .facts
            .into_iter()
            .map(|(key, value)| fact(key, value))
            .collect(),
        status: span.failed.then(|| Status {
            code: StatusCode::Error.into(),
            ..Status::default()
        }),
        ..proto::Span::default()
    }
}

fn fact(key: &str, value: Fact) -> KeyValue {
    let value = match value {
        Fact::Word(word) => Value::StringValue(word.to_owned()),
        Fact::Name(name) => Value::StringValue(name.as_ref().to_owned()),
        Fact::Header(value) => {
            Value::StringValue(String::from_utf8_lossy(value.as_bytes()).into_owned())
        }
        Fact::Text(text) => Value::StringValue(text),
        Fact::Number(number) => Value::IntValue(i64::try_from(number).unwrap_or(i64::MAX)),
    };
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
