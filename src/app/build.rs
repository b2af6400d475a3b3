//! From a [`Config`] to the parts that serve.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::Failure;
use crate::admin::Readiness;
use crate::backend::{Backend, health};
use crate::batch::Batches;
use crate::batch::log::LogError;
use crate::batch::log::disk::DiskLog;
use crate::config::{Config, Mount};
use crate::gateway::{Gateway, World};
use crate::keys::{Clock, Keys, SystemClock};
use crate::layer::authenticate::Verifier;
use crate::layer::context::TakeContextLayer;
use crate::layer::rate::Rates;
use crate::metrics::Metrics;
use crate::protocol::context::ContextRules;
use crate::protocol::identifier::{Identifier, IdentifierError};
use crate::route;
use crate::stack::{self, Stack};
use crate::telemetry::Log;

/// Everything that serves, put together and not yet started.
pub(super) struct Parts {
    pub(super) metrics: Arc<Metrics>,
    pub(super) readiness: Arc<Readiness>,
    pub(super) world: Arc<ArcSwap<World>>,
    pub(super) batches: Arc<Batches>,
    pub(super) stack: Stack,
    keys: Arc<Keys>,
}

impl Parts {
    /// `log_failed` is told when the batch log cannot be written any more.
    pub(super) async fn build(
        config: &Config,
        log: Log,
        log_failed: oneshot::Sender<LogError>,
    ) -> Result<Self, Failure> {
        let metrics = Arc::new(Metrics::new());
        metrics.config_in_use();
        let batch_log = DiskLog::open(&config.batch.log, move |error| {
            let _ = log_failed.send(error);
        });
        let batch_log = Arc::new(batch_log.map_err(Failure::BatchLog)?);
        let batches = Arc::new(Batches::new(
            batch_log,
            config.batch.clone(),
            metrics.batch().clone(),
        ));
        let world = Arc::new(ArcSwap::from_pointee(world(config, &metrics).await?));
        let gateway = Gateway::new(Arc::clone(&world), Arc::clone(&batches), &config.limits);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let keys = keys(config, &clock, &metrics)?;
        let access_log = config.telemetry.access_log.then_some(log);
        let parts = stack::Parts {
            requests: Arc::clone(metrics.requests()),
            access_log,
            in_flight: config.limits.in_flight,
            verifier: Arc::new(verifier(config, &keys, clock, &metrics)),
            rates: Rates::renew(config.limits.rate, None),
            context: context(config),
        };
        Ok(Self {
            metrics,
            readiness: Arc::new(Readiness::new({
                let keys = Arc::clone(&keys);
                move || {
                    let missing = keys.missing();
                    missing
                        .map(|issuer| format!("the keys of {issuer} have not come yet"))
                        .collect()
                }
            })),
            keys,
            world,
            batches,
            stack: stack::stack(parts, gateway),
        })
    }

    /// What goes on besides requests, for as long as `tasks` lives.
    pub(super) fn start_background(&self, tasks: &mut JoinSet<()>) {
        for backend in &self.world.load().backends {
            tasks.spawn(health::watch(Arc::clone(backend)));
        }
        let batches = Arc::clone(&self.batches);
        tasks.spawn(async move { batches.forget_old().await });
        let keys = Arc::clone(&self.keys);
        tasks.spawn(async move { keys.keep_fresh().await });
    }
}

/// The route table of a configuration. Backends are counted in the order of their names.
///
/// # Errors
/// A mount's namespace is no identifier, which a loaded configuration does not have.
pub fn routes(config: &Config) -> Result<route::Table, IdentifierError> {
    let mount = |mount: &Mount| {
        let names = config.backends.keys();
        let backend = names.take_while(|name| **name != mount.backend).count();
        Ok(route::Mount {
            namespace: Identifier::from_names(&mount.namespace)?,
            backend,
            backend_name: Arc::from(mount.backend.as_str()),
            backend_namespace: Identifier::from_names(&mount.backend_namespace)?,
        })
    };
    let mounts = config.mounts.iter().map(mount);
    Ok(route::Table::new(mounts.collect::<Result<_, _>>()?))
}

fn keys(config: &Config, clock: &Arc<dyn Clock>, metrics: &Metrics) -> Result<Arc<Keys>, Failure> {
    let keys = Keys::new(&config.auth, clock, metrics.auth());
    let keys = keys.map_err(|error| Failure::Configuration(format!("auth.issuers: {error}")))?;
    Ok(Arc::new(keys))
}

fn verifier(config: &Config, keys: &Keys, clock: Arc<dyn Clock>, metrics: &Metrics) -> Verifier {
    let verifier = Verifier::new(keys, clock, metrics.auth().clone());
    match config.auth.anonymous {
        true => verifier.anonymous(),
        false => verifier,
    }
}

fn context(config: &Config) -> TakeContextLayer {
    let from = &config.context;
    let rules = ContextRules::new(from.prefixes.clone(), from.max_entries, from.max_bytes);
    TakeContextLayer::new(rules.showing(config.telemetry.access_log_context.clone()))
}

async fn world(config: &Config, metrics: &Metrics) -> Result<World, Failure> {
    let routes =
        routes(config).map_err(|error| Failure::Configuration(format!("mounts: {error}")))?;
    let mut backends = Vec::with_capacity(config.backends.len());
    for (name, backend) in &config.backends {
        let opened = Backend::open(backend, &config.limits, metrics).await;
        let opened =
            opened.map_err(|error| Failure::Configuration(format!("backends.{name}: {error}")))?;
        backends.push(Arc::new(opened));
    }
    Ok(World { routes, backends })
}
