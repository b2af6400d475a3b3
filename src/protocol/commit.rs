//! The request of a mixed batch: tables to declare, versions to create or delete, tables to deregister or to rename,
//! together or not at all.

use bytes::Bytes;

use super::batch::{self, BatchEntry};
use super::identifier::Identifier;
use super::json::{Document, brief, string};
use super::rename::NewName;
use super::rewrite::refuse_resembling;
use super::shape::{declared, named, plain, renamed, require, short};
use crate::error::Error;

/// The path of the gateway's own `batch-commit`, which also renames.
pub const EXTENDED_PATH: &str = "/nsgate/v1/batch-commit";

/// The set of operations that a commit may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// The contract's.
    Contract,
    /// The contract's, and renames.
    Extended,
}

/// A `batch-commit` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRequest {
    /// The operations in order; at least one.
    pub operations: Vec<CommitOperation>,
}

/// One operation of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitOperation {
    /// A table to declare.
    DeclareTable(DeclareTable),
    /// A version to create.
    CreateTableVersion(BatchEntry),
    /// Versions to delete.
    DeleteTableVersions(DeleteTableVersions),
    /// A table to deregister.
    DeregisterTable(DeregisterTable),
    /// A table to rename.
    RenameTable(RenameTable),
}

/// A table to declare: its name is reserved, and it has no versions yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclareTable {
    /// The table, as the client spells it. Not the root.
    pub id: Identifier,
    /// The location of its data; `None` if the catalog chooses it.
    pub location: Option<String>,
    /// The operation's own bytes, without `identity` and `context`.
    raw: Bytes,
}

/// Versions to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteTableVersions {
    /// The table, as the client spells it. Not the root.
    pub id: Identifier,
    /// The branch; `None` for the main one.
    pub branch: Option<String>,
    /// The versions; at least one range.
    pub ranges: Vec<VersionRange>,
    /// The operation's own bytes, without `identity` and `context`.
    raw: Bytes,
}

/// Consecutive versions, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// The first version.
    pub start: u64,
    /// The version after the last one; `None` for all versions up to and including the latest.
    pub end: Option<u64>,
}

/// A table to deregister: its name is removed, its data remain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeregisterTable {
    /// The table, as the client spells it. Not the root.
    pub id: Identifier,
    /// The operation's own bytes, without `identity` and `context`.
    raw: Bytes,
}

/// A table to rename: its data remain where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenameTable {
    /// The table, as the client spells it. Not the root.
    pub id: Identifier,
    /// The new name, as the client spells it.
    pub new: Identifier,
}

/// Reads a commit. 400, code 13, with the operation and its field in the message, e.g.
/// `operations[2].declare_table.id`; also for more than `max_operations` operations, or as many ranges in one of them.
/// A rename counts as two operations.
pub fn parse(body: &[u8], kinds: Kinds, max_operations: usize) -> Result<CommitRequest, Error> {
    let document = Document::new(body)?;
    let mut list = None;
    if !document.is_nothing() {
        document.members(document.text, "the body", &mut |member| {
            if member.name == "operations" {
                plain(&member, "")?;
                list = Some(member.value);
            }
            Ok(())
        })?;
    }
    let list = list.ok_or_else(|| Error::invalid("`operations` is required"))?;
    let (mut operations, mut count) = (Vec::new(), 0);
    document.elements(list, "`operations`", &mut |index, raw| {
        let too_many = |note: &str| {
            Err(Error::invalid(format!(
                "`operations[{index}]`: a batch has at most {max_operations} operations{note}"
            )))
        };
        if count == max_operations {
            return too_many("");
        }
        let operation = operation(raw, index, kinds, max_operations)?;
        count += operation.entries();
        if count > max_operations {
            return too_many(", and a rename counts as two");
        }
        operations.push(operation);
        Ok(())
    })?;
    require(
        !operations.is_empty(),
        "operations",
        "a list with at least one operation",
    )?;
    Ok(CommitRequest { operations })
}

