//! The parts that are built from one configuration.
//!
//! A snapshot is built whole or not at all, activated at once, and dropped when nothing uses it.

use std::path::Path;
use std::sync::Arc;

use super::build::{self, BuildError};
use super::peers::{self, PeerEnds};
use crate::app::process::ProcessState;
use crate::auth::access::Rules;
use crate::auth::keys::{Issuer, Keys};
use crate::backend::Backend;
use crate::backend::endpoints::health;
use crate::config::Config;
use crate::config::reload::Digests;
use crate::gateway::{BodyLimits, Gateway, RoutingSnapshot};
use crate::layer::authenticate::Verifier;
use crate::layer::rate::Rates;
use crate::layer::recognize::HealthPath;
use crate::layer::share::Sharing;
use crate::layer::trace::access::AccessLog;
use crate::server::listener::Serving;
use crate::stack::{self, Stack};
use crate::telemetry::Spans;
use crate::util::worker;

/// The state that another configuration replaces.
pub(super) struct Snapshot {
    pub(super) config: Arc<Config>,
    /// The digests of the files that the configuration names.
    pub(super) digests: Digests,
    pub(super) world: Arc<RoutingSnapshot>,
    pub(super) keys: Arc<Keys>,
    /// The digest of the routes, which gateways that share a log compare; empty if this one shares none.
    pub(super) routes: String,
    verifier: Arc<Verifier>,
    rates: Option<Arc<Rates>>,
    rules: Option<Arc<Rules>>,
    pub(super) spans: Option<Spans>,
    pub(super) stack: Stack,
    pub(super) serving: Serving,
    pub(super) serving_admin: Serving,
    pub(super) serving_peers: Serving,
    /// The ends of the connections to other gateways; `None` if none share the log.
    pub(super) peers: Option<PeerEnds>,
}

/// The large parts of a snapshot that has been replaced. Connections and requests still use them, and the last one would
/// drop them on its worker: with 100,000 mounts that takes longer than a request may wait.
pub(super) struct Retired {
    world: Arc<RoutingSnapshot>,
    rules: Option<Arc<Rules>>,
}

impl Retired {
    /// True if nothing else uses the parts.
    pub(super) fn is_unused(&self) -> bool {
        let rules = self.rules.as_ref();
        Arc::strong_count(&self.world) == 1
            && rules.is_none_or(|rules| Arc::strong_count(rules) == 1)
    }
}

impl Snapshot {
    /// Builds everything in `config`; contacts no other system and starts no task. Parts that have not changed since
    /// `before` are taken from there. A gateway that serves must not build on a worker.
    pub(super) async fn build(
        lasting: &ProcessState,
        config: Config,
        digests: Digests,
        before: Option<&Self>,
    ) -> Result<Self, Vec<BuildError>> {
        debug_assert!(before.is_none() || !worker::is_one(), "requests would wait");
        let same = |path: &Path| before.is_some_and(|before| digests.agree(&before.digests, path));
        let metrics = &lasting.metrics;
        let old_world = before.map(|before| (&*before.config, &*before.world));
        let identities = lasting.batches.identities();
        let world = build::world(&config, metrics, identities, old_world, same).await;
        let old_serving = before.map(|before| (&*before.config, &before.serving));
        let tls = build::tls(&config, old_serving, same);
        let old_admin = before.map(|before| (&*before.config, &before.serving_admin));
        let tls = tls.and_then(|tls| Ok((tls, build::admin_tls(&config, old_admin, same)?)));
        let old_peers = before.map(|before| (&*before.config, before.peers.as_ref()));
        let tls = tls.and_then(|tls| Ok((tls, PeerEnds::build(&config, old_peers, same)?)));
        let keys = match before {
            Some(before) => {
                let (clock, auth) = (&lasting.clock, metrics.auth());
                before.keys.succeeded(&config.auth, clock, auth, same)
            }
            None => Keys::new(&config.auth, &lasting.clock, metrics.auth()),
        };
        let keys = keys.map_err(|error| BuildError::new("auth.issuers", error));
        let (world, keys, ((tls, admin_tls), peers)) = match (world, keys, tls) {
            (Ok(world), Ok(keys), Ok(tls)) => (Arc::new(world), Arc::new(keys), tls),
            (world, keys, tls) => {
                let problems = world.err().into_iter().flatten();
                return Err(problems.chain(keys.err()).chain(tls.err()).collect());
            }
        };
        let verifier = verifier(lasting, &config, &keys, before);
        let spans = spans(&config, before).map_err(|unbuilt| vec![unbuilt])?;
        let old_rates = before.and_then(|before| before.rates.as_ref());
        let rates = Rates::renew(config.limits.rate, old_rates);
        let places = Arc::clone(lasting.in_flight.places());
        let gateway = Gateway::sharing(
            Arc::clone(&world),
            Arc::clone(&lasting.batches),
            &config.limits,
            Some(Arc::new(move || places.free())),
            Arc::clone(&lasting.bodies),
        );
        let fleet = lasting.batches.fleet();
        let sharing = fleet.map(|fleet| {
            Arc::new(Sharing {
                fleet: Arc::clone(fleet),
                world: Arc::clone(&world),
                peers: peers.as_ref().map(|ends| Arc::clone(&ends.client)),
                bodies: BodyLimits {
                    json: config.limits.json_body,
                    held: Arc::clone(&lasting.bodies),
                },
            })
        });
        let rules = build::rules(&config)?;
        let shares = fleet.is_some_and(|fleet| fleet.is_shared());
        let routes = if shares {
            peers::routes_digest(&config, &world)
        } else {
            String::new()
        };
        let parts = stack::Parts {
            sharing,
            requests: Arc::clone(metrics.requests()),
            spans: spans.as_ref().map(Spans::recorder),
            access_log: config
                .telemetry
                .access_log
                .then(|| AccessLog::new(lasting.log.clone(), config.telemetry.log_names)),
            audit: lasting.audit.clone(),
            log_names: config.telemetry.log_names,
            audit_required: config.telemetry.audit_required,
            limits: lasting.in_flight.clone(),
            health: health(lasting, &config, &keys),
            verifier: Arc::clone(&verifier),
            rates: rates.clone(),
            context: build::context(&config),
            rules: rules.clone(),
        };
        let serving = build::serving(&config, metrics, tls);
        Ok(Self {
            stack: stack::stack(parts, gateway),
            serving_peers: PeerEnds::serving(peers.as_ref(), &serving),
            serving,
            peers,
            serving_admin: build::serving_admin(&config, metrics, admin_tls),
            config: Arc::new(config),
            digests,
            world,
            keys,
            routes,
            verifier,
            rates,
            rules,
            spans,
        })
    }

