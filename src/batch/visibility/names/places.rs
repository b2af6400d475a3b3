//! The places of tables that batches register under second names.
//!
//! Until its batch is committed, or what was sent for it cannot arrive any more, such a name may appear at its catalog:
//! the data at the place must not be destroyed meanwhile, nor get a third name.

use super::{Names, State};
use crate::batch::locks::TableKey;
use crate::batch::visibility::commit_flag::CommitFlag;

/// A place that is to have another name, until that is decided or cannot come any more.
pub struct Place {
    fate: CommitFlag,
    /// The name that it may get.
    pub name: TableKey,
    /// The name that it has.
    pub origin: Option<TableKey>,
    /// Where it is.
    pub location: String,
}

impl Names {
    /// Hides a name that a batch is about to register for a place, until `fate` is revealed.
    pub fn hide_registered(&self, table: TableKey, location: &str, fate: &CommitFlag) {
        self.hide_made(table.clone(), fate);
        self.write().places.push(Place {
            fate: fate.clone(),
            name: table,
            origin: None,
            location: location.to_owned(),
        });
    }

    /// The name that the first such place may get while it is not decided, or may not be undone yet. `None`: there is
    /// no such place.
    pub fn second_name(&self, of: impl Fn(&Place) -> bool) -> Option<TableKey> {
        if !self.moment().has_some() {
            return None;
        }
        let state = self.read();
        let mut places = state.places.iter();
        let found = places.find(|place| !place.fate.is_revealed() && of(place));
        found.map(|place| place.name.clone())
    }
}

impl Place {
    /// Whether one of the names is in this catalog.
    pub fn is_in(&self, catalog: &str) -> bool {
        let mut names = [Some(&self.name), self.origin.as_ref()]
            .into_iter()
            .flatten();
        names.any(|name| *name.backend == *catalog)
    }
}

impl State {
    /// The batch that registers a place under another name takes this one away.
    pub(super) fn originates(&mut self, table: &TableKey, fate: &CommitFlag) {
        let places = self.places.iter_mut();
        for place in places.filter(|place| place.fate.is(fate)) {
            place.origin = Some(table.clone());
        }
    }

    /// The batch has no say in the name any more.
    pub(super) fn forget_place(&mut self, name: &TableKey, fate: &CommitFlag) {
        self.places
            .retain(|place| !(place.fate.is(fate) && place.name == *name));
    }
}
