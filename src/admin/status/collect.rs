//! Makes the page `/status` from the state of the gateway.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{Request, StatusCode};
use serde_json::Value;
use tokio::time::timeout;

use super::findings::{self, Finding, Urgency};
use super::report::{
    AuditReport, BatchLine, CallerLine, CertificateLine, ConfigurationReport, FailureLine,
    IssuerLine, Load, ProcessReport, SlowCatalog, StatusReport,
};
use crate::admin::batches::{self, BatchList, BatchSummary};
use crate::admin::{AdminState, Page, backends, gateways, reload};
use crate::batch::OpenEntry;
use crate::body::Body;
use crate::config::{Config, KeySource, without_query};
use crate::metrics::{FailedRequest, ProcessFigures};
use crate::request::context::RequestContext;
use crate::request::peer::Peer;
use crate::telemetry::rfc3339;

/// The most batches on the page.
const BATCHES: usize = 30;
/// The most tables that are named for one batch.
const TABLES: usize = 10;
/// The most callers on the page.
const CALLERS: usize = 10;
/// The most mounts that are named for one catalog.
const MOUNTS: usize = 10;
/// The age up to which slow requests are on the page, in seconds.
const MINUTE: u64 = 60;
/// The longest wait for the batches, if another gateway has the batch log.
const PATIENCE: Duration = Duration::from_secs(3);
/// The longest list of batches from another gateway, in bytes.
const MAX_LIST: usize = 64 << 20;

/// Makes `/status`. `peer` is the operator, of whom the gateway that has the batch log is told.
pub(in crate::admin) async fn page(shown: Arc<AdminState>, peer: Option<Peer>) -> Page {
    let batches = all_batches(&shown, peer).await;
    let made = tokio::task::spawn_blocking(move || {
        let report = report(&shown, batches);
        // In one line: the curves are long.
        Page {
            body: serde_json::to_string(&report).unwrap_or_default().into(),
            ..Page::json(StatusCode::OK, &Value::Null)
        }
    });
    made.await.unwrap_or_else(|_| Page::broken())
}

/// Returns the findings, but for those about batches of which another gateway has the log.
pub(in crate::admin) fn findings_now(shown: &AdminState) -> Vec<Finding> {
    report(shown, Ok(batches::list(shown))).findings
}

/// Returns the unfinished batches, from the gateway that has the batch log; an error is the reason why they are not
/// known.
async fn all_batches(shown: &AdminState, peer: Option<Peer>) -> Result<BatchList, String> {
    if let Some(words) = gateways::recovering(shown) {
        return Err(words.to_owned());
    }
    let Some(elsewhere) = gateways::elsewhere(shown) else {
        return Ok(batches::list(shown));
    };
    let request = Request::get("/batches").body(Body::empty());
    let mut request = request.expect("a fixed path is a valid request");
    RequestContext::more(request.extensions_mut()).peer = peer;
    let owner = elsewhere.owner_words();
    let answer = async {
        let response = gateways::pass_on(elsewhere, request).await;
        let status = response.status();
        let body = response.into_body().collect_up_to(MAX_LIST).await;
        let body = body.map_err(|error| error.to_string())?;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| error.to_string());
        }
        let refusal: Value = serde_json::from_slice(&body).unwrap_or_default();
        let words = refusal["error"].as_str().map(str::to_owned);
        Err(words.unwrap_or_else(|| format!("{owner} answers {status} to a request for them")))
    };
    let answer = timeout(PATIENCE, answer).await;
    answer.unwrap_or_else(|_| Err(format!("{owner} does not answer")))
}

fn report(shown: &AdminState, batches: Result<BatchList, String>) -> StatusReport {
    let now = SystemTime::now();
    let current = shown.current.load();
    let (list, unknown) = match batches {
        Ok(list) => (list, None),
        Err(why) => (BatchList::default(), Some(why)),
    };
    let log = shown.batches.log_counts();
    let curves = shown.history.curves();
    let totals = shown.metrics.totals();
    let failures = shown.metrics.requests().failures();
    let failure = |request| failure(request, now);
    let slow = failures.slow().into_iter().map(failure);
    let issuers = current.keys.issuers().iter().map(|issuer| {
        let trouble = issuer.trouble();
        IssuerLine {
            issuer: issuer.policy().issuer().to_owned(),
            has_keys: issuer.has_keys(),
            age_seconds: issuer.keys_age().map(|age| age.as_secs()),
            failures: trouble.failures,
            error: trouble.error,
            source: source(&current.config, issuer.policy().issuer()),
        }
    });
    let mut report = StatusReport {
        at: rfc3339(now),
        missing: shown.readiness.missing(&current.keys),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        process: process(now),
        load: Load {
            in_flight: totals.in_flight,
            in_flight_limit: current.config.limits.in_flight as u64,
            connections: u64::try_from(shown.metrics.connections().get()).unwrap_or_default(),
            connections_limit: current.config.limits.connections as u64,
            rates: shown.history.present(&totals),
            slow: slow_catalogs(shown),
        },
        catalogs: backends::list(shown, MOUNTS).backends,
        batches: list.batches.into_iter().map(line).collect(),
        more_batches: list.more,
        more_waiting_batches: list.more_waiting,
        batches_unknown: unknown,
        gateways: Some(gateways::list(shown)),
        log_is_away: log.lease == Some(Duration::ZERO),
        log_trouble: shown.batches.log_trouble(),
        failed: failures.failed().into_iter().map(failure).collect(),
        refused: failures.refused().into_iter().map(failure).collect(),
        slow: slow.filter(|one| one.age_seconds < MINUTE).collect(),
        callers: callers(shown),
        issuers: issuers.collect(),
        audit: audit(shown, &current.config),
        certificates: certificates(shown, &current.config, now),
        configuration: ConfigurationReport {
            file: shown.config_file.display().to_string(),
            since: rfc3339(shown.metrics.config_since()),
            last_reload: shown.reloads.last().map(|last| reload::summary(&last)),
        },
        curves,
        ..StatusReport::default()
    };
    report.findings = findings::of(&report);
    // Not before: the findings count all of them.
    report.list_batches(BATCHES);
    report.headline = findings::headline(&report.findings);
    report.urgency = report.findings.first().map(|finding| finding.urgency);
    let mut all = report.findings.iter();
    report.needs_person = all.any(|finding| finding.urgency != Urgency::Notice);
    report
}

