//! Writes findings to the log when they begin and when they end, so that the log says what the status page says.

use super::findings::{Finding, Urgency};

/// The most findings that are remembered as told; further ones are on the status page only.
const MOST: usize = 200;

/// The findings that the log has.
#[derive(Default)]
pub(in crate::admin) struct Journal(Vec<Finding>);

/// A line for the log.
#[derive(Debug, PartialEq, Eq)]
enum Entry<'a> {
    Begins(&'a Finding),
    Ends(&'a Finding),
}

impl Journal {
    /// Writes what has changed since the last call. Without `has_names`, tables and callers of requests are left out.
    pub(in crate::admin) fn note(&mut self, findings: &[Finding], has_names: bool) {
        for entry in changes(&self.0, findings) {
            match entry {
                Entry::Begins(finding) => begins(finding, has_names),
                Entry::Ends(finding) => {
                    tracing::info!(alert = finding.alert, "no longer: {}", finding.what);
                }
            }
        }
        self.0 = findings.iter().take(MOST).cloned().collect();
    }
}

/// Returns the differences: a finding is the same as long as alert, subject and urgency are.
fn changes<'a>(told: &'a [Finding], now: &'a [Finding]) -> Vec<Entry<'a>> {
    let now = &now[..now.len().min(MOST)];
    let is_same = |one: &Finding, other: &Finding| {
        // Findings without an alert are told apart by their words.
        let is_named = one.alert.is_some() || one.what == other.what;
        let has_same_alert = one.alert == other.alert && one.urgency == other.urgency;
        has_same_alert && one.about == other.about && is_named
    };
    let has = |list: &[Finding], one: &Finding| list.iter().any(|other| is_same(one, other));
    let ended = told.iter().filter(|one| !has(now, one)).map(Entry::Ends);
    let begun = now.iter().filter(|one| !has(told, one)).map(Entry::Begins);
    ended.chain(begun).collect()
}

fn begins(finding: &Finding, has_names: bool) {
    let (detail, command) = shown(finding, has_names);
    let (what, alert) = (&finding.what, finding.alert.as_deref());
    match finding.urgency {
        Urgency::Critical => tracing::error!(detail, alert, "{what}. Run `{command}`"),
        Urgency::Warning => tracing::warn!(detail, alert, "{what}. Run `{command}`"),
        Urgency::Notice => tracing::info!(detail, alert, "{what}"),
    }
}

/// Returns the detail, and the command to run.
fn shown(finding: &Finding, has_names: bool) -> (Option<&str>, &str) {
    let shows_all = has_names || !finding.names_requests;
    let detail = finding.detail.as_deref().filter(|_| shows_all);
    let command = finding.command.as_deref().filter(|_| shows_all);
    (detail, command.unwrap_or("nsgate status"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(what: &str, about: &str) -> Finding {
        Finding {
            urgency: Urgency::Warning,
            what: what.to_owned(),
            detail: None,
            command: None,
            alert: Some("NsgateInFlightHigh".to_owned()),
            about: about.to_owned(),
            names_requests: false,
            more: 0,
        }
    }

    #[test]
    fn a_finding_is_told_once_while_its_numbers_change_and_once_when_it_is_over() {
        let (first, later) = (finding("81 of 100", ""), finding("92 of 100", ""));
        let other = finding("7 of 10", "other");
        let told = [first.clone()];
        assert_eq!(changes(&[], &told), [Entry::Begins(&first)]);
        assert_eq!(changes(&told, std::slice::from_ref(&later)), []);
        let now = [later, other.clone()];
        assert_eq!(changes(&told, &now), [Entry::Begins(&other)]);
        assert_eq!(changes(&told, &[]), [Entry::Ends(&first)]);
    }

    #[test]
    fn a_finding_that_becomes_urgent_is_told_again() {
        let before = [finding("81 of 100", "")];
        let now = [Finding {
            urgency: Urgency::Critical,
            ..before[0].clone()
        }];
        let expected = [Entry::Ends(&before[0]), Entry::Begins(&now[0])];
        assert_eq!(changes(&before, &now), expected);
    }

    #[test]
    fn tables_and_callers_of_requests_are_left_out_on_request() {
        let (detail, command) = (
            "restore_table prod$orders of ada",
            "nsgate explain 'prod$orders'",
        );
        let mut denied = finding("caller ada was denied 100 times", "ada");
        denied.detail = Some(detail.to_owned());
        denied.command = Some(command.to_owned());
        assert_eq!(shown(&denied, false), (Some(detail), command));
        denied.names_requests = true;
        assert_eq!(shown(&denied, true), (Some(detail), command));
        assert_eq!(shown(&denied, false), (None, "nsgate status"));
    }

    #[test]
    fn the_memory_is_bounded_and_what_is_beyond_it_is_not_told_again_and_again() {
        let many: Vec<_> = (0..MOST + 50)
            .map(|at| finding("x", &at.to_string()))
            .collect();
        let mut journal = Journal::default();
        journal.note(&many, true);
        assert_eq!(journal.0.len(), MOST);
        assert_eq!(changes(&journal.0, &many), []);
    }
}
