//! `backends`: the connection to each catalog, with the default of every key, also of `pool`, `health`, `breaker` and
//! `retry`.

mod address;
mod directory;
mod file;
mod parts;
mod properties;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};

use super::Secret;
use crate::protocol::data_scope::{DATABASE, Selectors};
use crate::protocol::identifier::PathReading;

/// The default prefix of context headers.
pub const CONTEXT_PREFIX: &str = "x-ns-ctx-";

/// One entry of `backends`.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendConfig {
    /// The key of this backend in `backends`.
    pub name: String,
    /// The way in which the catalog is reached.
    pub implementation: Implementation,
    /// The prefix, in lower case, of the headers that carry context to this catalog.
    pub context_prefix: String,
    /// The treatment of `managed_versioning` in responses that pass through.
    pub managed_versioning: ManagedVersioning,
    /// The way in which this catalog takes part in batches.
    pub batch: BatchMode,
    /// The parts of requests that select its data besides the path; `None` if the configuration does not say.
    pub selects: Option<Selects>,
}

/// `selects` of a backend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selects {
    /// The keys of context, in lower case.
    pub context: Vec<String>,
    /// The headers of clients.
    pub headers: Vec<HeaderName>,
}

/// The `implementation`, with the settings that only it needs.
#[derive(Debug, Clone, PartialEq)]
pub enum Implementation {
    /// A running service of the contract.
    Rest(Box<RestConfig>),
    /// A catalog in a directory, embedded in this process (cargo feature `dir`).
    Dir(DirConfig),
}

/// A catalog behind HTTP.
#[derive(Debug, Clone, PartialEq)]
pub struct RestConfig {
    /// The base address: scheme `http` or `https`, authority, and a path (kept as a prefix, no query).
    pub uri: Uri,
    /// Further base addresses of the same catalog.
    pub endpoints: Vec<Uri>,
    /// The headers that are sent with every request, sorted by name; the values are marked sensitive.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The treatment of the caller's token.
    pub authorization: Authorization,
    /// The `Authorization` of the gateway's own requests (health, undo, recovery), marked sensitive; `None` if they
    /// have none.
    pub service_authorization: Option<HeaderValue>,
    /// The server that issues the gateway's tokens for this catalog; `None` if there is none, as always beside
    /// `service_authorization`.
    pub oauth: Option<OAuth>,
    /// The private authority and the client certificate; `None` for the system's authorities.
    pub tls: Option<ClientTls>,
    /// True if HTTP/2 is used: over https if the catalog offers it, over http without negotiation.
    pub http2: bool,
    /// The connections that are kept open.
    pub pool: Pool,
    /// The health check of the catalog.
    pub health: Health,
    /// The conditions under which no more requests are sent to a catalog that fails.
    pub breaker: Breaker,
    /// The retry of read operations.
    pub retry: Retry,
    /// The only headers of clients that are forwarded, besides those that every request may need; `None` forwards all
    /// but those by which proxies assert something.
    pub forward_headers: Option<Vec<HeaderName>>,
    /// The settings `raw_path` and `delimiters`: how exactly the catalog reads the paths of requests.
    pub reading: PathReading,
}

/// A catalog in a directory: `properties` as the engine understands them, `root` among them.
#[derive(Clone, PartialEq, Eq)]
pub struct DirConfig {
    /// The properties by name.
    pub properties: BTreeMap<String, String>,
    /// The largest request body, in bytes (`arrow_body_limit`). The engine needs bodies whole, in memory.
    pub body_limit: usize,
}

/// `authorization` of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Authorization {
    /// The caller's token goes to the catalog, unless a static `Authorization` header replaces it.
    #[default]
    Forward,
    /// The caller's token does not go to the catalog.
    None,
}

/// `managed_versioning` of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ManagedVersioning {
    /// The value of the catalog is kept.
    #[default]
    Keep,
    /// The value is `true` in describe and declare, so that clients commit through the catalog.
    Set,
}

/// `batch` of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BatchMode {
    /// The gateway finds out.
    #[default]
    Auto,
    /// The catalog has an atomic batch-create of its own.
    Atomic,
    /// The catalog creates and deletes single versions only.
    Versions,
}

/// `oauth` of a backend: client credentials (RFC 6749 4.4), or token exchange (RFC 8693).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuth {
    /// The token endpoint: `https`, or `http` on loopback.
    pub token_url: Uri,
    /// The gateway's client id at this server.
    pub client_id: String,
    /// The secret of this client.
    pub client_secret: Secret,
    /// The `scope` to request; `None` to request none.
    pub scope: Option<String>,
    /// The `audience` to request; `None` to request none.
    pub audience: Option<String>,
    /// True if the caller's token is exchanged, instead of using the gateway's own.
    pub exchange: bool,
}

