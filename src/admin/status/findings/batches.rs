//! Findings about batches and their log.

use super::{EACH, Finding, Urgency, span};
use crate::admin::gateways::GatewayList;
use crate::admin::status::report::{BatchLine, StatusReport};
use crate::metrics::BatchState;

/// The age at which a batch that does not go on is critical, in seconds. `NsgateBatchUndoStuck` and
/// `NsgateBatchRemovalStuck` wait for ten minutes.
const STUCK: u64 = 120;

/// Returns what is the matter with the batch log, and with the gateways that share it.
pub(super) fn log(report: &StatusReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    let none = GatewayList::default();
    let list = report.gateways.as_ref().unwrap_or(&none);
    if list.shared && !list.gateways.iter().any(|one| one.is_owner) {
        let what =
            "no gateway has the batch log: batches, and tables that they are on, are refused";
        let finding = Finding::new(Urgency::Critical, what);
        findings.push(
            finding
                .run("nsgate gateways")
                .alert("NsgateLogWithoutOwner"),
        );
    }
    if list.gateways.iter().any(|one| one.recovers) {
        let what = "this gateway has the batch log, and recovers its batches: until then it serves no table";
        findings.push(Finding::new(Urgency::Notice, what).run("nsgate gateways"));
    }
    if report.log_is_away {
        let what = "this gateway has lost its contact to the batch log: tables are refused, unless `batch.without_log: serve` is set";
        let finding = Finding {
            detail: report.log_trouble.clone(),
            ..Finding::new(Urgency::Critical, what)
        };
        findings.push(finding.run("nsgate gateways").alert("NsgateLogLeaseOver"));
    }
    if let Some(why) = &report.batches_unknown {
        let what = format!("the batches are not known: {why}");
        findings.push(Finding::new(Urgency::Warning, what).run("nsgate gateways"));
    }
    let differ: Vec<&str> = list
        .gateways
        .iter()
        .filter(|one| one.routes_differ)
        .map(|one| &*one.name)
        .collect();
    if !differ.is_empty() {
        let what = format!(
            "gateway {} has other mounts or catalogs than this one",
            differ.join(", ")
        );
        let finding = Finding::new(Urgency::Critical, what);
        findings.push(finding.run("nsgate gateways").alert("NsgateGatewaysDiffer"));
    }
    let late = list
        .gateways
        .iter()
        .filter(|one| one.silent_millis > one.lease_millis / 2);
    findings.extend(late.map(|one| {
        let silent = span(one.silent_millis / 1000);
        let what = format!("gateway {} has been silent for {silent}", one.name);
        let finding = Finding::new(Urgency::Notice, what).about(&one.name);
        finding.run("nsgate gateways")
    }));
    findings
}

/// Returns what is the matter with batches that do not go on. `unlisted` more wait for a decision.
pub(super) fn waiting(batches: &[BatchLine], unlisted: usize) -> Vec<Finding> {
    let mut told: Vec<Finding> = Vec::new();
    let (mut undecided, mut stuck) = (unlisted, 0);
    for one in batches {
        // Most batches of a long list are only counted.
        if told.len() < EACH {
            told.extend(batch(one));
        } else if one.state.needs_person() {
            undecided += 1;
        } else if batch(one).is_some() {
            stuck += 1;
        }
    }
    if let Some(last) = told.last_mut()
        && undecided + stuck > 0
    {
        let many = |count: usize, one: &str, several: &str| match count {
            0 => None,
            1 => Some(format!("1 more batch {one}")),
            count => Some(format!("{count} more batches {several}")),
        };
        let counted = [
            many(
                undecided,
                "waits for a person's decision",
                "wait for a person's decision",
            ),
            many(stuck, "does not go on", "do not go on"),
        ];
        let counted: Vec<String> = counted.into_iter().flatten().collect();
        let detail = last.detail.take().into_iter();
        let detail: Vec<String> = detail.chain([counted.join(", and ")]).collect();
        last.detail = Some(detail.join("; "));
        last.more = undecided + stuck;
        last.command = Some("nsgate batches list".to_owned());
    }
    told
}

/// Returns what is the matter with a batch; `None` if it goes on by itself.
fn batch(batch: &BatchLine) -> Option<Finding> {
    let tables = batch.tables.join(", ");
    let more = match batch.more_tables {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let plural = batch.tables.len() + batch.more_tables > 1;
    let show = format!("nsgate batches show {}", batch.id);
    let since = format!("batch {}, since {}", batch.id, batch.since);
    let stuck = batch.age_seconds >= STUCK;
    let (urgency, what, alert) = match batch.state {
        BatchState::Hazard => {
            let wait = if plural { "wait" } else { "waits" };
            let what = format!("{tables}{more} {wait} for a person's decision");
            (Urgency::Critical, what, "NsgateBatchHazard")
        }
        BatchState::Stranded => {
            let what = format!("a batch on {tables}{more} waits for {}", batch.waits_for);
            (Urgency::Critical, what, "NsgateBatchStranded")
        }
        BatchState::Undecided | BatchState::Undoing | BatchState::Committed
            if stuck || batch.has_error =>
        {
            let (urgency, is) = match (stuck, plural) {
                (true, true) => (Urgency::Critical, "are locked"),
                (true, false) => (Urgency::Critical, "is locked"),
                (false, true) => (Urgency::Notice, "wait"),
                (false, false) => (Urgency::Notice, "waits"),
            };
            let alert = match batch.state {
                BatchState::Undecided => "NsgateBatchUndecided",
                BatchState::Undoing => "NsgateBatchUndoStuck",
                _ => "NsgateBatchRemovalStuck",
            };
            (
                urgency,
                format!("{tables}{more} {is}: a batch does not go on"),
                alert,
            )
        }
        _ => return None,
    };
    let detail = match batch.state {
        BatchState::Stranded => since,
        _ => format!("{since}: waits for {}", batch.waits_for),
    };
    Some(
        Finding::new(urgency, what)
            .about(&batch.id)
            .detail(detail)
            .run(show)
            .alert(alert),
    )
}
