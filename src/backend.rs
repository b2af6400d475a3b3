//! The configured connection to one catalog, of any kind.
//!
//! The modules above see one [`Backend`]: [`Backend::send`] for a caller's request, [`Backend::ask`] for a small
//! request of the gateway itself. A [`Failure`] says exactly whether the catalog can have acted, because batches decide
//! on it.
//!
//! A catalog may have several addresses. Batches treat them as one: a version that was created through one address is
//! looked for, and rolled back, through any. The addresses must therefore show each other's writes at once; replicas
//! that lag are not one catalog. No create and no delete is sent a second time here. Only a request of which nothing
//! was written goes to another address, and [`Failure::NotSent`] stays exact, because it is returned only if that holds
//! for every attempt. An open breaker is such a failure, too; undo and recovery pass it at a pace of their own.

mod answer_stream;
mod catalog;
mod credentials;
#[cfg(feature = "dir")]
mod dir;
pub mod endpoints;
mod failure;
#[cfg(test)]
pub(crate) mod fake_server;
mod internal_request;
mod kind;
mod own_rights;
mod rest;
mod scoped;
pub mod transport;
mod versioning;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use tokio::time::Instant;

pub use crate::backend::endpoints::endpoint::EndpointStatus;
pub use crate::backend::internal_request::{AnswerReader, read_answer};
pub use crate::request::peer::Peer;
pub use answer_stream::AnswerStream;
pub use catalog::Catalog;
pub use credentials::Refusal;
pub use failure::Failure;
pub use versioning::Versioning;

/// Removes the headers of a request or a response that end at this hop.
pub fn strip_hop(headers: &mut HeaderMap) {
    rest::headers::strip(headers, &DATABASE, |_| false);
}

use crate::backend::endpoints::health::Health;
use crate::backend::transport::upstream_timer::UpstreamTimer;
use crate::body::Body;
use crate::config::{BackendConfig, BatchMode, Implementation, Limits, ManagedVersioning};
use crate::error::BoxError;
use crate::metrics::{self, Metrics};
use crate::protocol::context::Context;
use crate::protocol::data_scope::{DATABASE, DataScope, Selectors};
use crate::protocol::identifier::{Identifier, PathReading};
use crate::protocol::operation::Operation;
use crate::request::context::RequestContext;
use crate::request::origin::Origin;
#[cfg(feature = "dir")]
use dir::Dir;
use kind::Kind;
use rest::Rest;
use versioning::KnownVersioning;

/// One catalog, as the gateway reaches it, or the part of its data that some requests are about
/// ([`scope`](Self::scope)). Shared as `Arc<Backend>`.
pub struct Backend {
    catalog: Arc<str>,
    addresses: Arc<[Arc<str>]>,
    scope: DataScope,
    to: Arc<CatalogConnection>,
}

/// The connection to one catalog, whatever part of its data a request is about.
struct CatalogConnection {
    name: Arc<str>,
    batch: BatchMode,
    selectors: Selectors,
    sets_managed_versioning: bool,
    versioning: KnownVersioning,
    response_timeout: Duration,
    data_timeout: Duration,
    health: Health,
    reading: PathReading,
    metrics: Arc<metrics::Backend>,
    kind: Kind,
}

/// The authority under which a request is sent to a catalog. A request extension.
#[derive(Clone, Debug)]
pub enum Authority {
    /// The caller's authority, with the `Authorization` that it sent.
    Caller(Option<HeaderValue>),
    /// The gateway's own authority: health checks, undo, recovery.
    Service,
}

