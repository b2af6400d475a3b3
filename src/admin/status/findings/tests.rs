#![allow(clippy::unwrap_used, reason = "a test says what it expects")]
use serde_json::json;

use super::super::report::{AuditReport, BatchLine, CertificateLine, IssuerLine};
use super::*;
use crate::admin::backends::{AddressState, CatalogState, MountState};
use crate::admin::gateways::GatewayList;
use crate::batch::fleet::Member;
use crate::config::reload::Fixed;
use crate::metrics::BatchState;

mod requests;

const ID: &str = "0190b0a0-0000-7000-8000-000000000000";

fn all_well() -> StatusReport {
    let mut report = StatusReport::default();
    report.load.in_flight_limit = 100;
    report.load.connections_limit = 100;
    report.configuration.file = "/etc/nsgate/gateway.yaml".to_owned();
    report.catalogs = vec![catalog(&[true])];
    report.certificates = vec![certificate(30 * DAY)];
    report
}

fn catalog(up: &[bool]) -> CatalogState {
    let addresses = up.iter().map(|up| AddressState {
        address: "http://lake:1".to_owned(),
        up: *up,
        error: (!up).then(|| "connection refused".to_owned()),
        breaker: "closed".to_owned(),
        ..AddressState::default()
    });
    CatalogState {
        name: "lake".to_owned(),
        up: up.contains(&true),
        endpoints: addresses.collect(),
        mounts: vec![MountState {
            namespace: vec!["prod".to_owned(), "eu".to_owned()],
            backend_namespace: Vec::new(),
        }],
        ..CatalogState::default()
    }
}

fn certificate(seconds_left: i64) -> CertificateLine {
    CertificateLine {
        of: "listen".to_owned(),
        expires: "2026-11-28T02:00:00.000Z".to_owned(),
        seconds_left,
        file: "/etc/nsgate/tls.crt".to_owned(),
    }
}

fn open(state: BatchState, age_seconds: u64, has_error: bool) -> BatchLine {
    BatchLine {
        id: ID.to_owned(),
        state,
        since: "2026-11-25T02:14:00.000Z".to_owned(),
        age_seconds,
        waits_for: "an operator: 1 of 2 changes cannot be rolled back safely".to_owned(),
        has_error,
        tables: vec!["prod$orders".to_owned()],
        more_tables: 0,
        changes: 2,
        catalogs: vec!["lake".to_owned()],
        begun_by: None,
    }
}

fn issuer(has_keys: bool) -> IssuerLine {
    IssuerLine {
        issuer: "https://idp".to_owned(),
        has_keys,
        failures: 3,
        error: Some("connection refused".to_owned()),
        source: "https://idp/jwks".to_owned(),
        ..IssuerLine::default()
    }
}

#[test]
fn a_gateway_without_trouble_is_ready() {
    let findings = of(&all_well());
    assert_eq!(findings, []);
    assert_eq!(headline(&findings), "ready");
}

#[test]
fn a_hazard_names_its_table_and_the_command() {
    let mut report = all_well();
    report.batches = vec![open(BatchState::Hazard, 5, false)];
    let findings = of(&report);
    let [hazard] = &findings[..] else {
        panic!("{findings:?}");
    };
    assert_eq!(hazard.what, "prod$orders waits for a person's decision");
    assert_eq!(hazard.urgency, Urgency::Critical);
    assert_eq!(hazard.command, Some(format!("nsgate batches show {ID}")));
    assert_eq!(hazard.alert.as_deref(), Some("NsgateBatchHazard"));
    assert!(hazard.detail.as_ref().unwrap().contains("02:14"));
}

#[test]
fn batches_that_go_on_by_themselves_are_no_finding() {
    let mut report = all_well();
    for state in [
        BatchState::Undecided,
        BatchState::Undoing,
        BatchState::Watching,
    ] {
        report.batches = vec![open(state, 119, false)];
        assert_eq!(of(&report), [], "{state:?}");
    }
    report.batches = vec![open(BatchState::Watching, 800, false)];
    assert_eq!(of(&report), []);
    report.batches = vec![open(BatchState::Undoing, 5, true)];
    assert_eq!(of(&report)[0].urgency, Urgency::Notice);
    report.batches = vec![open(BatchState::Undoing, 120, true)];
    assert_eq!(of(&report)[0].urgency, Urgency::Critical);
}

