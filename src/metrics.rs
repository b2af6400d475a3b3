//! The metrics: every name, its labels and its buckets, and narrow handles for the modules that count.
//!
//! Labels are enums or configured names, never a path, an identifier or a subject. The counters of a request are
//! resolved once and kept by the thread that counts, so that counting costs no look-up by string and no contention
//! between cores.

mod audit;
mod auth;
mod backend;
mod batch;
mod callers;
mod exemplars;
mod failures;
mod families;
mod openmetrics;
mod operations;
mod process;
mod refusals;
mod request;
mod runtime;
mod shards;
mod share;
mod timings;
mod totals;
mod upstream;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus::{Histogram, IntGauge, Registry, TextEncoder};
use tokio::runtime::Handle;

pub use audit::Audit;
pub use auth::{Auth, CacheLookup, Issuer};
pub use backend::{Backend, SLOW};
pub use batch::{Batch, BatchCounts, BatchState, Phase};
pub use callers::{BusiestCallers, BusyCaller};
pub use failures::{FailedRequest, RecentFailures};
pub use process::ProcessFigures;
pub use refusals::{Limit, TlsFailure, TlsFailures};
pub use request::{CompletedRequest, Requests};
pub use totals::{CatalogTotals, Totals};

use crate::config::Histograms;
use families::{Families, REQUEST_DURATION};
use upstream::Upstream;

/// All metrics of one gateway. Created once; the modules get handles.
pub struct Metrics {
    registry: Registry,
    families: Families,
    requests: Arc<Requests>,
    auth: Auth,
    batch: Batch,
    audit: Audit,
    tls_failures: TlsFailures,
    upstream: Upstream,
    /// The handles by name: a backend keeps its counters when the configuration is read again.
    backends: Mutex<HashMap<Arc<str>, Arc<Backend>>>,
}

/// The format in which metrics are rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text exposition format, version 0.0.4.
    Text,
    /// OpenMetrics 1.0, with exemplars.
    OpenMetrics,
}

/// The batch log, as one gateway sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// The time that is left of the lease; `None` for a log in a file, which is for one process only.
    pub lease: Option<Duration>,
    /// True if this gateway owns the log.
    pub owned: bool,
    /// The number of gateways that share the log.
    pub gateways: usize,
    /// The number of those whose routes differ from this one's.
    pub differing: usize,
    /// The number of guarded tables.
    pub guarded_tables: usize,
    /// The number of requests that the owner of the log answered for this gateway.
    pub answered: u64,
    /// The number of requests that it did not answer.
    pub unanswered: u64,
    /// The number of answers that were not shown.
    pub discarded: u64,
    /// The number of gateways that this one has taken for dead.
    pub expired: u64,
}

impl Metrics {
    /// Registers all metrics, with the value zero.
    pub fn new() -> Self {
        Self::with_histograms(Histograms::Both)
    }

    /// Registers all metrics, with the value zero. The histograms of catalogs have the labels `by`.
    pub fn with_histograms(by: Histograms) -> Self {
        let registry = Registry::new();
        let families = Families::register(&registry, upstream::labels(by));
        Self {
            requests: Arc::new(Requests::new(&families)),
            auth: Auth::new(&families),
            batch: Batch::new(&families),
            audit: Audit::new(&families),
            tls_failures: TlsFailures::new(&families.tls_failures),
            upstream: Upstream::new(&families.upstream_duration, by),
            backends: Mutex::default(),
            registry,
            families,
        }
    }

    /// Returns the name of every metric, including those that have no series yet.
    pub fn names(&self) -> &[String] {
        &self.families.names
    }

    /// Returns the handle for the layer that counts requests.
    pub fn requests(&self) -> &Arc<Requests> {
        &self.requests
    }

    /// Returns the handle for authentication and its keys.
    pub fn auth(&self) -> &Auth {
        &self.auth
    }

    /// Returns the handle for the audit log.
    pub fn audit(&self) -> Audit {
        self.audit.clone()
    }

