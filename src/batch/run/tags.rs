//! Learns from answered creates which catalogs give a version the entity tag of its staged manifest.
//!
//! Equal tags prove that a version is the staged one, whatever the catalog. Different tags prove something only at a
//! catalog that has kept every tag so far.

use std::sync::Arc;

use dashmap::{DashMap, DashSet};

use crate::batch::log::Action;
use crate::batch::participant::CatalogDescription;
use crate::batch::plan::Entry;

/// The catalogs that have kept every tag so far (true) or not (false), and those that have kept a size.
#[derive(Clone, Default)]
pub(super) struct Tags(Arc<DashMap<Arc<str>, bool>>, Arc<DashSet<Arc<str>>>);

impl Tags {
    /// Learns from a create that was answered with what it made.
    pub(super) fn learn(&self, entry: &Entry, made: &CatalogDescription) {
        if let Action::CreateVersion { manifest_size, .. } = &entry.action
            && manifest_size.is_some()
            && *manifest_size == made.proof.manifest_size
            && !self.keeps_sizes(entry)
        {
            self.1.insert(Arc::clone(&entry.line.table.backend));
        }
        let Some((staged, shown)) = both(entry, Some(made)) else {
            return;
        };
        let catalog = &entry.line.table.backend;
        let keeps = staged == shown;
        if self.0.get(catalog).is_none_or(|known| *known && !keeps) {
            self.0.insert(Arc::clone(catalog), keeps);
        }
    }

    /// Returns true if the entry's catalog has shown a version with the size of the manifest that was staged for it.
    pub(super) fn keeps_sizes(&self, entry: &Entry) -> bool {
        self.1.contains(&entry.line.table.backend)
    }

    /// Returns true if the tag of what was found says that it is not what was staged, as far as the catalog is known.
    pub(super) fn denies(&self, entry: &Entry, found: Option<&CatalogDescription>) -> bool {
        let differ = both(entry, found).is_some_and(|(staged, shown)| staged != shown);
        differ
            && self
                .0
                .get(&entry.line.table.backend)
                .is_some_and(|keeps| *keeps)
    }
}

/// Returns the staged tag and the shown one, if there are both.
fn both<'a>(entry: &'a Entry, shown: Option<&'a CatalogDescription>) -> Option<(&'a str, &'a str)> {
    let Action::CreateVersion { e_tag, .. } = &entry.action else {
        return None;
    };
    Some((e_tag.as_deref()?, shown?.proof.e_tag.as_deref()?))
}