impl CommitOperation {
    /// Returns the contract's name of the operation's kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::DeclareTable(_) => "declare_table",
            Self::CreateTableVersion(_) => "create_table_version",
            Self::DeleteTableVersions(_) => "delete_table_versions",
            Self::DeregisterTable(_) => "deregister_table",
            Self::RenameTable(_) => "rename_table",
        }
    }

    /// Returns the number of changes that the operation is made of.
    pub fn entries(&self) -> usize {
        match self {
            Self::RenameTable(_) => 2,
            _ => 1,
        }
    }

    /// Returns the table, as the client spells it.
    pub fn id(&self) -> &Identifier {
        match self {
            Self::DeclareTable(declare) => &declare.id,
            Self::CreateTableVersion(create) => &create.id,
            Self::DeleteTableVersions(delete) => &delete.id,
            Self::DeregisterTable(deregister) => &deregister.id,
            Self::RenameTable(rename) => &rename.id,
        }
    }

    /// Returns the name that the operation gives to its table; `None` if it renames none.
    pub fn new_name(&self) -> Option<&Identifier> {
        match self {
            Self::RenameTable(rename) => Some(&rename.new),
            _ => None,
        }
    }

    /// Returns the operation's own bytes with another identifier: the body of a single operation of its kind.
    pub fn body_for(&self, table: &Identifier) -> Bytes {
        match self {
            Self::DeclareTable(declare) => renamed(&declare.raw, table),
            Self::CreateTableVersion(create) => create.body_for(table),
            Self::DeleteTableVersions(delete) => renamed(&delete.raw, table),
            Self::DeregisterTable(deregister) => renamed(&deregister.raw, table),
            Self::RenameTable(rename) => {
                let namespace = rename.new.parent().unwrap_or_else(Identifier::root);
                let body = serde_json::json!({
                    "id": table.names().collect::<Vec<_>>(),
                    "new_namespace_id": namespace.names().collect::<Vec<_>>(),
                    "new_table_name": rename.new.last(),
                });
                body.to_string().into()
            }
        }
    }
}

/// Reads one operation. Exactly one member names its kind. An unknown member is refused and not ignored, because the
/// batch must be carried out completely or not at all.
fn operation(
    raw: &str,
    index: usize,
    kinds: Kinds,
    max_ranges: usize,
) -> Result<CommitOperation, Error> {
    let at = format!("operations[{index}]");
    let document = Document { text: raw };
    let mut found = None;
    document.members(raw, &format!("`{at}`"), &mut |member| {
        plain(&member, &format!("{at}."))?;
        if member.value == "null" {
            return Ok(());
        }
        let here = format!("{at}.{}", brief(&member.name));
        let read = match &*member.name {
            "declare_table" => declare(member.value, &here),
            "create_table_version" => {
                batch::entry(member.value, &here).map(CommitOperation::CreateTableVersion)
            }
            "delete_table_versions" => delete(member.value, &here, max_ranges),
            "deregister_table" => deregister(member.value, &here),
            "rename_table" if kinds == Kinds::Extended => rename(member.value, &here),
            "rename_table" => Err(Error::invalid(format!(
                "`{here}` is not an operation of the contract's commit: send the batch to {EXTENDED_PATH}"
            ))),
            _ => Err(Error::invalid(format!(
                "`{here}` is no operation of a commit; they are {}",
                kinds.names()
            ))),
        };
        match found.replace(read?) {
            None => Ok(()),
            Some(_) => Err(not_one(&at, kinds)),
        }
    })?;
    found.ok_or_else(|| not_one(&at, kinds))
}

impl Kinds {
    /// Returns the names of the operations, for a message.
    fn names(self) -> &'static str {
        match self {
            Self::Contract => {
                "declare_table, create_table_version, delete_table_versions, deregister_table"
            }
            Self::Extended => {
                "declare_table, create_table_version, delete_table_versions, deregister_table, rename_table"
            }
        }
    }
}

fn not_one(at: &str, kinds: Kinds) -> Error {
    let names = kinds.names();
    Error::invalid(format!("`{at}` must have exactly one of {names}"))
}