/// A small request of the gateway itself.
#[derive(Clone, Debug)]
pub struct InternalRequest {
    /// The operation.
    pub operation: Operation,
    /// The object of the operation, as the catalog spells it; the root if the operation names nothing in its path.
    pub identifier: Identifier,
    /// The query parameters, decoded. A `delimiter` is allowed only if the path names nothing; otherwise it is chosen.
    pub query: Vec<(&'static str, String)>,
    /// The JSON body; `None` if there is none.
    pub body: Option<Bytes>,
    /// The authority of the request.
    pub authority: Authority,
    /// The context that is sent along.
    pub context: Context,
    /// The request that this one is sent for.
    pub origin: Origin,
    /// The time limit for the whole answer; `None` for the limit of the operation's class.
    pub timeout: Option<Duration>,
}

/// A catalog's answer to an [`InternalRequest`], with any status.
#[derive(Clone, Debug)]
pub struct InternalAnswer {
    /// The catalog's status.
    pub status: StatusCode,
    /// The catalog's headers, end-to-end only.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Backend {
    /// Builds the connection from its configuration. Reads certificate files, and contacts no server.
    pub async fn open(
        config: &BackendConfig,
        limits: &Limits,
        metrics: &Metrics,
    ) -> Result<Self, BoxError> {
        let name: Arc<str> = Arc::from(config.name.as_str());
        let metrics = metrics.backend(&name);
        let selectors = config.selectors();
        let kind = match &config.implementation {
            Implementation::Rest(rest) => {
                let added = (&*config.context_prefix, &*selectors.headers);
                let rest = Rest::new(rest, added, &metrics)?;
                Kind::Rest(Box::new(rest))
            }
            #[cfg(feature = "dir")]
            Implementation::Dir(dir) => Kind::Dir(Dir::open(dir).await?),
            #[cfg(not(feature = "dir"))]
            Implementation::Dir(_) => {
                return Err("this nsgate was built without the feature `dir`".into());
            }
        };
        let reading = match &config.implementation {
            Implementation::Rest(rest) => rest.reading,
            Implementation::Dir(_) => PathReading::EXACT,
        };
        Ok(Self {
            catalog: Arc::clone(&name),
            addresses: config.addresses().into_iter().map(Arc::from).collect(),
            scope: DataScope::default(),
            to: Arc::new(CatalogConnection {
                reading,
                metrics,
                name,
                batch: config.batch,
                selectors,
                sets_managed_versioning: config.managed_versioning == ManagedVersioning::Set,
                versioning: KnownVersioning::default(),
                response_timeout: limits.response_timeout,
                data_timeout: limits.data_timeout,
                health: Health::default(),
                kind,
            }),
        })
    }

    /// Returns a connection to a catalog that the embedding program provides.
    pub fn own(
        name: &str,
        batch: BatchMode,
        catalog: impl Catalog,
        limits: &Limits,
        metrics: &Metrics,
    ) -> Self {
        let name: Arc<str> = Arc::from(name);
        Self {
            catalog: Arc::clone(&name),
            addresses: Arc::default(),
            scope: DataScope::default(),
            to: Arc::new(CatalogConnection {
                reading: PathReading::EXACT,
                metrics: metrics.backend(&name),
                name,
                batch,
                selectors: catalog.selectors(),
                sets_managed_versioning: false,
                versioning: KnownVersioning::default(),
                response_timeout: limits.response_timeout,
                data_timeout: limits.data_timeout,
                health: Health::default(),
                kind: Kind::Own(Box::new(catalog)),
            }),
        }
    }

    /// Returns the word for its kind, as `implementation` in the configuration spells it.
    pub fn implementation(&self) -> &'static str {
        match &self.to.kind {
            Kind::Rest(_) => "rest",
            #[cfg(feature = "dir")]
            Kind::Dir(_) => "dir",
            Kind::Own(_) => "own",
        }
    }

    /// Returns its key in the configuration.
    pub fn name(&self) -> &Arc<str> {
        &self.to.name
    }

    /// Returns the identity of the catalog, by which its tables are locked and hidden: the backend's name, unless it is
    /// known by another.
    pub fn catalog(&self) -> &Arc<str> {
        &self.catalog
    }

    /// Returns the same connection with this identity of the catalog.
    #[must_use]
    pub fn known_as(mut self, catalog: Arc<str>) -> Self {
        self.catalog = catalog;
        self
    }

    /// Returns the same connection with these addresses, for a catalog that the embedding program provides.
    #[must_use]
    pub fn at(mut self, addresses: impl IntoIterator<Item = Arc<str>>) -> Self {
        self.addresses = addresses.into_iter().collect();
        self
    }

    /// Returns the addresses of the catalog, in the form of [`BackendConfig::addresses`]; empty if they are not known.
    pub fn addresses(&self) -> &[Arc<str>] {
        &self.addresses
    }

    /// Returns true if both backends lead to the same catalog for certain: they have an address in common.
    pub fn shares_address(&self, other: &Self) -> bool {
        let mut own = self.addresses.iter();
        own.any(|address| other.addresses.contains(address))
    }

    /// Returns the metrics of this backend.
    pub fn metrics(&self) -> &Arc<metrics::Backend> {
        &self.to.metrics
    }

    /// Sends a caller's request and returns the response's headers and its streaming body.
    ///
    /// `request` has the method, the path and query as the catalog must see them (`/v1/…`) and these extensions:
    /// [`RequestContext`], with the operation, the catalog's identifier where the path names one, the context and the
    /// peer; [`Authority`] (absent: the caller's, with the request's own `Authorization`). Hop-by-hop headers are
    /// removed in both directions. The wait for the headers is limited by the operation's class, the body is not.
    pub async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, Failure> {
        self.pass(&mut request).await
    }

