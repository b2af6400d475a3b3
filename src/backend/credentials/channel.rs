//! Sends one POST to a token server: over a new connection, with a limit for the answer, without redirects.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::Instant;

use super::message::Form;
use super::timing::FETCH_TIMEOUT;
use crate::backend::rest::injected::InjectedHeaders;
use crate::backend::transport::connect::Dialer;
use crate::backend::transport::connection;
use crate::backend::transport::connection::{Connection, ExchangeError, PoolHandle};
use crate::body::Body;
use crate::error::BoxError;
use crate::pem;

/// The longest answer, in bytes.
const MAX_ANSWER: usize = 64 << 10;

/// The address and connection settings of one token server.
pub(super) struct Channel {
    dialer: Dialer,
    host: HeaderValue,
    target: Uri,
    /// `Authorization` of the gateway itself.
    client: HeaderValue,
}

/// Closes each connection after its answer. Fetches are minutes apart, and the server would have closed it by then.
struct NotKept;

impl Channel {
    /// Builds the channel to `uri`, as `client`. It trusts the system's authorities, and those of the PEM file `ca`.
    pub(super) fn new(uri: &Uri, client: HeaderValue, ca: Option<&Path>) -> Result<Self, BoxError> {
        let secure = uri.scheme_str() == Some("https");
        let tls = secure.then(|| client_config(ca)).transpose()?;
        let host = uri.authority().ok_or("a token endpoint needs a host")?;
        let target = uri.path_and_query().cloned();
        Ok(Self {
            dialer: Dialer::new(uri, tls.as_ref(), FETCH_TIMEOUT)?,
            host: HeaderValue::try_from(host.as_str())?,
            target: target.unwrap_or(PathAndQuery::from_static("/")).into(),
            client,
        })
    }

    /// Returns the host, for the log.
    pub(super) fn host(&self) -> &str {
        self.host.to_str().unwrap_or_default()
    }

    /// Sends a form and reads the whole answer. The caller must limit the time.
    pub(super) async fn post(&self, form: Form) -> Result<Response<Bytes>, BoxError> {
        let form = form.into_bytes();
        let mut request = Request::post(self.target.clone())
            .header(HOST, self.host.clone())
            .header(AUTHORIZATION, self.client.clone())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(CONTENT_LENGTH, form.len())
            .body(Body::full(form))?;
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
        // The body of such an answer does not matter: frameworks and proxies use words like `error`,
        // too.
        if head.status.is_server_error() || head.status == StatusCode::TOO_MANY_REQUESTS {
            return Err(format!("it answered {}", head.status).into());
        }
        Ok(Response::from_parts(head, body))
    }
}

impl PoolHandle for NotKept {
    fn give_back(&self, connection: Box<Connection>, _: Instant) {
        drop(connection);
    }
}

/// Builds the TLS settings. They present no client certificate, because that is for the catalog.
fn client_config(ca: Option<&Path>) -> Result<Arc<ClientConfig>, BoxError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (_, _) = roots.add_parsable_certificates(found.certs);
    if let Some(file) = ca {
        roots.extend(pem::authorities(file)?.roots);
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
