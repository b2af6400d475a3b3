//! The configured connection to one catalog, whatever it is made of.
//!
//! The parts above see one [`Backend`]: [`Backend::send`] for a caller's request, [`Backend::ask`] for a small
//! question of the gateway's own. A [`Failure`] says exactly whether the catalog can have acted, because batches
//! decide on it.
//!
//! A catalog may have several addresses. To batches they are one: what was created through one is looked for, and
//! taken back, through any. So they must show each other's writes at once; replicas that lag are not one catalog. No
//! create and no delete is sent a second time here: only what was not written at all goes to another address, and
//! [`Failure::NotSent`] stays exact, since it is told only if that holds for every try. A breaker that is open is such
//! a failure; undo and recovery pass it at a pace of their own.

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
mod rest;
pub mod transport;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use tokio::time::Instant;

pub use crate::backend::endpoints::endpoint::EndpointStatus;
pub use crate::backend::internal_request::{AnswerReader, read_answer};
pub use crate::request::peer::Peer;
pub use catalog::Catalog;
pub use credentials::Refusal;
pub use failure::Failure;

use crate::backend::endpoints::health::Health;
use crate::backend::transport::upstream_timer::UpstreamTimer;
use crate::body::Body;
use crate::config::{BackendConfig, BatchMode, Implementation, Limits, ManagedVersioning};
use crate::error::BoxError;
use crate::metrics::{self, Metrics};
use crate::protocol::context::Context;
use crate::protocol::identifier::{Identifier, PathReading};
use crate::protocol::operation::Operation;
use crate::request::context::RequestContext;
use crate::request::origin::Origin;
#[cfg(feature = "dir")]
use dir::Dir;
use kind::Kind;
use rest::Rest;

/// One catalog, as the gateway reaches it. Shared as `Arc<Backend>`.
pub struct Backend {
    name: Arc<str>,
    catalog: Arc<str>,
    addresses: Box<[Arc<str>]>,
    batch: BatchMode,
    sets_managed_versioning: bool,
    response_timeout: Duration,
    data_timeout: Duration,
    health: Health,
    reading: PathReading,
    metrics: Arc<metrics::Backend>,
    kind: Kind,
}

/// On whose behalf a catalog is asked. A request extension.
#[derive(Clone, Debug)]
pub enum Authority {
    /// The caller's, with the `Authorization` it sent.
    Caller(Option<HeaderValue>),
    /// The gateway's own: health, undo, recovery.
    Service,
}

/// A small question of the gateway's own.
#[derive(Clone, Debug)]
pub struct InternalRequest {
    /// What is asked.
    pub operation: Operation,
    /// About what, as the catalog spells it; the root where the operation names nothing in its path.
    pub identifier: Identifier,
    /// Query parameters, decoded. A `delimiter` only where the path names nothing; otherwise it is chosen.
    pub query: Vec<(&'static str, String)>,
    /// A JSON body.
    pub body: Option<Bytes>,
    /// On whose behalf.
    pub authority: Authority,
    /// Goes along.
    pub context: Context,
    /// The request that it is asked for.
    pub origin: Origin,
    /// To the whole answer; `None`: as the operation's class has it.
    pub timeout: Option<Duration>,
}

/// What a catalog answered to an [`InternalRequest`], whatever the status.
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
    /// Builds the connection from its configuration; reads certificate files, contacts nobody.
    pub async fn open(
        config: &BackendConfig,
        limits: &Limits,
        metrics: &Metrics,
    ) -> Result<Self, BoxError> {
        let name: Arc<str> = Arc::from(config.name.as_str());
        let metrics = metrics.backend(&name);
        let kind = match &config.implementation {
            Implementation::Rest(rest) => {
                let rest = Rest::new(rest, &config.context_prefix, &metrics)?;
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
            reading,
            metrics,
            catalog: Arc::clone(&name),
            addresses: config.addresses().into_iter().map(Arc::from).collect(),
            name,
            batch: config.batch,
            sets_managed_versioning: config.managed_versioning == ManagedVersioning::Set,
            response_timeout: limits.response_timeout,
            data_timeout: limits.data_timeout,
            health: Health::default(),
            kind,
        })
    }

    /// A connection to a catalog that the embedding program brings along.
    pub fn own(
        name: &str,
        batch: BatchMode,
        catalog: impl Catalog,
        limits: &Limits,
        metrics: &Metrics,
    ) -> Self {
        let name: Arc<str> = Arc::from(name);
        Self {
            reading: PathReading::EXACT,
            metrics: metrics.backend(&name),
            catalog: Arc::clone(&name),
            addresses: Box::default(),
            name,
            batch,
            sets_managed_versioning: false,
            response_timeout: limits.response_timeout,
            data_timeout: limits.data_timeout,
            health: Health::default(),
            kind: Kind::Own(Box::new(catalog)),
        }
    }

