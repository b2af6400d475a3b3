//! The client with which a gateway passes requests on to the owner of the log.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::backend::strip_hop;
use crate::batch::fleet::Owner;
use crate::body::Body;
use crate::config::GatewayTls;
use crate::error::BoxError;
use crate::error::cause::{Causes, is_about_our_certificate, is_tls};
use crate::error::origin::ErrorOrigin;
use crate::pem;
use crate::request::peer::Peer;

/// The header with the token that the owner has told in the log.
pub(super) const TOKEN: HeaderName = HeaderName::from_static("nsgate-gateway");
/// The header with the client of the request, as [`ClientOf`] in JSON.
pub(super) const CLIENT: HeaderName = HeaderName::from_static("nsgate-client");
/// The header of an answer by a gateway that does not own the log, or cannot reach it: nothing was done.
pub(super) const NOT_OWNER: HeaderName = HeaderName::from_static("nsgate-not-owner");
/// The value of [`NOT_OWNER`] in an answer by a gateway that does not own the log, or has another token.
pub(super) const NO: &str = "true";
/// The value of [`NOT_OWNER`] in an answer by a gateway that may own the log, and cannot reach it.
pub(super) const AWAY: &str = "away";
/// The value of [`NOT_OWNER`] in an answer by the owner that has yet to recover its batches.
pub(super) const RECOVERING: &str = "recovering";
/// The header of an answer about a batch that a takeover has aborted: nothing of it stays, whoever ran it.
pub(super) const UNDONE: HeaderName = HeaderName::from_static("nsgate-undone");

/// The longest time for opening a connection to another gateway.
const CONNECT: Duration = Duration::from_secs(2);
/// The time after which a connection to a machine that answers nothing at all is given up.
const SILENCE: Duration = Duration::from_secs(8);
/// The time for which an idle connection is kept. Shorter than the other gateway keeps it.
const IDLE: Duration = Duration::from_secs(60);

/// The client to other gateways.
pub struct PeerClient {
    way: Way,
    scheme: &'static str,
    /// The gateway to which TLS failed last, and why; `None` since a request was answered.
    refused: Mutex<Option<(Uuid, String)>>,
}

/// The network between gateways.
enum Way {
    Http(Box<legacy::Client<HttpsConnector<HttpConnector>, Body>>),
    Simulated(Arc<dyn PeerNetwork>),
}

/// A simulated network between gateways.
pub trait PeerNetwork: Send + Sync + 'static {
    /// Carries a request to the gateway that its URI names.
    fn carry(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, Unanswered>>;
}

/// The client of a request, as the gateway that it came to knows it.
#[derive(Serialize, Deserialize)]
pub(super) struct ClientOf {
    /// The address and port of the client.
    pub(super) address: std::net::SocketAddr,
    /// True if it came over TLS.
    pub(super) secure: bool,
    /// The subject of its certificate; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subject: Option<String>,
    /// The time that the request has waited for an owner of the log, in microseconds; 0 from gateways that do not tell.
    #[serde(default)]
    pub(super) waited_micros: u64,
}

/// The reason why the owner gave no answer.
pub enum Unanswered {
    /// The request was not sent, or the owner has done nothing.
    Unsent(String),
    /// The owner has yet to recover its batches. It has done nothing.
    Recovering,
    /// The request was not sent, or not read by the owner, because one of the two does not trust the other.
    Insecure(String),
    /// The owner cannot reach the log, and has answered so. It has done nothing.
    Away(Box<Response<Body>>),
    /// The request may have been carried out.
    Lost(String),
}

