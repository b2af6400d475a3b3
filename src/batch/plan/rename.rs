//! The relation between the two entries of a rename.
//!
//! A rename is two entries in a row: the new name is registered, and the old one is deregistered. Nothing else
//! registers. The log keeps the order of the entries, so that the pairs are known after a crash, too.

use super::{Entry, Plan};
use crate::batch::locks::TableKey;
use crate::batch::log::{Action, Intent};
use crate::batch::participant::{CatalogDescription, same_place};
use crate::batch::step::Refusal;

impl Plan {
    /// Returns the entry whose table this entry registers under another name; `None` if it
    /// registers none.
    pub fn origin(&self, entry: usize) -> Option<&Entry> {
        let origin = origin(entry, |index| Some(&self.entries.get(index)?.action))?;
        self.entries.get(origin)
    }

    /// Returns a refusal if the table of a rename has moved by the time its names are locked;
    /// `None` otherwise.
    pub fn moved(&self, entry: usize, found: Option<&CatalogDescription>) -> Option<Refusal> {
        let register = entry.checked_sub(1)?;
        self.origin(register)?;
        let Action::Register { location } = &self.entries[register].action else {
            return None;
        };
        let found = found.and_then(|found| found.proof.location.as_deref());
        if found.is_some_and(|found| same_place(found, location)) {
            return None;
        }
        Some(Refusal::conflict(
            "the table was replaced by another one during the rename; retry",
        ))
    }
}

impl Intent {
    /// Returns the present name of the table that this entry registers under another name; `None` if it
    /// registers none.
    pub fn origin(&self, entry: usize) -> Option<TableKey> {
        let origin = origin(entry, |index| Some(&self.entries.get(index)?.action))?;
        Some(self.entries.get(origin)?.line().table)
    }
}

/// Returns true if the entry is one of the two of a rename.
pub(super) fn is_of_rename(entries: &[Entry], entry: usize) -> bool {
    let registers = |entry: usize| {
        let action = entries.get(entry).map(|entry| &entry.action);
        matches!(action, Some(Action::Register { .. }))
    };
    registers(entry) || entry.checked_sub(1).is_some_and(registers)
}

/// Returns the entry that deregisters what this one registers under another name; `None` if it registers nothing.
fn origin<'a>(entry: usize, action: impl Fn(usize) -> Option<&'a Action>) -> Option<usize> {
    let registers = matches!(action(entry), Some(Action::Register { .. }));
    let removes = matches!(action(entry + 1), Some(Action::Deregister));
    (registers && removes).then_some(entry + 1)
}
