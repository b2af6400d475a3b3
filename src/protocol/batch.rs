//! The request of a batch: table versions that are created together or not at all.

use bytes::Bytes;

use super::identifier::Identifier;
use super::json::{Document, Edits, Member, string};
use super::shape::{named, plain, renamed, require, short};
use crate::error::Error;

/// The most entries of a batch that are read, and the largest `batch.max_entries`.
pub const MOST_ENTRIES: usize = 100_000;

/// A `batch-create` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRequest {
    /// The entries in order; at least one.
    pub entries: Vec<BatchEntry>,
}

/// One table version to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchEntry {
    /// The table, as the client spells it. Not the root.
    pub id: Identifier,
    /// The version's number: at most `i64::MAX`, as in the contract.
    pub version: u64,
    /// The location of the staged manifest. Not empty.
    pub manifest_path: String,
    /// The manifest's size in bytes.
    pub manifest_size: Option<i64>,
    /// The object store's tag of the manifest.
    pub e_tag: Option<String>,
    /// The naming scheme of manifest files.
    pub naming_scheme: Option<String>,
    /// The branch; `None` for the main one.
    pub branch: Option<String>,
    /// The entry's own bytes, without `identity` and `context`.
    raw: Bytes,
}

/// Reads a batch. 400, code 13, with the entry and its field in the message, e.g.
/// `entries[2].version`; also for more than `max_entries`.
pub fn parse(body: &[u8], max_entries: usize) -> Result<BatchRequest, Error> {
    let document = Document::new(body)?;
    let mut list = None;
    if !document.is_nothing() {
        document.members(document.text, "the body", &mut |member| {
            if member.name == "entries" {
                plain(&member, "")?;
                list = Some(member.value);
            }
            Ok(())
        })?;
    }
    let list = list.ok_or_else(|| Error::invalid("`entries` is required"))?;
    let mut entries = Vec::new();
    document.elements(list, "`entries`", &mut |index, raw| {
        bounded("entries", index, max_entries)?;
        entries.push(entry(raw, &format!("entries[{index}]"))?);
        Ok(())
    })?;
    require(
        !entries.is_empty(),
        "entries",
        "a list with at least one entry",
    )?;
    Ok(BatchRequest { entries })
}

/// Refuses an element of `list` beyond the `most` that a batch may have.
pub(super) fn bounded(list: &str, index: usize, most: usize) -> Result<(), Error> {
    if index < most {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "`{list}[{index}]`: a batch has at most {most} {list}"
    )))
}

impl BatchEntry {
    /// Returns the entry's own bytes with another identifier: the body of a single create.
    pub fn body_for(&self, table: &Identifier) -> Bytes {
        renamed(&self.raw, table)
    }
}

/// The members of a `CreateTableVersionRequest` that the gateway understands.
const VERSION_MEMBERS: [&str; 8] = [
    "id",
    "version",
    "branch",
    "manifest_path",
    "manifest_size",
    "e_tag",
    "metadata",
    "naming_scheme",
];

/// Returns the bytes of a `create_table_version` object with only the members that the gateway understands, so that a
/// catalog that creates several versions at once acts on nothing else.
pub fn understood(raw: &Bytes) -> Bytes {
    let Ok(document) = Document::new(raw) else {
        return raw.clone();
    };
    let mut edits = Edits::default();
    let mut removed = 0;
    let walked = document.members(document.text, "the object", &mut |member| {
        if !VERSION_MEMBERS.contains(&&*member.name) {
            edits.remove(document, &member, removed);
            removed += 1;
        }
        Ok(())
    });
    debug_assert!(walked.is_ok(), "what was read can be read again");
    edits.apply(raw.clone())
}

/// The fields of an entry that have been read so far.
#[derive(Default)]
struct Draft {
    version: Option<u64>,
    manifest_path: Option<String>,
    manifest_size: Option<i64>,
    e_tag: Option<String>,
    naming_scheme: Option<String>,
    branch: Option<String>,
}

/// Reads one version to create; `at` is the entry's position in the request, for messages.
pub(super) fn entry(raw: &str, at: &str) -> Result<BatchEntry, Error> {
    let path = format!("{at}.");
    let mut draft = Draft::default();
    let (id, raw) = named(raw, at, &mut |member| draft.take(member, &path))?;
    let missing = |field: &str| Error::invalid(format!("`{path}{field}` is required"));
    Ok(BatchEntry {
        id,
        version: draft.version.ok_or_else(|| missing("version"))?,
        manifest_path: draft
            .manifest_path
            .ok_or_else(|| missing("manifest_path"))?,
        manifest_size: draft.manifest_size,
        e_tag: draft.e_tag,
        naming_scheme: draft.naming_scheme,
        branch: draft.branch,
        raw,
    })
}

impl Draft {
    fn take(&mut self, member: &Member<'_>, path: &str) -> Result<(), Error> {
        let known = [
            "version",
            "manifest_path",
            "manifest_size",
            "e_tag",
            "naming_scheme",
            "branch",
        ];
        if !known.contains(&&*member.name) {
            return Ok(());
        }
        plain(member, path)?;
        short(member, path)?;
        let field = format!("{path}{}", member.name);
        match &*member.name {
            "version" => {
                self.version = version(member.value);
                let shape = "an integer from 0 to 9223372036854775807";
                require(self.version.is_some(), &field, shape)
            }
            "manifest_path" => {
                let text = string(member.value).filter(|text| !text.is_empty());
                self.manifest_path = text.map(|text| text.into_owned());
                require(
                    self.manifest_path.is_some(),
                    &field,
                    "a string that is not empty",
                )
            }
            "manifest_size" => {
                self.manifest_size = member.value.parse().ok();
                let fits = self.manifest_size.is_some() || member.value == "null";
                require(fits, &field, "an integer")
            }
            _ => self.take_text(member, &field),
        }
    }

    fn take_text(&mut self, member: &Member<'_>, field: &str) -> Result<(), Error> {
        let text = string(member.value).map(|text| text.into_owned());
        require(text.is_some() || member.value == "null", field, "a string")?;
        match &*member.name {
            "e_tag" => self.e_tag = text,
            "naming_scheme" => self.naming_scheme = text,
            _ => self.branch = text,
        }
        Ok(())
    }
}

/// Reads a version's number exactly: JSON can spell a whole number only by its digits.
pub(super) fn version(raw: &str) -> Option<u64> {
    let digits = raw.bytes().all(|byte| byte.is_ascii_digit());
    let number: i64 = raw.parse().ok().filter(|_| digits)?;
    u64::try_from(number).ok()
}

#[cfg(test)]
mod tests;
