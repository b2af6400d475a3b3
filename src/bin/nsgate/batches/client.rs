//! Sends requests to the admin address of a gateway, and explains what is wrong if there is no good response.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use nsgate::config::Secret;
use nsgate::error::cause::innermost;
use nsgate::pem;
use rustls::ClientConfig;
use rustls::client::ResolvesClientCert;
use rustls::sign::SingleCertAndKey;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;

use super::words::plain;
use crate::cli::{AdminAddress, AdminTls};

/// The timeout for the whole response: the gateway needs a moment only if its log does.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest response, in bytes; the gateway's own list is limited to far less.
const MAX_BODY: usize = 64 << 20;
/// The header of a token that is empty, as of a variable that was set to nothing.
const EMPTY: &[u8] = b"Bearer ";

/// A client of one admin address.
pub(crate) struct Client {
    inner: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// The address, without a slash at the end.
    admin: String,
    token: Option<HeaderValue>,
    patience: Duration,
}

/// The reason why there is no good response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    /// The system has no threads or files left, or the like.
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
    /// Certificates could not be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(rustls::Error),
    /// A file of the options for TLS cannot be used.
    #[error("{0}: {1}")]
    File(&'static str, pem::Unusable),
    /// The token cannot be sent.
    #[error(
        "the admin token has characters that no header may carry; is the whole file in it, with its line break?"
    )]
    Token,
    /// No name of the person who decides.
    #[error(
        "who decides? The batch log keeps it, and neither $USER nor $LOGNAME is set: give --who NAME"
    )]
    Nobody,
    /// The decision was taken, and there is no good response to the question what became of it.
    #[error(
        "the decision is recorded, and what became of it is not known: {0}\nLook in some seconds: `nsgate batches show {1}`"
    )]
    Decided(Box<Problem>, String),
    /// No response came.
    #[error(
        "{admin} does not answer: {cause}\n\
         Is the gateway running, and is this its `admin.address`? It says \"nsgate admin on …\" when it starts.\n\
         If it has ended, the last lines of its log say why: `journalctl -u nsgate -n 20`, or `kubectl logs --previous POD`."
    )]
    Unreachable {
        /// The admin address.
        admin: String,
        /// The error of the connection.
        cause: String,
    },
    /// The response is not the gateway's.
    #[error(
        "{0} answers, but not as the admin address of nsgate does.\n\
         `--admin` takes the address under `admin.address` in the gateway's configuration, not the one that clients use."
    )]
    Stranger(String),
    /// The gateway answered 401.
    #[error(
        "{0} requires the gateway's `admin.token`, and {1}.\n\
         Put it into the environment variable NSGATE_ADMIN_TOKEN, or give it with --token."
    )]
    Unauthorized(String, &'static str),
    /// No open batch has this name; the text says what became of it, as far as the gateway knows.
    #[error("{0}")]
    Unknown(String),
    /// The gateway refused, with this message.
    #[error("{0}")]
    Refused(String),
}

/// The gateway's error body.
#[derive(Deserialize)]
struct Refusal {
    error: String,
    code: u64,
    #[serde(default)]
    detail: String,
}

impl Client {
    /// Creates a client of the admin address that a command was given, with all of its options.
    ///
    /// # Errors
    /// The token cannot be a header, or a file of the options for TLS cannot be used.
    pub(crate) fn of(asked: &AdminAddress) -> Result<Self, Problem> {
        Self::new(&asked.admin, asked.token.as_ref(), &asked.tls)
    }

    /// Creates a client.
    ///
    /// # Errors
    /// The token cannot be a header, or a file of the options for TLS cannot be used.
    pub(crate) fn new(
        admin: &Uri,
        token: Option<&Secret>,
        options: &AdminTls,
    ) -> Result<Self, Problem> {
        let token = token.map(|token| {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
            value.map_err(|_| Problem::Token)
        });
        Ok(Self {
            inner: over(tls(options)?),
            admin: admin.to_string().trim_end_matches('/').to_owned(),
            token: token.transpose()?,
            patience: PATIENCE,
        })
    }

