//! The versions that the body of a change names: those to delete, and the one to restore.

use super::batch::{MOST_ENTRIES, version};
use super::commit::{VersionRange, few_ranges, range};
use super::json::{Document, string};
use super::shape::{plain, require};
use crate::error::Error;

/// The versions in a body.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NamedVersions {
    /// The version of `version`.
    pub version: Option<u64>,
    /// The versions of `ranges`.
    pub ranges: Vec<VersionRange>,
    /// The branch; `None` for the main one.
    pub branch: Option<String>,
}

/// Reads the versions that a body names. 400, code 13, with the field in the message, if the catalog could read other
/// ones: the audit log says what is changed.
pub fn parse(body: &[u8]) -> Result<NamedVersions, Error> {
    let document = Document::new(body)?;
    let mut found = NamedVersions::default();
    if document.is_nothing() {
        return Ok(found);
    }
    document.members(document.text, "the body", &mut |member| {
        let is_known = matches!(&*member.name, "version" | "ranges" | "branch");
        if !is_known || member.value == "null" {
            return Ok(());
        }
        plain(&member, "")?;
        match &*member.name {
            "version" => {
                found.version = version(member.value);
                let shape = "an integer from 0 to 9223372036854775807";
                require(found.version.is_some(), "version", shape)
            }
            "branch" => {
                found.branch = string(member.value).map(|text| text.into_owned());
                require(found.branch.is_some(), "branch", "a string")
            }
            _ => document.elements(member.value, "`ranges`", &mut |index, raw| {
                let at = format!("ranges[{index}]");
                few_ranges(index, MOST_ENTRIES, &at)?;
                found.ranges.push(range(raw, &at)?);
                Ok(())
            }),
        }
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    #[test]
    fn ranges_have_a_bound() {
        let range = r#"{"start_version":1,"end_version":2}"#;
        let body = |count: usize| format!("{{\"ranges\":[{}]}}", vec![range; count].join(","));
        let most = MOST_ENTRIES;
        assert_eq!(parse(body(most).as_bytes()).unwrap().ranges.len(), most);
        let refused = parse(body(most + 1).as_bytes()).unwrap_err();
        let words = "`ranges[100000]`: an operation has at most 100000 ranges";
        assert_eq!(refused.message(), words);
    }

    #[test]
    fn what_a_body_names_is_read_in_one_way_or_refused() {
        let all = NamedVersions {
            version: Some(3),
            ranges: vec![
                VersionRange {
                    start: 1,
                    end: Some(2),
                },
                VersionRange {
                    start: 4,
                    end: None,
                },
            ],
            branch: Some("dev".to_owned()),
        };
        let body = r#"{"id":["t"],"version":3,"ranges":[{"start_version":1,"end_version":2},
            {"start_version":4,"end_version":-1,"new":1}],"branch":"dev","new":{}}"#;
        assert_eq!(parse(body.as_bytes()).unwrap(), all);
        for none in ["", "null", "{}", r#"{"version":null,"ranges":null}"#] {
            assert_eq!(parse(none.as_bytes()).unwrap(), NamedVersions::default());
        }
        for (body, words) in [
            (
                r#"{"version":1,"version":2}"#,
                "`version` is given more than once",
            ),
            (
                r#"{"ranges":[],"\u0072anges":[]}"#,
                "`ranges` is given more than once",
            ),
            (r#"{"new":1,"new":1}"#, "`new` is given more than once"),
            (
                r#"{"ranges":[{"start_version":1,"start_version":2,"end_version":3}]}"#,
                "`ranges[0].start_version` is given more than once",
            ),
            (
                r#"{"ranges":[{"start_version":1,"end_version":3,"End_Version":4}]}"#,
                "`ranges[0].End_Version` is `end_version` to some",
            ),
            (r#"{"version":"2"}"#, "`version` must be an integer"),
            (r#"{"version":2.0}"#, "`version` must be an integer"),
            (r#"{"ranges":{}}"#, "`ranges` must be an array"),
            (r#"{"ranges":[[1,2]]}"#, "`ranges[0]` must be an object"),
            (
                r#"{"ranges":[{"start_version":1}]}"#,
                "`ranges[0].end_version` is required",
            ),
            (r#"{"branch":1}"#, "`branch` must be a string"),
        ] {
            let error = parse(body.as_bytes()).unwrap_err();
            assert!(error.message().starts_with(words), "{body}: {error}");
            assert_eq!((error.status().as_u16(), error.code().number()), (400, 13));
        }
    }
}
