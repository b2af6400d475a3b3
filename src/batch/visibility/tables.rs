//! The tables about whose versions anything is recorded.

use std::collections::BTreeSet;

use super::Visibility;
use crate::batch::locks::TableKey;
use crate::batch::visibility::hidden_range::{HiddenRange, HideReason};

impl Visibility {
    /// The tables about whose versions anything is recorded.
    pub fn tables(&self) -> Vec<TableKey> {
        let tables = self.tables.iter();
        tables.map(|table| table.key().clone()).collect()
    }

    /// True if another writer's create of this table may land.
    pub fn has_strays(&self, table: &TableKey) -> bool {
        self.strays.has(table)
    }

    /// True if a create of another writer that got no answer may land in any table.
    pub fn has_any_strays(&self) -> bool {
        self.strays.has_any()
    }

    /// The tables of a catalog with hidden versions, or with requests that may still arrive.
    pub fn tables_of(&self, catalog: &str) -> BTreeSet<TableKey> {
        let tables = self.tables.iter();
        let tables = tables.filter(|table| {
            let is_over = |slot: &HiddenRange| {
                matches!(
                    slot.what,
                    HideReason::Freed { .. } | HideReason::Retaken { .. }
                )
            };
            *table.key().backend == *catalog && !table.value().iter().all(is_over)
        });
        tables.map(|table| table.key().clone()).collect()
    }
}
