//! `nsgate status`: the status page in a terminal.

use std::fmt::Write as _;

use http::Method;
use nsgate::admin::backends::{AddressState, CatalogState};
use nsgate::admin::status::findings::{Finding, Urgency};
use nsgate::admin::status::report::{BatchLine, FailureLine, StatusReport};
use tokio::runtime::Builder;

use crate::batches::client::{Client, Problem};
use crate::batches::words::{age, plain, table};
use crate::cli::AdminAddress;
use crate::gateways;

/// The most failed requests, and refused callers, that are printed.
const FAILURES: usize = 10;
/// The most catalogs that are printed; those that are down stand among the findings.
const CATALOGS: usize = 30;

/// The text to print, and whether a person has to act.
pub(crate) struct Seen {
    pub(crate) text: String,
    pub(crate) needs_person: bool,
}

/// Runs the command.
///
/// # Errors
/// The gateway cannot be reached, or refuses.
pub(crate) fn run(asked: &AdminAddress) -> Result<Seen, Problem> {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().build().map_err(Problem::Runtime)?;
    let client = Client::of(asked)?;
    let said = runtime.block_on(client.ask(Method::GET, "/status", None))?;
    let needs_person = said["needs_person"] == true;
    let text = if asked.json {
        format!("{said:#}")
    } else {
        let report = serde_json::from_value(said).map_err(|_| client.stranger())?;
        words(&report, client.admin())
    };
    Ok(Seen { text, needs_person })
}

/// Formats the report: the headline, what has to be done, and then the facts.
fn words(report: &StatusReport, admin: &str) -> String {
    let mut said = format!("{}\n", plain(&report.headline));
    for finding in &report.findings {
        said.push_str(&finding_words(finding, admin));
    }
    gateway(&mut said, report);
    catalogs(&mut said, report);
    batches(&mut said, report);
    if let Some(list) = report.gateways.as_ref().filter(|list| list.shared) {
        let _ = write!(
            said,
            "\nGATEWAYS\n{}\n",
            plain_lines(&gateways::words(list))
        );
    }
    failures(&mut said, "FAILED REQUESTS, THE LAST ONES", &report.failed);
    failures(
        &mut said,
        "REFUSED REQUESTS, THE LAST ONES",
        &report.refused,
    );
    callers(&mut said, report);
    issuers(&mut said, report);
    certificates(&mut said, report);
    said.trim_end().to_owned()
}

fn finding_words(finding: &Finding, admin: &str) -> String {
    let mark = match finding.urgency {
        Urgency::Critical => "CRITICAL",
        Urgency::Warning => "WARNING",
        Urgency::Notice => "NOTICE",
    };
    let mut said = format!("\n{mark}  {}\n", plain(&finding.what));
    if let Some(detail) = &finding.detail {
        let _ = writeln!(said, "  {}", plain(detail));
    }
    if let Some(command) = &finding.command {
        let _ = writeln!(said, "  run:  {}", with_address(&plain(command), admin));
    }
    if let Some(alert) = &finding.alert {
        let _ = writeln!(said, "  more: {admin}/alerts/{}", plain(alert));
    }
    said
}

/// Adds the admin address to a command that asks a gateway; `check` and `explain` read a file.
fn with_address(command: &str, admin: &str) -> String {
    let reads_file = ["nsgate check ", "nsgate explain "];
    let reads_file = reads_file.iter().any(|start| command.starts_with(start));
    if command.starts_with("nsgate ") && !reads_file {
        format!("{command} --admin {admin}")
    } else {
        command.to_owned()
    }
}

fn gateway(said: &mut String, report: &StatusReport) {
    let (process, load) = (&report.process, &report.load);
    let _ = writeln!(
        said,
        "\nGATEWAY\n  version {}, up {} since {}\n  memory {} MiB, processor time {}, files {} of {}, threads {}",
        plain(&report.version),
        age(process.uptime_seconds),
        plain(&process.since),
        process.resident_bytes >> 20,
        age(process.cpu_seconds as u64),
        process.open_files,
        process.max_files,
        process.threads,
    );
    let _ = writeln!(
        said,
        "  {}: {:.1} requests/s, {:.1} failed/s; in flight {} of {}, connections {} of {}",
        match load.rates.rate_seconds {
            seconds @ 1..60 => format!("since the start, {seconds} s"),
            _ => "last minute".to_owned(),
        },
        load.rates.requests_per_second,
        load.rates.failed_per_second,
        load.in_flight,
        load.in_flight_limit,
        load.connections,
        load.connections_limit,
    );
    let config = &report.configuration;
    let _ = writeln!(
        said,
        "  configuration {} in use since {}",
        plain(&config.file),
        plain(&config.since)
    );
}