    /// Sets the timeout for a whole response.
    pub(crate) fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The admin address, as it was given.
    pub(crate) fn admin(&self) -> &str {
        &self.admin
    }

    /// Returns the error for a server that is no gateway.
    pub(crate) fn stranger(&self) -> Problem {
        Problem::Stranger(self.admin.clone())
    }

    /// Sends a request, and returns the JSON of the response.
    ///
    /// # Errors
    /// There is no response, it is not that of a gateway, or the gateway refuses.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, Problem> {
        let (status, body) = self.exchange(method, path, body).await?;
        self.understood(status, &body)
    }

    /// Sends a request, and returns the response as it is, whatever its status.
    ///
    /// # Errors
    /// There is no response.
    pub(crate) async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<(StatusCode, Bytes), Problem> {
        let answer = timeout(self.patience, self.send(method, path, body)).await;
        answer
            .unwrap_or_else(|_| Err(self.unreachable(format!("no answer in {:?}", self.patience))))
    }

    /// Returns the JSON of a response.
    ///
    /// # Errors
    /// It is not that of a gateway, or the gateway refuses.
    pub(crate) fn understood(&self, status: StatusCode, body: &[u8]) -> Result<Value, Problem> {
        if status.is_success() {
            return serde_json::from_slice(body).map_err(|_| self.stranger());
        }
        let refusal: Refusal = serde_json::from_slice(body).map_err(|_| self.stranger())?;
        Err(match status {
            StatusCode::UNAUTHORIZED => Problem::Unauthorized(
                self.admin.clone(),
                match &self.token {
                    Some(token) if token.as_bytes() == EMPTY => "the given token is empty",
                    Some(_) => "the given token is wrong",
                    None => "none was given",
                },
            ),
            // Only the admin address sends the contract's "no such transaction". Any other page would be
            // missing at the address for clients.
            StatusCode::NOT_FOUND if refusal.code == 10 => Problem::Unknown(plain(&refusal.error)),
            StatusCode::NOT_FOUND => self.stranger(),
            _ if refusal.detail.is_empty() => Problem::Refused(plain(&refusal.error)),
            _ => Problem::Refused(format!(
                "{}\n{}",
                plain(&refusal.error),
                plain(&refusal.detail)
            )),
        })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<(StatusCode, Bytes), Problem> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.admin))
            .header(ACCEPT, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = request.body(Full::new(body));
        let request = request.map_err(|error| self.unreachable(error.to_string()))?;
        let response = self.inner.request(request).await;
        let response = response.map_err(|error| self.unreachable(innermost(&error)))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_BODY).collect().await;
        let body = body.map_err(|error| self.unreachable(error.to_string()))?;
        Ok((status, body.to_bytes()))
    }

    fn unreachable(&self, cause: String) -> Problem {
        Problem::Unreachable {
            admin: self.admin.clone(),
            cause,
        }
    }
}

/// Returns the TLS settings for these options.
fn tls(options: &AdminTls) -> Result<ClientConfig, Problem> {
    let builder = ClientConfig::builder_with_provider(pem::provider())
        .with_safe_default_protocol_versions()
        .map_err(Problem::Tls)?;
    let builder = match &options.ca {
        Some(file) => {
            let authorities = pem::authorities(file);
            let authorities = authorities.map_err(|error| Problem::File("--ca", error))?;
            builder.with_root_certificates(authorities)
        }
        // Without authorities, https fails with a message of its own; http needs none.
        None => match builder.clone().with_native_roots() {
            Ok(builder) => builder,
            Err(_) => builder.with_root_certificates(rustls::RootCertStore::empty()),
        },
    };
    let (Some(certificate), Some(key)) = (&options.certificate, &options.private_key) else {
        return Ok(builder.with_no_client_auth());
    };
    let identity = pem::identity(certificate, key);
    let identity = identity.map_err(|error| Problem::File("--certificate", error))?;
    let identity: Arc<dyn ResolvesClientCert> = Arc::new(SingleCertAndKey::from(identity));
    Ok(builder.with_client_cert_resolver(identity))
}

fn over(tls: ClientConfig) -> legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>> {
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .build();
    legacy::Client::builder(TokioExecutor::new()).build(connector)
}
