//! One POST to a token server: a connection of its own, a small answer, no redirect followed.

use std::path::Path;
use std::sync::Arc;

use http::header::{CONTENT_LENGTH, HOST};
use http::uri::PathAndQuery;
use http::{HeaderValue, StatusCode, Uri};
use oauth2::{HttpRequest, HttpResponse};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::Instant;

use super::timing::FETCH_TIMEOUT;
use crate::backend::rest::injected::InjectedHeaders;
use crate::backend::transport::connect::Dialer;
use crate::backend::transport::connection;
use crate::backend::transport::connection::{Connection, ExchangeError, PoolHandle};
use crate::body::Body;
use crate::error::BoxError;

/// The longest answer, in bytes.
const MAX_ANSWER: usize = 64 << 10;

/// The way to one token server.
pub(super) struct Channel {
    dialer: Dialer,
    host: HeaderValue,
    target: Uri,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct NoAnswer(BoxError);

/// Fetches are minutes apart: a connection would be closed by then.
struct NotKept;

impl Channel {
    /// To `uri`; trusts the system's authorities, and those of the PEM file `ca` beside them.
    pub(super) fn new(uri: &Uri, ca: Option<&Path>) -> Result<Self, BoxError> {
        let secure = uri.scheme_str() == Some("https");
        let tls = secure.then(|| client_config(ca)).transpose()?;
        let host = uri.authority().ok_or("a token endpoint needs a host")?;
        let target = uri.path_and_query().cloned();
        Ok(Self {
            dialer: Dialer::new(uri, tls.as_ref(), FETCH_TIMEOUT)?,
            host: HeaderValue::try_from(host.as_str())?,
            target: target.unwrap_or(PathAndQuery::from_static("/")).into(),
        })
    }

    /// For the log.
    pub(super) fn host(&self) -> &str {
        self.host.to_str().unwrap_or_default()
    }

    /// Sends it and reads the whole answer. How long it may take is for the caller to limit.
    pub(super) async fn post(&self, request: HttpRequest) -> Result<HttpResponse, NoAnswer> {
        self.exchange(request).await.map_err(NoAnswer)
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, BoxError> {
        let mut request = request.map(Body::full);
        *request.uri_mut() = self.target.clone();
        let length = http_body::Body::size_hint(request.body()).lower();
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        headers.insert(CONTENT_LENGTH, length.into());
        let mut connection = Connection::open(self.dialer.dial().await?);
        let answered = connection.exchange(
            &mut request,
            InjectedHeaders::default(),
            false,
            Instant::now() + FETCH_TIMEOUT,
        );
        let (head, body) = answered
            .await
            .map_err(ExchangeError::into_cause)?
            .into_parts();
        let body = connection::body(body, Box::new(connection), NotKept, Instant::now());
        let body = body.collect_up_to(MAX_ANSWER).await?;
        // Whatever such an answer says: words like `error` are those of frameworks and proxies, too.
        if head.status.is_server_error() || head.status == StatusCode::TOO_MANY_REQUESTS {
            return Err(format!("it answered {}", head.status).into());
        }
        Ok(HttpResponse::from_parts(head, body.into()))
    }
}

impl PoolHandle for NotKept {
    fn give_back(&self, connection: Box<Connection>, _: Instant) {
        drop(connection);
    }
}

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for NoAnswer {}

/// No client certificate is shown: it is for the catalog.
fn client_config(ca: Option<&Path>) -> Result<Arc<ClientConfig>, BoxError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (_, _) = roots.add_parsable_certificates(found.certs);
    if let Some(file) = ca {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        for certificate in CertificateDer::pem_file_iter(file).map_err(|error| named(&error))? {
            let certificate = certificate.map_err(|error| named(&error))?;
            roots.add(certificate).map_err(|error| named(&error))?;
        }
    }
    if roots.is_empty() {
        return Err("no certificate authority to verify the token server: the system has none, and `tls.ca` is not set".into());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
