//! The active configuration, and everything that follows it.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::snapshot::{Retired, Snapshot};
use crate::admin::CurrentConfig;
use crate::app::config_metrics;
use crate::app::process::ProcessState;
use crate::server::listener::Serving;
use crate::stack::{self, Stack};
use crate::telemetry;

/// The state of the process, and the snapshot that is active with it.
pub(super) struct ActiveConfig {
    pub(super) lasting: ProcessState,
    /// The active snapshot. Only one reload at a time replaces it.
    snapshot: ArcSwap<Snapshot>,
    stack: Arc<ArcSwap<Stack>>,
    serving: Arc<ArcSwap<Serving>>,
    serving_admin: Arc<ArcSwap<Serving>>,
    serving_peers: Arc<ArcSwap<Serving>>,
    shown: Arc<ArcSwap<CurrentConfig>>,
}

impl ActiveConfig {
    /// Creates it. No background task runs before [`ActiveConfig::start`].
    pub(super) fn new(lasting: ProcessState, snapshot: Snapshot) -> Self {
        config_metrics::tell(&lasting.metrics, &snapshot.config);
        if let Some(fleet) = lasting.batches.fleet() {
            fleet.routes_are(snapshot.routes.clone());
        }
        Self {
            stack: Arc::new(ArcSwap::from_pointee(snapshot.stack.clone())),
            serving: Arc::new(ArcSwap::from_pointee(snapshot.serving.clone())),
            serving_admin: Arc::new(ArcSwap::from_pointee(snapshot.serving_admin.clone())),
            serving_peers: Arc::new(ArcSwap::from_pointee(snapshot.serving_peers.clone())),
            shown: Arc::new(ArcSwap::from_pointee(shown(&snapshot))),
            snapshot: ArcSwap::from_pointee(snapshot),
            lasting,
        }
    }

    /// Starts the background tasks.
    pub(super) fn start(&self) {
        let batches = Arc::clone(&self.lasting.batches);
        if batches.fleet().is_none() {
            tokio::spawn(async move { batches.forget_old().await });
        }
        self.snapshot.load().start(None);
        self.lasting.metrics.config_in_use();
    }

    /// The active snapshot.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Activates `snapshot` for the requests that come, the connections that are opened and the admin
    /// pages. Returns the large parts of the one before.
    pub(super) fn replace(&self, snapshot: Snapshot) -> Retired {
        let config = &snapshot.config;
        let limits = &config.limits;
        let places = self.lasting.in_flight.places();
        places.set(limits.in_flight, limits.caller_share);
        let bodies = &self.lasting.bodies;
        bodies.set(limits.json_bodies, limits.caller_share);
        config_metrics::tell(&self.lasting.metrics, config);
        if let Some(fleet) = self.lasting.batches.fleet() {
            fleet.routes_are(snapshot.routes.clone());
        }
        self.lasting.batches.configure(config.batch.clone());
        telemetry::set_level(config.telemetry.level);
        self.serving.store(Arc::new(snapshot.serving.clone()));
        let serving_admin = snapshot.serving_admin.clone();
        self.serving_admin.store(Arc::new(serving_admin));
        let serving_peers = snapshot.serving_peers.clone();
        self.serving_peers.store(Arc::new(serving_peers));
        self.shown.store(Arc::new(shown(&snapshot)));
        let before = self.snapshot.load_full();
        snapshot.start(Some(&before));
        self.stack.store(Arc::new(snapshot.stack.clone()));
        let backends = &snapshot.world.backends;
        let new = |backend: &_| !before.has(backend);
        self.lasting.batches.backends_are(backends, new);
        self.snapshot.store(Arc::new(snapshot));
        before.retire()
    }

    /// Removes the metrics of a configuration that was rejected.
    pub(super) fn forget_others(&self) {
        config_metrics::tell(&self.lasting.metrics, &self.snapshot.load().config);
    }

    /// The service for the listener; it follows the active configuration.
    pub(super) fn stack(&self) -> stack::Current<Stack> {
        stack::Current::of(Arc::clone(&self.stack))
    }

    /// The settings of the listener for clients.
    pub(super) fn serving(&self) -> Arc<ArcSwap<Serving>> {
        Arc::clone(&self.serving)
    }

    /// The settings of the listener for operators.
    pub(super) fn serving_admin(&self) -> Arc<ArcSwap<Serving>> {
        Arc::clone(&self.serving_admin)
    }

    /// The settings of the listener for other gateways.
    pub(super) fn serving_peers(&self) -> Arc<ArcSwap<Serving>> {
        Arc::clone(&self.serving_peers)
    }

    /// The state that the admin pages show.
    pub(super) fn shown(&self) -> Arc<ArcSwap<CurrentConfig>> {
        Arc::clone(&self.shown)
    }
}

fn shown(snapshot: &Snapshot) -> CurrentConfig {
    CurrentConfig {
        config: Arc::clone(&snapshot.config),
        world: Arc::clone(&snapshot.world),
        keys: Arc::clone(&snapshot.keys),
        peers: snapshot.peers.as_ref().map(|ends| Arc::clone(&ends.client)),
        token: snapshot.config.admin.token.clone(),
        read_token: snapshot.config.admin.read_token.clone(),
    }
}
