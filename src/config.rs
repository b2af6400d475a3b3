//! The validated configuration: what exists here has been checked, one section a module.
//!
//! A value of these types is complete: defaults are filled in, paths are absolute where a file named them
//! relative to itself, secrets are wrapped. Nothing here reads a file or the environment.

pub mod auth;
pub mod backend;
pub mod limits;
pub mod listen;
pub mod mount;
pub mod secret;
pub mod telemetry;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub use auth::{Algorithm, Auth, Issuer, KeySource, Keys};
pub use backend::{
    Authorization, BackendConfig, BatchMode, Breaker, ClientIdentity, ClientTls, DirConfig, Health,
    Implementation, ManagedVersioning, OAuth, Pool, RestConfig, Retry,
};
pub use limits::{ContextConfig, Limits, RateLimit};
pub use listen::{Admin, Listen, ServerTls};
pub use mount::{Access, AuthorizationRule, Mount};
pub use secret::Secret;
pub use telemetry::{LogFormat, LogLevel, Telemetry};

/// Everything an operator can set. [`Config::default`] has no backend, no mount and no issuer: a start for tests.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// The address clients connect to.
    pub listen: Listen,
    /// The address operators and scrapers connect to.
    pub admin: Admin,
    /// Bounds on connections, requests, bodies and waits.
    pub limits: Limits,
    /// Who may come in.
    pub auth: Auth,
    /// Which headers are request context, and how much of it there may be.
    pub context: ContextConfig,
    /// The catalogs, by name.
    pub backends: BTreeMap<String, BackendConfig>,
    /// Which namespace prefix belongs to which backend, in file order; no namespace occurs twice.
    pub mounts: Vec<Mount>,
    /// Who may do what below which prefix. `None`: any authenticated caller may do anything.
    pub authorization: Option<Vec<AuthorizationRule>>,
    /// The coordinated batch: log, bounds and waits.
    pub batch: BatchConfig,
    /// Logs and traces.
    pub telemetry: Telemetry,
}

/// The coordinated batch: where its log is, how large one may be, how long its steps may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchConfig {
    /// The file of the durable log; made, with its folder, when it does not exist.
    pub log: PathBuf,
    /// Entries in one batch, at most.
    pub max_entries: usize,
    /// How long a batch, or a change that meets one, waits for a table's lock.
    pub lock_timeout: Duration,
    /// How long the catalogs may take to create the versions of one batch.
    pub prepare_timeout: Duration,
    /// How long a version number freed by an undo stays reserved.
    pub slot_cooldown: Duration,
    /// How long the outcome of a batch is remembered for a repeated request.
    pub remember_outcomes: Duration,
}

impl Default for BatchConfig {
    fn default() -> Self {
        Self {
            log: PathBuf::from("./data/batches.redb"),
            max_entries: 1000,
            lock_timeout: Duration::from_secs(10),
            prepare_timeout: Duration::from_secs(20),
            slot_cooldown: Duration::from_secs(60),
            remember_outcomes: Duration::from_secs(24 * 3600),
        }
    }
}
