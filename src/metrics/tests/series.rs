//! Series of backends, keys and certificates: they end with what they are about, and their number is bounded.

use super::*;
use crate::config::Telemetry;

/// Counts one request of each kind that has series of its own.
fn count(metrics: &Metrics, backend: &Backend) {
    for status in [200, 418] {
        metrics.requests().began();
        metrics.requests().ended(CompletedRequest {
            backend: Some(backend),
            ..request(status)
        });
    }
    backend.asked(
        Operation::DescribeTable,
        std::time::Duration::from_millis(1),
    );
    backend.retried();
    backend.breaker_refused();
    backend.stands(true, 0, Some(0));
}

#[test]
fn a_removed_backend_has_no_series_and_a_new_one_of_its_name_begins_at_zero() {
    for by in [Histograms::Operation, Histograms::Backend, Histograms::Both] {
        let metrics = Metrics::with_histograms(by);
        let all = |metrics: &Metrics| {
            let text = metrics.render().unwrap();
            let lines = text.lines().filter(|line| line.contains("\"lake\""));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let lake = metrics.backend(&"lake".into());
        count(&metrics, &lake);
        let before = all(&metrics);
        assert!(!before.is_empty());
        // What was counted and not rendered yet, and what a request in progress counts later.
        count(&metrics, &lake);
        metrics.retain_backends(|_| false);
        count(&metrics, &lake);
        lake.asked(Operation::QueryTable, std::time::Duration::from_millis(1));
        assert_eq!(all(&metrics), Vec::<String>::new(), "{by:?}");

        let again = metrics.backend(&"lake".into());
        count(&metrics, &again);
        count(&metrics, &lake);
        drop(lake);
        assert_eq!(all(&metrics).len(), before.len(), "{by:?}");
        for line in [
            "nsgate_backend_retries_total{backend=\"lake\"} 1",
            "nsgate_upstream_requests_total{backend=\"lake\"} 1",
        ] {
            assert!(all(&metrics).iter().any(|one| one == line), "{line}");
        }
    }
}

#[test]
fn a_thousand_backends_have_fewer_than_twenty_thousand_series() {
    const BACKENDS: usize = 1000;
    let series = |by| {
        let metrics = Metrics::with_histograms(by);
        for number in 0..BACKENDS {
            let backend = metrics.backend(&format!("backend-{number}").into());
            for operation in &Operation::LISTED[..10] {
                metrics.requests().began();
                metrics.requests().ended(CompletedRequest {
                    operation: Some(*operation),
                    backend: Some(&backend),
                    ..request(200)
                });
                backend.asked(*operation, std::time::Duration::from_millis(1));
            }
        }
        let text = metrics.render().unwrap();
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        println!("{by:?}: {series} series, {} bytes", text.len());
        metrics.retain_backends(|_| false);
        let left = metrics.render().unwrap();
        assert!(!left.contains("backend=\"backend-"), "{left}");
        series
    };
    let telemetry = Telemetry::default();
    assert!(series(telemetry.histograms(BACKENDS)) < 20_000);
    assert!(series(Histograms::Both) > 200_000);
    assert_eq!(telemetry.histograms(3), Histograms::Both);
}

#[test]
fn what_is_not_configured_any_more_is_neither_down_nor_old() {
    let metrics = Metrics::new();
    let says = |sample: &str| metrics.render().unwrap().contains(sample);
    let (lake, warehouse): (Arc<str>, Arc<str>) = ("lake".into(), "warehouse".into());
    let down = metrics.backend(&lake);
    down.stands(false, 1, None);
    down.retried();
    metrics.backend(&warehouse).stands(true, 0, Some(0));
    let issuer = metrics.auth().issuer("https://idp.example");
    let end = std::time::Duration::from_secs(1_900_000_000);
    metrics.certificates([("listen", UNIX_EPOCH + end)].into_iter());
    assert!(says("nsgate_backend_up{backend=\"lake\"} 0\n"));
    assert!(says(
        "nsgate_keys_age_seconds{issuer=\"https://idp.example\"} inf\n"
    ));
    assert!(says(
        "nsgate_certificate_expiry_timestamp_seconds{certificate=\"listen\"} 1900000000\n"
    ));

    drop(issuer);
    metrics.retain_backends(|name| name == "warehouse");
    metrics.certificates(std::iter::empty());
    for gone in [
        "nsgate_backend_up{backend=\"lake\"}",
        "nsgate_keys_age_seconds{",
        "expiry_timestamp_seconds{",
    ] {
        assert!(!says(gone), "{gone}");
    }
    assert!(says("nsgate_backend_up{backend=\"warehouse\"} 1\n"));
    assert!(!says("nsgate_backend_retries_total{backend=\"lake\"}"));
    metrics.backend(&lake).stands(true, 0, Some(0));
    assert!(
        says("nsgate_backend_up{backend=\"lake\"} 1\n"),
        "it came back"
    );
}
