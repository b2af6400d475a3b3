//! Finds what is not as it should be, in the order of urgency. Pure.

mod access;
mod batches;
mod catalogs;
mod load;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::report::{FailureLine, StatusReport};

/// The time before the end of a certificate at which it is told, in seconds.
const CERTIFICATE_SOON: i64 = 14 * DAY;
/// The time before the end of a certificate at which it is critical, in seconds.
const CERTIFICATE_NOW: i64 = DAY;
const DAY: i64 = 86_400;
/// The most findings of one kind that are told one by one.
const EACH: usize = 5;

/// The urgency of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Urgency {
    /// Clients are refused, or tables are locked, until a person acts.
    Critical,
    /// A person has to act within days.
    Warning,
    /// A fact to know; no action is needed.
    Notice,
}

/// A thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The urgency.
    pub urgency: Urgency,
    /// The finding in a sentence.
    pub what: String,
    /// The facts that an operator needs besides; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The command to run. One that asks a gateway takes ` --admin URL` at its end; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The alert about it, which the page `/alerts/NAME` explains; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alert: Option<String>,
    /// The subject, which with the alert tells the finding from others while its numbers change. Not on the page.
    #[serde(skip)]
    pub about: String,
    /// True if detail and command name tables or callers of requests. Not on the page.
    #[serde(skip)]
    pub names_requests: bool,
    /// The number of things of the same kind that have no finding of their own. Not on the page.
    #[serde(skip)]
    pub more: usize,
}

impl Finding {
    fn new(urgency: Urgency, what: impl Into<String>) -> Self {
        Self {
            urgency,
            what: what.into(),
            detail: None,
            command: None,
            alert: None,
            about: String::new(),
            names_requests: false,
            more: 0,
        }
    }

    fn about(mut self, about: impl Into<String>) -> Self {
        self.about = about.into();
        self
    }

    fn names_requests(mut self) -> Self {
        self.names_requests = true;
        self
    }

    fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    fn run(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    fn alert(mut self, name: &'static str) -> Self {
        debug_assert!(alerts().any(|known| known == name), "{name}");
        self.alert = Some(name.to_owned());
        self
    }
}

/// Returns the names of the alerts that findings refer to.
pub(in crate::admin) fn alerts() -> impl Iterator<Item = &'static str> {
    [
        "NsgateKeysMissing",
        "NsgateCertificateExpired",
        "NsgateCertificateExpiring",
        "NsgateLogWithoutOwner",
        "NsgateLogLeaseOver",
        "NsgateGatewaysDiffer",
        "NsgateBatchHazard",
        "NsgateBatchStranded",
        "NsgateBatchUndecided",
        "NsgateBatchUndoStuck",
        "NsgateBatchRemovalStuck",
        "NsgateBackendDown",
        "NsgateBreakerOpen",
        "NsgateAddressDown",
        "NsgateCatalogSlow",
        "NsgateErrorRate",
        "NsgateInFlightHigh",
        "NsgateConnectionsHigh",
        "NsgateKeyRefreshFailing",
        "NsgateKeysOld",
        "NsgateAuthenticationFailures",
        "NsgateRequestsDenied",
        "NsgateShedding",
        "NsgateAuditUnwritable",
        "NsgateReloadFailed",
    ]
    .into_iter()
}

/// Returns the findings, the most urgent first. Those of one urgency keep the order of the checks: what stops all
/// clients comes before what stops one table.
pub(super) fn of(report: &StatusReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(not_ready(report));
    let (over, ending) = certificates(report);
    findings.extend(over);
    findings.extend(batches::log(report));
    findings.extend(audit(report));
    let unlisted = report.more_waiting_batches;
    findings.extend(batches::waiting(&report.batches, unlisted));
    findings.extend(catalogs::of(report));
    findings.extend(load::of(report));
    findings.extend(ending);
    findings.extend(access::issuers(report));
    findings.extend(configuration(report));
    findings.extend(access::refused(report));
    findings.sort_by_key(|finding| finding.urgency);
    findings
}

/// Returns the findings in a few words: the first one, and the number of the others, also of those that are only
/// counted.
pub(super) fn headline(findings: &[Finding]) -> String {
    let Some(first) = findings.first() else {
        return "ready".to_owned();
    };
    let counted: usize = findings.iter().map(|finding| finding.more).sum();
    match findings.len() - 1 + counted {
        0 => first.what.clone(),
        more => format!("{} (and {more} more)", first.what),
    }
}

fn not_ready(report: &StatusReport) -> Option<Finding> {
    if report.missing.is_empty() {
        return None;
    }
    let what = format!("not ready: {}", report.missing.join("; "));
    let finding = Finding::new(Urgency::Critical, what);
    let without = report.issuers.iter().find(|issuer| !issuer.has_keys);
    let Some(without) = without else {
        return Some(finding);
    };
    let finding = finding.alert("NsgateKeysMissing");
    Some(access::keys(finding, report, without))
}