fn catalogs(said: &mut String, report: &StatusReport) {
    let mut rows = vec![["CATALOG", "STATE", "ADDRESSES", "LAST ERROR"].map(String::from)];
    // Of very many, those that are down are seen.
    let mut catalogs: Vec<&CatalogState> = report.catalogs.iter().collect();
    catalogs.sort_by_key(|one| (one.up, one.endpoints.iter().all(AddressState::serves)));
    rows.extend(catalogs.into_iter().take(CATALOGS).map(|one| {
        let serving = one.endpoints.iter().filter(|address| address.serves());
        [
            plain(&one.name),
            if one.up { "up" } else { "DOWN" }.to_owned(),
            format!("{} of {}", serving.count(), one.endpoints.len()),
            plain(one.error.as_deref().unwrap_or("-")),
        ]
    }));
    section(said, "CATALOGS", &rows);
    if report.catalogs.len() > CATALOGS {
        let more = report.catalogs.len() - CATALOGS;
        let _ = writeln!(said, "  and {more} more");
    }
}

fn batches(said: &mut String, report: &StatusReport) {
    if let Some(why) = &report.batches_unknown {
        let _ = writeln!(said, "\nBATCHES\n  not known: {}", plain(why));
        return;
    }
    if report.batches.is_empty() {
        said.push_str("\nBATCHES\n  none is open: every batch is finished\n");
        return;
    }
    let mut rows =
        vec![["ID", "STATE", "AGE", "TABLES", "BEGUN BY", "WAITS FOR"].map(String::from)];
    rows.extend(report.batches.iter().map(|batch| {
        [
            plain(&batch.id),
            batch.state.as_str().to_owned(),
            age(batch.age_seconds),
            tables(batch),
            caller(batch),
            plain(&batch.waits_for),
        ]
    }));
    section(said, "BATCHES", &rows);
    if report.more_batches > 0 {
        let _ = writeln!(said, "  and {} more", report.more_batches);
    }
}

