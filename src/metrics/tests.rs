#![allow(clippy::unwrap_used, reason = "a test says what it expects")]
use http::StatusCode;

use super::*;
use crate::protocol::operation::Operation;

/// The names that dashboards and alerts are built on.
const NAMES: [&str; 23] = [
    "nsgate_requests_total",
    "nsgate_request_duration_seconds",
    "nsgate_upstream_duration_seconds",
    "nsgate_requests_in_flight",
    "nsgate_response_bytes_total",
    "nsgate_request_bytes_total",
    "nsgate_connections",
    "nsgate_authentication_failures_total",
    "nsgate_token_cache_total",
    "nsgate_key_refreshes_total",
    "nsgate_keys_age_seconds",
    "nsgate_backend_up",
    "nsgate_backend_breaker_open",
    "nsgate_backend_retries_total",
    "nsgate_batches_total",
    "nsgate_batch_duration_seconds",
    "nsgate_batch_entries",
    "nsgate_batches_undecided",
    "nsgate_batch_oldest_undecided_seconds",
    "nsgate_batch_hazards",
    "nsgate_config_reloads_total",
    "nsgate_config_last_reload_success_timestamp_seconds",
    "nsgate_build_info",
];

fn request(status: u16) -> Counted<'static> {
    Counted {
        operation: Some(Operation::DescribeTable),
        backend: None,
        status: StatusCode::from_u16(status).ok(),
        took: std::time::Duration::from_millis(3),
        request_bytes: 40,
        response_bytes: 180,
    }
}

#[test]
fn every_name_is_exposed_with_its_help_and_type() {
    let metrics = Metrics::new();
    let backend = metrics.backend(&"lake".into());
    backend.asked(
        Operation::DescribeTable,
        std::time::Duration::from_millis(1),
    );
    metrics.auth().refused("expired");
    metrics
        .auth()
        .issuer("https://idp.example")
        .refreshed(false);
    metrics.requests().began();
    metrics.requests().ended(request(200));
    let text = metrics.render().unwrap();
    for name in NAMES {
        assert!(text.contains(&format!("# HELP {name} ")), "{name}\n{text}");
        assert!(text.contains(&format!("# TYPE {name} ")), "{name}\n{text}");
    }
}

#[test]
fn a_request_counts_with_its_operation_backend_and_status() {
    let metrics = Metrics::new();
    let lake: Arc<str> = "lake".into();
    metrics.backend(&lake);
    let stranger: Arc<str> = "stranger".into();
    let cases = [
        (
            Some(Operation::DescribeTable),
            Some(&lake),
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
            Some(&lake),
            418,
            "query_table",
            "lake",
        ),
        // A name that is not configured does not become a label.
        (
            Some(Operation::QueryTable),
            Some(&stranger),
            502,
            "query_table",
            "none",
        ),
    ];
    for (operation, backend, status, _, _) in cases {
        metrics.requests().began();
        metrics.requests().ended(Counted {
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
fn the_oldest_undecided_batch_is_told_until_it_is_decided() {
    let metrics = Metrics::new();
    let batch = metrics.batch();
    let old = batch.undecided(std::time::Duration::from_secs(1000));
    let new = batch.undecided(std::time::Duration::ZERO);
    let age = |metrics: &Metrics| {
        let text = metrics.render().unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("nsgate_batch_oldest_undecided_seconds "));
        line.unwrap()
            .rsplit(' ')
            .next()
            .unwrap()
            .parse::<f64>()
            .unwrap()
    };
    assert!(age(&metrics) >= 1000.0);
    drop(old);
    assert!(age(&metrics) < 900.0);
    drop(new);
    assert!(age(&metrics).abs() < f64::EPSILON);
    assert!(
        metrics
            .render()
            .unwrap()
            .contains("nsgate_batches_undecided 0\n")
    );
}