#[test]
fn many_hazards_are_counted_exactly_and_not_told_one_by_one() {
    let mut report = all_well();
    report.batches = vec![open(BatchState::Hazard, 5, false); 998];
    report.batches.push(open(BatchState::Undoing, 120, true));
    report.batches.push(open(BatchState::Watching, 120, false));
    report.more_waiting_batches = 10;
    let findings = of(&report);
    assert_eq!(findings.len(), EACH);
    let last = findings.last().unwrap();
    let detail = last.detail.as_ref().unwrap();
    let counted =
        "; 1003 more batches wait for a person's decision, and 1 more batch does not go on";
    assert!(detail.ends_with(counted), "{detail}");
    assert_eq!(last.command.as_deref(), Some("nsgate batches list"));
    assert_eq!(
        headline(&findings),
        "prod$orders waits for a person's decision (and 1008 more)"
    );
    report.list_batches(30);
    let told = (report.batches.len(), report.more_batches);
    assert_eq!((told, report.more_waiting_batches), ((30, 970), 978));
}

#[test]
fn a_changed_key_that_waits_for_a_restart_is_named() {
    let mut report = all_well();
    let waits = Fixed {
        key: "listen.address",
        in_use: json!("127.0.0.1:1"),
        wanted: json!("127.0.0.1:2"),
    };
    report.configuration.last_reload = Some(json!({ "at": "x", "restart_needed": [waits] }));
    let findings = of(&report);
    let words: Vec<&str> = findings.iter().map(|finding| &*finding.what).collect();
    assert_eq!(words, ["a changed listen.address waits for a restart"]);
}

#[test]
fn what_stops_all_clients_comes_before_what_stops_a_table_and_that_before_what_can_wait() {
    let mut report = all_well();
    report.missing = vec!["the keys of https://idp have not been fetched yet".to_owned()];
    report.issuers = vec![issuer(false)];
    report.certificates = vec![
        certificate(-3600),
        certificate(23 * 3600),
        certificate(3 * DAY),
    ];
    report.batches = vec![open(BatchState::Hazard, 5, false)];
    report.catalogs = vec![catalog(&[false])];
    report.configuration.last_reload = Some(json!({ "at": "x", "problems": ["limits.x: no"] }));
    let findings = of(&report);
    let words: Vec<&str> = findings.iter().map(|finding| &*finding.what).collect();
    assert_eq!(
        words,
        [
            "not ready: the keys of https://idp have not been fetched yet",
            "the certificate of `listen` expired 60 minutes ago",
            "prod$orders waits for a person's decision",
            "catalog lake is down",
            "the certificate of `listen` expires in 23 hours",
            "the certificate of `listen` expires in 3 days",
            "the last reload was refused; the previous configuration stays active",
        ]
    );
    assert_eq!(
        headline(&findings),
        "not ready: the keys of https://idp have not been fetched yet (and 6 more)"
    );
}

#[test]
fn a_catalog_that_is_down_says_why_and_what_it_serves() {
    let mut report = all_well();
    report.catalogs = vec![catalog(&[false, false])];
    let finding = &of(&report)[0];
    let detail = finding.detail.as_deref();
    let expected = "http://lake:1: connection refused; it serves prod$eu";
    assert_eq!(detail, Some(expected));
    let command = finding.command.as_deref().unwrap();
    assert_eq!(
        command,
        "nsgate check --online --config /etc/nsgate/gateway.yaml"
    );
    report.catalogs = vec![catalog(&[true, false, true])];
    let finding = &of(&report)[0];
    assert_eq!(
        finding.what,
        "1 of 3 addresses of catalog lake does not serve"
    );
    assert_eq!(finding.urgency, Urgency::Warning);
    report.catalogs[0].endpoints[1] = AddressState {
        address: "http://lake:2".to_owned(),
        up: true,
        breaker: "open".to_owned(),
        failure: Some("lost: connection reset".to_owned()),
        ..AddressState::default()
    };
    assert_eq!(
        of(&report)[0].detail.as_deref(),
        Some(
            "http://lake:2: circuit breaker open: lost: connection reset; the other addresses serve prod$eu"
        )
    );
    report.catalogs = vec![catalog(&[false]); 7];
    let finding = &of(&report)[0];
    assert!(finding.what.contains("and 2 more are down"), "{finding:?}");
    let detail = finding.detail.as_deref().unwrap_or_default();
    assert!(detail.contains("lake (serves prod$eu): "), "{finding:?}");
}

