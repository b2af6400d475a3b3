//! Finds what is not as it should be, in the order of urgency. Pure.

mod batches;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::report::StatusReport;
use crate::admin::backends::CatalogState;

/// The time before the end of a certificate at which it is told, in seconds.
const CERTIFICATE_SOON: i64 = 14 * DAY;
/// The time before the end of a certificate at which it is critical, in seconds.
const CERTIFICATE_NOW: i64 = DAY;
const DAY: i64 = 86_400;
/// The part of a limit at which it is told, in percent.
const FULL: u64 = 80;
/// The part of the requests that fail at which it is told, in percent.
const FAILING: f64 = 5.0;
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
}

impl Finding {
    fn new(urgency: Urgency, what: impl Into<String>) -> Self {
        Self {
            urgency,
            what: what.into(),
            detail: None,
            command: None,
            alert: None,
        }
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
        "NsgateErrorRate",
        "NsgateInFlightHigh",
        "NsgateConnectionsHigh",
        "NsgateKeyRefreshFailing",
        "NsgateReloadFailed",
    ]
    .into_iter()
}

/// Returns the findings, the most urgent first. Those of one urgency keep the order of the checks: what stops all
/// clients comes before what stops one table.
pub(super) fn of(report: &StatusReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(not_ready(report));
    findings.extend(certificates(report));
    findings.extend(batches::log(report));
    findings.extend(batches::waiting(&report.batches));
    findings.extend(catalogs(report));
    findings.extend(load(report));
    findings.extend(issuers(report));
    findings.extend(configuration(report));
    findings.sort_by_key(|finding| finding.urgency);
    findings
}