fn audit(report: &StatusReport) -> Option<Finding> {
    let audit = report.audit.as_ref().filter(|audit| !audit.is_writable)?;
    let cause = audit.error.as_deref().unwrap_or("its reader does not read");
    let (urgency, what) = if audit.is_required {
        let what = format!("changes are refused: the audit log cannot be written: {cause}");
        (Urgency::Critical, what)
    } else {
        let what =
            format!("lines of the audit log wait, or are lost: it cannot be written: {cause}");
        (Urgency::Warning, what)
    };
    let (to, lost) = (&audit.to, audit.lost);
    let remedy = if to == "stderr" {
        "see to it that standard error is read, or write a file"
    } else {
        "make room on its disk, or correct its path; it is tried again each second"
    };
    let finding = Finding::new(urgency, what).about(to);
    let finding = finding.detail(format!(
        "it is {to}, {lost} lines are lost so far; {remedy}"
    ));
    let finding = finding.alert("NsgateAuditUnwritable");
    Some(if to == "stderr" {
        finding
    } else {
        finding.run(format!("df -h {}", quoted(to)))
    })
}

/// Returns the findings about certificates that have expired, and about those that will: nobody is refused for these yet.
fn certificates(report: &StatusReport) -> (Vec<Finding>, Vec<Finding>) {
    let ends = report.certificates.iter();
    let soon = ends.filter(|certificate| certificate.seconds_left < CERTIFICATE_SOON);
    let mut findings = (Vec::new(), Vec::new());
    for certificate in soon {
        let (of, left) = (&certificate.of, certificate.seconds_left);
        let (urgency, what) = if left < 0 {
            let ago = span(left.unsigned_abs());
            (
                Urgency::Critical,
                format!("the certificate of `{of}` expired {ago} ago"),
            )
        } else {
            let urgency = if left < CERTIFICATE_NOW {
                Urgency::Critical
            } else {
                Urgency::Warning
            };
            let left = span(left.unsigned_abs());
            (
                urgency,
                format!("the certificate of `{of}` expires in {left}"),
            )
        };
        let alert = if left < CERTIFICATE_NOW {
            "NsgateCertificateExpired"
        } else {
            "NsgateCertificateExpiring"
        };
        let (end, file) = (&certificate.expires, &certificate.file);
        let detail = format!(
            "it ends at {end}; put a new one into {file}, the gateway reads it within seconds"
        );
        let show = format!("openssl x509 -noout -subject -enddate -in {}", quoted(file));
        let finding = Finding::new(urgency, what).about(of).detail(detail);
        let finding = finding.run(show).alert(alert);
        if certificate.seconds_left < 0 {
            findings.0.push(finding);
        } else {
            findings.1.push(finding);
        }
    }
    findings
}

fn configuration(report: &StatusReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(last) = &report.configuration.last_reload else {
        return findings;
    };
    let problems = last["problems"].as_array();
    let problems = problems.into_iter().flatten();
    let problems: Vec<&str> = problems.filter_map(Value::as_str).collect();
    if !problems.is_empty() {
        let at = last["at"].as_str().unwrap_or_default();
        let what = "the last reload was refused; the previous configuration stays active";
        let finding = Finding::new(Urgency::Warning, what);
        let finding = finding.detail(format!("at {at}: {}", problems.join("; ")));
        findings.push(finding.run(check(report)).alert("NsgateReloadFailed"));
    }
    let changed = last["restart_needed"].as_array();
    let changed = changed.into_iter().flatten();
    let waiting: Vec<&str> = changed.filter_map(|it| it["key"].as_str()).collect();
    if !waiting.is_empty() {
        let what = format!("a changed {} waits for a restart", waiting.join(", "));
        findings.push(Finding::new(Urgency::Notice, what));
    }
    findings
}

/// Returns the command that checks the configuration.
fn check(report: &StatusReport) -> String {
    format!(
        "nsgate check --config {}",
        quoted(&report.configuration.file)
    )
}

/// Returns the command that asks every catalog.
fn check_online(report: &StatusReport) -> String {
    let file = quoted(&report.configuration.file);
    format!("nsgate check --online --config {file}")
}

/// Describes the last request of a kind: its operation, table, caller, cause and id.
fn last_request(last: &FailureLine) -> String {
    let mut words = format!("the last one: {}", last.operation);
    if let Some(name) = &last.name {
        words.push_str(&format!(" {name}"));
    }
    if let Some(subject) = last.subject.as_ref().filter(|subject| !subject.is_empty()) {
        words.push_str(&format!(" of {subject}"));
    }
    if let Some(client) = &last.client {
        words.push_str(&format!(" from {client}"));
    }
    words.push_str(&format!(": {} (request {})", last.cause, last.id));
    words
}

/// Returns a path as a shell takes it.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@".contains(c);
    if !path.is_empty() && path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

/// Returns a time in its largest unit.
fn span(seconds: u64) -> String {
    let units = [(86_400, "day"), (3600, "hour"), (60, "minute")];
    let (count, unit) = units
        .into_iter()
        .find(|(size, _)| seconds >= 2 * size)
        .map_or((seconds, "second"), |(size, unit)| (seconds / size, unit));
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

#[cfg(test)]
mod tests;
