//! The metric families: name, help, labels, buckets. All are registered at once, so that none is missing
//! from a scrape only because nothing has been counted yet.

use std::cell::RefCell;

use prometheus::core::Collector;
use prometheus::{
    Counter, CounterVec, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter,
    IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

use super::runtime::RuntimeFamilies;
use crate::build;

/// The histogram that has exemplars.
pub(super) const REQUEST_DURATION: &str = "nsgate_request_duration_seconds";
/// The buckets of durations, from a cached answer on the same machine to a scan of minutes.
pub(super) const SECONDS: [f64; 17] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 600.0,
];
/// The buckets of the gateway's own time: a describe takes it 30 to 50 µs.
const ADDED: [f64; 14] = [
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05,
    0.25, 1.0, 10.0,
];
/// The buckets of stalls. Timers have a resolution of 1 ms.
const STALLS: [f64; 11] = [
    0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
];
const ENTRIES: [f64; 9] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 500.0, 1000.0];

pub(super) struct Families {
    pub(super) requests: IntCounterVec,
    pub(super) request_duration: HistogramVec,
    pub(super) added_duration: Histogram,
    pub(super) limited: IntCounterVec,
    pub(super) upstream_duration: HistogramVec,
    pub(super) upstream_requests: IntCounterVec,
    pub(super) in_flight: IntGauge,
    pub(super) request_bytes: IntCounterVec,
    pub(super) response_bytes: IntCounterVec,
    pub(super) connections: IntGauge,
    pub(super) tls_failures: IntCounterVec,
    pub(super) worker_stall: Histogram,
    pub(super) authentication_failures: IntCounterVec,
    pub(super) token_cache: IntCounterVec,
    pub(super) key_refreshes: IntCounterVec,
    pub(super) keys_age: GaugeVec,
    pub(super) backend_up: IntGaugeVec,
    pub(super) breaker_open: IntGaugeVec,
    pub(super) addresses_down: IntGaugeVec,
    pub(super) breaker_decisions: IntCounterVec,
    pub(super) backend_retries: IntCounterVec,
    pub(super) backend_slow: IntCounterVec,
    pub(super) batches: IntCounterVec,
    pub(super) batch_duration: HistogramVec,
    pub(super) batch_entries: Histogram,
    pub(super) batches_undecided: IntGauge,
    pub(super) oldest_undecided: Gauge,
    pub(super) batches_open: IntGaugeVec,
    pub(super) batch_oldest: GaugeVec,
    pub(super) batch_hazards: IntGauge,
    pub(super) late_creates: IntCounter,
    pub(super) config_reloads: IntCounterVec,
    pub(super) config_last_reload: Gauge,
    pub(super) config_last_successful: IntGauge,
    pub(super) audit_lost: IntCounter,
    pub(super) audit_writable: IntGauge,
    pub(super) limits: IntGaugeVec,
    pub(super) certificates: GaugeVec,
    pub(super) log_lease: GaugeVec,
    pub(super) log_owned: IntGaugeVec,
    pub(super) gateways: IntGaugeVec,
    pub(super) gateways_differing: IntGaugeVec,
    pub(super) guarded_tables: IntGaugeVec,
    pub(super) passed_on: IntCounterVec,
    pub(super) discarded: IntCounterVec,
    pub(super) expired: IntCounterVec,
    pub(super) runtime: RuntimeFamilies,
    pub(super) names: Vec<String>,
}

