#![allow(clippy::unwrap_used, reason = "a test says what it expects")]
use std::collections::BTreeSet;

use http::StatusCode;

use super::*;
use crate::protocol::operation::Operation;

mod series;

/// The names that dashboards and alerts depend on.
const NAMES: [&str; 57] = [
    "nsgate_requests_total",
    "nsgate_request_duration_seconds",
    "nsgate_upstream_duration_seconds",
    "nsgate_upstream_requests_total",
    "nsgate_requests_in_flight",
    "nsgate_response_bytes_total",
    "nsgate_request_bytes_total",
    "nsgate_connections",
    "nsgate_worker_stall_seconds",
    "nsgate_authentication_failures_total",
    "nsgate_token_cache_total",
    "nsgate_key_refreshes_total",
    "nsgate_keys_age_seconds",
    "nsgate_backend_up",
    "nsgate_backend_addresses_down",
    "nsgate_backend_breaker_decisions_total",
    "nsgate_backend_breaker_open",
    "nsgate_backend_retries_total",
    "nsgate_backend_slow_requests_total",
    "nsgate_batches_total",
    "nsgate_batch_duration_seconds",
    "nsgate_batch_entries",
    "nsgate_batches_undecided",
    "nsgate_batch_oldest_undecided_seconds",
    "nsgate_batch_hazards",
    "nsgate_batches_open",
    "nsgate_batch_oldest_seconds",
    "nsgate_batch_late_creates_total",
    "nsgate_config_reloads_total",
    "nsgate_config_last_reload_success_timestamp_seconds",
    "nsgate_config_last_reload_successful",
    "nsgate_limit",
    "nsgate_certificate_expiry_timestamp_seconds",
    "nsgate_build_info",
    "nsgate_log_lease_seconds",
    "nsgate_log_owned",
    "nsgate_gateways",
    "nsgate_guarded_tables",
    "nsgate_passed_on_total",
    "nsgate_reads_discarded_total",
    "nsgate_gateways_differing",
    "nsgate_gateways_expired_total",
    "nsgate_added_duration_seconds",
    "nsgate_audit_lines_lost_total",
    "nsgate_audit_writable",
    "nsgate_limited_requests_total",
    "nsgate_tls_handshake_failures_total",
    "nsgate_worker_busy_seconds_total",
    "nsgate_worker_parks_total",
    "nsgate_worker_tasks",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "nsgate_allocated_bytes",
    "process_open_fds",
    "process_max_fds",
    "process_start_time_seconds",
    "process_threads",
];

fn request(status: u16) -> CompletedRequest<'static> {
    CompletedRequest {
        operation: Some(Operation::DescribeTable),
        backend: None,
        status: StatusCode::from_u16(status).ok(),
        took: std::time::Duration::from_millis(3),
        added: Some(std::time::Duration::from_micros(40)),
        limit: None,
        trace: None,
        request_bytes: 40,
        response_bytes: 180,
    }
}

#[test]
fn every_name_is_exposed_with_its_help_and_type() {
    let metrics = Metrics::new();
    let backend = metrics.backend(&"lake".into());
    backend.asked(Operation::DescribeTable, SLOW);
    backend.stands(true, 0, Some(0));
    metrics.auth().refused("expired");
    let issuer = metrics.auth().issuer("https://idp.example");
    issuer.refreshed(false);
    metrics.requests().began();
    metrics.requests().ended(request(200));
    let worker = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    metrics.watch_workers(&[worker.handle().clone()]);
    metrics.limits(4096, 10_000);
    metrics.certificates([("listen", UNIX_EPOCH)].into_iter());
    metrics.log(&LogCounts::default());
    let text = metrics.render().unwrap();
    let known = metrics.names().iter().map(String::as_str);
    let known: BTreeSet<_> = known.collect();
    assert_eq!(known, NAMES.into());
    for name in NAMES {
        assert!(text.contains(&format!("# HELP {name} ")), "{name}\n{text}");
        assert!(text.contains(&format!("# TYPE {name} ")), "{name}\n{text}");
    }
}

#[test]
fn a_request_counts_with_its_operation_backend_and_status() {
    let metrics = Metrics::new();
    let lake = metrics.backend(&"lake".into());
    let cases = [
        (
            Some(Operation::DescribeTable),
            Some(&*lake),
            200,
            "describe_table",
            "lake",
        ),
        (
            Some(Operation::ListAllTables),
            None,
            503,
            "list_all_tables",
            "none",
        ),
        (None, None, 404, "unrecognized", "none"),
        (
            Some(Operation::QueryTable),
            Some(&*lake),
            418,
            "query_table",
            "lake",
        ),
    ];
    for (operation, backend, status, _, _) in cases {
        metrics.requests().began();
        metrics.requests().ended(CompletedRequest {
            operation,
            backend,
            ..request(status)
        });
    }
    let text = metrics.render().unwrap();
    for (_, _, status, operation, backend) in cases {
        let line = format!(
            "nsgate_requests_total{{backend=\"{backend}\",code=\"{status}\",operation=\"{operation}\"}} 1\n"
        );
        assert!(text.contains(&line), "{line}{text}");
    }
    assert!(text.contains("nsgate_response_bytes_total{backend=\"lake\"} 360\n"));
    assert!(text.contains("nsgate_requests_in_flight 0\n"));
}

