//! Builds the parts of a [`Snapshot`](super::snapshot::Snapshot) from a [`Config`].

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;

use super::peers::PeerEnds;
use crate::auth::access::Rules;
use crate::auth::keys::{Clock, Keys, SystemClock};
use crate::backend::Backend;
use crate::batch::Identities;
use crate::config::{BackendConfig, Config, Implementation, Mount, ServerTls};
use crate::gateway::RoutingSnapshot;
use crate::layer::context::TakeContextLayer;
use crate::metrics::Metrics;
use crate::protocol::context::ContextRules;
use crate::protocol::identifier::{Identifier, IdentifierError};
use crate::route;
use crate::server::connection::Protocols;
use crate::server::listener::Serving;
use crate::server::tls;

/// The most connections to the admin address at a time.
const ADMIN_CONNECTIONS: usize = 64;
/// The time that admin requests have after the stop; they are short.
const ADMIN_DRAIN: Duration = Duration::from_secs(1);

/// The reason why a part could not be built.
#[derive(Debug)]
pub(super) struct BuildError {
    /// The configuration key that the part is built from.
    pub(super) key: String,
    pub(super) message: String,
}

impl BuildError {
    pub(super) fn new(key: impl Into<String>, error: impl fmt::Display) -> Self {
        Self {
            key: key.into(),
            message: error.to_string(),
        }
    }
}

/// Builds the route table of a configuration. Backends are numbered in the order of their names.
///
/// # Errors
/// A mount's namespace is no identifier; a loaded configuration has no such mount.
pub fn routes(config: &Config) -> Result<route::Table, IdentifierError> {
    let names = config.backends.keys().enumerate();
    let backends: HashMap<&str, (usize, Arc<str>)> = names
        .map(|(place, name)| (&**name, (place, Arc::from(&**name))))
        .collect();
    let mount = |mount: &Mount| {
        let backend = backends.get(&*mount.backend).cloned();
        // A backend that does not exist, which a loaded configuration does not name, gets a number that no backend
        // has.
        let (backend, backend_name) =
            backend.unwrap_or((backends.len(), Arc::from(&*mount.backend)));
        let namespace = Identifier::from_names(&mount.namespace)?;
        let backend_namespace = if mount.namespace == mount.backend_namespace {
            namespace.clone()
        } else {
            Identifier::from_names(&mount.backend_namespace)?
        };
        Ok(route::Mount {
            namespace,
            backend,
            backend_name,
            backend_namespace,
        })
    };
    let mounts = config.mounts.iter().map(mount);
    Ok(route::Table::new(mounts.collect::<Result<_, _>>()?))
}

/// Builds routes and backends. An unchanged backend is taken from `before`, with its connections, its health and all
/// that it has learned. `same` is true for a file that has not changed. `identities` knows the catalogs under their
/// earlier names.
pub(super) async fn world(
    config: &Config,
    metrics: &Metrics,
    identities: &Identities,
    before: Option<(&Config, &RoutingSnapshot)>,
    same: impl Fn(&Path) -> bool,
) -> Result<RoutingSnapshot, Vec<BuildError>> {
    let mut problems = Vec::new();
    let mut backends = Vec::with_capacity(config.backends.len());
    let named = config.backends.iter();
    let named: Vec<_> = named
        .map(|(name, wanted)| (&**name, wanted.addresses()))
        .collect();
    let identities = identities.identify(&named);
    for ((name, wanted), identity) in config.backends.iter().zip(identities) {
        let kept = before.and_then(|(before, world)| {
            let unchanged = before.backends.get(name) == Some(wanted)
                && waits(before) == waits(config)
                && files(wanted).all(&same);
            let mut old = world.backends.iter();
            let found = old.find(|old| &**old.name() == name && *old.catalog() == identity);
            found.filter(|_| unchanged).cloned()
        });
        if let Some(kept) = kept {
            backends.push(kept);
            continue;
        }
        match Backend::open(wanted, &config.limits, metrics).await {
            Ok(backend) => backends.push(Arc::new(backend.known_as(identity))),
            Err(error) => problems.push(BuildError::new(format!("backends.{name}"), error)),
        }
    }
    let routes = routes(config).map_err(|error| vec![BuildError::new("mounts", error)])?;
    if problems.is_empty() {
        Ok(RoutingSnapshot { routes, backends })
    } else {
        Err(problems)
    }
}

/// Returns every problem that keeps the configuration from being built.
pub(super) async fn check(config: &Config) -> Vec<BuildError> {
    let mut reachable = config.clone();
    let rest = |backend: &BackendConfig| matches!(backend.implementation, Implementation::Rest(_));
    reachable.backends.retain(|_, backend| rest(backend));
    let metrics = Metrics::new();
    let world = world(&reachable, &metrics, &Identities::default(), None, |_| {
        false
    })
    .await;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let keys = Keys::new(&config.auth, &clock, metrics.auth());
    let keys = match keys {
        Ok(keys) => unsound_keys(&keys).await,
        Err(error) => vec![BuildError::new("auth.issuers", error)],
    };
    let problems = world.err().into_iter().flatten().chain(keys);
    let problems = problems
        .chain(tls(config, None, |_| false).err())
        .chain(admin_tls(config, None, |_| false).err())
        .chain(PeerEnds::build(config, None, |_| false).err());
    problems
        .chain(rules(config).err().into_iter().flatten())
        .collect()
}

