//! Findings about load: requests that fail, and limits that are nearly or wholly used.

use super::catalogs::mounts;
use super::{Finding, Urgency, check_online, last_request};
use crate::admin::backends::CatalogState;
use crate::admin::status::report::StatusReport;

/// The part of a limit at which it is told, in percent.
const FULL: u64 = 80;
/// The part of the requests that fail at which it is told, in percent.
const FAILING: f64 = 5.0;
/// The failures of a minute below which they are not told. A few in the first seconds are no rate.
const FEW: f64 = 6.0;
/// The most catalogs that are named as those that hold the places.
const HOLDERS: usize = 3;

/// Returns what is the matter with the load.
pub(super) fn of(report: &StatusReport) -> Vec<Finding> {
    let found = [failing(report), in_flight(report), connections(report)];
    found.into_iter().flatten().collect()
}

fn failing(report: &StatusReport) -> Option<Finding> {
    let rates = &report.load.rates;
    let (all, failed) = (rates.requests_per_second, rates.failed_per_second);
    let failures = failed * rates.rate_seconds as f64;
    if failed * 100.0 < all * FAILING || failures.round() < FEW {
        return None;
    }
    let part = 100.0 * failed / all;
    let what = format!("{part:.0} % of the requests of the last minute failed");
    let mut finding = Finding::new(Urgency::Critical, what).alert("NsgateErrorRate");
    if let Some(last) = report.failed.first() {
        finding = finding.detail(last_request(last)).names_requests();
        if last.catalog.is_some() {
            finding = finding.run(check_online(report));
        }
    }
    Some(finding)
}

fn in_flight(report: &StatusReport) -> Option<Finding> {
    let (now, limit) = (report.load.in_flight, report.load.in_flight_limit);
    if limit == 0 || now * 100 <= limit * FULL {
        return None;
    }
    let (urgency, what) = if now >= limit {
        let what = format!("all {limit} places of requests (`limits.in_flight`) are taken");
        (Urgency::Critical, format!("{what}: further ones get 503"))
    } else {
        let what = format!("{now} of {limit} requests in flight (`limits.in_flight`)");
        (Urgency::Warning, what)
    };
    let finding = Finding::new(urgency, what).alert("NsgateInFlightHigh");
    let held = |one: &CatalogState| -> u64 {
        let addresses = one.endpoints.iter();
        addresses.map(|address| u64::from(address.in_flight)).sum()
    };
    let mut holders: Vec<_> = report.catalogs.iter().map(|one| (held(one), one)).collect();
    holders.sort_by_key(|(held, _)| std::cmp::Reverse(*held));
    holders.truncate(HOLDERS);
    holders.retain(|(held, _)| *held > 0);
    let at_catalogs: u64 = holders.iter().map(|(held, _)| held).sum();
    let mut detail: Vec<String> = holders
        .iter()
        .map(|(held, one)| {
            let (name, serves) = (&one.name, mounts(one));
            format!("{held} wait for catalog {name}, which serves {serves}")
        })
        .collect();
    if at_catalogs < now / 2 {
        detail.push("most wait for their clients, or for a locked table".to_owned());
        return Some(finding.detail(detail.join("; ")));
    }
    let finding = finding.detail(detail.join("; "));
    Some(finding.run(check_online(report)))
}

fn connections(report: &StatusReport) -> Option<Finding> {
    let (now, limit) = (report.load.connections, report.load.connections_limit);
    if limit == 0 || now * 100 <= limit * FULL {
        return None;
    }
    let what = format!("{now} of {limit} connections (`limits.connections`)");
    Some(Finding::new(Urgency::Warning, what).alert("NsgateConnectionsHigh"))
}
