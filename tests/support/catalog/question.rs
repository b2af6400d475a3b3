//! A request to a catalog, as far as a simulated one reads it.

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
    /// The gateway asks on its own account; otherwise it passes on what a client has asked.
    pub own: bool,
}

/// The fields of all bodies.
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
    /// What a create would create.
    pub fn creates(&self) -> Option<u64> {
        let creates = self.operation == Operation::CreateTableVersion;
        creates.then(|| self.asked().ok()?.version).flatten()
    }

    /// Whether it takes something away for good.
    pub fn removes(&self) -> bool {
        matches!(
            self.operation,
            Operation::BatchDeleteTableVersions | Operation::DeregisterTable
        )
    }

    /// Whether the gateway looks on its own account whether something is there.
    pub fn looks(&self) -> bool {
        let of = [Operation::DescribeTableVersion, Operation::DescribeTable];
        self.own && of.contains(&self.operation)
    }

    /// Whether it takes something away, or gives a name: what comes of it late does harm.
    pub fn matters(&self) -> bool {
        self.removes() || self.operation == Operation::RegisterTable
    }

    /// What the gateway asks about on its own account: the table, the branch, and the version if it is about one.
    pub fn subject(&self) -> (String, Option<String>, Option<u64>) {
        let asked = self.asked().unwrap_or_default();
        let first = asked.ranges.first();
        let first = first.and_then(|range| u64::try_from(range.start_version).ok());
        (self.table.clone(), asked.branch, asked.version.or(first))
    }

    /// Whose staged manifests it names, or who wrote it.
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

    /// The author of a server-side write whose body is data.
    pub(super) fn author(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A parameter of the query.
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