    /// Returns the handle for the coordinator of batches.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Returns the handle of a configured backend: always the same one for the same name.
    pub fn backend(&self, name: &Arc<str>) -> Arc<Backend> {
        let mut backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner);
        let backend = backends.entry(Arc::clone(name)).or_insert_with(|| {
            let name = Arc::clone(name);
            Arc::new(Backend::new(name, &self.families, &self.upstream))
        });
        Arc::clone(backend)
    }

    /// Returns the gauge of open client connections.
    pub fn connections(&self) -> &IntGauge {
        &self.families.connections
    }

    /// Returns the counters of failed TLS handshakes with clients.
    pub fn tls_failures(&self) -> &TlsFailures {
        &self.tls_failures
    }

    /// Shows these workers from now on.
    pub fn watch_workers(&self, workers: &[Handle]) {
        self.families.runtime.watch(workers);
    }

    /// Returns the histogram of the time for which workers do not run what is due.
    pub fn worker_stall(&self) -> &Histogram {
        &self.families.worker_stall
    }

    /// Counts a reload of the configuration, or a failed attempt.
    pub fn config_loaded(&self, success: bool) {
        let result = if success { "success" } else { "failure" };
        self.families
            .config_reloads
            .with_label_values(&[result])
            .inc();
        self.families.config_last_successful.set(success.into());
        if success {
            self.config_in_use();
        }
    }

    /// Sets the configured limits of concurrent requests and connections.
    pub fn limits(&self, in_flight: usize, connections: usize) {
        for (limit, bound) in [("in_flight", in_flight), ("connections", connections)] {
            let bound = i64::try_from(bound).unwrap_or(i64::MAX);
            self.families.limits.with_label_values(&[limit]).set(bound);
        }
    }

    /// Sets the expiry times of the certificates in use, by their purpose.
    pub fn certificates<'a>(&self, ends: impl Iterator<Item = (&'a str, SystemTime)>) {
        self.families.certificates.reset();
        for (of, end) in ends {
            let end = end.duration_since(UNIX_EPOCH).unwrap_or_default();
            let gauge = self.families.certificates.with_label_values(&[of]);
            gauge.set(end.as_secs_f64());
        }
    }

    /// Shows the batch log. Must be called before the metrics are rendered.
    pub fn log(&self, log: &LogCounts) {
        let kind = if log.lease.is_some() {
            "postgres"
        } else {
            "file"
        };
        let families = &self.families;
        let of = &[kind];
        let whole = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        families
            .log_lease
            .with_label_values(of)
            .set(log.lease.map_or(f64::INFINITY, |left| left.as_secs_f64()));
        families
            .log_owned
            .with_label_values(of)
            .set(log.owned.into());
        families
            .gateways
            .with_label_values(of)
            .set(whole(log.gateways));
        families
            .gateways_differing
            .with_label_values(of)
            .set(whole(log.differing));
        families
            .guarded_tables
            .with_label_values(of)
            .set(whole(log.guarded_tables));
        let counts = [
            (
                families.passed_on.with_label_values(&[kind, "answered"]),
                log.answered,
            ),
            (
                families.passed_on.with_label_values(&[kind, "unanswered"]),
                log.unanswered,
            ),
            (families.discarded.with_label_values(of), log.discarded),
            (families.expired.with_label_values(of), log.expired),
        ];
        for (counter, count) in counts {
            counter.inc_by(count.saturating_sub(counter.get()));
        }
    }

    /// Removes the series of backends that are no longer configured, so that their number stays that of the
    /// configured ones.
    pub fn retain_backends(&self, configured: impl Fn(&str) -> bool) {
        let mut backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner);
        backends.retain(|name, backend| {
            let keep = configured(name);
            if !keep {
                backend.remove(&self.families);
            }
            keep
        });
    }

    /// Records that the configuration in use was loaded now.
    pub fn config_in_use(&self) {
        self.families.config_last_successful.set(1);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.families
            .config_last_reload
            .set(now.unwrap_or_default().as_secs_f64());
    }

    /// Adds up the counts of all threads.
    fn gather_requests(&self) {
        self.requests.gather();
        let backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner);
        backends.values().for_each(|backend| backend.gather());
    }

    /// Returns the metrics in the text exposition format, version 0.0.4.
    pub fn render(&self) -> Result<String, prometheus::Error> {
        self.render_as(Format::Text)
    }

    /// Returns the metrics in this format.
    pub fn render_as(&self, format: Format) -> Result<String, prometheus::Error> {
        self.gather_requests();
        self.upstream.gather();
        self.auth.refresh();
        self.audit.gather();
        self.families.runtime.refresh();
        let families = self.registry.gather();
        match format {
            Format::Text => TextEncoder::new().encode_to_string(&families),
            Format::OpenMetrics => {
                let exemplars = self.requests.exemplars();
                Ok(openmetrics::encode(&families, REQUEST_DURATION, &exemplars))
            }
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