/// Returns the problems of the files that hold keys of issuers.
pub(super) async fn unsound_keys(keys: &Keys) -> Vec<BuildError> {
    let mut problems = Vec::new();
    for (index, issuer) in keys.issuers().iter().enumerate() {
        if let Err(error) = issuer.check_file().await {
            let key = format!("auth.issuers[{index}].keys.file");
            problems.push(BuildError::new(key, error));
        }
    }
    problems
}

/// The limits that a backend is built with.
fn waits(config: &Config) -> (Duration, Duration) {
    (config.limits.response_timeout, config.limits.data_timeout)
}

/// The files that a backend reads when it is opened.
fn files(backend: &BackendConfig) -> impl Iterator<Item = &Path> {
    let tls = match &backend.implementation {
        Implementation::Rest(rest) => rest.tls.as_ref(),
        Implementation::Dir(_) => None,
    };
    let identity = tls.and_then(|tls| tls.identity.as_ref());
    let ca = tls.and_then(|tls| tls.ca.as_ref());
    let pair = identity.map(|identity| [&identity.certificate, &identity.private_key]);
    let files = ca.into_iter().chain(pair.into_iter().flatten());
    files.map(|path| path.as_path())
}

/// Builds the access rules; `None` if every caller may do everything.
pub(super) fn rules(config: &Config) -> Result<Option<Arc<Rules>>, Vec<BuildError>> {
    let rules = config.authorization.as_deref().map(|rules| {
        let rules = Rules::new(rules)?;
        rules.keeping_credentials(&config.mounts)
    });
    let rules = rules.transpose();
    let rules = rules.map_err(|error| vec![BuildError::new("authorization", error)])?;
    Ok(rules.map(Arc::new))
}

pub(super) fn context(config: &Config) -> TakeContextLayer {
    let from = &config.context;
    let rules = ContextRules::new(from.prefixes.clone(), from.max_entries, from.max_bytes);
    TakeContextLayer::new(rules.showing(config.telemetry.access_log_context.clone()))
}

/// Builds the TLS settings towards clients; `None` if they connect without TLS. Unchanged settings are taken from
/// `before`, so that clients can resume their sessions.
pub(super) fn tls(
    config: &Config,
    before: Option<(&Config, &Serving)>,
    same: impl Fn(&Path) -> bool,
) -> Result<Option<Arc<ServerConfig>>, BuildError> {
    let of = |config: &Config| config.listen.tls.clone();
    tls_of("listen.tls", of, config, before, same)
}

/// Builds the TLS settings towards operators. Like in [`tls`], unchanged settings are taken from `before`.
pub(super) fn admin_tls(
    config: &Config,
    before: Option<(&Config, &Serving)>,
    same: impl Fn(&Path) -> bool,
) -> Result<Option<Arc<ServerConfig>>, BuildError> {
    let of = |config: &Config| config.admin.tls.clone();
    tls_of("admin.tls", of, config, before, same)
}

fn tls_of(
    key: &str,
    of: impl Fn(&Config) -> Option<ServerTls>,
    config: &Config,
    before: Option<(&Config, &Serving)>,
    same: impl Fn(&Path) -> bool,
) -> Result<Option<Arc<ServerConfig>>, BuildError> {
    let Some(wanted) = of(config) else {
        return Ok(None);
    };
    let mut files = [&wanted.certificate, &wanted.private_key]
        .into_iter()
        .chain(&wanted.client_ca);
    let unchanged =
        |(old, _): &(&Config, _)| of(old).as_ref() == Some(&wanted) && files.all(|file| same(file));
    if let Some((_, serving)) = before.filter(unchanged) {
        return Ok(serving.tls.clone());
    }
    let made = tls::server_config(&wanted).map_err(|error| BuildError::new(key, error))?;
    Ok(Some(made))
}

/// Builds the settings of the listener for clients.
pub(super) fn serving(
    config: &Config,
    metrics: &Metrics,
    tls: Option<Arc<ServerConfig>>,
) -> Serving {
    let limits = &config.limits;
    Serving {
        connections: limits.connections,
        makes_room: false,
        header_timeout: limits.header_timeout,
        // This is longer than the gateway itself keeps a client waiting for a catalog.
        stall_timeout: limits.data_timeout + limits.response_timeout,
        drain_timeout: config.listen.drain_timeout,
        tls,
        protocols: Protocols::new(limits),
        gauge: Some(metrics.connections().clone()),
        tls_failures: Some(metrics.tls_failures().clone()),
        refused_peers: None,
    }
}

/// Builds the settings of the listener for operators.
pub(super) fn serving_admin(
    config: &Config,
    metrics: &Metrics,
    tls: Option<Arc<ServerConfig>>,
) -> Serving {
    Serving {
        connections: ADMIN_CONNECTIONS,
        // Whoever holds connections open must not keep probes and operators out.
        makes_room: true,
        gauge: None,
        tls_failures: None,
        drain_timeout: ADMIN_DRAIN,
        ..serving(config, metrics, tls)
    }
}
