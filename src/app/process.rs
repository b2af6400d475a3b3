//! The state that lasts as long as the process, whatever the configuration becomes.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::Failure;
use crate::auth::keys::{Clock, SystemClock};
use crate::batch::Batches;
use crate::batch::log::LogError;
use crate::batch::log::disk::{self, DiskLog};
use crate::config::Config;
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
    pub(super) fn open(
        config: &Config,
        log: Log,
        log_failed: oneshot::Sender<LogError>,
    ) -> Result<Self, Failure> {
        if config.batch.create_folder {
            disk::make_folder(&config.batch.log).map_err(Failure::BatchLog)?;
        }
        let batch_log = DiskLog::open(&config.batch.log, move |error| {
            let _ = log_failed.send(error);
        });
        let batch_log = Arc::new(batch_log.map_err(Failure::BatchLog)?);
        let metrics = Arc::new(Metrics::new());
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