#[test]
fn what_many_threads_count_is_one_count() {
    let metrics = Metrics::new();
    let lake = metrics.backend(&"lake".into());
    let count = || {
        for status in [200, 404, 418] {
            metrics.requests().began();
            metrics.requests().ended(CompletedRequest {
                backend: Some(&lake),
                ..request(status)
            });
        }
        metrics.requests().began();
        lake.asked(Operation::QueryTable, std::time::Duration::from_secs(1));
        metrics.auth().looked_up(CacheLookup::Hit);
        metrics.auth().looked_up(CacheLookup::Miss);
    };
    // The second round shows that counts that were added up before are not counted again.
    for round in 1..=2 {
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(count);
            }
        });
        let text = metrics.render().unwrap();
        for (series, each) in [
            ("nsgate_requests_in_flight", 1),
            (
                "nsgate_requests_total{backend=\"lake\",code=\"200\",operation=\"describe_table\"}",
                1,
            ),
            (
                "nsgate_requests_total{backend=\"lake\",code=\"404\",operation=\"describe_table\"}",
                1,
            ),
            (
                "nsgate_requests_total{backend=\"lake\",code=\"418\",operation=\"describe_table\"}",
                1,
            ),
            ("nsgate_request_bytes_total{backend=\"lake\"}", 120),
            ("nsgate_response_bytes_total{backend=\"lake\"}", 540),
            (
                "nsgate_request_duration_seconds_count{operation=\"describe_table\"}",
                3,
            ),
            (
                "nsgate_upstream_duration_seconds_sum{backend=\"lake\",operation=\"query_table\"}",
                1,
            ),
            ("nsgate_upstream_requests_total{backend=\"lake\"}", 1),
            ("nsgate_token_cache_total{result=\"hit\"}", 1),
            ("nsgate_token_cache_total{result=\"miss\"}", 1),
        ] {
            let line = format!("{series} {}\n", each * 20 * round);
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}

#[test]
fn limits_failed_handshakes_and_conflicts_are_counted_by_their_reason() {
    let metrics = Metrics::new();
    metrics.requests().began();
    metrics.requests().ended(CompletedRequest {
        limit: Some(Limit::Share),
        ..request(503)
    });
    metrics.tls_failures().count(TlsFailure::Rejected);
    metrics.batch().conflicted();
    let text = metrics.render().unwrap();
    for (sample, count) in [
        ("nsgate_limited_requests_total{reason=\"share\"}", 1),
        ("nsgate_limited_requests_total{reason=\"rate\"}", 0),
        (
            "nsgate_tls_handshake_failures_total{reason=\"rejected\"}",
            1,
        ),
        ("nsgate_tls_handshake_failures_total{reason=\"closed\"}", 0),
        ("nsgate_batches_total{outcome=\"conflict\"}", 1),
        ("nsgate_batches_total{outcome=\"refused\"}", 0),
        ("nsgate_added_duration_seconds_bucket{le=\"0.000025\"}", 0),
        ("nsgate_added_duration_seconds_bucket{le=\"0.00005\"}", 1),
    ] {
        let line = format!("{sample} {count}\n");
        assert!(text.contains(&line), "{line}{text}");
    }
}

#[test]
fn only_openmetrics_has_exemplars() {
    let metrics = Metrics::new();
    metrics.requests().began();
    metrics.requests().ended(CompletedRequest {
        trace: Some(0xfeed),
        ..request(200)
    });
    let open = metrics.render_as(Format::OpenMetrics).unwrap();
    let traced = open.lines().find(|line| line.contains("0feed\"} 0.003 "));
    let bucket = "nsgate_request_duration_seconds_bucket{operation=\"describe_table\",le=\"0.005\"} 1 # {trace_id=";
    assert!(traced.unwrap().starts_with(bucket), "{traced:?}");
    assert!(!metrics.render().unwrap().contains("trace_id"));
}

#[test]
fn an_unsound_configuration_shows_until_a_sound_one_is_read() {
    let metrics = Metrics::new();
    metrics.config_in_use();
    for success in [true, false, false, true] {
        metrics.config_loaded(success);
        let text = metrics.render().unwrap();
        let line = format!(
            "nsgate_config_last_reload_successful {}\n",
            u8::from(success)
        );
        assert!(text.contains(&line), "{line}{text}");
    }
}

#[test]
fn open_batches_are_counted_by_where_they_stand_and_by_their_age() {
    let metrics = Metrics::new();
    let says = |sample: &str| metrics.render().unwrap().contains(&format!("{sample}\n"));
    let seconds = std::time::Duration::from_secs;
    let mut census = BatchCounts::default();
    census.add(BatchState::Undecided, seconds(7), 0);
    census.add(BatchState::Undecided, seconds(1000), 0);
    census.add(BatchState::Hazard, seconds(30), 3);
    metrics.batch().open(&census);
    for sample in [
        "nsgate_batches_undecided 2",
        "nsgate_batch_oldest_undecided_seconds 1000",
        "nsgate_batches_open{state=\"undecided\"} 2",
        "nsgate_batches_open{state=\"hazard\"} 1",
        "nsgate_batches_open{state=\"stranded\"} 0",
        "nsgate_batch_oldest_seconds{state=\"hazard\"} 30",
        "nsgate_batch_hazards 3",
    ] {
        assert!(says(sample), "{sample}");
    }
    metrics.batch().open(&BatchCounts::default());
    for sample in [
        "nsgate_batches_undecided 0",
        "nsgate_batch_oldest_undecided_seconds 0",
        "nsgate_batches_open{state=\"hazard\"} 0",
        "nsgate_batch_hazards 0",
    ] {
        assert!(says(sample), "{sample}");
    }
}
