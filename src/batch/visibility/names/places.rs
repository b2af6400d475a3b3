//! The places of tables that batches register under second names.
//!
//! A second name may appear at its catalog until its batch is committed, or until no request about it can arrive any
//! more. Meanwhile the data at the place must not be destroyed, and must not get a third name.

use super::{Names, State};
use crate::batch::locks::TableKey;
use crate::batch::visibility::commit_flag::CommitFlag;

/// A place that is to get another name, until the batch is committed or the name cannot appear any more.
pub struct RenamedLocation {
    commit_flag: CommitFlag,
    /// The name that it may get.
    pub name: TableKey,
    /// The name that it has; `None` if it is not known.
    pub origin: Option<TableKey>,
    /// The location of the table's data.
    pub location: String,
}

impl Names {
    /// Hides a name that a batch is about to register for a place, until `commit_flag` is revealed. `origin` is the
    /// present name of the place, which the batch removes.
    pub fn hide_registered(
        &self,
        table: TableKey,
        location: &str,
        origin: Option<TableKey>,
        commit_flag: &CommitFlag,
    ) {
        self.hide_made(table.clone(), commit_flag);
        self.write().places.push(RenamedLocation {
            commit_flag: commit_flag.clone(),
            name: table,
            origin,
            location: location.to_owned(),
        });
    }

    /// The name that the first matching place may get while that is undecided, or not undone yet; `None` if there is no
    /// such place.
    pub fn second_name(&self, of: impl Fn(&RenamedLocation) -> bool) -> Option<TableKey> {
        if !self.moment().has_some() {
            return None;
        }
        let state = self.read();
        let mut places = state.places.iter();
        let found = places.find(|place| !place.commit_flag.is_revealed() && of(place));
        found.map(|place| place.name.clone())
    }
}

impl RenamedLocation {
    /// True if one of the names is in this catalog.
    pub fn is_in(&self, catalog: &str) -> bool {
        let mut names = [Some(&self.name), self.origin.as_ref()]
            .into_iter()
            .flatten();
        names.any(|name| *name.backend == *catalog)
    }
}

impl State {
    /// Removes a place whose new name the batch does not affect any more.
    pub(super) fn forget_place(&mut self, name: &TableKey, commit_flag: &CommitFlag) {
        self.places
            .retain(|place| !(place.commit_flag.is(commit_flag) && place.name == *name));
    }
}
