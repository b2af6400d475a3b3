//! Ten faults, each made for real: what a person sees of it in the log, on the status page, from `nsgate status` and in
//! the alerts. Each must name the cause, the tables or the file, and the command to run.
//!
//! ```text
//! NSGATE_ALERTS=1 cargo test --test gateway faults:: -- --nocapture
//! ```
//!
//! adds a real Prometheus with the rules that ship, takes all 4,096 places of requests, prints a table, and fails if one
//! of the ten needs longer than 30 seconds. The run of `cargo test` does without Prometheus and has fewer places.

mod made;
mod prometheus;

use std::any::Any;
use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::catalog::faults::PATIENCE;
use crate::harness::World;
use crate::running_gateway::program;
use prometheus::Prometheus;

/// The time within which a person must see a fault.
const LIMIT: Duration = Duration::from_secs(30);
/// The time between two looks.
const LOOK: Duration = Duration::from_millis(200);

/// The stage on which faults are made.
struct Stage {
    prometheus: Option<Prometheus>,
    /// `limits.in_flight` of the gateway whose places are taken.
    places: usize,
}

/// A fault that was made, and what must be seen of it.
struct Fault {
    name: &'static str,
    world: World,
    since: Instant,
    /// The beginning of the headline: the cause.
    what: String,
    /// Further facts: the error, and the names of tables, callers, files, addresses.
    facts: Vec<String>,
    command: String,
    /// The alert; one of several if more than one can find the fault first.
    alert: &'static [&'static str],
    /// The names in the alert.
    alert_names: Vec<String>,
    /// False if the gateway has ended, so that there is no page.
    has_page: bool,
    /// Clients that go on until the end of the test, and what else must stay.
    _clients: JoinSet<()>,
    _kept: Vec<Box<dyn Any + Send>>,
}

/// What was seen of a fault: the text and the time of each.
#[derive(Default)]
struct Row {
    name: &'static str,
    log: Option<(String, Duration)>,
    page: Option<(String, Duration)>,
    status: Option<(String, Duration)>,
    alert: Option<(String, Duration)>,
    lacks: Vec<String>,
}

impl Stage {
    /// Waits until the gateway is scraped, and begins to measure.
    async fn begin(&self, world: &World) -> Instant {
        if let Some(prometheus) = &self.prometheus {
            prometheus.scrape(world.admin_address()).await;
        }
        Instant::now()
    }
}

impl Fault {
    fn new(name: &'static str, world: World, since: Instant) -> Self {
        Self {
            name,
            world,
            since,
            what: String::new(),
            facts: Vec::new(),
            command: String::new(),
            alert: &[],
            alert_names: Vec::new(),
            has_page: true,
            _clients: JoinSet::new(),
            _kept: Vec::new(),
        }
    }

    /// Returns the parts of the expectation that a text lacks.
    fn missing(&self, text: &str) -> Vec<String> {
        let all = [&self.what, &self.command].into_iter().chain(&self.facts);
        all.filter(|part| !text.contains(&***part))
            .cloned()
            .collect()
    }

