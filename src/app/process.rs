//! The state that lasts as long as the process, whatever the configuration becomes.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::Failure;
use crate::auth::keys::{Clock, SystemClock};
use crate::batch::Batches;
use crate::batch::log::disk::{self, DiskLog};
use crate::batch::log::postgres::PostgresLog;
use crate::batch::log::{Log as BatchLog, LogError};
use crate::config::{BatchConfig, Config, LogAddress};
use crate::layer::limits::LimitsLayer;
use crate::metrics::Metrics;
use crate::request::places::Places;
use crate::telemetry::Log;

/// The state of the process, created once.
pub(super) struct ProcessState {
    pub(super) metrics: Arc<Metrics>,
    pub(super) batches: Arc<Batches>,
    pub(super) log: Log,
    pub(super) clock: Arc<dyn Clock>,
    /// The places of requests that are being served.
    pub(super) in_flight: LimitsLayer,
}

impl ProcessState {
    /// Opens the batch log. `log_failed` gets the error if the log can no longer be written.
    pub(super) async fn open(
        config: &Config,
        log: Log,
        log_failed: oneshot::Sender<LogError>,
    ) -> Result<Self, Failure> {
        let batch_log = open_log(&config.batch, log_failed).await;
        let batch_log = batch_log.map_err(Failure::BatchLog)?;
        let histograms = config.telemetry.histograms(config.backends.len());
        let metrics = Arc::new(Metrics::with_histograms(histograms));
        let batches = Batches::new(batch_log, config.batch.clone(), metrics.batch().clone());
        Ok(Self {
            batches: Arc::new(batches),
            metrics,
            log,
            clock: Arc::new(SystemClock::default()),
            in_flight: LimitsLayer::new(Arc::new(Places::new(
                config.limits.in_flight,
                config.limits.caller_share,
            ))),
        })
    }
}

/// Opens the log of batches. `failed` gets the error if it can no longer be written.
async fn open_log(
    batch: &BatchConfig,
    failed: oneshot::Sender<LogError>,
) -> Result<Arc<dyn BatchLog>, LogError> {
    let on_failure = move |error| {
        let _ = failed.send(error);
    };
    match &batch.log {
        LogAddress::File(path) => {
            if batch.create_folder {
                disk::make_folder(path)?;
            }
            Ok(Arc::new(DiskLog::open(path, on_failure)?))
        }
        LogAddress::Postgres(address) => {
            let log = batch.postgres_at(address);
            let opened = PostgresLog::open(&log, &process_name(), on_failure).await?;
            Ok(Arc::new(opened))
        }
    }
}

/// Returns the name by which operators tell this process from others.
fn process_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{} (process {})", host.trim(), std::process::id())
}