fn tables(batch: &BatchLine) -> String {
    let named = plain(&batch.tables.join(", "));
    match batch.more_tables {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn caller(batch: &BatchLine) -> String {
    match &batch.begun_by {
        Some(by) if by.issuer.is_empty() && by.subject.is_empty() => "anonymous".to_owned(),
        Some(by) if by.issuer.is_empty() => plain(&by.subject),
        Some(by) => format!("{} of {}", plain(&by.subject), plain(&by.issuer)),
        None => "not known".to_owned(),
    }
}

fn failures(said: &mut String, title: &str, lines: &[FailureLine]) {
    if lines.is_empty() {
        return;
    }
    let mut rows = vec![
        [
            "TIME",
            "STATUS",
            "OPERATION",
            "CATALOG",
            "REQUEST ID",
            "CAUSE",
        ]
        .map(String::from),
    ];
    rows.extend(lines.iter().take(FAILURES).map(|line| {
        let times = match line.count {
            1 => String::new(),
            count => format!("{count} times"),
        };
        let caller = line
            .subject
            .as_ref()
            .map(|subject| format!("caller {subject}"));
        let more = [Some(times), caller].into_iter().flatten();
        let more: Vec<String> = more.filter(|text| !text.is_empty()).collect();
        let name = line.name.as_ref().map(|name| format!(" {name}"));
        let cause = match &more[..] {
            [] => line.cause.clone(),
            more => format!("{} ({})", line.cause, more.join(", ")),
        };
        [
            plain(&line.at),
            line.status.to_string(),
            plain(&format!("{}{}", line.operation, name.unwrap_or_default())),
            plain(line.catalog.as_deref().unwrap_or("-")),
            plain(&line.id),
            plain(&cause),
        ]
    }));
    section(said, title, &rows);
    if lines.len() > FAILURES {
        let _ = writeln!(
            said,
            "  and {} more; --json has them",
            lines.len() - FAILURES
        );
    }
}

fn callers(said: &mut String, report: &StatusReport) {
    if report.callers.is_empty() {
        return;
    }
    let mut rows = vec![["CALLER", "ISSUER", "SHARE OF THE REQUESTS"].map(String::from)];
    rows.extend(report.callers.iter().map(|caller| {
        let subject = match &*caller.subject {
            "" => "anonymous".to_owned(),
            subject => plain(subject),
        };
        [
            subject,
            plain(&caller.issuer),
            format!("{:.1} %", caller.percent),
        ]
    }));
    section(said, "BUSIEST CALLERS, ESTIMATED", &rows);
}

fn issuers(said: &mut String, report: &StatusReport) {
    if report.issuers.is_empty() {
        return;
    }
    let mut rows = vec![["ISSUER", "KEYS", "FAILED FETCHES", "LAST ERROR"].map(String::from)];
    rows.extend(report.issuers.iter().map(|issuer| {
        let fetched = issuer.age_seconds.map(age);
        [
            plain(&issuer.issuer),
            fetched.map_or_else(|| "NONE".to_owned(), |age| format!("fetched {age} ago")),
            issuer.failures.to_string(),
            plain(issuer.error.as_deref().unwrap_or("-")),
        ]
    }));
    section(said, "ISSUERS", &rows);
}

fn certificates(said: &mut String, report: &StatusReport) {
    if report.certificates.is_empty() {
        return;
    }
    let mut rows = vec![["CERTIFICATE", "EXPIRES", "IN"].map(String::from)];
    rows.extend(report.certificates.iter().map(|certificate| {
        let left = u64::try_from(certificate.seconds_left);
        [
            plain(&certificate.of),
            plain(&certificate.expires),
            left.map_or_else(|_| "EXPIRED".to_owned(), age),
        ]
    }));
    section(said, "CERTIFICATES", &rows);
}

fn section<const N: usize>(said: &mut String, title: &str, rows: &[[String; N]]) {
    let _ = writeln!(said, "\n{title}");
    for line in table(rows).lines() {
        let _ = writeln!(said, "  {line}");
    }
}

/// Escapes each line, and indents it.
fn plain_lines(text: &str) -> String {
    let lines = text.lines().map(|line| format!("  {}", plain(line)));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADMIN: &str = "http://gw:9090";

    fn finding() -> Finding {
        Finding {
            urgency: Urgency::Critical,
            what: "prod$orders waits for a person's decision".to_owned(),
            detail: Some("batch x\u{1b}[2J".to_owned()),
            command: Some("nsgate batches show x".to_owned()),
            alert: Some("NsgateBatchHazard".to_owned()),
            about: String::new(),
            names_requests: false,
            more: 0,
        }
    }

    #[test]
    fn the_headline_comes_first_and_then_what_to_do() {
        let report = StatusReport {
            headline: "prod$orders waits for a person's decision".to_owned(),
            findings: vec![finding()],
            ..StatusReport::default()
        };
        let said = words(&report, ADMIN);
        let mut lines = said.lines();
        let first = lines.next();
        assert_eq!(first, Some("prod$orders waits for a person's decision"));
        let next: Vec<&str> = lines.by_ref().skip(1).take(4).collect();
        assert_eq!(
            next,
            [
                "CRITICAL  prod$orders waits for a person's decision",
                "  batch x\\u{1b}[2J",
                "  run:  nsgate batches show x --admin http://gw:9090",
                "  more: http://gw:9090/alerts/NsgateBatchHazard",
            ]
        );
    }

    #[test]
    fn a_command_that_reads_a_file_takes_no_address() {
        for command in [
            "nsgate check --config /etc/nsgate/gateway.yaml",
            "nsgate explain --config /etc/nsgate/gateway.yaml 'prod$orders'",
            "df -h /var/log/nsgate/audit.log",
        ] {
            assert_eq!(with_address(command, ADMIN), command);
        }
    }

    /// Returns one of forty catalogs, of which the last is down.
    fn catalog(number: usize) -> CatalogState {
        CatalogState {
            name: format!("c{number}"),
            up: number != 39,
            ..CatalogState::default()
        }
    }

    #[test]
    fn many_catalogs_and_failures_are_counted() {
        let report = StatusReport {
            headline: "ready".to_owned(),
            catalogs: (0..40).map(catalog).collect(),
            refused: vec![
                FailureLine {
                    count: 1000,
                    subject: Some("ada".to_owned()),
                    cause: "write permission is required".to_owned(),
                    ..FailureLine::default()
                };
                12
            ],
            ..StatusReport::default()
        };
        let said = words(&report, ADMIN);
        for words in [
            "  and 10 more\n",
            "  c39      DOWN",
            "write permission is required (1000 times, caller ada)",
            "and 2 more; --json has them",
            "none is open",
        ] {
            assert!(said.contains(words), "{words} is not in\n{said}");
        }
    }
}
