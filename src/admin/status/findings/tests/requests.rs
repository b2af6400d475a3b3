//! Findings about requests that are slow, refused again and again, or too many.

use super::super::super::report::SlowCatalog;
use super::*;
use crate::admin::history::Rates;

#[test]
fn a_catalog_is_slow_if_one_request_in_a_hundred_is_and_five_in_a_minute_are() {
    let mut report = all_well();
    report.slow = vec![refusal("ada", 200, 1)];
    for (slow, sent, is_slow) in [(4, 10, false), (5, 501, false), (5, 500, true)] {
        let catalog = "lake".to_owned();
        report.load.slow = vec![SlowCatalog {
            catalog,
            slow,
            sent,
        }];
        assert_eq!(of(&report).len(), usize::from(is_slow), "{slow} of {sent}");
    }
    let finding = &of(&report)[0];
    let expected = "catalog lake is slow: 5 of 500 requests of the last minute waited 2 s or more";
    assert_eq!(finding.what, expected);
    let detail = finding.detail.as_deref().unwrap_or_default();
    assert!(
        detail.contains("restore_table prod$orders of ada from 10.0.0.7"),
        "{detail}"
    );
    assert!(detail.ends_with("it serves prod$eu"), "{detail}");
    report.catalogs = vec![catalog(&[false])];
    let findings = of(&report);
    assert_eq!(
        findings.len(),
        1,
        "one that is down is not slow: {findings:?}"
    );
}

fn refusal(subject: &str, status: u16, count: u64) -> FailureLine {
    FailureLine {
        id: "r-1".to_owned(),
        status,
        operation: "restore_table".to_owned(),
        name: Some("prod$orders".to_owned()),
        catalog: Some("lake".to_owned()),
        cause: "scope w is required".to_owned(),
        subject: Some(subject.to_owned()),
        issuer: Some("https://idp".to_owned()),
        client: Some("10.0.0.7".to_owned()),
        count,
        ..FailureLine::default()
    }
}

#[test]
fn a_caller_that_is_refused_again_and_again_is_named_with_the_command_that_shows_the_rule() {
    let mut report = all_well();
    report.refused = vec![refusal("ada", 403, 60), refusal("ben", 403, 99)];
    assert_eq!(of(&report), []);
    report.refused.push(refusal("ada", 403, 40));
    let findings = of(&report);
    let [finding] = &findings[..] else {
        panic!("{findings:?}");
    };
    assert_eq!(
        finding.what,
        "caller ada of https://idp was denied 100 times"
    );
    assert_eq!(
        finding.command.as_deref(),
        Some("nsgate explain --config /etc/nsgate/gateway.yaml --claim 'sub=ada' 'prod$orders'")
    );
    assert_eq!(
        finding.detail.as_deref(),
        Some(
            "the last one: restore_table prod$orders of ada from 10.0.0.7: scope w is required (request r-1)"
        )
    );
    assert!(finding.names_requests);
    report.refused[2].age_seconds = 300;
    assert_eq!(of(&report), [], "that was long ago");
    report.refused = vec![FailureLine {
        subject: None,
        ..refusal("", 401, 1000)
    }];
    let finding = &of(&report)[0];
    assert_eq!(
        finding.what,
        "1000 requests were refused because of their token"
    );
    assert_eq!(
        finding.alert.as_deref(),
        Some("NsgateAuthenticationFailures")
    );
}

#[test]
fn load_is_told_near_its_limit_and_failures_from_five_percent() {
    let mut report = all_well();
    report.load.in_flight = 80;
    assert_eq!(of(&report), []);
    report.load.in_flight = 81;
    assert_eq!(
        of(&report)[0].what,
        "81 of 100 requests in flight (`limits.in_flight`)"
    );
    report.load.in_flight = 100;
    report.catalogs[0].endpoints[0].in_flight = 97;
    let finding = &of(&report)[0];
    assert_eq!(finding.urgency, Urgency::Critical);
    assert!(finding.what.starts_with("all 100 places"), "{finding:?}");
    let detail = "97 wait for catalog lake, which serves prod$eu";
    assert_eq!(finding.detail.as_deref(), Some(detail));
    assert!(finding.command.is_some());
    report.catalogs[0].endpoints[0].in_flight = 0;
    let finding = &of(&report)[0];
    let detail = "most wait for their clients, or for a locked table";
    assert_eq!(finding.detail.as_deref(), Some(detail));
    report.load.in_flight = 0;
    report.load.rates.rate_seconds = 60;
    report.load.rates.requests_per_second = 100.0;
    report.load.rates.failed_per_second = 4.9;
    assert_eq!(of(&report), []);
    report.load.rates.failed_per_second = 12.0;
    report.failed = vec![FailureLine {
        operation: "describe_table".to_owned(),
        cause: "catalog `lake` is unavailable".to_owned(),
        ..FailureLine::default()
    }];
    let finding = &of(&report)[0];
    assert_eq!(
        finding.what,
        "12 % of the requests of the last minute failed"
    );
    assert!(finding.detail.as_ref().unwrap().contains("lake"));
}

#[test]
fn failures_are_told_before_the_first_sample_but_not_a_few_of_them() {
    let mut report = all_well();
    report.load.rates = Rates {
        rate_seconds: 2,
        requests_per_second: 3.0,
        failed_per_second: 3.0,
    };
    let finding = &of(&report)[0];
    assert_eq!(
        finding.what,
        "100 % of the requests of the last minute failed"
    );
    report.load.rates.failed_per_second = 2.5;
    assert_eq!(of(&report), []);
}