    /// Its `implementation` in the configuration.
    pub fn implementation(&self) -> &'static str {
        match &self.kind {
            Kind::Rest(_) => "rest",
            #[cfg(feature = "dir")]
            Kind::Dir(_) => "dir",
            Kind::Own(_) => "own",
        }
    }

    /// Its key in the configuration.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The identity of the catalog, by which its tables are locked and hidden: its name, unless it is known by another.
    pub fn catalog(&self) -> &Arc<str> {
        &self.catalog
    }

    /// The same connection to a catalog that is known by this identity.
    #[must_use]
    pub fn known_as(mut self, catalog: Arc<str>) -> Self {
        self.catalog = catalog;
        self
    }

    /// The same connection to a catalog at these addresses: for one that the embedding program brings along.
    #[must_use]
    pub fn at(mut self, addresses: impl IntoIterator<Item = Arc<str>>) -> Self {
        self.addresses = addresses.into_iter().collect();
        self
    }

    /// Where the catalog is, as [`BackendConfig::addresses`] has it; empty where nobody knows.
    pub fn addresses(&self) -> &[Arc<str>] {
        &self.addresses
    }

    /// Where it is counted.
    pub fn metrics(&self) -> &Arc<metrics::Backend> {
        &self.metrics
    }

    /// Sends a caller's request and answers with the response's headers and its streaming body.
    ///
    /// `request` has the method, the path and query as the catalog must see them (`/v1/…`) and these extensions:
    /// [`RequestContext`], with the operation, the identifier, the catalog's, where the path names one, the context and the
    /// peer; [`Authority`] (absent: the caller's, with the request's own `Authorization`). Hop-by-hop headers are taken
    /// out in both directions. The wait for the headers is bounded by the operation's class, the body is not.
    pub async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, Failure> {
        self.pass(&mut request).await
    }

    /// The same for a request that stays where it is until it is written. Nothing that matters is left of it.
    pub async fn pass(&self, request: &mut Request<Body>) -> Result<Response<Body>, Failure> {
        let operation = RequestContext::of(request.extensions()).operation;
        let began = Instant::now();
        let mut now = began;
        let limit = self.limit(operation);
        let wait = UpstreamTimer::begin(self, operation, began);
        let outcome = self.kind.pass(&mut now, limit, request).await;
        match &outcome {
            Ok(_) => wait.answered(now),
            Err(failure) => wait.failed(failure),
        }
        outcome
    }

    /// Asks and reads the whole, bounded answer.
    pub async fn ask(&self, ask: InternalRequest) -> Result<InternalAnswer, Failure> {
        let (operation, began) = (ask.operation, Instant::now());
        let _waiting = ask.origin.waiting();
        let limit = ask.timeout.unwrap_or_else(|| self.limit(Some(operation)));
        let wait = UpstreamTimer::begin(self, Some(operation), began);
        let outcome = self.kind.ask(began, limit, ask).await;
        if let Err(failure) = &outcome {
            wait.failed(failure);
        }
        outcome
    }

    /// The authority of the gateway's own questions.
    pub fn service_authority(&self) -> Authority {
        Authority::Service
    }

    /// Whether the gateway can speak for itself here: a service token, OAuth or static headers are configured, or the
    /// catalog asks for none.
    pub fn has_service_credentials(&self) -> bool {
        match &self.kind {
            Kind::Rest(rest) => rest.has_service_credentials(),
            #[cfg(feature = "dir")]
            Kind::Dir(_) => true,
            Kind::Own(_) => true,
        }
    }

    /// Whether it reads in a request's [`RequestContext`], and not in its path, what the path names.
    pub fn is_told_what(&self) -> bool {
        !matches!(self.kind, Kind::Rest(_))
    }

    /// How exactly it reads the paths of requests.
    pub fn reading(&self) -> PathReading {
        self.reading
    }

    /// How this catalog takes part in batches.
    pub fn batch_mode(&self) -> BatchMode {
        self.batch
    }

    /// Whether `managed_versioning` is answered as true in its name.
    pub fn sets_managed_versioning(&self) -> bool {
        self.sets_managed_versioning
    }

    /// Whether at least one of its addresses serves; so until the opposite was found.
    pub fn is_up(&self) -> bool {
        match &self.kind {
            Kind::Rest(rest) => rest.is_up(),
            #[cfg(feature = "dir")]
            Kind::Dir(_) => self.health.is_up(),
            Kind::Own(_) => self.health.is_up(),
        }
    }

    /// Has the metrics tell how it stands. For the one of its name that is in use: one that was replaced may go on for
    /// what it has begun.
    pub fn show(&self) {
        let breakers_open = match &self.kind {
            Kind::Rest(rest) => rest.breakers_open(),
            #[cfg(feature = "dir")]
            Kind::Dir(_) => 0,
            Kind::Own(_) => 0,
        };
        self.metrics.stands(self.is_up(), breakers_open);
    }

    /// Why its last health question failed, in words for an operator.
    pub fn last_error(&self) -> Option<String> {
        let endpoints = self.endpoints();
        let first = endpoints.into_iter().find_map(|endpoint| endpoint.error);
        first.or_else(|| self.health.last_error())
    }

    /// How many requests wait for its answer; 0 where nobody counts.
    pub fn waiting(&self) -> usize {
        match &self.kind {
            Kind::Rest(rest) => rest.waiting(),
            #[cfg(feature = "dir")]
            Kind::Dir(_) => 0,
            Kind::Own(_) => 0,
        }
    }

    /// How each of its addresses stands, for operators.
    pub fn endpoints(&self) -> Vec<EndpointStatus> {
        match &self.kind {
            Kind::Rest(rest) => rest.standing(),
            #[cfg(feature = "dir")]
            Kind::Dir(_) => Vec::new(),
            Kind::Own(_) => Vec::new(),
        }
    }

    /// How long the response's headers may take.
    fn limit(&self, operation: Option<Operation>) -> Duration {
        if operation.is_some_and(Operation::is_data) {
            self.data_timeout
        } else {
            self.response_timeout
        }
    }
}
