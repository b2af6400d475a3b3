//! Says what holds after an operator's decision: which tables are unlocked, and what became of each change.

use std::fmt::Write as _;

use nsgate::admin::batches::BatchDetail;
use nsgate::batch::OpenEntry;
use nsgate::batch::step::Decision;
use nsgate::metrics::BatchState;

use super::words::plain;

/// Returns a line for each change of the batch, as it is after the decision. `before` is the batch as it waited.
/// `is_watched` is true if requests that it sent may still arrive.
pub(super) fn what_holds(before: &BatchDetail, decision: Decision, is_watched: bool) -> String {
    let mut said = String::new();
    for detail in &before.entries {
        let entry = &detail.entry;
        let change = match entry.version {
            Some(version) => format!("version {version}"),
            None => entry.change.clone(),
        };
        let backend = format!("{} {}", entry.backend, entry.scope);
        let (table, backend) = (plain(&entry.table), plain(backend.trim_end()));
        let now = now(entry, before.state, decision);
        let _ = writeln!(said, "  {table} in {backend}: {} {now}", plain(&change));
    }
    if is_watched {
        let for_some_minutes = match before.state {
            BatchState::Committed => "they keep their names",
            _ => {
                "they accept only writes that name their version, and none of a version that a delete may still reach"
            }
        };
        let _ = writeln!(
            said,
            "  its tables are unlocked; for some minutes {for_some_minutes}"
        );
    } else if before.state != BatchState::Stranded {
        said.push_str("  its tables are unlocked: writers may go on\n");
    }
    said.trim_end().to_owned()
}

/// Returns what became of one change.
fn now(entry: &OpenEntry, state: BatchState, decision: Decision) -> &'static str {
    let waited = entry.hazard.is_some();
    match (decision, state) {
        (Decision::Commit, BatchState::Hazard) if waited => "is kept, and readers see it",
        (Decision::Abort, BatchState::Hazard) if waited => {
            "is deleted; if it is not as the batch staged it, or another one stands on it, it stays hidden and its table locked: see `nsgate batches list`"
        }
        (_, BatchState::Hazard) | (Decision::Abort, _) => match entry.action.as_ref() {
            "deregister" | "delete_versions" => "was not done: nothing is removed",
            _ => "is rolled back",
        },
        (Decision::Commit, BatchState::Committed) => {
            "is done as far as the catalog did it; what could not be removed is kept, and readers see it"
        }
        (Decision::Commit, BatchState::Stranded) => {
            "is as the catalog has it; the gateway does nothing more about it"
        }
        (Decision::Commit, BatchState::Undoing) => {
            "is kept where it was not rolled back yet, and readers see it"
        }
        (Decision::Commit, _) => "is kept, and readers see it",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use super::*;

    fn batch(state: &str) -> BatchDetail {
        let entry = |table: &str, hazard: Option<&str>| {
            serde_json::json!({
                "backend": "lake", "table": table, "action": "create_version", "version": 7,
                "change": "create version 7", "hazard": hazard,
            })
        };
        serde_json::from_value(serde_json::json!({
            "id": "x", "state": state, "since_millis": 1, "age_seconds": 5, "waits_for": "an operator", "ways": [],
            "resolved": [], "entries": [entry("prod$orders", Some("built on")), entry("prod$items", None)],
        }))
        .unwrap()
    }

    #[test]
    fn a_kept_hazard_is_told_apart_from_what_was_rolled_back() {
        let said = what_holds(&batch("hazard"), Decision::Commit, false);
        let expected = "  prod$orders in lake: version 7 is kept, and readers see it\n  \
                        prod$items in lake: version 7 is rolled back\n  \
                        its tables are unlocked: writers may go on";
        assert_eq!(said, expected);
    }

    /// A batch removes what it removes only once it is committed.
    #[test]
    fn what_a_batch_was_to_remove_was_not_done_unless_it_was_committed() {
        for (state, decision) in [
            ("hazard", Decision::Commit),
            ("hazard", Decision::Abort),
            ("undecided", Decision::Abort),
        ] {
            let mut batch = batch(state);
            let entry = &mut batch.entries[1].entry;
            (entry.version, entry.action, entry.change) =
                (None, "deregister".into(), "deregister".into());
            let said = what_holds(&batch, decision, false);
            let expected = "prod$items in lake: deregister was not done: nothing is removed";
            assert!(said.contains(expected), "{said}");
        }
    }

    #[test]
    fn a_deleted_hazard_is_told_apart_from_a_batch_that_was_given_up() {
        let said = what_holds(&batch("hazard"), Decision::Abort, true);
        assert!(
            said.contains("prod$orders in lake: version 7 is deleted"),
            "{said}"
        );
        assert!(said.contains("writes that name their version"), "{said}");
        let said = what_holds(&batch("undecided"), Decision::Abort, false);
        assert_eq!(said.matches("is rolled back").count(), 2, "{said}");
        let said = what_holds(&batch("stranded"), Decision::Commit, false);
        assert!(!said.contains("unlocked"), "{said}");
    }
}
