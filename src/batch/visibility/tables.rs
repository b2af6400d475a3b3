//! The tables about whose versions anything is remembered.

use std::collections::BTreeSet;

use super::Visibility;
use crate::batch::locks::TableKey;

impl Visibility {
    /// The tables of a catalog of which versions are hidden, rest or are watched for.
    pub fn tables_of(&self, catalog: &str) -> BTreeSet<TableKey> {
        let lines = self.lines.iter();
        let tables = lines.map(|line| line.key().table.clone());
        tables.filter(|table| *table.backend == *catalog).collect()
    }
}
