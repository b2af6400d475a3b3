//! A catalog behind HTTP: the headers that it sees, and its health checks.

pub(in crate::backend) mod attempt;
pub(in crate::backend) mod dispatch;
pub(in crate::backend) mod headers;
pub(in crate::backend) mod injected;
pub(in crate::backend) mod spans;
mod unauthorized;

use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::uri::PathAndQuery;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Request, Response, Version};
use tokio::time::Instant;

use super::credentials::{Credentials, IssuedToken};
use super::endpoints::Endpoints;
use super::{Authority, Failure};
use crate::backend::endpoints::endpoint::{Endpoint, EndpointStatus};
use crate::backend::rest::attempt::{AttemptOutcome, AttemptTerms, attempt};
use crate::backend::rest::dispatch::{Dispatcher, RequestClass};
use crate::backend::rest::injected::InjectedHeaders;
use crate::body::Body;
use crate::config::{Health, RestConfig};
use crate::error::BoxError;
use crate::metrics;
use crate::protocol::operation::Access;
use crate::request::context::RequestContext;

/// A catalog behind HTTP.
pub(super) struct Rest {
    dispatcher: Dispatcher,
    credentials: Credentials,
    context_prefix: String,
    forward_headers: Option<Vec<HeaderName>>,
    /// The headers of clients that select data of the catalog.
    selecting: Vec<HeaderName>,
    health: Health,
    health_path: PathAndQuery,
}

impl Rest {
    /// Builds the connection from its configuration. Reads certificate files, and contacts no server.
    pub(super) fn new(
        config: &RestConfig,
        (context_prefix, selecting): (&str, &[HeaderName]),
        metrics: &Arc<metrics::Backend>,
    ) -> Result<Self, BoxError> {
        let endpoints = Endpoints::new(config, metrics)?;
        let rest = Self {
            dispatcher: Dispatcher::new(endpoints, &config.retry, Arc::clone(metrics)),
            credentials: Credentials::new(config)?,
            context_prefix: context_prefix.to_owned(),
            forward_headers: config.forward_headers.clone(),
            selecting: selecting.to_vec(),
            health_path: PathAndQuery::try_from(config.health.path.as_str())?,
            health: config.health.clone(),
        };
        let lost = selecting.iter().find(|name| !rest.forwards(name));
        match lost {
            Some(name) => Err(format!("selects.headers: `{name}` never reaches a catalog, because the gateway sets or removes it; choose another header, or context").into()),
            None => Ok(rest),
        }
    }