#[test]
fn a_certificate_is_told_two_weeks_before_its_end() {
    let mut report = all_well();
    for (left, urgency) in [
        (14 * DAY, None),
        (14 * DAY - 1, Some(Urgency::Warning)),
        (DAY, Some(Urgency::Warning)),
        (DAY - 1, Some(Urgency::Critical)),
        (-1, Some(Urgency::Critical)),
    ] {
        report.certificates = vec![certificate(left)];
        let findings = of(&report);
        let found = findings.first().map(|finding| finding.urgency);
        assert_eq!(found, urgency, "{left}");
    }
}

#[test]
fn an_issuer_whose_keys_fail_is_a_warning_while_the_old_keys_serve() {
    let mut report = all_well();
    report.issuers = vec![issuer(true)];
    let finding = &of(&report)[0];
    assert_eq!(finding.urgency, Urgency::Warning);
    let detail = finding.detail.as_deref();
    let expected =
        "3 attempts failed: connection refused; the keys of https://idp come from https://idp/jwks";
    assert_eq!(detail, Some(expected));
    let command = finding.command.as_deref();
    assert_eq!(command, Some("curl -fsS https://idp/jwks"));
    report.issuers[0].age_seconds = Some(26 * 3600);
    let finding = &of(&report)[0];
    assert_eq!(finding.what, "the keys of https://idp are 26 hours old");
    assert_eq!(finding.urgency, Urgency::Critical);
    report.issuers[0].source = "/etc/nsgate/keys.json".to_owned();
    let command = of(&report)[0].command.clone();
    let expected = "nsgate check --config /etc/nsgate/gateway.yaml";
    assert_eq!(command.as_deref(), Some(expected));
}

#[test]
fn an_audit_log_that_cannot_be_written_says_why_and_what_it_costs() {
    let mut report = all_well();
    let audit = AuditReport {
        to: "/var/log/nsgate/audit.log".to_owned(),
        error: Some("No space left on device".to_owned()),
        is_required: true,
        lost: 3,
        is_writable: false,
    };
    report.audit = Some(audit.clone());
    let finding = &of(&report)[0];
    assert_eq!(finding.urgency, Urgency::Critical);
    assert_eq!(
        finding.what,
        "changes are refused: the audit log cannot be written: No space left on device"
    );
    let detail = "it is /var/log/nsgate/audit.log, 3 lines are lost so far; make room on its disk, or correct its path; it is tried again each second";
    assert_eq!(finding.detail.as_deref(), Some(detail));
    let command = finding.command.as_deref();
    assert_eq!(command, Some("df -h /var/log/nsgate/audit.log"));
    report.audit = Some(AuditReport {
        is_required: false,
        ..audit.clone()
    });
    let finding = &of(&report)[0];
    assert_eq!(finding.urgency, Urgency::Warning);
    assert!(finding.what.contains("are lost"), "{}", finding.what);
    report.audit = Some(AuditReport {
        is_writable: true,
        ..audit
    });
    assert_eq!(of(&report), []);
}

#[test]
fn a_log_without_an_owner_is_critical() {
    let mut report = all_well();
    report.gateways = Some(GatewayList {
        shared: true,
        gateways: Vec::new(),
    });
    report.log_is_away = true;
    report.batches_unknown = Some("no owner".to_owned());
    let findings = of(&report);
    let urgencies: Vec<_> = findings.iter().map(|finding| finding.urgency).collect();
    let expected = [Urgency::Critical, Urgency::Critical, Urgency::Warning];
    assert_eq!(urgencies, expected);
}

#[test]
fn an_owner_that_recovers_its_batches_is_a_notice_until_it_has() {
    let mut report = all_well();
    let mut this = Member {
        name: "a".to_owned(),
        address: None,
        version: "1".to_owned(),
        is_owner: true,
        is_this: true,
        recovers: true,
        routes_differ: false,
        silent_millis: 0,
        lease_millis: 5000,
    };
    let mut findings = |one: &Member| {
        report.gateways = Some(GatewayList {
            shared: true,
            gateways: vec![one.clone()],
        });
        of(&report)
    };
    let found = findings(&this);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].urgency, Urgency::Notice);
    this.recovers = false;
    assert_eq!(findings(&this), []);
}

#[test]
fn a_path_is_quoted_for_a_shell_only_if_it_must_be() {
    assert_eq!(
        quoted("/etc/nsgate/gateway.yaml"),
        "/etc/nsgate/gateway.yaml"
    );
    assert_eq!(quoted("/a b/it's.yaml"), r"'/a b/it'\''s.yaml'");
    assert_eq!(quoted(""), "''");
}
