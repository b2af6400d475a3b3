//! A catalog behind HTTP: several addresses, pooled connections, exact failures.

mod bearer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{Request, Response, Uri, Version};
use http_body::Body as _;
use hyper::body::Incoming;

use super::connection::{Broken, Connection, Streamed};
use super::credentials::{Credentials, Lent};
use super::pool::Endpoint;
use super::{Authority, Failure, Peer, headers, tls};
use crate::body::Body;
use crate::config::{Health, RestConfig};
use crate::error::BoxError;
use crate::protocol::context::Context;
use crate::protocol::operation::{Access, Operation};

/// A catalog behind HTTP.
pub(super) struct Rest {
    endpoints: Vec<Arc<Endpoint>>,
    /// The endpoint that last took a request.
    preferred: AtomicUsize,
    credentials: Credentials,
    context_prefix: String,
    health: Health,
    health_path: PathAndQuery,
}

impl Rest {
    /// Reads certificate files, contacts nobody.
    pub(super) fn new(config: &RestConfig, context_prefix: &str) -> Result<Self, BoxError> {
        let uris = || std::iter::once(&config.uri).chain(&config.endpoints);
        let secure = uris().any(|uri| uri.scheme_str() == Some("https"));
        let tls = secure
            .then(|| tls::client_config(config.tls.as_ref()))
            .transpose()?;
        let endpoint = |uri| Endpoint::new(uri, tls.as_ref(), &config.pool).map(Arc::new);
        Ok(Self {
            endpoints: uris().map(endpoint).collect::<Result<_, _>>()?,
            preferred: AtomicUsize::new(0),
            credentials: Credentials::new(config)?,
            context_prefix: context_prefix.to_owned(),
            health_path: PathAndQuery::try_from(config.health.path.as_str())?,
            health: config.health.clone(),
        })
    }

    /// With the token that is there for it. `limit` is the time to the response's headers.
    pub(super) async fn send_within(
        &self,
        limit: Duration,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        let operation = request.extensions().get::<Operation>().copied();
        let may_repeat = operation.is_some_and(|operation| operation.access() == Access::Read);
        self.prepare(&mut request);
        let sending = AtomicBool::new(false);
        tokio::time::timeout(limit, self.deliver(request, may_repeat, &sending))
            .await
            .unwrap_or_else(|_| match sending.into_inner() {
                true => Err(Failure::TimedOut),
                false => Err(Failure::NotSent("no connection in time".into())),
            })
    }

    pub(super) fn has_service_credentials(&self) -> bool {
        self.credentials.has_service()
    }

    /// Asks the health path as the gateway itself, and tidies the pool. Any answer below 500 is a good one.
    pub(super) async fn check(&self) -> Result<(), String> {
        for endpoint in &self.endpoints {
            endpoint.reap();
        }
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = Uri::from(self.health_path.clone());
        request.extensions_mut().insert(Authority::Service);
        match self.send_within(self.health.timeout, request).await {
            Ok(response) if response.status().is_server_error() => {
                Err(format!("answers {}", response.status()))
            }
            Ok(_) => Ok(()),
            Err(failure) => Err(failure.to_string()),
        }
    }

    /// The time between two checks.
    pub(super) fn check_interval(&self) -> Duration {
        self.health.interval
    }

    /// Makes the headers the catalog's.
    fn prepare(&self, request: &mut Request<Body>) {
        let extensions = std::mem::take(request.extensions_mut());
        let length = request.body().size_hint().exact();
        let method = request.method().clone();
        *request.version_mut() = Version::HTTP_11;
        let map = request.headers_mut();
        headers::strip(map, &self.context_prefix);
        headers::set_length(map, &method, length);
        self.credentials
            .apply(extensions.get::<Authority>(), extensions.get::<Lent>(), map);
        if let Some(context) = extensions.get::<Context>() {
            headers::set_context(map, &self.context_prefix, context);
        }
        if let Some(peer) = extensions.get::<Peer>() {
            headers::set_peer(map, peer);
        }
    }

    /// Tries the endpoints in turn while nothing has been sent, the last good one first.
    async fn deliver(
        &self,
        mut request: Request<Body>,
        may_repeat: bool,
        sending: &AtomicBool,
    ) -> Result<Response<Body>, Failure> {
        let path = request.uri().path_and_query().cloned();
        let path = path.unwrap_or(PathAndQuery::from_static("/"));
        let preferred = self.preferred.load(Ordering::Relaxed);
        let mut refused: BoxError = "no endpoint".into();
        for step in 0..self.endpoints.len() {
            let index = (preferred + step) % self.endpoints.len();
            let endpoint = &self.endpoints[index];
            *request.uri_mut() = match endpoint.target(&path) {
                Ok(uri) => uri,
                Err(error) => return Err(Failure::NotSent(error.into())),
            };
            let host = endpoint.host.clone();
            request.headers_mut().insert(http::header::HOST, host);
            match deliver_to(endpoint, request, may_repeat, sending).await {
                Ok((response, connection)) => {
                    if step > 0 {
                        self.preferred.store(index, Ordering::Relaxed);
                    }
                    return Ok(received(response, connection, endpoint));
                }
                Err(Undelivered::Unsent(back, cause)) => (request, refused) = (*back, cause),
                Err(Undelivered::Lost(cause)) => return Err(Failure::Lost(cause)),
            }
        }
        Err(Failure::NotSent(refused))
    }
}

enum Undelivered {
    /// Nothing was written; here is the request.
    Unsent(Box<Request<Body>>, BoxError),
    /// Some of it may have been.
    Lost(BoxError),
}

/// Sends over an idle connection or a new one.
///
/// An idle connection may be closed by the catalog at the very moment it is used. If nothing was written, the
/// request comes back and goes over the next one. If it was written and no answer came, only a request that may
/// be repeated, and whose body is still there, is sent once more, over a new connection.
async fn deliver_to(
    endpoint: &Endpoint,
    mut request: Request<Body>,
    may_repeat: bool,
    sending: &AtomicBool,
) -> Result<(Response<Incoming>, Box<Connection>), Undelivered> {
    while let Some(mut connection) = endpoint.take_idle() {
        sending.store(true, Ordering::Relaxed);
        let spare = if may_repeat { copy(&request) } else { None };
        match connection.exchange(request).await {
            Ok(response) => return Ok((response, connection)),
            Err(Broken {
                unsent: Some(back), ..
            }) => {
                request = back;
                sending.store(false, Ordering::Relaxed);
            }
            Err(Broken { error, .. }) => match spare {
                Some(spare) => {
                    request = spare;
                    break;
                }
                None => return Err(Undelivered::Lost(error.into())),
            },
        }
    }
    let mut connection = match endpoint.connect().await {
        Ok(connection) => connection,
        Err(cause) => return Err(Undelivered::Unsent(Box::new(request), cause)),
    };
    sending.store(true, Ordering::Relaxed);
    match connection.exchange(request).await {
        Ok(response) => Ok((response, connection)),
        Err(Broken {
            unsent: Some(back),
            error,
        }) => Err(Undelivered::Unsent(Box::new(back), error.into())),
        Err(Broken { error, .. }) => Err(Undelivered::Lost(error.into())),
    }
}

fn received(
    response: Response<Incoming>,
    connection: Box<Connection>,
    endpoint: &Arc<Endpoint>,
) -> Response<Body> {
    let mut response =
        response.map(|body| Body::stream(Streamed::new(body, connection, Arc::clone(endpoint))));
    headers::strip(response.headers_mut(), "");
    response
}

/// A second request like this one, when its body is in memory.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().copy()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

#[cfg(test)]
mod tests;