fn process(now: SystemTime) -> ProcessReport {
    let figures = ProcessFigures::read();
    let since = UNIX_EPOCH + Duration::from_secs_f64(figures.start_time_seconds.max(0.0));
    ProcessReport {
        since: rfc3339(since),
        uptime_seconds: now.duration_since(since).unwrap_or_default().as_secs(),
        resident_bytes: figures.resident_bytes,
        cpu_seconds: figures.cpu_seconds,
        open_files: figures.open_files,
        max_files: figures.max_files,
        threads: figures.threads,
    }
}

fn line(summary: BatchSummary) -> BatchLine {
    let batch = summary.batch;
    let named = |entry: &OpenEntry| {
        let table = format!("{} {}", entry.table, entry.scope);
        let table = table.trim_end();
        match &entry.branch {
            Some(branch) => format!("{table} (branch {branch})"),
            None => table.to_owned(),
        }
    };
    let unique = |names: Vec<String>| {
        let mut kept: Vec<String> = Vec::new();
        for name in names {
            if !kept.contains(&name) {
                kept.push(name);
            }
            if kept.len() > BATCHES * TABLES {
                break;
            }
        }
        kept
    };
    let has_hazard = batch.hazards() > 0;
    let entries = batch.entries.iter();
    let concerned = entries.filter(|entry| !has_hazard || entry.hazard.is_some());
    let mut tables = unique(concerned.map(named).collect());
    let catalogs = batch.entries.iter().map(|entry| entry.backend.to_string());
    let more_tables = tables.len().saturating_sub(TABLES);
    tables.truncate(TABLES);
    BatchLine {
        state: batch.state,
        since: rfc3339(UNIX_EPOCH + Duration::from_millis(batch.since_millis)),
        age_seconds: summary.age_seconds,
        waits_for: summary.waits_for,
        has_error: batch.error.is_some(),
        tables,
        more_tables,
        changes: batch.entries.len(),
        catalogs: unique(catalogs.collect()),
        begun_by: batch.begun_by,
        id: batch.id,
    }
}

fn failure(request: FailedRequest, now: SystemTime) -> FailureLine {
    let (subject, issuer) = request.caller.unzip();
    let age = now.duration_since(request.at).unwrap_or_default();
    FailureLine {
        age_seconds: age.as_secs(),
        client: request.client,
        at: rfc3339(request.at),
        id: request.id,
        status: request.status,
        operation: request.operation.to_owned(),
        name: request.name,
        catalog: request.catalog.map(|catalog| catalog.to_string()),
        cause: request.cause,
        subject: subject.map(|subject| subject.to_string()),
        issuer: issuer.map(|issuer| issuer.to_string()),
        count: request.count,
    }
}

fn slow_catalogs(shown: &AdminState) -> Vec<SlowCatalog> {
    let minute = shown.history.last_minute().into_iter();
    let slow = minute.filter(|(_, totals)| totals.slow > 0);
    let lines = slow.map(|(catalog, totals)| SlowCatalog {
        catalog,
        slow: totals.slow,
        sent: totals.sent,
    });
    lines.collect()
}

fn audit(shown: &AdminState, config: &Config) -> Option<AuditReport> {
    let audit = shown.audit.as_ref()?;
    Some(AuditReport {
        to: audit.target(),
        is_writable: audit.is_writable(),
        error: audit.error(),
        is_required: config.telemetry.audit_required,
        lost: audit.lost(),
    })
}

/// Returns the file or the address of an issuer's keys.
fn source(config: &Config, issuer: &str) -> String {
    let mut issuers = config.auth.issuers.iter();
    let Some(configured) = issuers.find(|one| one.issuer == issuer) else {
        return String::new();
    };
    match &configured.keys.source {
        KeySource::File(path) => path.display().to_string(),
        KeySource::Url(uri) => without_query(&uri.to_string()),
        KeySource::Discovery => format!(
            "{}/.well-known/openid-configuration",
            issuer.trim_end_matches('/')
        ),
    }
}

fn callers(shown: &AdminState) -> Vec<CallerLine> {
    let (busiest, all) = shown.metrics.requests().callers().busiest();
    let lines = busiest.into_iter().take(CALLERS).map(|caller| CallerLine {
        subject: caller.subject.to_string(),
        issuer: caller.issuer.to_string(),
        percent: (1000.0 * caller.noted as f64 / all.max(1) as f64).round() / 10.0,
    });
    lines.collect()
}

fn certificates(shown: &AdminState, config: &Config, now: SystemTime) -> Vec<CertificateLine> {
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let file = |of: &str| {
        let mut files = config.certificates();
        let found = files.find(|(name, _)| name == of);
        found.map_or_else(String::new, |(_, file)| file.display().to_string())
    };
    let ends = shown.metrics.certificate_ends().into_iter();
    let lines = ends.map(|(of, end)| CertificateLine {
        file: file(&of),
        of,
        expires: rfc3339(end),
        seconds_left: match end.duration_since(now) {
            Ok(left) => seconds(left),
            Err(since) => -seconds(since.duration()),
        },
    });
    lines.collect()
}
