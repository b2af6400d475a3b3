//! `properties` of a `dir` backend. The engine ignores what it does not know and what it cannot parse; here both
//! are refused, so that a misspelt switch is not silently off.

use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;

use lance_core::utils::parse::str_to_bool;

/// The largest request body unless `arrow_body_limit` says otherwise, in bytes.
const BODY_LIMIT: usize = 1 << 30;

const SWITCHES: [&str; 7] = [
    "dir_listing_enabled",
    "dir_listing_to_manifest_migration_enabled",
    "inline_optimization_enabled",
    "manifest_enabled",
    "ops_metrics_enabled",
    "table_version_tracking_enabled",
    "vend_input_storage_options",
];
const INTERVAL: &str = "vend_input_storage_options_refresh_interval_millis";
const GROUPS: [&str; 2] = ["credential_vendor.", "storage."];

/// Properties that make sense.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Properties {
    /// What the engine is given; `root` among it, absolute.
    pub(super) engine: HashMap<String, String>,
    /// The largest request body, in bytes.
    pub(super) body_limit: usize,
}

/// What is wrong with one property.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("properties.{name} {problem}")]
pub(super) struct PropertyError {
    name: String,
    problem: &'static str,
}

impl Properties {
    /// Sorts out what is the engine's. A relative `root` is made absolute, because clients are told locations
    /// below it.
    pub(super) fn read(given: &BTreeMap<String, String>) -> Result<Self, PropertyError> {
        let mut body_limit = BODY_LIMIT;
        let mut engine = HashMap::with_capacity(given.len());
        for (name, value) in given {
            let problem = |problem| PropertyError {
                name: name.clone(),
                problem,
            };
            match name.as_str() {
                "arrow_body_limit" => {
                    body_limit = value
                        .parse()
                        .map_err(|_| problem("is not a number of bytes"))?;
                }
                "root" => {
                    let root = absolute(value).ok_or_else(|| problem("is not a path"))?;
                    engine.insert(name.clone(), root);
                }
                known => {
                    check(known, value).map_err(problem)?;
                    engine.insert(name.clone(), value.clone());
                }
            }
        }
        if !engine.contains_key("root") {
            return Err(PropertyError {
                name: "root".to_owned(),
                problem: "is missing: the directory of the catalog",
            });
        }
        Ok(Self { engine, body_limit })
    }
}

fn check(name: &str, value: &str) -> Result<(), &'static str> {
    let fits = |fits: bool, problem| if fits { Ok(()) } else { Err(problem) };
    match name {
        "commit_retries" => fits(is::<u32>(value), "is not a whole number"),
        INTERVAL => fits(is::<u64>(value), "is not a number of milliseconds"),
        _ if SWITCHES.contains(&name) => fits(
            str_to_bool(value).is_some(),
            "is neither `true` nor `false`",
        ),
        _ => fits(
            GROUPS.iter().any(|group| name.starts_with(group)),
            "is not a property of a catalog in a directory",
        ),
    }
}

fn is<T: FromStr>(value: &str) -> bool {
    value.parse::<T>().is_ok()
}

/// `root` itself if it is an address such as `file:///data`, else the path from the root of the file system.
fn absolute(root: &str) -> Option<String> {
    if root.contains("://") {
        return Some(root.to_owned());
    }
    std::path::absolute(root)
        .ok()?
        .into_os_string()
        .into_string()
        .ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use std::collections::BTreeMap;

    use super::{BODY_LIMIT, Properties};

    fn read(pairs: &[(&str, &str)]) -> Result<Properties, String> {
        let given: BTreeMap<String, String> = pairs
            .iter()
            .map(|&(name, value)| (name.into(), value.into()))
            .collect();
        Properties::read(&given).map_err(|error| error.to_string())
    }

    #[test]
    fn the_engine_gets_its_own_properties_as_they_are_and_an_absolute_root() {
        let given = [
            ("arrow_body_limit", "1000"),
            ("commit_retries", "3"),
            ("manifest_enabled", "FALSE"),
            ("root", "data/./lab"),
            ("storage.region", "anything"),
        ];
        let properties = read(&given).unwrap();
        assert_eq!(properties.body_limit, 1000);
        let root = std::env::current_dir().unwrap().join("data/lab");
        let expected = [
            ("commit_retries", "3"),
            ("manifest_enabled", "FALSE"),
            ("root", root.to_str().unwrap()),
            ("storage.region", "anything"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(properties.engine, expected.into());
    }

    #[test]
    fn an_address_is_left_alone_and_the_limit_has_a_default() {
        let properties = read(&[("root", "file:///data/lab")]).unwrap();
        assert_eq!(properties.engine["root"], "file:///data/lab");
        assert_eq!(properties.body_limit, BODY_LIMIT);
    }

    #[test]
    fn what_the_engine_would_ignore_is_refused_by_name() {
        let cases = [
            (
                "manifest_enable",
                "true",
                "is not a property of a catalog in a directory",
            ),
            ("manifest_enabled", "maybe", "is neither `true` nor `false`"),
            ("commit_retries", "-1", "is not a whole number"),
            (super::INTERVAL, "1s", "is not a number of milliseconds"),
            ("arrow_body_limit", "1GiB", "is not a number of bytes"),
            ("root", "", "is not a path"),
        ];
        for (name, value, problem) in cases {
            let error = read(&[("root", "/data"), (name, value)]).unwrap_err();
            assert_eq!(error, format!("properties.{name} {problem}"));
        }
        let error = read(&[]).unwrap_err();
        assert_eq!(
            error,
            "properties.root is missing: the directory of the catalog"
        );
    }
}
