//! Fetches small JSON documents over HTTPS, or over HTTP on this machine. Redirects are not followed.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL};
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};

use super::pace::max_age;
use crate::config::is_plain_http_abroad;
use crate::error::BoxError;
use crate::pem;

/// The longest document, in bytes.
pub(super) const MAX_BODY: usize = 1 << 20;

const ACCEPTED: &str = "application/jwk-set+json, application/json";

/// A client that trusts the system's authorities, or one private authority.
pub(super) struct Client(legacy::Client<HttpsConnector<HttpConnector>, Empty<Bytes>>);

/// A document that was fetched.
pub(super) struct FetchedDocument {
    /// The bytes, which should be a key set.
    pub(super) body: Bytes,
    /// The time that the document may be kept; `None` if its source does not say.
    pub(super) age: Option<Duration>,
}

impl Client {
    /// Creates a client. `ca` is the PEM file of a private authority; `None` stands for the system's
    /// authorities.
    pub(super) fn new(ca: Option<&Path>) -> Result<Self, BoxError> {
        let builder = || {
            ClientConfig::builder_with_provider(pem::provider())
                .with_safe_default_protocol_versions()
        };
        let builder = match ca {
            Some(file) => builder()?.with_root_certificates(pem::authorities(file)?),
            None => match builder()?.with_native_roots() {
                Ok(builder) => builder,
                // A container without authorities can still fetch keys from this machine.
                Err(error) => {
                    tracing::warn!(cause = %error, "no certificate authorities on this system: https will fail");
                    builder()?.with_root_certificates(RootCertStore::empty())
                }
            },
        };
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(builder.with_no_client_auth())
            .https_or_http()
            .enable_http1()
            .build();
        // Fetches are minutes apart: an idle connection would be closed by then.
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build(connector);
        Ok(Self(client))
    }

    /// Fetches the document. The caller must limit the time that this may take.
    pub(super) async fn get(&self, uri: &Uri) -> Result<FetchedDocument, BoxError> {
        if is_plain_http_abroad(uri) {
            return Err("plain http is allowed for loopback only; use https".into());
        }
        let request = Request::get(uri)
            .header(ACCEPT, ACCEPTED)
            .body(Empty::new())?;
        let response = self.0.request(request).await?;
        if response.status() != StatusCode::OK {
            return Err(format!("the server answered {}", response.status()).into());
        }
        let age = age(response.headers());
        let body = Limited::new(response.into_body(), MAX_BODY)
            .collect()
            .await?;
        Ok(FetchedDocument {
            body: body.to_bytes(),
            age,
        })
    }
}

fn age(headers: &HeaderMap) -> Option<Duration> {
    max_age(headers.get(CACHE_CONTROL)?.to_str().ok()?)
}