/// `tls` of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientTls {
    /// The PEM file of the authorities that are trusted instead of the system's; `None` for the system's.
    pub ca: Option<PathBuf>,
    /// The certificate that is presented to the catalog; `None` if there is none.
    pub identity: Option<ClientIdentity>,
}

/// A client certificate and its key, in PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The certificate chain, leaf first.
    pub certificate: PathBuf,
    /// The private key.
    pub private_key: PathBuf,
}

/// `pool` of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// The most idle connections that are kept for each endpoint.
    pub max_idle: usize,
    /// The time for which an idle connection is kept.
    pub idle_timeout: Duration,
    /// The time that opening a connection may take.
    pub connect_timeout: Duration,
}

/// `health` of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The path (and query) below the base address; starts with `/`.
    pub path: String,
    /// The time between two health checks.
    pub interval: Duration,
    /// The time that the response may take.
    pub timeout: Duration,
}

/// `breaker` of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaker {
    /// The number of consecutive failures that open the breaker.
    pub failures: u32,
    /// The time for which it stays open.
    pub open_for: Duration,
}

/// `retry` of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// The most attempts, the first one included.
    pub attempts: u32,
    /// The most retries, as a percentage of requests.
    pub budget_percent: u32,
}

/// Shows names only: credentials of an object store are properties too.
impl fmt::Debug for DirConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.properties.keys()).finish()
    }
}

impl BackendConfig {
    /// Creates a `rest` backend with every other value at its default.
    #[must_use]
    pub fn rest(name: &str, uri: Uri) -> Self {
        Self::new(name, Implementation::Rest(Box::new(RestConfig::new(uri))))
    }

    /// Creates a `dir` backend with the one property `root`.
    #[must_use]
    pub fn dir(name: &str, root: &str) -> Self {
        let properties = BTreeMap::from([("root".to_owned(), root.to_owned())]);
        let dir = DirConfig {
            properties,
            ..DirConfig::default()
        };
        Self::new(name, Implementation::Dir(dir))
    }

    /// Creates a backend with every other value at its default.
    #[must_use]
    pub fn new(name: &str, implementation: Implementation) -> Self {
        Self {
            name: name.to_owned(),
            implementation,
            context_prefix: CONTEXT_PREFIX.to_owned(),
            managed_versioning: ManagedVersioning::default(),
            batch: BatchMode::default(),
            selects: None,
        }
    }

    /// Returns the parts of requests that select the catalog's data besides the path. If the configuration does not say,
    /// the headers of LanceDB's clients do that the catalog gets from them, and any context may.
    #[must_use]
    pub fn selectors(&self) -> Selectors {
        let Implementation::Rest(rest) = &self.implementation else {
            return Selectors::none();
        };
        if let Some(Selects { context, headers }) = &self.selects {
            return Selectors {
                context: Some(context.clone()),
                headers: headers.clone(),
            };
        }
        let reaches_it = |name: &HeaderName| {
            let forwarded = rest.forward_headers.as_ref();
            forwarded.is_none_or(|names| names.contains(name))
                && !rest.headers.iter().any(|(fixed, _)| fixed == name)
                && !name.as_str().starts_with(&*self.context_prefix)
        };
        Selectors {
            context: None,
            headers: DATABASE.into_iter().filter(reaches_it).collect(),
        }
    }
}

impl RestConfig {
    /// Creates the settings of the catalog at `uri` with every other value at its default.
    #[must_use]
    pub fn new(uri: Uri) -> Self {
        Self {
            uri,
            endpoints: Vec::new(),
            headers: Vec::new(),
            authorization: Authorization::default(),
            service_authorization: None,
            oauth: None,
            tls: None,
            http2: false,
            pool: Pool::default(),
            health: Health::default(),
            breaker: Breaker::default(),
            retry: Retry::default(),
            forward_headers: None,
            reading: PathReading::default(),
        }
    }
}

impl Default for DirConfig {
    fn default() -> Self {
        Self {
            properties: BTreeMap::new(),
            body_limit: 1 << 30,
        }
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            max_idle: 256,
            idle_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(2),
        }
    }
}

impl Default for Health {
    fn default() -> Self {
        Self {
            path: "/".to_owned(),
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(2),
        }
    }
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            failures: 5,
            open_for: Duration::from_secs(10),
        }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 2,
            budget_percent: 20,
        }
    }
}
