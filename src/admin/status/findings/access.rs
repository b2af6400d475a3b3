//! Findings about the keys of issuers, and about callers that are refused again and again.

use super::{EACH, Finding, Urgency, check, last_request, quoted, span};
use crate::admin::status::report::{FailureLine, IssuerLine, StatusReport};

/// The age from which keys are too old, in seconds, as the alert has it: they are refreshed within a day.
const OLD: u64 = 90_000;
/// The refusals of one caller from which they are told, …
const REFUSALS: u64 = 100;
/// … if the last one is not older than this, in seconds.
const LATELY: u64 = 300;

/// Returns what is the matter with the keys of issuers. If none has any, the gateway is not ready, and that is told.
pub(super) fn issuers(report: &StatusReport) -> Vec<Finding> {
    let serves = report.issuers.iter().any(|issuer| issuer.has_keys);
    let told = report.issuers.iter().filter(|_| serves);
    let findings = told.filter_map(|issuer| {
        let age = issuer.age_seconds.unwrap_or_default();
        let name = &issuer.issuer;
        let finding = if !issuer.has_keys {
            let what = format!("there are no keys of {name}, so its tokens are refused");
            Finding::new(Urgency::Critical, what).alert("NsgateKeysMissing")
        } else if age > OLD {
            let what = format!("the keys of {name} are {} old", span(age));
            Finding::new(Urgency::Critical, what).alert("NsgateKeysOld")
        } else if issuer.failures > 0 {
            let what = format!("the keys of {name} cannot be fetched; the old ones stay in use");
            Finding::new(Urgency::Warning, what).alert("NsgateKeyRefreshFailing")
        } else {
            return None;
        };
        Some(keys(finding.about(name), report, issuer))
    });
    findings.collect()
}

/// Adds why the keys of an issuer cannot be had, and the command that shows it.
pub(super) fn keys(finding: Finding, report: &StatusReport, issuer: &IssuerLine) -> Finding {
    let error = issuer.error.as_deref().unwrap_or("no answer");
    let (name, source) = (&issuer.issuer, &issuer.source);
    let detail = match issuer.failures {
        0 => format!("the keys of {name} come from {source}"),
        1 => format!("1 attempt failed: {error}; the keys of {name} come from {source}"),
        many => format!("{many} attempts failed: {error}; the keys of {name} come from {source}"),
    };
    let finding = finding.detail(detail);
    if source.starts_with("http") {
        finding.run(format!("curl -fsS {}", quoted(source)))
    } else {
        finding.run(check(report))
    }
}

/// Returns the callers that are refused again and again.
pub(super) fn refused(report: &StatusReport) -> Vec<Finding> {
    let lately = |line: &&FailureLine| line.age_seconds < LATELY;
    let mut callers: Vec<(&FailureLine, u64)> = Vec::new();
    for line in report.refused.iter().filter(lately) {
        let same = |(last, _): &&mut (&FailureLine, u64)| {
            (last.status, &last.subject, &last.issuer) == (line.status, &line.subject, &line.issuer)
        };
        match callers.iter_mut().find(same) {
            Some((_, count)) => *count = count.saturating_add(line.count),
            None => callers.push((line, line.count)),
        }
    }
    callers.retain(|(_, count)| *count >= REFUSALS);
    callers.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let found = callers.iter().take(EACH);
    found
        .map(|(last, count)| caller(report, last, *count))
        .collect()
}

fn caller(report: &StatusReport, last: &FailureLine, count: u64) -> Finding {
    let caller = match (last.subject.as_deref(), last.issuer.as_deref()) {
        (Some(""), _) => "the anonymous caller".to_owned(),
        (Some(subject), None | Some("")) => format!("caller {subject}"),
        (Some(subject), Some(issuer)) => format!("caller {subject} of {issuer}"),
        (None, _) => "a caller".to_owned(),
    };
    let (what, alert) = match last.status {
        401 => (
            format!("{count} requests were refused because of their token"),
            "NsgateAuthenticationFailures",
        ),
        429 => (
            format!("{caller} sends too much: {count} requests were refused"),
            "NsgateShedding",
        ),
        _ => (
            format!("{caller} was denied {count} times"),
            "NsgateRequestsDenied",
        ),
    };
    let about = format!("{} {caller}", last.status);
    let finding = Finding::new(Urgency::Warning, what).about(about);
    let finding = finding.detail(last_request(last)).names_requests();
    let finding = finding.alert(alert);
    let subject = last
        .subject
        .as_deref()
        .filter(|subject| !subject.is_empty());
    match (last.status, subject, &last.name) {
        (403, Some(subject), Some(name)) => finding.run(format!(
            "nsgate explain --config {} --claim {} {}",
            quoted(&report.configuration.file),
            quoted(&format!("sub={subject}")),
            quoted(name)
        )),
        _ => finding,
    }
}
