//! Formats the gateway's pages about batches as text for an operator.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Deserialize;

/// The most backends that a line of the list names; further ones are only counted.
const NAMED: usize = 3;

/// The page `/batches`. Only the printed parts of these pages are read.
#[derive(Deserialize)]
pub(super) struct List {
    batches: Vec<Batch>,
    /// The number of open batches that are not on the page.
    #[serde(default)]
    more: usize,
}

/// The page `/batches/ID`.
#[derive(Deserialize)]
pub(super) struct Batch {
    id: String,
    state: String,
    age_seconds: u64,
    waits_for: String,
    entries: Vec<Entry>,
    #[serde(default)]
    ways: Vec<Way>,
    #[serde(default)]
    resolved: Vec<Resolved>,
}

#[derive(Deserialize)]
struct Entry {
    backend: String,
    table: String,
    branch: Option<String>,
    change: String,
    /// The state of the entry; empty if the batch had no time to report it.
    #[serde(default)]
    state: String,
    #[serde(default)]
    created: bool,
    #[serde(default)]
    expected: Object,
    #[serde(default)]
    found: Object,
    hazard: Option<String>,
    error: Option<String>,
}

/// The properties that identify an object in the catalog.
#[derive(Default, Deserialize)]
struct Object {
    manifest_path: Option<String>,
    manifest_size: Option<u64>,
    e_tag: Option<String>,
    location: Option<String>,
}

/// A decision that an operator can make.
#[derive(Deserialize)]
struct Way {
    decision: String,
    does: String,
}

/// A decision that an operator has made.
#[derive(Deserialize)]
struct Resolved {
    decision: String,
    who: String,
    why: String,
    seconds_ago: u64,
}

/// Formats the list, one line for each batch.
pub(super) fn list(list: &List, admin: &str) -> String {
    if list.batches.is_empty() && list.more == 0 {
        return "no open batches: every batch is finished".to_owned();
    }
    let mut rows =
        vec![["ID", "STATE", "AGE", "ENTRIES", "BACKENDS", "WAITS FOR"].map(String::from)];
    rows.extend(list.batches.iter().map(|batch| {
        [
            plain(&batch.id),
            plain(&batch.state),
            age(batch.age_seconds),
            batch.entries.len().to_string(),
            batch.backends(),
            plain(&batch.waits_for),
        ]
    }));
    let mut said = table(&rows);
    if list.more > 0 {
        let _ = writeln!(
            said,
            "and {} more, which are listed when these are finished",
            list.more
        );
    }
    let waits = |batch: &&Batch| matches!(&*batch.state, "hazard" | "stranded");
    let waiting = list.batches.iter().filter(waits).count();
    if waiting > 0 {
        let verb = if waiting == 1 { "needs" } else { "need" };
        let _ = writeln!(
            said,
            "\n{waiting} {verb} an operator's decision. To see what was found, and the commands for each decision:\n  nsgate batches --admin {admin} show ID"
        );
    }
    said.trim_end().to_owned()
}

/// Formats everything about one batch, and the commands that resolve it.
pub(super) fn show(batch: &Batch, admin: &str) -> String {
    let mut said = String::new();
    let line = |said: &mut String, what: &str, value: &str| {
        let _ = writeln!(said, "{what:<12}{value}");
    };
    line(&mut said, "batch", &plain(&batch.id));
    line(&mut said, "state", &plain(&batch.state));
    line(
        &mut said,
        "begun",
        &format!("{} ago", age(batch.age_seconds)),
    );
    line(&mut said, "waits for", &plain(&batch.waits_for));
    for resolved in &batch.resolved {
        line(&mut said, "resolved", &resolved.words());
    }
    for (index, entry) in batch.entries.iter().enumerate() {
        let _ = writeln!(said, "\nentries[{index}]  {}", entry.title());
        let line = |said: &mut String, what: &str, value: &str| {
            let _ = writeln!(said, "  {what:<12}{value}");
        };
        line(&mut said, "state", &plain(&entry.state));
        if let Some(expected) = entry.expected.words() {
            let what = if entry.created { "made" } else { "staged" };
            line(&mut said, what, &expected);
        }
        if let Some(found) = entry.found.words() {
            line(&mut said, "found", &found);
        }
        if let Some(hazard) = &entry.hazard {
            line(&mut said, "hazard", &plain(hazard));
        }
        if let Some(error) = &entry.error {
            line(&mut said, "last error", &plain(error));
        }
    }
    if !batch.ways.is_empty() {
        said.push_str("\nways out\n");
    }
    for way in &batch.ways {
        let _ = writeln!(
            said,
            "  {}\n    nsgate batches --admin {admin} resolve {} --{} --why 'YOUR REASON'",
            plain(&way.does),
            plain(&batch.id),
            plain(&way.decision),
        );
    }
    said.trim_end().to_owned()
}