impl Families {
    pub(super) fn register(registry: &Registry, upstream: &[&str]) -> Self {
        let new = Register(registry, RefCell::default());
        new.gauges(
            "nsgate_build_info",
            "Always 1; version, commit, cargo features and compiler are in the labels.",
            &["version", "revision", "features", "rustc"],
        )
        .with_label_values(&[
            build::VERSION,
            build::REVISION,
            build::FEATURES,
            build::RUSTC,
        ])
        .set(1);
        let mut families = Self {
            names: Vec::new(),
            requests: new.counters(
                "nsgate_requests_total",
                "Requests answered, by HTTP status. The backend is `none` if the gateway answered without a catalog.",
                &["operation", "backend", "code"],
            ),
            request_duration: new.seconds(
                REQUEST_DURATION,
                "Seconds from a request's headers to the end of its response.",
                &["operation"],
            ),
            added_duration: new.histogram(
                "nsgate_added_duration_seconds",
                "Seconds that the gateway itself added to requests that one catalog answered with a body in one piece.",
                &ADDED,
            ),
            limited: new.counters(
                "nsgate_limited_requests_total",
                "Requests refused because of a limit, by the limit.",
                &["reason"],
            ),
            upstream_duration: new.seconds(
                "nsgate_upstream_duration_seconds",
                "Seconds from sending a request to a catalog to its response headers, or until the gateway or the client gave up.",
                upstream,
            ),
            upstream_requests: new.counters(
                "nsgate_upstream_requests_total",
                "Requests sent to a catalog, those of the gateway included.",
                &["backend"],
            ),
            in_flight: new.gauge(
                "nsgate_requests_in_flight",
                "Requests whose response has not ended.",
            ),
            request_bytes: new.counters(
                "nsgate_request_bytes_total",
                "Bytes of request bodies read from clients.",
                &["backend"],
            ),
            response_bytes: new.counters(
                "nsgate_response_bytes_total",
                "Bytes of response bodies sent to clients.",
                &["backend"],
            ),
            connections: new.gauge("nsgate_connections", "Open client connections."),
            tls_failures: new.counters(
                "nsgate_tls_handshake_failures_total",
                "TLS handshakes with clients that failed, by reason.",
                &["reason"],
            ),
            worker_stall: new.histogram(
                "nsgate_worker_stall_seconds",
                "Seconds that a worker was late for a timer, 50 times a second: its requests wait as long.",
                &STALLS,
            ),
            authentication_failures: new.counters(
                "nsgate_authentication_failures_total",
                "Requests refused because of their token.",
                &["reason"],
            ),
            token_cache: new.counters(
                "nsgate_token_cache_total",
                "Lookups in the cache of verified tokens: hit or miss.",
                &["result"],
            ),
            key_refreshes: new.counters(
                "nsgate_key_refreshes_total",
                "Attempts to fetch an issuer's keys.",
                &["issuer", "result"],
            ),
            keys_age: new.float_gauges(
                "nsgate_keys_age_seconds",
                "Seconds since an issuer's keys were last fetched; infinite if there are none.",
                &["issuer"],
            ),
            backend_up: new.gauges(
                "nsgate_backend_up",
                "1 if at least one address of the catalog passed its last health check and has a closed circuit breaker, else 0.",
                &["backend"],
            ),
            breaker_open: new.gauges(
                "nsgate_backend_breaker_open",
                "Addresses of the catalog with an open circuit breaker: their requests failed, so no more are sent for now, or a small share if every address is open.",
                &["backend"],
            ),
            addresses_down: new.gauges(
                "nsgate_backend_addresses_down",
                "Addresses of a catalog with several that failed their last health check or have an open circuit breaker.",
                &["backend"],
            ),
            breaker_decisions: new.counters(
                "nsgate_backend_breaker_decisions_total",
                "Requests refused or let_through while the circuit breaker of every address was open, and failures that spared the last address.",
                &["backend", "decision"],
            ),
            backend_retries: new.counters(
                "nsgate_backend_retries_total",
                "Retries of requests that change nothing.",
                &["backend"],
            ),
            backend_slow: new.counters(
                "nsgate_backend_slow_requests_total",
                "Requests sent to a catalog that waited 2 s or more for its answer, but for those that read or write rows.",
                &["backend"],
            ),
            batches: new.counters(
                "nsgate_batches_total",
                "Batches, by outcome.",
                &["outcome"],
            ),
            batch_duration: new.seconds(
                "nsgate_batch_duration_seconds",
                "Seconds that a phase of a batch took.",
                &["phase"],
            ),
            batch_entries: new.histogram(
                "nsgate_batch_entries",
                "Entries of a batch.",
                &ENTRIES,
            ),
            batches_undecided: new.gauge(
                "nsgate_batches_undecided",
                "Batches with a durable intent and no decision yet.",
            ),
            oldest_undecided: new.float_gauge(
                "nsgate_batch_oldest_undecided_seconds",
                "Seconds since the oldest undecided batch began; 0 if there is none.",
            ),
            batches_open: new.gauges(
                "nsgate_batches_open",
                "Batches with a durable intent and no durable end, by state.",
                &["state"],
            ),
            batch_oldest: new.float_gauges(
                "nsgate_batch_oldest_seconds",
                "Seconds since the oldest open batch in this state began; 0 if there is none.",
                &["state"],
            ),
            batch_hazards: new.gauge(
                "nsgate_batch_hazards",
                "Changes of aborted batches that wait for an operator.",
            ),
            late_creates: new.counter(
                "nsgate_batch_late_creates_total",
                "Creates that were found to land after their batch was aborted.",
            ),
            config_reloads: new.counters(
                "nsgate_config_reloads_total",
                "Attempts to reload the configuration.",
                &["result"],
            ),
            config_last_reload: new.float_gauge(
                "nsgate_config_last_reload_success_timestamp_seconds",
                "Unix time of the configuration in use, in seconds.",
            ),
            config_last_successful: new.gauge(
                "nsgate_config_last_reload_successful",
                "0 if the configuration could not be used when it was last read, else 1.",
            ),
            audit_lost: new.counter(
                "nsgate_audit_lines_lost_total",
                "Lines of the audit log that were lost, because it could not be written or its reader was too slow.",
            ),
            audit_writable: new.gauge(
                "nsgate_audit_writable",
                "0 if the audit log cannot be written: the last write failed, the running one does not return, or too many lines wait; else 1.",
            ),
            limits: new.gauges(
                "nsgate_limit",
                "The configured limits of nsgate_requests_in_flight and nsgate_connections.",
                &["limit"],
            ),
            certificates: new.float_gauges(
                "nsgate_certificate_expiry_timestamp_seconds",
                "Unix time at which a certificate expires that the gateway shows to clients or to a catalog.",
                &["certificate"],
            ),
            log_lease: new.float_gauges(
                "nsgate_log_lease_seconds",
                "Seconds for which the gateway may serve what batches can change, without another heartbeat in the batch log; 0 while it may not.",
                &["log"],
            ),
            log_owned: new.gauges(
                "nsgate_log_owned",
                "1 if the gateway owns the batch log and runs batches, else 0.",
                &["log"],
            ),
            gateways: new.gauges(
                "nsgate_gateways",
                "Gateways that share the batch log, as this one sees them.",
                &["log"],
            ),
            gateways_differing: new.gauges(
                "nsgate_gateways_differing",
                "Gateways that share the batch log and have other mounts, or other addresses of catalogs, than this one.",
                &["log"],
            ),
            guarded_tables: new.gauges(
                "nsgate_guarded_tables",
                "Tables for which only the owner of the batch log serves requests: a batch is on them, or was until a moment ago.",
                &["log"],
            ),
            passed_on: new.counters(
                "nsgate_passed_on_total",
                "Requests that were passed on to the owner of the batch log, by result: answered or unanswered.",
                &["log", "result"],
            ),
            discarded: new.counters(
                "nsgate_reads_discarded_total",
                "Answers of catalogs that were not shown, because a batch may have begun before they came.",
                &["log"],
            ),
            expired: new.counters(
                "nsgate_gateways_expired_total",
                "Gateways that this one has taken for dead.",
                &["log"],
            ),
            runtime: RuntimeFamilies::register(&new),
        };
        for result in ["success", "failure"] {
            families.config_reloads.with_label_values(&[result]);
        }
        families.audit_writable.set(1);
        families.names = new.1.into_inner();
        families
    }
}