    /// True if this header of a client reaches the catalog.
    fn forwards(&self, name: &HeaderName) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static("x"));
        let own = self.own_headers();
        headers::strip(&mut headers, own.selecting, |name| own.replaces(name));
        !headers.is_empty()
    }

    /// Sends a request with the token that is available for it. The response's headers must arrive before `deadline`.
    pub(super) async fn send_within(
        &self,
        deadline: Instant,
        request: &mut Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        let extensions = request.extensions();
        let operation = RequestContext::of(extensions).operation;
        let class = RequestClass {
            read: operation.is_some_and(|operation| operation.access() == Access::Read),
            quick: operation.is_some_and(|operation| !operation.is_data()),
            own: matches!(extensions.get(), Some(Authority::Service)),
        };
        let asked = self.dispatcher.asked(extensions);
        let extensions = take(request.extensions_mut());
        self.prepare(request, &extensions);
        let context = RequestContext::of(&extensions);
        let added = InjectedHeaders::of(context, &self.context_prefix);
        let dispatcher = &self.dispatcher;
        dispatcher
            .deliver(deadline, request, class, context, added, asked)
            .await
    }

    /// True if the gateway's own requests may be allowed more than those of callers.
    pub(super) fn privileges_own(&self) -> bool {
        self.credentials.privileges_own()
    }

    /// True if it has credentials for the gateway's own requests, or they need none.
    pub(super) fn has_service_credentials(&self) -> bool {
        self.credentials.has_service() || self.credentials.needs_none()
    }

    /// True if it has credentials for the gateway's own requests.
    pub(super) fn shows_service_credentials(&self) -> bool {
        self.credentials.has_service()
    }

    /// True if an address did not answer its last health check.
    pub(super) fn has_address_down(&self) -> bool {
        let mut all = self.dispatcher.endpoints.iter();
        all.any(|endpoint| !endpoint.health.is_up())
    }

    /// True if at least one address serves.
    pub(super) fn is_up(&self) -> bool {
        self.dispatcher.endpoints.board.is_up()
    }

    /// Returns the number of addresses whose breaker is not closed.
    pub(super) fn breakers_open(&self) -> usize {
        self.dispatcher.endpoints.breakers_open()
    }

    /// Returns the number of addresses that do not serve; `None` if there is one address only.
    pub(super) fn addresses_down(&self) -> Option<usize> {
        self.dispatcher.endpoints.addresses_down()
    }

    /// Returns the number of requests that wait for an answer.
    pub(super) fn waiting(&self) -> usize {
        let all = self.dispatcher.endpoints.iter();
        all.map(|endpoint| endpoint.load.waiting() as usize).sum()
    }

    /// Returns the state of each address.
    pub(super) fn standing(&self) -> Vec<EndpointStatus> {
        self.dispatcher.endpoints.standing()
    }

    /// Sends a health check to every address with the gateway's own credentials, and closes old idle connections.
    pub(super) async fn check(&self) {
        let all = self.dispatcher.endpoints.iter();
        join_all(all.map(|endpoint| self.check_one(endpoint))).await;
    }

    /// Checks one address. Any answer below 500 counts as healthy, a redirect too: `health.path` may be a page.
    async fn check_one(&self, endpoint: &Arc<Endpoint>) {
        endpoint.pool.reap();
        let mut request = Request::new(Body::empty());
        let mut extensions = Extensions::new();
        extensions.insert(Authority::Service);
        self.prepare(&mut request, &extensions);
        let answers = endpoint.load.answers();
        let now = Instant::now();
        let mut terms = AttemptTerms {
            added: InjectedHeaders::default().at(&endpoint.pool.host),
            now,
            deadline: now + self.health.timeout,
            retains_request: true,
            fresh_connection: false,
        };
        let mut path = Some(self.health_path.clone());
        if let Err(error) = endpoint.pool.address(&mut request, &mut path) {
            return endpoint.note_health(Err(error.to_string()), false);
        }
        let mut outcome = attempt(&endpoint.pool, &mut request, terms).await;
        if matches!(outcome, AttemptOutcome::Lost { pooled: true, .. }) {
            // The catalog may have closed an idle connection at this very moment.
            terms.fresh_connection = true;
            outcome = attempt(&endpoint.pool, &mut request, terms).await;
        }
        let silent = matches!(outcome, AttemptOutcome::TimedOut { .. });
        let found = match outcome {
            AttemptOutcome::Answered(response) => {
                let status = response.status();
                // If the answer is whole, its connection goes back to the pool.
                let home = Arc::clone(endpoint);
                drop(response.into_body().into_body(home, Instant::now()));
                if status.is_server_error() {
                    Err(format!("answered {status}"))
                } else {
                    Ok(())
                }
            }
            AttemptOutcome::Unsent(cause) | AttemptOutcome::Refused(cause) => {
                Err(Failure::NotSent(cause).to_string())
            }
            AttemptOutcome::Lost { cause, .. } => Err(Failure::Lost(cause).to_string()),
            AttemptOutcome::TimedOut { .. } => Err(Failure::TimedOut.to_string()),
        };
        endpoint.note_health(found, silent && endpoint.load.answers() == answers);
    }

    /// Returns the time between two health checks.
    pub(super) fn check_interval(&self) -> Duration {
        self.health.interval
    }

    fn own_headers(&self) -> headers::OwnHeaders<'_> {
        headers::OwnHeaders {
            context_prefix: &self.context_prefix,
            fixed: self.credentials.fixed(),
            forwarded: self.forward_headers.as_deref(),
            selecting: &self.selecting,
        }
    }

    /// Removes the headers that are not for the catalog, and adds the credentials that are for it.
    fn prepare(&self, request: &mut Request<Body>, extensions: &Extensions) {
        *request.version_mut() = Version::HTTP_11;
        let map = request.headers_mut();
        let own = self.own_headers();
        headers::strip(map, own.selecting, |name| own.replaces(name));
        self.credentials.apply(
            extensions.get::<Authority>(),
            extensions.get::<IssuedToken>(),
            map,
        );
    }
}

#[cfg(test)]
mod tests;
