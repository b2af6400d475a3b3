//! Learns from answered creates which catalogs give a version the entity tag of the manifest that was staged for it.
//!
//! Equal tags prove that a version is the staged one, at any catalog. Different tags prove the opposite only at a
//! catalog that has kept every tag so far.

use std::sync::Arc;

use dashmap::DashMap;

use crate::batch::log::Action;
use crate::batch::participant::CatalogDescription;
use crate::batch::plan::Entry;

/// True for each catalog that has kept every tag so far; no entry if it has shown none.
#[derive(Clone, Default)]
pub(super) struct Tags(Arc<DashMap<Arc<str>, bool>>);

impl Tags {
    /// Learns from the answer to a create.
    pub(super) fn learn(&self, entry: &Entry, made: &CatalogDescription) {
        let Some((staged, shown)) = both(entry, Some(made)) else {
            return;
        };
        let catalog = &entry.line.table.backend;
        let keeps = staged == shown;
        if self.0.get(catalog).is_none_or(|known| *known && !keeps) {
            self.0.insert(Arc::clone(catalog), keeps);
        }
    }

    /// Forgets the catalogs that are not kept.
    pub(super) fn retain(&self, is_kept: impl Fn(&Arc<str>) -> bool) {
        self.0.retain(|name, _| is_kept(name));
    }

    /// True if the tag of the found version proves that it is not the staged one. Only a catalog that is known to keep
    /// tags proves this.
    pub(super) fn denies(&self, entry: &Entry, found: Option<&CatalogDescription>) -> bool {
        let differ = both(entry, found).is_some_and(|(staged, shown)| staged != shown);
        differ
            && self
                .0
                .get(&entry.line.table.backend)
                .is_some_and(|keeps| *keeps)
    }
}

/// The staged tag and the shown tag; `None` if one of them is missing.
fn both<'a>(entry: &'a Entry, shown: Option<&'a CatalogDescription>) -> Option<(&'a str, &'a str)> {
    let Action::CreateVersion { e_tag, .. } = &entry.action else {
        return None;
    };
    Some((e_tag.as_deref()?, shown?.proof.e_tag.as_deref()?))
}