impl PeerClient {
    /// Creates a client. Without `tls` it speaks plain HTTP.
    ///
    /// # Errors
    /// A file of `tls` cannot be read or used.
    pub fn new(tls: Option<&GatewayTls>) -> Result<Self, BoxError> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT));
        http.set_keepalive(Some(SILENCE / 2));
        http.set_keepalive_interval(Some(SILENCE / 8));
        http.set_keepalive_retries(Some(4));
        http.set_tcp_user_timeout(Some(SILENCE));
        let builder = ClientConfig::builder_with_provider(pem::provider())
            .with_safe_default_protocol_versions()?;
        let connector = HttpsConnectorBuilder::new();
        let connector = match tls {
            None => {
                let none = rustls::RootCertStore::empty();
                let config = builder.with_root_certificates(none).with_no_client_auth();
                connector.with_tls_config(config).https_or_http()
            }
            Some(tls) => {
                let identity = pem::identity(&tls.certificate, &tls.private_key)?;
                let resolver = rustls::sign::SingleCertAndKey::from(identity);
                let config = builder
                    .with_root_certificates(pem::authorities(&tls.ca)?)
                    .with_client_cert_resolver(std::sync::Arc::new(resolver));
                let connector = connector.with_tls_config(config).https_only();
                match &tls.server_name {
                    Some(name) => {
                        let name = rustls::pki_types::ServerName::try_from(name.clone())?;
                        connector.with_server_name_resolver(
                            hyper_rustls::FixedServerNameResolver::new(name),
                        )
                    }
                    None => connector,
                }
            }
        };
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector.enable_http1().wrap_connector(http));
        Ok(Self {
            way: Way::Http(Box::new(client)),
            scheme: if tls.is_some() { "https" } else { "http" },
            refused: Mutex::default(),
        })
    }

    /// Creates a client in a simulated world.
    #[doc(hidden)]
    pub fn simulated(network: Arc<dyn PeerNetwork>) -> Self {
        Self {
            way: Way::Simulated(network),
            scheme: "http",
            refused: Mutex::default(),
        }
    }

    /// Sends a request, which has `waited` for an owner, to this one as the client sent it.
    pub(crate) async fn ask(
        &self,
        owner: &Owner,
        peer: Option<&Peer>,
        waited: Duration,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, Unanswered> {
        let unsent = |error: &dyn std::fmt::Display| Unanswered::Unsent(error.to_string());
        let path = request.uri().path_and_query().cloned();
        let uri = self.uri(owner, path);
        *request.uri_mut() = uri.map_err(|error| unsent(&error))?;
        *request.version_mut() = http::Version::HTTP_11;
        // What the layers have learned is learned anew there.
        request.extensions_mut().clear();
        let headers = request.headers_mut();
        strip_hop(headers);
        headers.insert(
            TOKEN,
            sensitive(&owner.token).map_err(|error| unsent(&error))?,
        );
        if let Some(peer) = peer {
            let client = ClientOf {
                address: peer.address(),
                secure: peer.is_secure(),
                subject: peer.holder().map(|holder| holder.subject().to_string()),
                waited_micros: u64::try_from(waited.as_micros()).unwrap_or(u64::MAX),
            };
            let text = serde_json::to_string(&client).map_err(|error| unsent(&error))?;
            headers.insert(CLIENT, sensitive(&text).map_err(|error| unsent(&error))?);
        }
        let carried = self.way.carry(request).await;
        self.report(owner, carried.as_ref().err());
        let mut response = carried?;
        strip_hop(response.headers_mut());
        if response.headers_mut().remove(UNDONE).is_some() {
            response.extensions_mut().insert(ErrorOrigin::Takeover);
        }
        match response.headers_mut().remove(NOT_OWNER) {
            None => Ok(response),
            Some(mark) if mark == AWAY => Err(Unanswered::Away(Box::new(response))),
            Some(mark) if mark == RECOVERING => Err(Unanswered::Recovering),
            Some(_) => Err(Unanswered::Unsent("it does not own the log".to_owned())),
        }
    }

    /// Returns true if a gateway answers anything: without the token, it refuses.
    pub(crate) async fn probe(&self, owner: &Owner) -> bool {
        let mut request = Request::new(Body::empty());
        match self.uri(owner, None) {
            Ok(uri) => *request.uri_mut() = uri,
            Err(_) => return false,
        }
        self.way.carry(request).await.is_ok()
    }

    fn uri(&self, owner: &Owner, path: Option<PathAndQuery>) -> Result<Uri, http::Error> {
        Uri::builder()
            .scheme(self.scheme)
            .authority(&*owner.address)
            .path_and_query(path.unwrap_or(PathAndQuery::from_static("/")))
            .build()
    }

    /// Reports once that TLS to a gateway failed: a person must act.
    fn report(&self, owner: &Owner, failure: Option<&Unanswered>) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Unanswered::Insecure(cause)) = failure else {
            if refused.is_some() && failure.is_none() {
                *refused = None;
            }
            return;
        };
        let now = Some((owner.id, cause.clone()));
        if *refused == now {
            return;
        }
        *refused = now;
        drop(refused);
        tracing::warn!(
            gateway = owner.name,
            address = owner.address,
            cause,
            "requests cannot be passed on to the gateway with the batch log: TLS to it failed. Give both gateways certificates of one authority, for the name in `server_name`, and compare their `batch.gateways.tls`"
        );
    }
}

impl Way {
    async fn carry(&self, request: Request<Body>) -> Result<Response<Body>, Unanswered> {
        match self {
            Self::Http(client) => match client.request(request).await {
                Ok(response) => Ok(response.map(Body::incoming)),
                Err(error) => {
                    let words = Causes(&error).to_string();
                    Err(if is_about_our_certificate(&error) {
                        Unanswered::Insecure(words)
                    } else if !error.is_connect() {
                        Unanswered::Lost(words)
                    } else if is_tls(&error) {
                        Unanswered::Insecure(words)
                    } else {
                        Unanswered::Unsent(words)
                    })
                }
            },
            Self::Simulated(network) => network.carry(request).await,
        }
    }
}

fn sensitive(value: &str) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    let mut value = HeaderValue::try_from(value)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use super::*;

    /// A network that notes of whom the request speaks, and carries nothing.
    #[derive(Default)]
    struct Notebook(Mutex<Option<ClientOf>>);

    impl PeerNetwork for Notebook {
        fn carry(
            &self,
            request: Request<Body>,
        ) -> BoxFuture<'_, Result<Response<Body>, Unanswered>> {
            let client = request.headers().get(CLIENT).unwrap();
            *self.0.lock().unwrap() = serde_json::from_slice(client.as_bytes()).ok();
            Box::pin(async { Err(Unanswered::Unsent("noted".to_owned())) })
        }
    }

    #[tokio::test]
    async fn the_owner_is_told_how_long_a_request_has_waited() {
        let notebook = Arc::new(Notebook::default());
        let network: Arc<dyn PeerNetwork> = notebook.clone();
        let client = PeerClient::simulated(network);
        let owner = Owner {
            id: Uuid::nil(),
            name: "a".to_owned(),
            address: "127.0.0.1:1".to_owned(),
            token: "t".to_owned(),
        };
        let peer = Peer::new("127.0.0.1:2".parse().unwrap(), false);
        let waited = Duration::from_millis(1500);
        let request = Request::new(Body::empty());
        let answer = client.ask(&owner, Some(&peer), waited, request).await;
        assert!(answer.is_err());
        let noted = notebook.0.lock().unwrap().take().unwrap();
        assert_eq!(noted.waited_micros, 1_500_000);
        // A gateway of an older version says nothing of it.
        let older = r#"{"address":"127.0.0.1:1","secure":false}"#;
        let older: ClientOf = serde_json::from_str(older).unwrap();
        assert_eq!(older.waited_micros, 0);
    }
}
