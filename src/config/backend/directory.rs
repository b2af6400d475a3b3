//! `properties` of a catalog in a directory.
//!
//! The engine ignores properties that it does not know or cannot parse. Here both are problems, so that a
//! misspelt switch is not silently off.

use std::collections::BTreeMap;

use super::DirConfig;
use super::properties::shown;
use crate::config::keys::Kind;
use crate::config::kind::{Scalar, size};
use crate::config::load::nearest::nearest;
use crate::config::load::reader::{Reader, Text};
use crate::config::secret::MASK;

const BODY_LIMIT: &str = "arrow_body_limit";
const ROOT: &str = "root";
const SWITCHES: [&str; 7] = [
    "dir_listing_enabled",
    "dir_listing_to_manifest_migration_enabled",
    "inline_optimization_enabled",
    "manifest_enabled",
    "ops_metrics_enabled",
    "table_version_tracking_enabled",
    "vend_input_storage_options",
];
const NUMBERS: [&str; 2] = [
    "commit_retries",
    "vend_input_storage_options_refresh_interval_millis",
];
/// The beginnings of properties whose names only the engine knows.
const GROUPS: [&str; 2] = ["credential_vendor.", "storage."];

/// Reads the properties. Those that are not the gateway's own go to the engine as they are, with `root` made a
/// path.
pub(super) fn directory(
    properties: &BTreeMap<String, Text>,
    reader: &mut Reader<'_>,
) -> Option<DirConfig> {
    let mut config = DirConfig::default();
    for (name, text) in properties {
        let read = match name.as_str() {
            BODY_LIMIT => limit().parse(text).map(|limit| {
                config.body_limit = limit;
                None
            }),
            ROOT => root(text).map(Some),
            _ => engine_property(name, text).map(Some),
        };
        match read {
            Ok(Some(value)) => drop(config.properties.insert(name.clone(), value)),
            Ok(None) => {}
            Err(message) => reader.problem_at(&format!("properties.{name}"), message),
        }
    }
    if reader.has("properties") && !reader.has("properties.root") {
        reader.problem_at(
            "properties",
            "has no `root`; write the catalog's folder, such as root: ./data/lab",
        );
    }
    config.properties.contains_key(ROOT).then_some(config)
}

/// Returns the properties in the form of the file. Only values that cannot be secrets are shown.
pub(super) fn shown_properties(dir: &DirConfig) -> BTreeMap<String, Text> {
    let show = |(name, value): (&String, &String)| {
        let secret = GROUPS.iter().any(|group| name.starts_with(group));
        (name.clone(), shown(if secret { MASK } else { value }))
    };
    let limit = limit().show(&dir.body_limit);
    let limit = shown(limit.as_str().unwrap_or_default());
    let properties = dir.properties.iter().map(show);
    properties.chain([(BODY_LIMIT.to_owned(), limit)]).collect()
}

fn limit() -> Scalar<usize> {
    size(1 << 20, 64 << 30)
}

fn root(text: &Text) -> Result<String, String> {
    let cure = "write the catalog's folder, such as root: ./data/lab";
    match text.value.split_once("://") {
        Some(("file", _)) => Ok(text.value.clone()),
        Some(_) => Err(format!(
            "{} is no folder of this machine; {cure}, or run the catalog as a service and write implementation: rest",
            text.shown()
        )),
        None if text.value.is_empty() => Err(format!("is empty; {cure}")),
        None => Ok(text.resolve(&text.value).to_string_lossy().into_owned()),
    }
}

fn engine_property(name: &str, text: &Text) -> Result<String, String> {
    let value = text.value.as_str();
    if SWITCHES.contains(&name) && !matches!(value, "true" | "false") {
        return Err(format!(
            "{} is neither true nor false; write one of them",
            text.shown()
        ));
    }
    if NUMBERS.contains(&name) && value.parse::<u32>().is_err() {
        return Err(format!(
            "{} is not a whole number; write one, such as 20",
            text.shown()
        ));
    }
    let known = SWITCHES.contains(&name)
        || NUMBERS.contains(&name)
        || GROUPS.iter().any(|group| name.starts_with(group));
    if known {
        return Ok(text.value.clone());
    }
    let names: Vec<_> = [&SWITCHES[..], &NUMBERS, &[BODY_LIMIT, ROOT]].concat();
    Err(match nearest(name, &names) {
        Some(near) => format!("unknown property; did you mean `{near}`?"),
        None => format!(
            "unknown property; a dir backend has `root`, {}",
            names[..names.len() - 1]
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    })
}