    /// Returns itself if the files that hold keys of issuers can be used. A gateway that starts waits for such files;
    /// one that serves keeps the keys that it has.
    pub(super) async fn with_sound_keys(self) -> Result<Self, Vec<BuildError>> {
        let problems = build::unsound_keys(&self.keys).await;
        if problems.is_empty() {
            Ok(self)
        } else {
            Err(problems)
        }
    }

    /// Reads the keys of issuers that are in files.
    pub(super) async fn read_key_files(&self) {
        for issuer in self.keys.issuers() {
            if issuer.has_file() {
                issuer.refresh().await;
            }
        }
    }

    /// Starts the background tasks for backends and issuers that are not in `before`. Each ends by itself when its
    /// object is gone: a backend that batches still use is checked until they are finished.
    pub(super) fn start(&self, before: Option<&Self>) {
        for backend in &self.world.backends {
            if !before.is_some_and(|before| before.has(backend)) {
                tokio::spawn(health::watch(Arc::downgrade(backend)));
            }
        }
        for issuer in self.keys.issuers() {
            if !before.is_some_and(|old| old.keys.has(issuer)) {
                tokio::spawn(Issuer::keep_fresh(Arc::downgrade(issuer)));
            }
        }
    }

    /// True if this very backend object is part of it, and not only one of the same name.
    pub(super) fn has(&self, backend: &Arc<Backend>) -> bool {
        let mut backends = self.world.backends.iter();
        backends.any(|known| Arc::ptr_eq(known, backend))
    }

    /// Returns the parts that are dropped only when nothing uses them any more.
    pub(super) fn retire(&self) -> Retired {
        Retired {
            world: Arc::clone(&self.world),
            rules: self.rules.clone(),
        }
    }
}

/// Creates the health path of the data port; `None` if none is configured.
fn health(lasting: &ProcessState, config: &Config, keys: &Arc<Keys>) -> Option<HealthPath> {
    let path = config.listen.health_path.as_deref()?;
    let (readiness, keys) = (Arc::clone(&lasting.readiness), Arc::clone(keys));
    let is_ready = move || readiness.missing(&keys).is_empty();
    Some(HealthPath::new(path, is_ready))
}

/// Creates the verifier. The one of `before` is kept, with its cached tokens, if nothing about authentication has
/// changed.
fn verifier(
    lasting: &ProcessState,
    config: &Config,
    keys: &Keys,
    before: Option<&Snapshot>,
) -> Arc<Verifier> {
    let same = |before: &&Snapshot| {
        before.keys.are(keys)
            && before.config.auth.anonymous == config.auth.anonymous
            && before.config.limits.token_bytes == config.limits.token_bytes
    };
    if let Some(before) = before.filter(same) {
        return Arc::clone(&before.verifier);
    }
    let clock = Arc::clone(&lasting.clock);
    let verifier = Verifier::new(keys, clock, lasting.metrics.auth().clone())
        .with_longest_token(config.limits.token_bytes);
    Arc::new(if config.auth.anonymous {
        verifier.anonymous()
    } else {
        verifier
    })
}

/// Opens the export to the collector; `None` if none is configured. The one of `before` is kept if the address is the
/// same.
fn spans(config: &Config, before: Option<&Snapshot>) -> Result<Option<Spans>, BuildError> {
    let Some(uri) = &config.telemetry.otlp else {
        return Ok(None);
    };
    let same = |before: &&Snapshot| before.config.telemetry.otlp.as_ref() == Some(uri);
    if let Some(before) = before.filter(same) {
        return Ok(before.spans.clone());
    }
    let opened = Spans::to(uri).map_err(|error| BuildError::new("telemetry.otlp", error));
    opened.map(Some)
}