/// A registry that also records the names of the families.
pub(super) struct Register<'a>(&'a Registry, RefCell<Vec<String>>);

impl Register<'_> {
    fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.add(IntCounter::new(name, help))
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.add(IntCounterVec::new(Opts::new(name, help), labels))
    }

    pub(super) fn float_counter(&self, name: &str, help: &str) -> Counter {
        self.add(Counter::new(name, help))
    }

    pub(super) fn float_counters(&self, name: &str, help: &str, labels: &[&str]) -> CounterVec {
        self.add(CounterVec::new(Opts::new(name, help), labels))
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.add(IntGauge::new(name, help))
    }

    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.add(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    pub(super) fn float_gauge(&self, name: &str, help: &str) -> Gauge {
        self.add(Gauge::new(name, help))
    }

    fn float_gauges(&self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        self.add(GaugeVec::new(Opts::new(name, help), labels))
    }

    fn seconds(&self, name: &str, help: &str, labels: &[&str]) -> HistogramVec {
        let options = HistogramOpts::new(name, help).buckets(SECONDS.to_vec());
        self.add(HistogramVec::new(options, labels))
    }

    fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Histogram {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.add(Histogram::with_opts(options))
    }

    fn add<C: Collector + Clone + 'static>(&self, family: Result<C, prometheus::Error>) -> C {
        let family = family.expect("the names and labels written above are legal");
        let names = family.desc().into_iter().map(|desc| desc.fq_name.clone());
        self.1.borrow_mut().extend(names);
        self.0
            .register(Box::new(family.clone()))
            .expect("the names written above are all different");
        family
    }
}
