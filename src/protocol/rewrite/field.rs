//! Recognizes the names of the fields that `request.rs` interprets, and refuses names that resemble one.

use crate::error::Error;
use crate::protocol::json::{Member, brief};

/// The governed fields, wherever they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Id,
    Identity,
    Context,
    IndexName,
    Entries,
    Operations,
    NewNamespaceId,
    NewTableName,
    LoadDetailedMetadata,
    Mode,
}

impl Field {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "id" => Self::Id,
            "identity" => Self::Identity,
            "context" => Self::Context,
            "index_name" => Self::IndexName,
            "entries" => Self::Entries,
            "operations" => Self::Operations,
            "new_namespace_id" => Self::NewNamespaceId,
            "new_table_name" => Self::NewTableName,
            "load_detailed_metadata" => Self::LoadDetailedMetadata,
            "mode" => Self::Mode,
            _ => return None,
        })
    }

    /// True if the field describes a rename, or its caller.
    pub(super) fn is_of_rename(self) -> bool {
        matches!(
            self,
            Self::Id | Self::Identity | Self::Context | Self::NewNamespaceId | Self::NewTableName
        )
    }
}

/// Returns all members that the gateway interprets anywhere and that begin with these two letters: hardly any other
/// member begins with the same two.
fn meaningful(first: u8, second: u8) -> &'static [&'static str] {
    match (first, second) {
        (b'b', b'e') => &["behavior"],
        (b'b', b'r') => &["branch"],
        (b'c', b'o') => &["context"],
        (b'c', b'r') => &["create_table_version"],
        (b'd', b'e') => &["declare_table", "delete_table_versions", "deregister_table"],
        (b'e', b'n') => &["entries", "end_version"],
        (b'e', b't') => &["e_tag"],
        (b'i', b'd') => &["id", "identity"],
        (b'i', b'n') => &["index_name"],
        (b'l', b'o') => &["load_detailed_metadata", "location"],
        (b'm', b'a') => &["manifest_path", "manifest_size"],
        (b'm', b'e') => &["metadata"],
        (b'm', b'o') => &["mode"],
        (b'n', b'a') => &["naming_scheme"],
        (b'n', b'e') => &["new_namespace_id", "new_table_name"],
        (b'o', b'p') => &["operations"],
        (b'p', b'r') => &["properties"],
        (b'r', b'a') => &["ranges"],
        (b'r', b'e') => &["rename_table"],
        (b's', b't') => &["start_version"],
        (b'u', b'p') => &["updates"],
        (b'v', b'e') => &["version", "vend_credentials"],
        _ => &[],
    }
}

/// Returns the member that a lenient server takes this one for, although it is spelled differently; `None` if there is
/// none. Go's `encoding/json` ignores case, including that of `\u{17f}` and `\u{212a}`; other servers also ignore
/// characters between words.
pub(in crate::protocol) fn resembled(name: &str) -> Option<&'static str> {
    let known = match name.as_bytes() {
        // Nearly all members begin with two small letters.
        [first @ b'a'..=b'z', second @ b'a'..=b'z', ..] => meaningful(*first, *second),
        _ => {
            let mut letters = folded(name).map(|letter| u8::try_from(letter).unwrap_or_default());
            meaningful(letters.next()?, letters.next()?)
        }
    };
    let is_meant = |known: &&&str| **known != name && folded(known).eq(folded(name));
    known.iter().find(is_meant).copied()
}

/// Returns the letters and digits of a name in lower case, as servers compare them that ignore case.
fn folded(name: &str) -> impl Iterator<Item = char> + '_ {
    name.chars().filter_map(|letter| match letter {
        '\u{17f}' => Some('s'),
        '\u{212a}' => Some('k'),
        '\u{130}' | '\u{131}' => Some('i'),
        _ if letter.is_ascii_alphanumeric() => Some(letter.to_ascii_lowercase()),
        _ if letter.is_ascii() => None,
        _ => Some(letter),
    })
}

/// Refuses a member that some servers take for one with a meaning. `path` is that of its object, with a dot at its end
/// if it is not the whole body.
pub(in crate::protocol) fn refuse_resembling(member: &Member<'_>, path: &str) -> Result<(), Error> {
    match resembled(&member.name) {
        None => Ok(()),
        Some(known) => Err(Error::invalid(format!(
            "`{path}{}` is `{known}` to some servers and not to others: write `{known}`, or use another name",
            brief(&member.name)
        ))),
    }
}

/// Refuses ambiguous spellings of one object's governed fields.
pub(super) struct Guard<'p> {
    path: &'p str,
    /// The number of its members that have been removed.
    pub(super) removed: usize,
}

impl<'p> Guard<'p> {
    pub(super) fn new(path: &'p str) -> Self {
        Self { path, removed: 0 }
    }

    /// Returns the field of a member; `None` if it is not governed. Fails if servers could disagree about it.
    pub(super) fn admit(&self, member: &Member<'_>) -> Result<Option<Field>, Error> {
        let dot = if self.path.is_empty() { "" } else { "." };
        let Some(field) = Field::named(&member.name) else {
            return match resembled(&member.name) {
                None => Ok(None),
                Some(_) => refuse_resembling(member, &format!("{}{dot}", self.path)).map(|()| None),
            };
        };
        if !member.escaped {
            return Ok(Some(field));
        }
        Err(Error::invalid(format!(
            "`{}{dot}{}` is spelled with escapes",
            self.path, member.name
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_lenient_server_takes_for_a_member_is_found() {
        for (name, known) in [
            ("ID", "id"),
            ("Id", "id"),
            ("iD", "id"),
            ("\u{131}d", "id"),
            ("i-d", "id"),
            (" id", "id"),
            ("id\0", "id"),
            ("Identity", "identity"),
            ("CONTEXT", "context"),
            ("New_Namespace_Id", "new_namespace_id"),
            ("newNamespaceId", "new_namespace_id"),
            ("new-table-name", "new_table_name"),
            ("new_name\u{17f}pace_id", "new_namespace_id"),
            ("entrie\u{17f}", "entries"),
            ("Version", "version"),
            ("manifestPath", "manifest_path"),
        ] {
            assert_eq!(resembled(name), Some(known), "{name}");
        }
        let letters = || b'a'..=b'z';
        let known =
            letters().flat_map(|first| letters().flat_map(move |second| meaningful(first, second)));
        for name in known {
            assert_eq!(resembled(name), None, "{name}");
            assert_eq!(resembled(&name.to_uppercase()), Some(*name));
        }
        for name in [
            "",
            "_",
            "ids",
            "table_id",
            "k",
            "filter",
            "columns",
            "with_table_uri",
            "ü",
        ] {
            assert_eq!(resembled(name), None, "{name}");
        }
    }
}
