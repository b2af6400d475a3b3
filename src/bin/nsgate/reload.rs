//! `nsgate reload`: has a running gateway read its configuration again, and says what changed.

use std::fmt::Write as _;

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use tokio::runtime::Builder;

use crate::Failure;
use crate::batches::client::{Client, Problem};
use crate::batches::plain;
use crate::cli::AdminAddress;

/// The answer to a reload that was carried out.
#[derive(Deserialize)]
struct Applied {
    changed: Vec<String>,
    files: Vec<String>,
    restart_needed: Vec<Fixed>,
    warnings: Vec<String>,
}

/// A key whose new value waits for a restart.
#[derive(Deserialize)]
struct Fixed {
    key: String,
    in_use: Value,
    wanted: Value,
}

/// The answer to a reload that was refused.
#[derive(Deserialize)]
struct Refused {
    problems: Vec<String>,
}

/// Runs the command, and returns the text to print.
///
/// # Errors
/// The gateway cannot be reached, or refuses.
pub(crate) fn run(asked: &AdminAddress) -> Result<String, Failure> {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().build().map_err(Problem::Runtime);
    let runtime = runtime.map_err(Failure::bad_input)?;
    let client = Client::of(asked).map_err(Failure::bad_input)?;
    let answer = runtime.block_on(client.exchange(Method::POST, "/reload", None));
    let (status, body) = answer.map_err(Failure::bad_input)?;
    if status == StatusCode::UNPROCESSABLE_ENTITY
        && let Ok(said) = serde_json::from_slice::<Value>(&body)
        && let Ok(refused) = Refused::deserialize(&said)
    {
        return Err(if asked.json {
            Failure::printed(format!("{said:#}"))
        } else {
            Failure::bad_input(refusal(&refused))
        });
    }
    let said = client
        .understood(status, &body)
        .map_err(Failure::bad_input)?;
    if asked.json {
        return Ok(format!("{said:#}"));
    }
    let applied = Applied::deserialize(&said);
    let applied = applied.map_err(|_| Failure::bad_input(client.stranger()))?;
    Ok(words(&applied))
}

/// Formats the problems as `nsgate check` does, with the result at the end, where it is seen first.
fn refusal(refused: &Refused) -> String {
    let mut said = String::new();
    for problem in &refused.problems {
        let _ = writeln!(said, "{}", plain(problem));
    }
    let count = refused.problems.len();
    let problems = if count == 1 { "problem" } else { "problems" };
    let _ = write!(
        said,
        "not reloaded, {count} {problems}: the configuration from before stays active"
    );
    said
}

fn words(applied: &Applied) -> String {
    let mut said = String::new();
    for warning in &applied.warnings {
        let _ = writeln!(said, "{}", plain(warning));
    }
    let files = applied
        .files
        .iter()
        .map(|file| format!("the file {}", plain(file)));
    let active: Vec<String> = applied
        .changed
        .iter()
        .map(|key| plain(key))
        .chain(files)
        .collect();
    if active.is_empty() && applied.restart_needed.is_empty() {
        said.push_str("reloaded: nothing has changed\n");
    } else if active.is_empty() {
        said.push_str("reloaded: nothing has changed that is active without a restart\n");
    } else {
        said.push_str("reloaded; active now:\n");
    }
    for change in active {
        let _ = writeln!(said, "  {change}");
    }
    if !applied.restart_needed.is_empty() {
        said.push_str(
            "only a restart makes these active; until then the value from before stays:\n",
        );
    }
    for fixed in &applied.restart_needed {
        let _ = writeln!(said, "  {}", waiting(fixed));
    }
    said.trim_end().to_owned()
}

fn waiting(fixed: &Fixed) -> String {
    let key = plain(&fixed.key);
    // Two secrets look the same.
    if fixed.in_use == fixed.wanted {
        return format!("{key}: has another value in the file");
    }
    format!(
        "{key}: {} now, {} after a restart",
        value(&fixed.in_use),
        value(&fixed.wanted)
    )
}

fn value(value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        Value::String(text) => plain(text),
        other => plain(&other.to_string()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(answer: &Value) -> String {
        words(&Applied::deserialize(answer).unwrap())
    }

    #[test]
    fn a_reload_says_what_is_active_and_what_waits() {
        let nothing = json!({"changed": [], "files": [], "restart_needed": [], "warnings": []});
        assert_eq!(said(&nothing), "reloaded: nothing has changed");
        let all = json!({
            "changed": ["limits.in_flight", "mounts"],
            "files": ["/etc/nsgate/tls.crt"],
            "restart_needed": [
                {"key": "listen.address", "in_use": "127.0.0.1:8080", "wanted": "127.0.0.1:8081"},
                {"key": "batch.gateways", "in_use": null, "wanted": {"address": "10.0.0.7:8079"}},
                {"key": "batch.log_password", "in_use": "***", "wanted": "***"},
            ],
            "warnings": ["gateway.yaml:3:1: warning: backends.a: no mount uses this backend; mount it"],
        });
        let expected = "gateway.yaml:3:1: warning: backends.a: no mount uses this backend; mount it
reloaded; active now:
  limits.in_flight
  mounts
  the file /etc/nsgate/tls.crt
only a restart makes these active; until then the value from before stays:
  listen.address: 127.0.0.1:8080 now, 127.0.0.1:8081 after a restart
  batch.gateways: not set now, {\"address\":\"10.0.0.7:8079\"} after a restart
  batch.log_password: has another value in the file";
        assert_eq!(said(&all), expected);
    }
}