impl Batch {
    /// True if its tables are free, and the gateway only watches for what may still arrive.
    pub(super) fn is_undone(&self) -> bool {
        self.state == "watching"
    }

    /// True if it waits for an operator: it was checked again, and nothing has changed.
    pub(super) fn waits_again(&self) -> bool {
        self.state == "hazard"
    }

    fn backends(&self) -> String {
        let names: BTreeSet<&str> = self.entries.iter().map(|entry| &*entry.backend).collect();
        let named: Vec<&str> = names.iter().copied().take(NAMED).collect();
        let mut said = plain(&named.join(", "));
        if names.len() > NAMED {
            let _ = write!(said, " and {} more", names.len() - NAMED);
        }
        said
    }
}

impl Entry {
    fn title(&self) -> String {
        let branch = self.branch.as_ref();
        let branch =
            branch.map_or_else(String::new, |branch| format!(", branch {}", plain(branch)));
        let (change, table) = (plain(&self.change), plain(&self.table));
        format!(
            "{change} of {table}{branch} in backend {}",
            plain(&self.backend)
        )
    }
}

impl Object {
    /// Describes the object; `None` if nothing is known about it.
    fn words(&self) -> Option<String> {
        let parts = [
            self.manifest_size.map(|size| format!("{size} bytes")),
            self.e_tag
                .as_ref()
                .map(|tag| format!("e_tag {}", plain(tag))),
            self.manifest_path.as_ref().map(|path| plain(path)),
            self.location.as_ref().map(|path| plain(path)),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

impl Resolved {
    fn words(&self) -> String {
        let why = if self.why.is_empty() {
            "no reason given".to_owned()
        } else {
            plain(&self.why)
        };
        let (decision, who) = (plain(&self.decision), plain(&self.who));
        format!("{decision}, by {who}, {} ago: {why}", age(self.seconds_ago))
    }
}

/// Escapes the control characters of a text from elsewhere, so that it cannot move the cursor or
/// begin a line on a terminal.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            plain.extend(character.escape_default());
        } else {
            plain.push(character);
        }
    }
    plain
}

/// Formats an age in its two largest units.
fn age(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

/// Formats columns as wide as their widest cell; the last one is left as it is.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let widest = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| widest(column).unwrap_or(0)).collect();
    let mut said = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let line: String = cells
            .map(|(cell, width)| format!("{cell:<width$}  "))
            .collect();
        let _ = writeln!(said, "{}", line.trim_end());
    }
    said
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_in_two_units() {
        let ages = [0, 59, 60, 3599, 3600, 86399, 86400, 200_000].map(age);
        let said = [
            "0s", "59s", "1m 0s", "59m 59s", "1h 0m", "23h 59m", "1d 0h", "2d 7h",
        ];
        assert_eq!(ages, said);
    }

    #[test]
    fn what_others_wrote_cannot_move_the_cursor_or_begin_a_line() {
        let text = "ok\u{1b}[2J\r\n\tü";
        assert_eq!(plain(text), "ok\\u{1b}[2J\\r\\n\\tü");
    }

    #[test]
    fn many_backends_and_batches_are_counted_and_not_left_out_silently() {
        let entry = |n| {
            serde_json::json!({
                "backend": format!("b{n}"), "table": "t", "change": "create version 2", "action": "create_version",
            })
        };
        let entries: Vec<_> = (1..=5).map(entry).collect();
        let list = serde_json::json!({ "more": 7, "batches": [{
            "id": "x", "state": "stranded", "age_seconds": 5, "waits_for": "b1", "entries": entries,
        }]});
        let said = super::list(&serde_json::from_value(list).unwrap(), "http://gw:9090");
        for words in [
            "b1, b2, b3 and 2 more",
            "and 7 more, which",
            "1 needs an operator's decision",
            "nsgate batches --admin http://gw:9090 show ID",
        ] {
            assert!(said.contains(words), "`{words}` is not in\n{said}");
        }
        let none = serde_json::json!({ "more": 7, "batches": [] });
        let said = super::list(&serde_json::from_value(none).unwrap(), "http://gw:9090");
        assert!(said.contains("and 7 more"), "{said}");
    }
}