    /// Looks until everything was seen.
    async fn seen(&self, prometheus: Option<&Prometheus>) -> Row {
        let mut row = Row {
            name: self.name,
            ..Row::default()
        };
        let address = self.world.admin_address();
        while self.since.elapsed() < PATIENCE {
            row.log = row
                .log
                .or_else(|| Some((self.log_line()?, self.since.elapsed())));
            if row.page.is_none() && self.has_page {
                row.page = self.headline().await.map(|it| (it, self.since.elapsed()));
            }
            if row.status.is_none() {
                row.status = self.status().await.map(|it| (it, self.since.elapsed()));
            }
            if let (None, Some(prometheus)) = (&row.alert, prometheus) {
                let alert = prometheus.alert(self.alert, address).await;
                row.alert = alert.map(|it| (it.to_string(), self.since.elapsed()));
            }
            if row.is_complete(self.has_page, prometheus.is_some()) {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        self.judge(&mut row, prometheus).await;
        row
    }

    /// Notes what was not seen, or too late.
    async fn judge(&self, row: &mut Row, prometheus: Option<&Prometheus>) {
        let log = self.world.log();
        let mut lacks = Vec::new();
        if row.log.is_none() {
            lacks.push(format!(
                "log: no line with all of {:?}\n{log}",
                self.missing("")
            ));
        }
        if self.has_page && row.page.is_none() {
            let page = self.world.admin().get("/status").await.json();
            let (headline, found) = (&page["headline"], &page["findings"]);
            lacks.push(format!(
                "page: {:?} in {headline} {found}",
                self.missing("")
            ));
        }
        if row.status.is_none() {
            let (_, said) = run(&self.world).await;
            lacks.push(format!("status: {:?} in\n{said}", self.missing(&said)));
        }
        if let Some(prometheus) = prometheus {
            match &row.alert {
                None => lacks.push(format!(
                    "alert: {:?} is neither pending nor firing",
                    self.alert
                )),
                Some((text, _)) => {
                    let names = self.alert_names.iter().map(String::as_str);
                    let missing = names.chain(["Run `"]).filter(|it| !text.contains(it));
                    lacks.extend(missing.map(|it| format!("alert: {it} is not in {text}")));
                }
            }
            let late = row.times().filter(|(_, time)| *time > LIMIT);
            lacks.extend(late.map(|(what, time)| format!("{what}: only after {time:?}")));
            prometheus.rules_are_sound().await;
        }
        row.lacks = lacks;
    }

    /// The line of the log that has it all.
    fn log_line(&self) -> Option<String> {
        let log = self.world.log();
        let line = log.lines().find(|line| self.missing(line).is_empty())?;
        let Ok(line) = serde_json::from_str::<Value>(line) else {
            return Some(line.to_owned());
        };
        let mut words = String::new();
        for field in ["level", "message", "detail", "alert"] {
            if let Some(text) = line[field].as_str() {
                let _ = write!(words, "{text} ");
            }
        }
        Some(words.trim_end().to_owned())
    }

    /// The headline of the page, if the finding below it has the rest.
    async fn headline(&self) -> Option<String> {
        let page = self.world.admin().get("/status").await.ok().json();
        let headline = page["headline"].as_str()?;
        let first = page["findings"][0].to_string();
        let first: Value = serde_json::from_str(&first).ok()?;
        let part = |key: &str| first[key].as_str().unwrap_or_default().to_owned();
        let all = [part("what"), part("detail"), part("command")].join(" ");
        let leads = headline.starts_with(&self.what) && self.missing(&all).is_empty();
        // The page of the runbook that the finding leads to.
        let runbook = format!("/alerts/{}", part("alert"));
        let explained = self.world.admin().get(&runbook).await.status == 200;
        (leads && explained).then(|| headline.to_owned())
    }

    /// The part of the output of `nsgate status` about the fault.
    async fn status(&self) -> Option<String> {
        let (code, said) = run(&self.world).await;
        if code != Some(1) {
            return None;
        }
        if !self.has_page {
            let says_where = said.contains("does not answer") && said.contains("journalctl");
            return says_where.then(|| said.replace('\n', " "));
        }
        let is_first = said.starts_with(&self.what) && self.missing(&said).is_empty();
        let finding = said.lines().skip(2).take_while(|line| !line.is_empty());
        let finding: Vec<&str> = finding.map(str::trim).collect();
        if !is_first {
            return None;
        }
        let commands = finding
            .iter()
            .filter_map(|line| line.strip_prefix("run:  "));
        for command in commands.filter(|command| command.starts_with("nsgate ")) {
            takes(command).await;
        }
        Some(finding.join(" | "))
    }
}

impl Row {
    fn is_complete(&self, has_page: bool, has_alerts: bool) -> bool {
        let sees_alert = self.alert.is_some() || !has_alerts;
        let sees_page = self.page.is_some() || !has_page;
        self.log.is_some() && sees_page && self.status.is_some() && sees_alert
    }

    fn times(&self) -> impl Iterator<Item = (&'static str, Duration)> {
        let all = [
            ("log", &self.log),
            ("page", &self.page),
            ("status", &self.status),
            ("alert", &self.alert),
        ];
        all.into_iter()
            .filter_map(|(what, seen)| Some((what, seen.as_ref()?.1)))
    }

    fn print(&self) {
        println!("{}", self.name);
        let none = || ("-".to_owned(), Duration::ZERO);
        for (what, seen) in [
            ("log", &self.log),
            ("page", &self.page),
            ("status", &self.status),
            ("alert", &self.alert),
        ] {
            let (text, time) = seen.clone().unwrap_or_else(none);
            println!("  {what:<6} {:>5.1} s  {text}", time.as_secs_f64());
        }
    }
}

/// Runs `nsgate status`; returns its exit code and what it prints.
async fn run(world: &World) -> (Option<i32>, String) {
    let mut command = Command::new(program());
    let admin = format!("http://{}", world.admin_address());
    command.args(["status", "--admin", &admin]).env_clear();
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.unwrap().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

/// Checks that the program takes a command as a shell reads it.
async fn takes(command: &str) {
    let mut shell = Command::new("sh");
    let arguments = command.strip_prefix("nsgate ").unwrap();
    let line = format!("{} {arguments}", program());
    shell.args(["-c", &line]).env_clear();
    let output = tokio::task::spawn_blocking(move || shell.output());
    let output = output.await.unwrap().unwrap();
    // `check` fails on the fault itself; 2 is for arguments that are not understood.
    assert!(
        [Some(0), Some(1)].contains(&output.status.code()),
        "{command}: {output:?}"
    );
    assert!(
        !output.stdout.is_empty() || !output.stderr.is_empty(),
        "{command}"
    );
}

/// Makes the fault, and looks until it was seen.
async fn row(stage: &Stage, fault: impl Future<Output = Fault>) -> Row {
    fault.await.seen(stage.prometheus.as_ref()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_faults_are_seen_in_log_page_and_status_with_cause_names_and_command() {
    let alerts = std::env::var_os("NSGATE_ALERTS").is_some();
    let stage = &Stage {
        prometheus: alerts.then(Prometheus::start),
        places: if alerts { 4096 } else { 64 },
    };
    let rows: Vec<Row> = join_all([
        Box::pin(row(stage, made::catalog_down(stage)))
            as futures_util::future::LocalBoxFuture<'_, Row>,
        Box::pin(row(stage, made::catalog_slow(stage))),
        Box::pin(row(stage, made::one_address_of_three_resets(stage))),
        Box::pin(row(stage, made::hazard(stage))),
        Box::pin(row(stage, made::reload_refused(stage))),
        Box::pin(row(stage, made::keys_cannot_be_fetched(stage))),
        Box::pin(row(stage, made::certificate_with_three_days_left(stage))),
        Box::pin(row(stage, made::disk_of_the_batch_log_full(stage))),
        Box::pin(row(stage, made::disk_of_the_audit_log_full(stage))),
        Box::pin(row(stage, made::all_places_taken(stage))),
        Box::pin(row(stage, made::caller_denied_a_thousand_times(stage))),
    ])
    .await;
    rows.iter().for_each(Row::print);
    let lacking: Vec<String> = rows
        .iter()
        .flat_map(|row| row.lacks.iter().map(|lack| format!("{}: {lack}", row.name)))
        .collect();
    assert!(lacking.is_empty(), "{}", lacking.join("\n"));
}
