//! `nsgate batches watch`: follows the list of open batches, also over a restart of the gateway.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, SystemTime};

use http::Method;
use nsgate::admin::batches::BatchList;
use nsgate::telemetry::rfc3339;
use serde_json::Value;
use tokio::time::sleep;

use super::client::{Client, Problem};
use super::words::{self, plain};

/// Clears the screen and moves to its top.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// The form of the output.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// The whole list, on a terminal.
    Screen,
    /// A line for each change, for a file or a pipe.
    Lines,
    /// The gateway's JSON in one line for each change.
    Json,
}

/// The list as it was last seen.
#[derive(Default)]
struct Watch {
    /// The text of the list about each batch, without its age; `None` before the first answer.
    known: Option<BTreeMap<String, String>>,
    /// The number of batches that are not on the list.
    more: usize,
    /// True while the gateway does not answer.
    is_away: bool,
}

/// Prints the list whenever it has changed, until Ctrl-C.
///
/// # Errors
/// The first request fails, or the gateway refuses the token.
pub(super) async fn follow(
    client: &Client,
    interval: Duration,
    json: bool,
) -> Result<String, Problem> {
    let form = match (json, std::io::stdout().is_terminal()) {
        (true, _) => Form::Json,
        (false, true) => Form::Screen,
        (false, false) => Form::Lines,
    };
    tokio::select! {
        ended = print(client, interval, form) => ended.map(|()| String::new()),
        _ = tokio::signal::ctrl_c() => Ok(String::new()),
    }
}

/// Returns only if stdout is closed.
async fn print(client: &Client, interval: Duration, form: Form) -> Result<(), Problem> {
    let mut watch = Watch::default();
    let mut screen = String::new();
    loop {
        let answer = client.ask(Method::GET, "/batches", None).await;
        let now = rfc3339(SystemTime::now());
        let output = match answer {
            Ok(said) => {
                let list: BatchList = super::read(client, said.clone())?;
                let lines = watch.changes(&list, &now);
                if lines.is_empty() {
                    None
                } else {
                    screen = words::list(&list, client.admin());
                    Some(shown(
                        form,
                        &lines,
                        &said,
                        &screen,
                        &header(client, interval, &now),
                    ))
                }
            }
            // A gateway that starts answers, but may have to wait for its log; a gateway in front of it has another answer.
            Err(Problem::Unreachable { cause, .. }) | Err(Problem::Refused(cause))
                if watch.known.is_some() =>
            {
                let line = watch.leaves(&cause, &now, interval);
                line.and_then(|line| match form {
                    Form::Screen => Some(format!(
                        "{CLEAR}{}\n{screen}\n\n{line}\n",
                        header(client, interval, &now)
                    )),
                    Form::Lines => Some(format!("{line}\n")),
                    // It is no JSON of the gateway's.
                    Form::Json => {
                        let _ = writeln!(std::io::stderr(), "{line}");
                        None
                    }
                })
            }
            Err(problem) => return Err(problem),
        };
        if let Some(output) = output {
            let mut stdout = std::io::stdout();
            let written = stdout
                .write_all(output.as_bytes())
                .and_then(|()| stdout.flush());
            if written.is_err() {
                return Ok(());
            }
        }
        sleep(interval).await;
    }
}

fn header(client: &Client, interval: Duration, now: &str) -> String {
    format!(
        "batches at {}, as of {now}; looks every {interval:?}, Ctrl-C ends it\n",
        client.admin()
    )
}

fn shown(form: Form, lines: &[String], said: &Value, screen: &str, header: &str) -> String {
    match form {
        Form::Screen => format!("{CLEAR}{header}\n{screen}\n"),
        Form::Json => format!("{said}\n"),
        Form::Lines => {
            let mut text = lines.join("\n");
            text.push('\n');
            text
        }
    }
}

