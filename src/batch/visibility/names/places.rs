//! The places of tables that batches register under second names.
//!
//! A second name may appear at its catalog until its batch is committed, or until no request about it can arrive any
//! more. Meanwhile the data at the place must not be destroyed, and must not get a third name. After the commit, the
//! data must not be destroyed while the batch removes the first name: without its data a catalog answers that the name
//! is not there, which is the batch's only evidence that its removal was carried out.

use super::{Names, State};
use crate::batch::locks::TableKey;
use crate::batch::visibility::commit_flag::CommitFlag;

/// A place that a batch gives another name, until that name cannot appear any more or the first name is removed.
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

    /// The first names that committed batches are removing from the matching places.
    pub fn first_names(&self, of: impl Fn(&RenamedLocation) -> bool) -> Vec<TableKey> {
        if !self.moment().has_some() {
            return Vec::new();
        }
        let state = self.read();
        let places = state.places.iter();
        let removing = places.filter(|place| place.commit_flag.is_revealed() && of(place));
        removing.filter_map(|place| place.origin.clone()).collect()
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
    /// Removes the places of a batch that affects neither their new names nor, after its commit, the first ones.
    pub(super) fn forget_places(&mut self, commit_flag: &CommitFlag) {
        let affects = |table: &TableKey| {
            let slots = self.slots.get(table);
            slots.is_some_and(|slots| slots.iter().any(|slot| slot.commit_flag.is(commit_flag)))
        };
        self.places.retain(|place| {
            let is_removing = || {
                let origin = place.origin.as_ref();
                commit_flag.is_revealed() && origin.is_some_and(affects)
            };
            !place.commit_flag.is(commit_flag) || affects(&place.name) || is_removing()
        });
    }
}
