//! The state that lasts as long as the process, whatever the configuration becomes.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::Failure;
use crate::admin::Readiness;
use crate::auth::keys::{Clock, SystemClock};
use crate::batch::Batches;
use crate::batch::fleet::OwnedGuards;
use crate::batch::log::disk::{self, DiskLog};
use crate::batch::log::postgres::PostgresLog;
use crate::batch::log::{Log as BatchLog, LogError};
use crate::config::{BatchConfig, Config, LogAddress};
use crate::layer::limits::LimitsLayer;
use crate::metrics::Metrics;
use crate::request::held::HeldBodies;
use crate::request::places::Places;
use crate::telemetry::Log;
use crate::telemetry::audit::Audit;

/// The state of the process, created once.
pub(super) struct ProcessState {
    pub(super) metrics: Arc<Metrics>,
    pub(super) batches: Arc<Batches>,
    pub(super) log: Log,
    /// The audit log; `None` if none is configured.
    pub(super) audit: Option<Audit>,
    /// The reasons why it does not serve, for load balancers and operators.
    pub(super) readiness: Arc<Readiness>,
    pub(super) clock: Arc<dyn Clock>,
    /// The places of requests that are being served.
    pub(super) in_flight: LimitsLayer,
    /// The memory of request bodies that are held whole.
    pub(super) bodies: Arc<HeldBodies>,
}

impl ProcessState {
    /// Opens the batch log. `peers` is the address for other gateways, if they share the log. `log_failed` gets the error if the log can no longer be written.
    pub(super) async fn open(
        config: &Config,
        log: Log,
        peers: Option<SocketAddr>,
        log_failed: oneshot::Sender<LogError>,
    ) -> Result<Self, Failure> {
        let histograms = config.telemetry.histograms(config.backends.len());
        let metrics = Arc::new(Metrics::with_histograms(histograms));
        let audit = config.telemetry.audit.as_ref();
        let audit = audit.map(|target| Audit::open(target, metrics.audit()));
        let audit = audit
            .transpose()
            .map_err(|error| Failure::Configuration(format!("telemetry.audit: {error}")))?;
        let opened = open_log(&config.batch, peers, log_failed).await;
        let opened = opened.map_err(Failure::BatchLog)?;
        let (settings, counters) = (config.batch.clone(), metrics.batch().clone());
        let batches = match opened {
            Opened::File(log) => Batches::new(log, settings, counters),
            Opened::Postgres(log, guards) => {
                let fleet = Arc::clone(log.fleet());
                Batches::sharing(log, &fleet, guards, settings, counters)
            }
        };
        if let Some(audit) = &audit {
            batches.audited_in(audit.clone());
        }
        Ok(Self {
            batches: Arc::new(batches),
            audit,
            metrics,
            log,
            readiness: Arc::default(),
            clock: Arc::new(SystemClock::default()),
            in_flight: LimitsLayer::new(Arc::new(Places::new(
                config.limits.in_flight,
                config.limits.caller_share,
            ))),
            bodies: Arc::new(HeldBodies::new(
                config.limits.json_bodies,
                config.limits.caller_share,
            )),
        })
    }
}

/// An open log.
enum Opened {
    File(Arc<dyn BatchLog>),
    Postgres(Arc<PostgresLog>, Option<OwnedGuards>),
}

/// Opens the log of batches. `failed` gets the error if it can no longer be written.
async fn open_log(
    batch: &BatchConfig,
    peers: Option<SocketAddr>,
    failed: oneshot::Sender<LogError>,
) -> Result<Opened, LogError> {
    let on_failure = move |error| {
        let _ = failed.send(error);
    };
    match &batch.log {
        LogAddress::File(path) => {
            if batch.create_folder {
                disk::make_folder(path)?;
            }
            Ok(Opened::File(Arc::new(DiskLog::open(path, on_failure)?)))
        }
        LogAddress::Postgres(address) => {
            let log = batch.postgres_at(address);
            let Some((gateways, bound)) = batch.gateways.as_ref().zip(peers) else {
                let opened = PostgresLog::open(&log, &process_name(), on_failure).await?;
                return Ok(Opened::Postgres(Arc::new(opened), None));
            };
            let name = gateways.name.clone().unwrap_or_else(process_name);
            let address = gateways.advertise.clone();
            let address = address.unwrap_or_else(|| bound.to_string());
            let (opened, guards) = PostgresLog::share(&log, &name, address, on_failure).await?;
            let guards = OwnedGuards::new(Arc::new(guards));
            Ok(Opened::Postgres(Arc::new(opened), Some(guards)))
        }
    }
}

/// Returns the name by which operators tell this process from others.
fn process_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{} (process {})", host.trim(), std::process::id())
}
