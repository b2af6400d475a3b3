//! The fields of requests that are governed, and what makes one ambiguous.

use crate::error::Error;
use crate::protocol::json::Member;

/// The fields that are looked at, wherever they are.
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
            _ => return None,
        })
    }
}

/// Keeps one object's governed fields unambiguous.
pub(super) struct Guard<'p> {
    path: &'p str,
    seen: u16,
    /// How many of its members have been removed.
    pub(super) removed: usize,
}

impl<'p> Guard<'p> {
    pub(super) fn new(path: &'p str) -> Self {
        Self {
            path,
            seen: 0,
            removed: 0,
        }
    }

    /// The field that a member is, if it is governed; an error if servers could disagree about it.
    pub(super) fn admit(&mut self, member: &Member<'_>) -> Result<Option<Field>, Error> {
        let Some(field) = Field::named(&member.name) else {
            return Ok(None);
        };
        let bit = 1 << field as u16;
        let why = if member.escaped {
            "is spelled with escapes"
        } else if self.seen & bit != 0 {
            "is given more than once"
        } else {
            self.seen |= bit;
            return Ok(Some(field));
        };
        let dot = if self.path.is_empty() { "" } else { "." };
        Err(Error::invalid(format!(
            "`{}{dot}{}` {why}",
            self.path, member.name
        )))
    }
}
