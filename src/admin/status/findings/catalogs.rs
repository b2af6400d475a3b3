//! Findings about catalogs: down, slow, or with an address that does not serve.

use super::{EACH, Finding, Urgency, check_online, last_request};
use crate::admin::backends::{AddressState, CatalogState};
use crate::admin::status::report::{FailureLine, StatusReport};

/// The slow requests of a minute from which a catalog is slow, and their part of all, in percent.
const SLOW_REQUESTS: u64 = 5;
const SLOW_PERCENT: u64 = 1;

/// Returns what is the matter with the catalogs.
pub(super) fn of(report: &StatusReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(down(report));
    let up = || report.catalogs.iter().filter(|one| one.up);
    findings.extend(up().filter_map(|one| addresses(report, one)));
    findings.extend(up().filter_map(|one| slow(report, one)));
    findings
}

fn down(report: &StatusReport) -> Option<Finding> {
    let down: Vec<&CatalogState> = report.catalogs.iter().filter(|one| !one.up).collect();
    let named = down.iter().take(EACH).map(|one| &*one.name);
    let named = named.collect::<Vec<_>>().join(", ");
    let (what, detail) = match down[..] {
        [] => return None,
        [one] => (
            format!("catalog {} is down", one.name),
            format!("{}; it serves {}", why_down(one), mounts(one)),
        ),
        _ => {
            let more = match down.len().saturating_sub(EACH) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let each = down.iter().take(EACH);
            let each =
                each.map(|one| format!("{} (serves {}): {}", one.name, mounts(one), why_down(one)));
            (
                format!("catalogs {named}{more} are down"),
                each.collect::<Vec<_>>().join("; "),
            )
        }
    };
    let finding = Finding::new(Urgency::Critical, what).about(named);
    let finding = finding.detail(detail).run(check_online(report));
    Some(finding.alert("NsgateBackendDown"))
}

fn why_down(catalog: &CatalogState) -> String {
    let of_address = || {
        let first = catalog.endpoints.first()?;
        Some(format!("{}: {}", first.address, why(first)))
    };
    let error = catalog.error.clone().or_else(of_address);
    error.unwrap_or_else(|| "no address answers".to_owned())
}

fn addresses(report: &StatusReport, catalog: &CatalogState) -> Option<Finding> {
    let bad = catalog.endpoints.iter().filter(|one| !one.serves());
    let bad: Vec<&AddressState> = bad.collect();
    if bad.is_empty() {
        return None;
    }
    let does = if bad.len() == 1 { "does" } else { "do" };
    let what = format!(
        "{} of {} addresses of catalog {} {does} not serve",
        bad.len(),
        catalog.endpoints.len(),
        catalog.name
    );
    let each = bad.iter().take(EACH);
    let each = each.map(|one| format!("{}: {}", one.address, why(one)));
    let each = each.collect::<Vec<_>>().join("; ");
    let detail = format!("{each}; the other addresses serve {}", mounts(catalog));
    let finding = Finding::new(Urgency::Warning, what).about(&catalog.name);
    let finding = finding.detail(detail).run(check_online(report));
    let has_open_breaker = bad.iter().any(|one| one.breaker != "closed");
    Some(finding.alert(if has_open_breaker {
        "NsgateBreakerOpen"
    } else {
        "NsgateAddressDown"
    }))
}

/// Returns why an address does not serve.
fn why(address: &AddressState) -> String {
    let failed = address.error.clone();
    failed.unwrap_or_else(|| match &address.failure {
        Some(failure) => format!("circuit breaker {}: {failure}", address.breaker),
        None => format!("circuit breaker {}", address.breaker),
    })
}

fn slow(report: &StatusReport, catalog: &CatalogState) -> Option<Finding> {
    let mut counts = report.load.slow.iter();
    let count = counts.find(|one| one.catalog == catalog.name)?;
    if count.slow < SLOW_REQUESTS || count.slow * 100 < count.sent * SLOW_PERCENT {
        return None;
    }
    let what = format!(
        "catalog {} is slow: {} of {} requests of the last minute waited 2 s or more",
        catalog.name, count.slow, count.sent
    );
    let is_its = |line: &&FailureLine| line.catalog.as_ref() == Some(&catalog.name);
    let detail = match report.slow.iter().find(is_its) {
        Some(last) => format!("{}; it serves {}", last_request(last), mounts(catalog)),
        None => format!("it serves {}", mounts(catalog)),
    };
    let finding = Finding::new(Urgency::Warning, what).about(&catalog.name);
    let finding = finding.detail(detail).names_requests();
    Some(finding.run(check_online(report)).alert("NsgateCatalogSlow"))
}

/// Returns the mounts of a catalog as clients spell them.
pub(super) fn mounts(catalog: &CatalogState) -> String {
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
