//! A request to a simulated catalog, as far as the catalog reads it.

use std::fmt;

use nsgate::protocol::operation::Operation;
use serde::Deserialize;

use super::{Reply, refusal};

/// One request.
#[derive(Clone, Debug)]
pub struct Question {
    pub operation: Operation,
    /// The identifier, its names joined by `$`.
    pub table: String,
    pub query: String,
    pub body: Vec<u8>,
    /// True if the gateway sends it on its own account; false if it forwards a client's request.
    pub own: bool,
}

/// The fields of all request bodies together.
#[derive(Deserialize, Default)]
pub(super) struct Asked {
    pub(super) id: Option<Vec<String>>,
    pub(super) version: Option<u64>,
    pub(super) branch: Option<String>,
    pub(super) manifest_path: Option<String>,
    pub(super) author: Option<String>,
    pub(super) location: Option<String>,
    pub(super) new_namespace_id: Option<Vec<String>>,
    pub(super) new_table_name: Option<String>,
    #[serde(default)]
    pub(super) ranges: Vec<Range>,
    #[serde(default)]
    pub(super) entries: Vec<Asked>,
}

#[derive(Deserialize)]
pub(super) struct Range {
    pub(super) start_version: i64,
    pub(super) end_version: i64,
}

impl Question {
    /// Returns the version number that a create would make; `None` for other operations.
    pub fn creates(&self) -> Option<u64> {
        let creates = self.operation == Operation::CreateTableVersion;
        creates.then(|| self.asked().ok()?.version).flatten()
    }

    /// Returns true if the request deletes something for good.
    pub fn removes(&self) -> bool {
        matches!(
            self.operation,
            Operation::BatchDeleteTableVersions | Operation::DeregisterTable
        )
    }

    /// Returns true if the gateway checks on its own account whether something exists.
    pub fn looks(&self) -> bool {
        let of = [Operation::DescribeTableVersion, Operation::DescribeTable];
        self.own && of.contains(&self.operation)
    }

    /// Returns true if the request deletes something or gives a name: its effect does harm if it comes late.
    pub fn matters(&self) -> bool {
        self.removes() || self.operation == Operation::RegisterTable
    }

    /// Returns the table, the branch and the version (if there is one) that a request of the gateway's own is
    /// about.
    pub fn subject(&self) -> (String, Option<String>, Option<u64>) {
        let asked = self.asked().unwrap_or_default();
        let first = asked.ranges.first();
        let first = first.and_then(|range| u64::try_from(range.start_version).ok());
        (self.table.clone(), asked.branch, asked.version.or(first))
    }

    /// Returns the paths of the staged manifests that the request names, or the author that it names.
    pub fn authors(&self) -> Vec<String> {
        if matches!(
            self.operation,
            Operation::InsertIntoTable | Operation::CreateTable
        ) {
            return vec![self.author()];
        }
        let asked = self.asked().unwrap_or_default();
        let entries = asked.entries.into_iter().map(|entry| entry.manifest_path);
        let own = [asked.manifest_path, asked.author];
        entries.chain(own).flatten().collect()
    }

    /// The author of a server-side write whose body is data: the body itself.
    pub(super) fn author(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the value of a query parameter, as it is written.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let mut pairs = self
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        pairs.find_map(|(key, value)| (key == name).then_some(value))
    }

    pub(super) fn asked(&self) -> Result<Asked, Reply> {
        if self.body.is_empty() {
            return Ok(Asked::default());
        }
        let asked: Result<Asked, _> = serde_json::from_slice(&self.body);
        let asked = asked.map_err(|error| refusal(400, 13, &error.to_string()))?;
        match &asked.id {
            Some(id) if id.join("$") != self.table => Err(refusal(
                400,
                13,
                "the body names another table than the route",
            )),
            _ => Ok(asked),
        }
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = String::from_utf8_lossy(&self.body);
        write!(
            f,
            "{} {} {} {}",
            self.operation.name(),
            self.table,
            self.query,
            body
        )
    }
}
