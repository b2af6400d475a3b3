//! The tables of a line, with all of their changes or in their short form.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::brief::BriefTables;
use crate::protocol::identifier::Identifier;
use crate::request::RequestRecord;
use crate::request::change::TableChange;

/// The tables of a line.
pub(super) enum Tables {
    None,
    One(Identifier),
    Listed(Arc<[TableChange]>),
    Brief(BriefTables),
}

impl Tables {
    /// Returns the tables of a request: those that it changes, or the one in its path.
    pub(super) fn of(exchange: &RequestRecord, path: Option<&Identifier>, is_brief: bool) -> Self {
        match (exchange.shared_changes(), path) {
            (Some(changes), _) if is_brief => Self::Brief(BriefTables::of(changes)),
            (Some(changes), _) => Self::Listed(Arc::clone(changes)),
            (None, Some(path)) if is_brief => Self::Brief(BriefTables::one(path)),
            (None, Some(path)) => Self::One(path.clone()),
            (None, None) => Self::None,
        }
    }

    /// The number of tables that are not named; `None` if all are.
    pub(super) fn omitted(&self) -> Option<usize> {
        match self {
            Self::Brief(tables) => Some(tables.omitted).filter(|omitted| *omitted > 0),
            _ => None,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(table) => text_bytes(table),
            Self::Listed(tables) => tables.iter().map(change_bytes).sum(),
            Self::Brief(tables) => tables.bytes(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }
}

impl Serialize for Tables {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => to.collect_seq([(); 0]),
            Self::One(table) => to.collect_seq([TableChange::of(table.clone())]),
            Self::Listed(tables) => to.collect_seq(tables.iter()),
            Self::Brief(tables) => to.collect_seq(&tables.named),
        }
    }
}

fn change_bytes(change: &TableChange) -> usize {
    let new_name = change.new_name.as_ref().map_or(0, text_bytes);
    let branch = change.branch.as_ref().map_or(0, String::len);
    let ranges = size_of_val(&*change.deleted);
    size_of_val(change) + text_bytes(&change.table) + new_name + branch + ranges
}

/// Returns the bytes of a name as it is spelled.
fn text_bytes(name: &Identifier) -> usize {
    name.names().map(|name| name.len() + 1).sum()
}
