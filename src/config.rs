//! The validated configuration, one section a module.
//!
//! A value of these types has been checked and is complete: defaults are filled in, paths are absolute where a
//! file named them relative to itself, secrets are wrapped. The types themselves read no file and no environment.

pub mod auth;
pub mod backend;
mod batch;
mod batch_log;
mod check;
mod gateways;
mod keys;
mod kind;
pub mod limits;
pub mod listen;
pub mod load;
pub mod mount;
pub mod reload;
pub mod schema;
pub mod secret;
pub mod telemetry;

use std::collections::BTreeMap;
use std::path::Path;

pub use auth::{
    ALGORITHMS, Algorithm, AudienceClaim, Auth, ED25519, Issuer, KeySource, Keys, TokenKinds,
};
pub use backend::{
    Authorization, BackendConfig, BatchMode, Breaker, ClientIdentity, ClientTls, DirConfig, Health,
    Implementation, ManagedVersioning, OAuth, Pool, RestConfig, Retry, Selects,
};
pub use batch::{BatchConfig, WithoutLog};
pub use batch_log::{LogAddress, PostgresAddress, PostgresLogConfig, SCHEMA, is_schema};
pub use gateways::{GatewayTls, Gateways};
pub(crate) use kind::{is_plain_http_abroad, without_query};
pub use limits::{ContextConfig, Limits, RateLimit};
pub use listen::{Admin, Listen, ServerTls};
pub use mount::{Access, AuthorizationRule, Mount, StorageCredentials, Unlisted};
pub use secret::{MASK, Secret};
pub use telemetry::{AuditTarget, Histograms, LogFormat, LogLevel, Telemetry};

use keys::{Keys as Table, Section};
use kind::{backend_name, list, map, maybe, shaped, table};

/// All settings of an operator. [`Config::default`] has no backend, no mount and no issuer: a start for tests.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// The address that clients connect to.
    pub listen: Listen,
    /// The address that operators and scrapers connect to.
    pub admin: Admin,
    /// The limits on connections, requests, bodies and waits.
    pub limits: Limits,
    /// The authentication of callers.
    pub auth: Auth,
    /// The headers that are request context, and the limits on it.
    pub context: ContextConfig,
    /// The catalogs, by name.
    pub backends: BTreeMap<String, BackendConfig>,
    /// The backend of each namespace prefix, in file order; no namespace occurs twice.
    pub mounts: Vec<Mount>,
    /// The permissions that callers need below each prefix; `None` lets every authenticated caller do everything.
    pub authorization: Option<Vec<AuthorizationRule>>,
    /// The coordinated batch: log, limits and timeouts.
    pub batch: BatchConfig,
    /// Logs and traces.
    pub telemetry: Telemetry,
}

impl Config {
    /// Returns the effective configuration in the form of the file, with secrets as `***`, for `GET /config`.
    #[must_use]
    pub fn redacted(&self) -> serde_json::Value {
        keys::show(&mut self.clone())
    }

    /// Returns the files of the certificates that the gateway presents, each with its purpose: `listen` to clients,
    /// `admin` to operators, `batch.gateways` to other gateways, `batch.log` to its server, `backends.NAME` to that catalog.
    pub fn certificates(&self) -> impl Iterator<Item = (String, &Path)> {
        let listen = self
            .listen
            .tls
            .iter()
            .map(|tls| ("listen".to_owned(), &*tls.certificate));
        let admin = self
            .admin
            .tls
            .iter()
            .map(|tls| ("admin".to_owned(), &*tls.certificate));
        let is_shared = self.batch.log.file().is_none();
        let gateways = self.batch.gateways.iter().filter(move |_| is_shared);
        let gateways = gateways
            .filter_map(|gateways| gateways.tls.as_ref())
            .map(|tls| ("batch.gateways".to_owned(), &*tls.certificate));
        let backends = self.backends.iter().filter_map(|(name, backend)| {
            let Implementation::Rest(rest) = &backend.implementation else {
                return None;
            };
            let identity = rest.tls.as_ref()?.identity.as_ref()?;
            Some((format!("backends.{name}"), &*identity.certificate))
        });
        let log = self.batch.log_tls.iter().filter(move |_| is_shared);
        let log = log
            .filter_map(|tls| tls.identity.as_ref())
            .map(|shown| ("batch.log".to_owned(), &*shown.certificate));
        let own = listen.chain(admin).chain(gateways);
        own.chain(log).chain(backends)
    }
}

const BACKENDS: &str = "backends, such as `warehouse: { implementation: rest, properties: { uri: http://127.0.0.1:2333 } }`";
const MOUNTS: &str = "mounts, such as [{ namespace: [prod], backend: warehouse }]";
const RULES: &str =
    "rules, such as [{ namespace: [prod], read: { scope: catalog.read }, write: { deny: true } }]";

impl Section for Config {
    fn blank() -> Self {
        Self::default()
    }

    fn keys(&mut self, keys: &mut Table<'_, '_>) {
        keys.key(
            "listen",
            &mut self.listen,
            table(),
            "The address clients connect to.",
        );
        keys.key(
            "admin",
            &mut self.admin,
            table(),
            "The address operators and scrapers connect to.",
        );
        keys.key(
            "limits",
            &mut self.limits,
            table(),
            "Limits on connections, requests, bodies and waits.",
        );
        keys.required(
            "auth",
            &mut self.auth,
            table(),
            "say whose tokens are accepted, as `auth: { issuers: [{ issuer: https://idp.example, audiences: [catalog] }] }`, or let everyone in with `auth: { anonymous: true }`",
            "Whose tokens are accepted.",
        );
        keys.key(
            "context",
            &mut self.context,
            table(),
            "Which headers are request context, and how much of it there may be.",
        );
        keys.required(
            "backends",
            &mut self.backends,
            map(1, BACKENDS, backend_name, shaped()),
            "name the catalogs, as `backends: { warehouse: { implementation: rest, properties: { uri: http://127.0.0.1:2333 } } }`",
            "The catalogs, by name.",
        );
        keys.required(
            "mounts",
            &mut self.mounts,
            list(1, MOUNTS, shaped()),
            "say which namespace belongs to which backend, as `mounts: [{ namespace: [prod], backend: warehouse }]`",
            "Which namespace prefix belongs to which backend.",
        );
        keys.key(
            "authorization",
            &mut self.authorization,
            maybe(list(0, RULES, table())),
            "The rule with the longest prefix decides, none: denied. Absent: any authenticated caller may do anything.",
        );
        keys.key(
            "batch",
            &mut self.batch,
            table(),
            "Batches: changes of several tables that become visible together, or not at all.",
        );
        keys.key(
            "telemetry",
            &mut self.telemetry,
            table(),
            "Logs and traces.",
        );
    }
}
