//! A collector on a loopback port: decodes what it receives with the protocol's own types, and keeps it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode as Outcome;
use prost::Message as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The behaviour of the collector.
#[derive(Clone, Copy, Debug)]
pub enum Mood {
    /// Accepts everything.
    Well,
    /// Reads requests and never answers.
    Hung,
    /// Closes each connection at once.
    Gone,
    /// Answers 400.
    Refusing,
}

/// A span that was received, with the service name of its resource.
#[derive(Clone, Debug)]
pub struct Kept {
    pub span: Span,
    pub service: String,
    facts: BTreeMap<String, Value>,
}

/// A collector that runs as long as the test's runtime.
pub struct Collector {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    mood: Mutex<Mood>,
    spans: Mutex<Vec<Kept>>,
    bytes: Mutex<Vec<u8>>,
}

impl Collector {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            mood: Mutex::new(Mood::Well),
            spans: Mutex::default(),
            bytes: Mutex::default(),
        });
        tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared }
    }

    pub fn uri(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn feel(&self, mood: Mood) {
        *self.shared.mood.lock().unwrap() = mood;
    }

    /// All spans that were received.
    pub fn spans(&self) -> Vec<Kept> {
        self.shared.spans.lock().unwrap().clone()
    }

    /// Returns true if this text occurs anywhere in the bytes that were received.
    pub fn contains(&self, text: &str) -> bool {
        let bytes = self.shared.bytes.lock().unwrap();
        memchr::memmem::find(&bytes, text.as_bytes()).is_some()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        if matches!(*shared.mood.lock().unwrap(), Mood::Gone) {
            continue;
        }
        let shared = Arc::clone(&shared);
        let service = service_fn(move |request| take(Arc::clone(&shared), request));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn take(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::new()));
    let mood = *shared.mood.lock().unwrap();
    match mood {
        Mood::Well | Mood::Gone => {}
        Mood::Hung => std::future::pending().await,
        Mood::Refusing => {
            *response.status_mut() = StatusCode::BAD_REQUEST;
            return Ok(response);
        }
    }
    assert_eq!(request.uri().path(), "/v1/traces");
    assert_eq!(request.headers()["content-type"], "application/x-protobuf");
    let Ok(body) = request.into_body().collect().await else {
        return Ok(response);
    };
    let body = body.to_bytes();
    let sent = ExportTraceServiceRequest::decode(body.clone()).unwrap();
    shared.bytes.lock().unwrap().extend_from_slice(&body);
    for resource in sent.resource_spans {
        let about = facts(resource.resource.unwrap().attributes);
        let service = about["service.name"].as_str().unwrap().to_owned();
        for span in resource
            .scope_spans
            .into_iter()
            .flat_map(|scope| scope.spans)
        {
            shared.spans.lock().unwrap().push(Kept {
                facts: facts(span.attributes.clone()),
                service: service.clone(),
                span,
            });
        }
    }
    Ok(response)
}

fn facts(attributes: Vec<KeyValue>) -> BTreeMap<String, Value> {
    let value = |value| match value {
        Any::StringValue(text) => json!(text),
        Any::IntValue(number) => json!(number),
        other => panic!("{other:?}"),
    };
    let pair = |pair: KeyValue| (pair.key, value(pair.value.unwrap().value.unwrap()));
    attributes.into_iter().map(pair).collect()
}

impl Kept {
    pub fn fact(&self, key: &str) -> Option<&Value> {
        self.facts.get(key)
    }

    pub fn hex_trace(&self) -> String {
        hex(&self.span.trace_id)
    }

    pub fn hex_span(&self) -> String {
        hex(&self.span.span_id)
    }

    pub fn failed(&self) -> bool {
        let status = self.span.status.as_ref();
        status.is_some_and(|status| status.code() == Outcome::Error)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
