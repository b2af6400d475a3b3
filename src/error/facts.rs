//! The facts of an error as data, for clients that act upon them.

use serde::Serialize;

/// The table that an error is about, and the reason in numbers and ids. The fields of the answer's JSON; those that are
/// not known are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ErrorFacts {
    /// The table, as the client spells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<Vec<String>>,
    /// The branch that the request names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The index of the entry in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<usize>,
    /// The version that the request names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// The latest version of the table that was found; 0 if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<u64>,
    /// The transaction id of the batch that locks the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_by: Option<String>,
    /// True if this is how the batch ended: every repeat with its key gets this answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub decided: bool,
    /// True if the request was sent to another gateway, which may have carried it out: the error is not its end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub undecided: bool,
    /// True if, besides, the batch log may have forgotten the request: sending it again does not tell how it ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forgotten: bool,
}

impl ErrorFacts {
    /// Returns these facts, and those of `other` where they are not known.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            table: self.table.or(other.table),
            branch: self.branch.or(other.branch),
            entry: self.entry.or(other.entry),
            expected: self.expected.or(other.expected),
            found: self.found.or(other.found),
            locked_by: self.locked_by.or(other.locked_by),
            decided: self.decided || other.decided,
            undecided: self.undecided || other.undecided,
            forgotten: self.forgotten || other.forgotten,
        }
    }
}