    /// Does the same as [`send`](Self::send) with a borrowed request, which is not moved until it is written. Its
    /// content must not be used afterwards.
    pub async fn pass(&self, request: &mut Request<Body>) -> Result<Response<Body>, Failure> {
        let context = RequestContext::of(request.extensions());
        let (operation, exchange) = (context.operation, context.exchange.clone());
        let began = Instant::now();
        let limit = self.limit(operation);
        let wait = UpstreamTimer::begin(self, operation, exchange, began);
        let outcome = self.to.kind.pass(began + limit, request).await;
        match &outcome {
            Ok(_) => wait.answered(Instant::now()),
            Err(failure) => wait.failed(failure),
        }
        outcome
    }

    /// Sends a request of the gateway itself and reads the whole answer, up to a limit.
    pub async fn ask(&self, ask: InternalRequest) -> Result<InternalAnswer, Failure> {
        self.open_answer(ask).await?.whole().await
    }

    /// Sends a request of the gateway itself, and returns the answer before its body has arrived.
    pub async fn open_answer(&self, mut ask: InternalRequest) -> Result<AnswerStream<'_>, Failure> {
        self.scope.complete(&mut ask.context);
        let (operation, began) = (ask.operation, Instant::now());
        let waiting = ask.origin.waiting();
        let limit = ask.timeout.unwrap_or_else(|| self.limit(Some(operation)));
        let timer = UpstreamTimer::begin(self, Some(operation), None, began);
        match self
            .to
            .kind
            .open_answer(began + limit, ask, &self.scope)
            .await
        {
            Ok(answer) => Ok(answer.measured(timer, waiting)),
            Err(failure) => {
                timer.failed(&failure);
                Err(failure)
            }
        }
    }

    /// Returns the authority of the gateway's own requests.
    pub fn service_authority(&self) -> Authority {
        Authority::Service
    }

    /// True if it reads the object of a request from the [`RequestContext`], and not from the path.
    pub fn is_told_what(&self) -> bool {
        !matches!(self.to.kind, Kind::Rest(_))
    }

    /// Returns how exactly it reads the paths of requests.
    pub fn reading(&self) -> PathReading {
        self.to.reading
    }

    /// Returns how this catalog takes part in batches.
    pub fn batch_mode(&self) -> BatchMode {
        self.to.batch
    }

    /// True if `managed_versioning` is answered as true for this catalog.
    pub fn sets_managed_versioning(&self) -> bool {
        self.to.sets_managed_versioning
    }

    /// True if at least one of its addresses serves. True until the first failure is found.
    pub fn is_up(&self) -> bool {
        match &self.to.kind {
            Kind::Rest(rest) => rest.is_up(),
            #[cfg(feature = "dir")]
            Kind::Dir(_) => self.to.health.is_up(),
            Kind::Own(_) => self.to.health.is_up(),
        }
    }

    /// True if one of its addresses did not answer its last health check.
    fn has_address_down(&self) -> bool {
        match &self.to.kind {
            Kind::Rest(rest) => rest.has_address_down(),
            #[cfg(feature = "dir")]
            Kind::Dir(_) => !self.to.health.is_up(),
            Kind::Own(_) => false,
        }
    }

    /// Publishes the state to the metrics. Call it only for the backend of its name that is in use: one that was
    /// replaced may live on for the requests that it has begun.
    pub fn show(&self) {
        let (breakers_open, down) = match &self.to.kind {
            Kind::Rest(rest) => (rest.breakers_open(), rest.addresses_down()),
            #[cfg(feature = "dir")]
            Kind::Dir(_) => (0, None),
            Kind::Own(_) => (0, None),
        };
        self.to.metrics.stands(self.is_up(), breakers_open, down);
    }

    /// Returns why its last health check failed, in words for an operator.
    pub fn last_error(&self) -> Option<String> {
        let endpoints = self.endpoints();
        let first = endpoints.into_iter().find_map(|endpoint| endpoint.error);
        first.or_else(|| self.to.health.last_error())
    }

    /// Returns the number of requests that wait for its answer; 0 if they are not counted.
    pub fn waiting(&self) -> usize {
        match &self.to.kind {
            Kind::Rest(rest) => rest.waiting(),
            #[cfg(feature = "dir")]
            Kind::Dir(_) => 0,
            Kind::Own(_) => 0,
        }
    }

    /// Returns the state of each of its addresses, for operators.
    pub fn endpoints(&self) -> Vec<EndpointStatus> {
        match &self.to.kind {
            Kind::Rest(rest) => rest.standing(),
            #[cfg(feature = "dir")]
            Kind::Dir(_) => Vec::new(),
            Kind::Own(_) => Vec::new(),
        }
    }

    /// Returns the time limit for the response's headers.
    fn limit(&self, operation: Option<Operation>) -> Duration {
        if operation.is_some_and(Operation::is_data) {
            self.to.data_timeout
        } else {
            self.to.response_timeout
        }
    }
}
