//! `backends`: the connection to each catalog.

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
use crate::protocol::identifier::PathReading;

/// The prefix of context headers unless configured otherwise.
pub const CONTEXT_PREFIX: &str = "x-ns-ctx-";

/// One entry of `backends`.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendConfig {
    /// Its key in `backends`.
    pub name: String,
    /// How the catalog is reached.
    pub implementation: Implementation,
    /// Prefix, in lower case, of the headers that carry context to this catalog.
    pub context_prefix: String,
    /// What `managed_versioning` says in answers that pass through.
    pub managed_versioning: ManagedVersioning,
    /// How this catalog takes part in batches.
    pub batch: BatchMode,
}

/// `implementation`, with what only that one needs.
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
    /// Base address: scheme `http` or `https`, authority, and a path (kept as a prefix, no query).
    pub uri: Uri,
    /// Further base addresses of the same catalog.
    pub endpoints: Vec<Uri>,
    /// Sent with every request, sorted by name; the values are marked sensitive.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// What becomes of the caller's token.
    pub authorization: Authorization,
    /// `Authorization` of the gateway's own requests (health, undo, recovery); marked sensitive.
    pub service_authorization: Option<HeaderValue>,
    /// Where the gateway gets tokens for this catalog; never together with `service_authorization`.
    pub oauth: Option<OAuth>,
    /// Own authority and client certificate; `None`: the system's authorities.
    pub tls: Option<ClientTls>,
    /// Speak HTTP/2: over https where the catalog offers it, over http without asking.
    pub http2: bool,
    /// Connections kept open.
    pub pool: Pool,
    /// How the catalog is asked whether it is well.
    pub health: Health,
    /// When to stop asking a catalog that fails.
    pub breaker: Breaker,
    /// How read operations are tried again.
    pub retry: Retry,
    /// The only headers of clients that go on, beside those that every request may need; `None`: all but those by which
    /// proxies assert something.
    pub forward_headers: Option<Vec<HeaderName>>,
    /// `raw_path` and `delimiters`: how exactly it reads the paths of requests.
    pub reading: PathReading,
}

/// A catalog in a directory: `properties` as the engine understands them, `root` among them.
#[derive(Clone, PartialEq, Eq)]
pub struct DirConfig {
    /// Property name to value.
    pub properties: BTreeMap<String, String>,
    /// `arrow_body_limit`: the largest request body, in bytes. The engine wants bodies whole, in memory.
    pub body_limit: usize,
}

/// `authorization` of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Authorization {
    /// The caller's token goes to the catalog, unless a static `Authorization` header replaces it.
    #[default]
    Forward,
    /// It stops here.
    None,
}

/// `managed_versioning` of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ManagedVersioning {
    /// As the catalog says.
    #[default]
    Keep,
    /// `true` in describe and declare, so that clients commit through the catalog.
    Set,
}

/// `batch` of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BatchMode {
    /// Find out.
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
    /// The gateway's client id there.
    pub client_id: String,
    /// Its secret.
    pub client_secret: Secret,
    /// `scope` asked for.
    pub scope: Option<String>,
    /// `audience` asked for.
    pub audience: Option<String>,
    /// Trade the caller's token instead of using the gateway's own.
    pub exchange: bool,
}

/// `tls` of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientTls {
    /// PEM file of the authorities trusted instead of the system's.
    pub ca: Option<PathBuf>,
    /// The certificate shown to the catalog.
    pub identity: Option<ClientIdentity>,
}

/// A client certificate and its key, PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The chain, leaf first.
    pub certificate: PathBuf,
    /// The private key.
    pub private_key: PathBuf,
}

/// `pool` of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Idle connections kept for each endpoint.
    pub max_idle: usize,
    /// How long one is kept.
    pub idle_timeout: Duration,
    /// How long opening one may take.
    pub connect_timeout: Duration,
}

/// `health` of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Path (and query) below the base address; starts with `/`.
    pub path: String,
    /// Time between two questions.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// `breaker` of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaker {
    /// Failures in a row that open it.
    pub failures: u32,
    /// How long it stays open.
    pub open_for: Duration,
}

/// `retry` of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Tries in all, the first one included.
    pub attempts: u32,
    /// Further tries, at most this percentage of requests.
    pub budget_percent: u32,
}

/// Names only: credentials of an object store are properties too.
impl fmt::Debug for DirConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.properties.keys()).finish()
    }
}

impl BackendConfig {
    /// A `rest` backend with every other value at its default.
    #[must_use]
    pub fn rest(name: &str, uri: Uri) -> Self {
        Self::new(name, Implementation::Rest(Box::new(RestConfig::new(uri))))
    }

    /// A `dir` backend with the one property `root`.
    #[must_use]
    pub fn dir(name: &str, root: &str) -> Self {
        let properties = BTreeMap::from([("root".to_owned(), root.to_owned())]);
        let dir = DirConfig {
            properties,
            ..DirConfig::default()
        };
        Self::new(name, Implementation::Dir(dir))
    }

    /// A backend with every other value at its default.
    #[must_use]
    pub fn new(name: &str, implementation: Implementation) -> Self {
        Self {
            name: name.to_owned(),
            implementation,
            context_prefix: CONTEXT_PREFIX.to_owned(),
            managed_versioning: ManagedVersioning::default(),
            batch: BatchMode::default(),
        }
    }
}

impl RestConfig {
    /// The catalog at `uri` with every other value at its default.
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
