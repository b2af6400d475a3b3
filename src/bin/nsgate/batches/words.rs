//! Formats the gateway's pages about batches as text for an operator.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use nsgate::admin::batches::{BatchDetail, BatchList, ResolutionDetail};
use nsgate::batch::OpenEntry;
use nsgate::batch::log::Proof;
use nsgate::metrics::BatchState;
use nsgate::util::unprintable::printable;

/// The most backends that a line of the list names; further ones are only counted.
const NAMED: usize = 3;

/// Formats the list, one line for each batch.
pub(super) fn list(list: &BatchList, admin: &str) -> String {
    if list.batches.is_empty() && list.more == 0 {
        return "no open batches: every batch is finished".to_owned();
    }
    let mut rows =
        vec![["ID", "STATE", "AGE", "ENTRIES", "BACKENDS", "WAITS FOR"].map(String::from)];
    rows.extend(list.batches.iter().map(|summary| {
        let batch = &summary.batch;
        [
            plain(&batch.id),
            batch.state.as_str().to_owned(),
            age(summary.age_seconds),
            batch.entries.len().to_string(),
            backends(&batch.entries),
            plain(&summary.waits_for),
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
    let states = list.batches.iter().map(|summary| summary.batch.state);
    let waits = |state: &BatchState| matches!(state, BatchState::Hazard | BatchState::Stranded);
    let waiting = states.filter(waits).count();
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
pub(super) fn show(batch: &BatchDetail, admin: &str) -> String {
    let mut said = String::new();
    let line = |said: &mut String, what: &str, value: &str| {
        let _ = writeln!(said, "{what:<12}{value}");
    };
    line(&mut said, "batch", &plain(&batch.id));
    line(&mut said, "state", batch.state.as_str());
    line(
        &mut said,
        "begun",
        &format!("{} ago", age(batch.age_seconds)),
    );
    line(&mut said, "waits for", &plain(&batch.waits_for));
    for resolved in &batch.resolved {
        line(&mut said, "resolved", &resolution(resolved));
    }
    for (index, detail) in batch.entries.iter().enumerate() {
        let (entry, inspection) = (&detail.entry, detail.inspection.as_ref());
        let _ = writeln!(said, "\nentries[{index}]  {}", title(entry));
        let line = |said: &mut String, what: &str, value: &str| {
            let _ = writeln!(said, "  {what:<12}{value}");
        };
        // The state is empty if the batch had no time to report it.
        let state = inspection.map_or("", |inspection| &inspection.state);
        line(&mut said, "state", &plain(state));
        if let Some(inspection) = inspection {
            if let Some(expected) = object(&inspection.expected) {
                let what = if inspection.created { "made" } else { "staged" };
                line(&mut said, what, &expected);
            }
            if let Some(found) = inspection.found.as_ref().and_then(object) {
                line(&mut said, "found", &found);
            }
        }
        if let Some(hazard) = &entry.hazard {
            line(&mut said, "hazard", &plain(hazard));
        }
        if let Some(error) = inspection.and_then(|inspection| inspection.error.as_ref()) {
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
            way.decision.name(),
        );
    }
    said.trim_end().to_owned()
}

fn backends(entries: &[OpenEntry]) -> String {
    let names: BTreeSet<&str> = entries.iter().map(|entry| &*entry.backend).collect();
    let named: Vec<&str> = names.iter().copied().take(NAMED).collect();
    let mut said = plain(&named.join(", "));
    if names.len() > NAMED {
        let _ = write!(said, " and {} more", names.len() - NAMED);
    }
    said
}

fn title(entry: &OpenEntry) -> String {
    let branch = entry.branch.as_ref();
    let branch = branch.map_or_else(String::new, |branch| format!(", branch {}", plain(branch)));
    let (change, table) = (plain(&entry.change), plain(&entry.table));
    let backend = format!("{} {}", entry.backend, entry.scope);
    format!(
        "{change} of {table}{branch} in backend {}",
        plain(backend.trim_end())
    )
}

/// Describes an object in a catalog; `None` if nothing is known about it.
fn object(object: &Proof) -> Option<String> {
    let parts = [
        object.manifest_size.map(|size| format!("{size} bytes")),
        object
            .e_tag
            .as_ref()
            .map(|tag| format!("e_tag {}", plain(tag))),
        object.manifest_path.as_ref().map(|path| plain(path)),
        object.location.as_ref().map(|path| plain(path)),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn resolution(resolved: &ResolutionDetail) -> String {
    let why = if resolved.why.is_empty() {
        "no reason given".to_owned()
    } else {
        plain(&resolved.why)
    };
    let (decision, who) = (resolved.decision.name(), plain(&resolved.who));
    format!(
        "{decision}, by {who}, {} ago: {why}",
        age(resolved.seconds_ago)
    )
}

/// Escapes the characters of a text from elsewhere that are not seen, so that it cannot move the cursor, begin a line or
/// turn the text around on a terminal.
pub(crate) fn plain(text: &str) -> String {
    printable(text)
}

/// Formats an age in its two largest units.
pub(crate) fn age(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

/// Formats columns as wide as their widest cell; the last one is left as it is.
pub(crate) fn table<const N: usize>(rows: &[[String; N]]) -> String {
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
            "id": "x", "state": "stranded", "since_millis": 1, "age_seconds": 5, "waits_for": "b1", "entries": entries,
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
