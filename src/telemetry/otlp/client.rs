//! One request to a collector, and its response (OTLP/HTTP, <https://opentelemetry.io/docs/specs/otlp/>).

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use rustls::ClientConfig;

use super::wire::Wire;
use crate::error::BoxError;
use crate::error::cause::{chain, joined};
use crate::request::span::Span;

/// The path at which collectors take traces, below their base address.
const PATH: &str = "/v1/traces";
/// The longest response that is read, in bytes.
const MAX_ANSWER: usize = 64 << 10;

/// A client of one collector.
pub(super) struct Client {
    inner: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    uri: Uri,
    wire: Wire,
}

/// The result of sending a batch of spans.
pub(super) enum ExportOutcome {
    /// The collector has all of them.
    All,
    /// The collector has rejected this many of them, for this reason.
    Without(u64, String),
    /// The collector does not take them, for this reason.
    Refused(String),
    /// The collector may take them later; this is the reason why not now.
    NotNow(String),
}

impl Client {
    pub(super) fn new(uri: &Uri) -> Result<Self, BoxError> {
        let connector = HttpsConnectorBuilder::new();
        let connector = match uri.scheme_str() {
            Some("https") => connector
                .with_provider_and_native_roots(rustls::crypto::aws_lc_rs::default_provider())?,
            // Without encryption no certificate is trusted, and none is read from this system.
            _ => connector.with_tls_config(no_tls()?),
        };
        let connector = connector.https_or_http().enable_http1().build();
        Ok(Self {
            inner: legacy::Client::builder(TokioExecutor::new()).build(connector),
            uri: traces(uri)?,
            wire: Wire::new(),
        })
    }

    pub(super) fn encode(&self, spans: Vec<Span>) -> Bytes {
        self.wire.encode(spans)
    }

    pub(super) async fn send(&self, body: Bytes) -> ExportOutcome {
        let mut request = Request::post(self.uri.clone());
        if let Some(headers) = request.headers_mut() {
            let protobuf = HeaderValue::from_static("application/x-protobuf");
            headers.insert(CONTENT_TYPE, protobuf);
        }
        let request = match request.body(Full::new(body)) {
            Ok(request) => request,
            Err(error) => return ExportOutcome::Refused(error.to_string()),
        };
        let response = match self.inner.request(request).await {
            Ok(response) => response,
            Err(error) => return ExportOutcome::NotNow(joined(chain(&error))),
        };
        let status = response.status();
        if !status.is_success() {
            let why = format!("the collector answered {status}");
            // These are the statuses for which the specification allows a retry.
            return match status {
                StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT => ExportOutcome::NotNow(why),
                _ => ExportOutcome::Refused(why),
            };
        }
        let body = Limited::new(response.into_body(), MAX_ANSWER)
            .collect()
            .await;
        let answer = body
            .ok()
            .map(|body| ExportTraceServiceResponse::decode(body.to_bytes()));
        match answer
            .and_then(Result::ok)
            .and_then(|answer| answer.partial_success)
        {
            Some(partial) if partial.rejected_spans > 0 => {
                ExportOutcome::Without(partial.rejected_spans.unsigned_abs(), partial.error_message)
            }
            _ => ExportOutcome::All,
        }
    }
}

fn no_tls() -> Result<ClientConfig, BoxError> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let builder = ClientConfig::builder_with_provider(provider.into());
    let builder = builder.with_safe_default_protocol_versions()?;
    let nobody = rustls::RootCertStore::empty();
    Ok(builder.with_root_certificates(nobody).with_no_client_auth())
}

/// Returns the address to which traces are sent: `base` with [`PATH`] at its end.
fn traces(base: &Uri) -> Result<Uri, BoxError> {
    let path = base.path().trim_end_matches('/');
    let whole = if path.ends_with(PATH) {
        path.to_owned()
    } else {
        format!("{path}{PATH}")
    };
    let mut parts = base.clone().into_parts();
    parts.path_and_query = Some(whole.try_into()?);
    Ok(Uri::from_parts(parts)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    #[test]
    fn traces_go_below_the_base_address() {
        let cases = [
            ("http://c:4318", "http://c:4318/v1/traces"),
            ("http://c:4318/", "http://c:4318/v1/traces"),
            ("https://c/otlp/", "https://c/otlp/v1/traces"),
            ("https://c/otlp/v1/traces", "https://c/otlp/v1/traces"),
        ];
        for (base, expected) in cases {
            assert_eq!(
                traces(&base.parse().unwrap()).unwrap().to_string(),
                expected
            );
        }
    }
}
