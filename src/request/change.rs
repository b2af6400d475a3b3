//! The changes that a request makes to tables, as far as the request says.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::protocol::commit::VersionRange;
use crate::protocol::identifier::Identifier;

/// A table and the change of it, in the words of the audit log.
#[derive(Clone, Debug, Serialize)]
pub struct TableChange {
    /// The table, as the client spells it with `$`.
    #[serde(serialize_with = "spelled")]
    pub table: Identifier,
    /// The contract's name of the change; `None` if it is the request's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<&'static str>,
    /// The branch; `None` for the main one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The version that is created or restored; `None` if the request names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The versions that are deleted.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "ranges")]
    pub deleted: Vec<VersionRange>,
    /// The new name of a table that is renamed.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "maybe_spelled"
    )]
    pub new_name: Option<Identifier>,
    /// The namespace of the mount; `None` if it is the request's own, or not known.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "maybe_spelled"
    )]
    pub mount: Option<Identifier>,
    /// The name of the backend; `None` if it is the request's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<Arc<str>>,
}

impl TableChange {
    /// Creates a change of which only the table is known.
    pub fn of(table: Identifier) -> Self {
        Self {
            table,
            change: None,
            branch: None,
            version: None,
            deleted: Vec::new(),
            new_name: None,
            mount: None,
            backend: None,
        }
    }
}

fn spelled<S: Serializer>(name: &Identifier, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(name)
}

fn maybe_spelled<S: Serializer>(name: &Option<Identifier>, to: S) -> Result<S::Ok, S::Error> {
    match name {
        Some(name) => to.collect_str(name),
        None => to.serialize_none(),
    }
}

/// Writes ranges as the contract does: the end is not part of the range, and -1 is the latest version.
fn ranges<S: Serializer>(ranges: &[VersionRange], to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Range {
        start_version: u64,
        end_version: i64,
    }
    to.collect_seq(ranges.iter().map(|range| {
        Range {
            start_version: range.start,
            end_version: range
                .end
                .map_or(-1, |end| i64::try_from(end).unwrap_or(i64::MAX)),
        }
    }))
}