fn declare(raw: &str, at: &str) -> Result<CommitOperation, Error> {
    let path = format!("{at}.");
    let mut location = None;
    let (id, raw) = named(raw, at, &mut |member| {
        declared(member, &path)?;
        if member.name == "location" {
            location = string(member.value).map(|text| text.into_owned());
        }
        Ok(())
    })?;
    Ok(CommitOperation::DeclareTable(DeclareTable {
        id,
        location,
        raw,
    }))
}

fn deregister(raw: &str, at: &str) -> Result<CommitOperation, Error> {
    let (id, raw) = named(raw, at, &mut |_| Ok(()))?;
    Ok(CommitOperation::DeregisterTable(DeregisterTable {
        id,
        raw,
    }))
}

fn rename(raw: &str, at: &str) -> Result<CommitOperation, Error> {
    let path = format!("{at}.");
    let mut new = NewName::default();
    let (id, _) = named(raw, at, &mut |member| new.read(member, &path))?;
    let new = new.of(&id, &path)?;
    Ok(CommitOperation::RenameTable(RenameTable { id, new }))
}

fn delete(raw: &str, at: &str, max_ranges: usize) -> Result<CommitOperation, Error> {
    let path = format!("{at}.");
    let (mut branch, mut list) = (None, None);
    let (id, bytes) = named(raw, at, &mut |member| match &*member.name {
        "branch" => {
            plain(member, &path)?;
            short(member, &path)?;
            branch = string(member.value).map(|text| text.into_owned());
            let fits = branch.is_some() || member.value == "null";
            require(fits, &format!("{path}branch"), "a string")
        }
        "ranges" => {
            plain(member, &path)?;
            list = Some(member.value);
            Ok(())
        }
        _ => Ok(()),
    })?;
    let list = list.ok_or_else(|| Error::invalid(format!("`{path}ranges` is required")))?;
    let mut ranges = Vec::new();
    let document = Document { text: list };
    document.elements(list, &format!("`{path}ranges`"), &mut |index, raw| {
        let here = format!("{path}ranges[{index}]");
        few_ranges(index, max_ranges, &here)?;
        let range = range(raw, &here)?;
        ranges.push(range);
        require(
            range.end.is_none_or(|end| end > range.start),
            &format!("{here}.end_version"),
            "above `start_version`: it is the version after the last one to delete",
        )
    })?;
    require(
        !ranges.is_empty(),
        &format!("{path}ranges"),
        "a list with at least one range",
    )?;
    Ok(CommitOperation::DeleteTableVersions(DeleteTableVersions {
        id,
        branch,
        ranges,
        raw: bytes,
    }))
}

/// Refuses a range beyond the `most` that an operation may have; `at` is its position in the request.
pub(super) fn few_ranges(index: usize, most: usize, at: &str) -> Result<(), Error> {
    if index < most {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "`{at}`: an operation has at most {most} ranges"
    )))
}

/// Reads one range; `at` is its position in the request, for messages.
pub(super) fn range(raw: &str, at: &str) -> Result<VersionRange, Error> {
    let path = format!("{at}.");
    let (mut start, mut end) = (None, None);
    let document = Document { text: raw };
    document.members(raw, &format!("`{at}`"), &mut |member| {
        let field = format!("{path}{}", member.name);
        match &*member.name {
            "start_version" => {
                plain(&member, &path)?;
                start = batch::version(member.value);
                require(start.is_some(), &field, "an integer from 0")
            }
            "end_version" => {
                plain(&member, &path)?;
                end = match member.value {
                    "-1" => Some(None),
                    value => batch::version(value).map(Some),
                };
                require(end.is_some(), &field, "an integer from 0, or -1")
            }
            _ => refuse_resembling(&member, &path),
        }
    })?;
    let missing = |field: &str| Error::invalid(format!("`{path}{field}` is required"));
    Ok(VersionRange {
        start: start.ok_or_else(|| missing("start_version"))?,
        end: end.ok_or_else(|| missing("end_version"))?,
    })
}

#[cfg(test)]
mod tests;