impl Watch {
    /// Notes the list, and returns a line for each change since the last one.
    fn changes(&mut self, list: &BatchList, now: &str) -> Vec<String> {
        let mut lines = Vec::new();
        if std::mem::take(&mut self.is_away) {
            lines.push(format!("{now} the gateway answers again"));
        }
        let summaries = list.batches.iter().map(|summary| {
            let batch = &summary.batch;
            let mut line = format!(
                "{}, waits for {}",
                batch.state.as_str(),
                plain(&summary.waits_for)
            );
            for entry in &batch.entries {
                let _ = write!(line, "; {}", plain(&entry.table));
            }
            (plain(&batch.id), line)
        });
        let current: BTreeMap<String, String> = summaries.collect();
        let before = self.known.take();
        if before.is_none() && current.is_empty() && list.more == 0 {
            lines.push(format!("{now} no open batches"));
        }
        let before = before.unwrap_or_default();
        for (id, line) in &current {
            if before.get(id) != Some(line) {
                lines.push(format!("{now} batch {id}: {line}"));
            }
        }
        for id in before.keys().filter(|id| !current.contains_key(*id)) {
            lines.push(format!("{now} batch {id}: no longer open"));
        }
        if list.more != self.more {
            lines.push(format!("{now} {} more are not on the list", list.more));
        }
        (self.known, self.more) = (Some(current), list.more);
        lines
    }

    /// Notes that the gateway does not answer; returns a line if that is new.
    fn leaves(&mut self, cause: &str, now: &str, interval: Duration) -> Option<String> {
        if std::mem::replace(&mut self.is_away, true) {
            return None;
        }
        Some(format!(
            "{now} the gateway does not answer: {}; asks again every {interval:?}",
            plain(cause)
        ))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(batches: &[(&str, &str)], age: u64, more: usize) -> BatchList {
        let entries = json!([{"backend": "b", "table": "prod$t", "change": "create version 2", "action": "create_version"}]);
        let batch = |(id, state): &(&str, &str)| json!({"id": id, "state": state, "since_millis": 1, "age_seconds": age, "waits_for": "b", "entries": entries});
        let batches: Vec<_> = batches.iter().map(batch).collect();
        serde_json::from_value(json!({"more": more, "batches": batches})).unwrap()
    }

    #[test]
    fn only_a_change_makes_a_line() {
        let mut watch = Watch::default();
        let mut seen =
            |batches: &[(&str, &str)], age, more| watch.changes(&list(batches, age, more), "T");
        assert_eq!(seen(&[], 0, 0), ["T no open batches"]);
        assert_eq!(seen(&[], 0, 0), [""; 0]);
        assert_eq!(
            seen(&[("x", "undecided")], 1, 0),
            ["T batch x: undecided, waits for b; prod$t"]
        );
        assert_eq!(
            seen(&[("x", "undecided")], 9, 0),
            [""; 0],
            "only its age has changed"
        );
        let both = seen(&[("x", "hazard"), ("y", "undecided")], 9, 0);
        assert_eq!(
            both,
            [
                "T batch x: hazard, waits for b; prod$t",
                "T batch y: undecided, waits for b; prod$t"
            ]
        );
        assert_eq!(
            seen(&[("y", "undecided")], 9, 3),
            ["T batch x: no longer open", "T 3 more are not on the list"]
        );
    }

    #[test]
    fn a_gateway_that_is_away_is_said_once_and_so_is_its_return() {
        let mut watch = Watch::default();
        let pause = Duration::from_secs(2);
        watch.changes(&list(&[("x", "hazard")], 0, 0), "T");
        let line = watch.leaves("Connection refused", "T", pause);
        assert_eq!(
            line.unwrap(),
            "T the gateway does not answer: Connection refused; asks again every 2s"
        );
        assert_eq!(watch.leaves("Connection refused", "T", pause), None);
        let lines = watch.changes(&list(&[("x", "hazard")], 0, 0), "T");
        assert_eq!(lines, ["T the gateway answers again"]);
    }
}
