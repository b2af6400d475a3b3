//! The pages `/alerts/NAME`: the meaning of an alert, and what to do about it, from deploy/metrics.md.

use http::StatusCode;

use super::Page;

const TEXT: &str = "text/plain; charset=utf-8";
/// The page about all metrics and alerts. It is part of the program, because at night the manual may be elsewhere.
const MANUAL: &str = include_str!("../../deploy/metrics.md");

/// Makes `/alerts/NAME`; `None` if there is no such alert.
pub(super) fn page(name: &str) -> Option<Page> {
    let section = section(name)?;
    Some(Page {
        status: StatusCode::OK,
        kind: TEXT,
        body: format!("{section}\n").into(),
        headers: None,
    })
}

/// Returns the section about one alert.
fn section(name: &str) -> Option<&'static str> {
    let mut sections = MANUAL.split("\n### ").skip(1);
    let section = sections.find(|section| section.lines().next() == Some(name))?;
    let end = section.find("\n## ").unwrap_or(section.len());
    Some(section[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::status::findings::alerts;

    #[test]
    fn every_alert_that_a_finding_names_has_a_section() {
        for name in alerts() {
            let section = section(name).unwrap_or_default();
            assert!(section.contains("**What to do.**"), "{name}: {section:?}");
            assert!(!section.contains("\n### "), "{name} runs on");
        }
        assert_eq!(section("Nsgate"), None);
    }
}
