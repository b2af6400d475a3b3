//! The relation between the two entries of a rename.

use super::{Entry, Plan};
use crate::batch::log::Action;
use crate::batch::participant::{CatalogDescription, same_place};
use crate::batch::step::Refusal;

impl Plan {
    /// Returns the entry whose table this entry registers under another name; `None` if it
    /// registers none.
    pub fn origin(&self, entry: usize) -> Option<&Entry> {
        let mut entries = self.entries.iter();
        match self.entries[entry].action {
            Action::Register { .. } => entries.find(|entry| entry.action == Action::Deregister),
            _ => None,
        }
    }

    /// Returns a refusal if the table of a rename has moved by the time its names are locked;
    /// `None` otherwise.
    pub fn moved(&self, entry: usize, found: Option<&CatalogDescription>) -> Option<Refusal> {
        if self.entries[entry].action != Action::Deregister {
            return None;
        }
        let mut entries = self.entries.iter();
        let registered = entries.find_map(|entry| match &entry.action {
            Action::Register { location } => Some(location.as_str()),
            _ => None,
        })?;
        let found = found.and_then(|found| found.proof.location.as_deref());
        if found.is_some_and(|found| same_place(found, registered)) {
            return None;
        }
        Some(Refusal::conflict(
            "the table was replaced by another one during the rename; retry",
        ))
    }
}