/// Returns the findings in a few words: the first one, and the number of the others.
pub(super) fn headline(findings: &[Finding]) -> String {
    match findings {
        [] => "ready".to_owned(),
        [one] => one.what.clone(),
        [first, others @ ..] => format!("{} (and {} more)", first.what, others.len()),
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
    Some(match &without.error {
        Some(error) => finding.detail(format!("{}: {error}", without.issuer)),
        None => finding,
    })
}

fn certificates(report: &StatusReport) -> Vec<Finding> {
    let ends = report.certificates.iter();
    let soon = ends.filter(|certificate| certificate.seconds_left < CERTIFICATE_SOON);
    let findings = soon.map(|certificate| {
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
        let detail = format!(
            "it ends at {}; put a new one into its file, the gateway reads it within seconds",
            certificate.expires
        );
        Finding::new(urgency, what).detail(detail).alert(alert)
    });
    findings.collect()
}

fn catalogs(report: &StatusReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    let down: Vec<&CatalogState> = report.catalogs.iter().filter(|one| !one.up).collect();
    let check = format!(
        "nsgate check --online --config {}",
        quoted(&report.configuration.file)
    );
    if let [one] = down[..] {
        let detail = one.error.clone().or_else(|| first_error(one));
        let detail = detail.unwrap_or_else(|| "no address answers".to_owned());
        let finding = Finding::new(Urgency::Critical, format!("catalog {} is down", one.name));
        let finding = finding.detail(format!("{detail}; it serves {}", mounts(one)));
        findings.push(finding.run(&*check).alert("NsgateBackendDown"));
    } else if !down.is_empty() {
        let named: Vec<&str> = down.iter().take(EACH).map(|one| &*one.name).collect();
        let more = match down.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let what = format!("catalogs {}{more} are down", named.join(", "));
        let errors = down.iter().take(EACH).filter_map(|one| {
            let error = one.error.clone().or_else(|| first_error(one))?;
            Some(format!("{}: {error}", one.name))
        });
        let finding = Finding::new(Urgency::Critical, what);
        let finding = finding.detail(errors.collect::<Vec<_>>().join("; "));
        findings.push(finding.run(&*check).alert("NsgateBackendDown"));
    }
    for one in report.catalogs.iter().filter(|one| one.up) {
        let bad: Vec<_> = one
            .endpoints
            .iter()
            .filter(|address| !address.serves())
            .collect();
        let Some(first) = bad.first() else { continue };
        let what = format!(
            "{} of {} addresses of catalog {} do not serve",
            bad.len(),
            one.endpoints.len(),
            one.name
        );
        let why = match &first.error {
            Some(error) => error.clone(),
            None => format!("circuit breaker {}", first.breaker),
        };
        let finding = Finding::new(Urgency::Warning, what);
        let finding = finding.detail(format!("{}: {why}", first.address));
        findings.push(finding.run(&*check).alert("NsgateBreakerOpen"));
    }
    findings
}

fn first_error(catalog: &CatalogState) -> Option<String> {
    catalog.endpoints.iter().find_map(|address| {
        let error = address.error.as_ref()?;
        Some(format!("{}: {error}", address.address))
    })
}

fn mounts(catalog: &CatalogState) -> String {
    let names = catalog.mounts.iter().take(EACH);
    let names: Vec<String> = names
        .map(|mount| {
            if mount.namespace.is_empty() {
                "everything else".to_owned()
            } else {
                mount.namespace.join("$")
            }
        })
        .collect();
    match catalog.mounts.len() + catalog.more_mounts - names.len() {
        _ if names.is_empty() => "no mount".to_owned(),
        0 => names.join(", "),
        more => format!("{} and {more} more mounts", names.join(", ")),
    }
}

fn load(report: &StatusReport) -> Vec<Finding> {
    let load = &report.load;
    let mut findings = Vec::new();
    let (all, failed) = (load.rates.requests_per_second, load.rates.failed_per_second);
    if failed * 100.0 >= all * FAILING && failed >= 0.1 {
        let what = format!(
            "{:.0} % of the requests of the last minute failed",
            100.0 * failed / all
        );
        let finding = Finding::new(Urgency::Critical, what);
        let last = report.failed.first();
        let finding = match last {
            Some(last) => {
                finding.detail(format!("the last one: {}: {}", last.operation, last.cause))
            }
            None => finding,
        };
        findings.push(finding.alert("NsgateErrorRate"));
    }
    let limits = [
        (
            "requests in flight",
            "limits.in_flight",
            load.in_flight,
            load.in_flight_limit,
            "NsgateInFlightHigh",
        ),
        (
            "connections",
            "limits.connections",
            load.connections,
            load.connections_limit,
            "NsgateConnectionsHigh",
        ),
    ];
    for (of, key, now, limit, alert) in limits {
        if limit > 0 && now * 100 > limit * FULL {
            let what = format!("{now} of {limit} {of} (`{key}`)");
            findings.push(Finding::new(Urgency::Warning, what).alert(alert));
        }
    }
    findings
}

fn issuers(report: &StatusReport) -> Vec<Finding> {
    let failing = report
        .issuers
        .iter()
        .filter(|issuer| issuer.failures > 0 && issuer.has_keys);
    let findings = failing.map(|issuer| {
        let what = format!(
            "the keys of {} cannot be fetched; the old ones stay in use",
            issuer.issuer
        );
        let error = issuer.error.as_deref().unwrap_or("no answer");
        let detail = format!("{} attempts failed: {error}", issuer.failures);
        Finding::new(Urgency::Warning, what)
            .detail(detail)
            .alert("NsgateKeyRefreshFailing")
    });
    findings.collect()
}

fn configuration(report: &StatusReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(last) = &report.configuration.last_reload else {
        return findings;
    };
    let texts = |key: &str| -> Vec<String> {
        let list = last[key].as_array();
        let list = list.into_iter().flatten().filter_map(Value::as_str);
        list.map(str::to_owned).collect()
    };
    let problems = texts("problems");
    if !problems.is_empty() {
        let at = last["at"].as_str().unwrap_or_default();
        let what = "the last reload was refused; the previous configuration stays active";
        let finding = Finding::new(Urgency::Warning, what);
        let finding = finding.detail(format!("at {at}: {}", problems.join("; ")));
        let file = quoted(&report.configuration.file);
        let finding = finding.run(format!("nsgate check --config {file}"));
        findings.push(finding.alert("NsgateReloadFailed"));
    }
    let waiting = texts("restart_needed");
    if !waiting.is_empty() {
        let what = format!("a changed {} waits for a restart", waiting.join(", "));
        findings.push(Finding::new(Urgency::Notice, what));
    }
    findings
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
