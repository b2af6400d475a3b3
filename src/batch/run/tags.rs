//! Knows entity tags: which catalogs give a version the tag of the manifest that was staged for it, and which open batch has
//! staged a manifest.
//!
//! Equal tags prove that a version is the staged one, at any catalog. Different tags prove the opposite only at a
//! catalog that has kept every tag so far, or if another batch has staged the manifest with the tag that is shown.

use std::collections::HashSet;
use std::sync::Arc;

use dashmap::DashMap;

use crate::batch::log::{Action, BatchId, Intent};
use crate::batch::participant::CatalogDescription;
use crate::batch::plan::Entry;
use crate::batch::visibility::TableBranch;

/// The knowledge about tags. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Tags {
    /// True for each catalog that has kept every tag so far; no entry if it has shown none.
    kept: Arc<DashMap<Arc<str>, bool>>,
    /// The open batches that have staged a manifest with this tag for this version.
    staged: Arc<DashMap<StagedTag, HashSet<BatchId>>>,
}

/// A version, and the tag of the manifest that was staged for it.
type StagedTag = (TableBranch, u64, String);

impl Tags {
    /// Records what an open batch has staged.
    pub(super) fn stage(&self, id: BatchId, intent: &Intent) {
        for tag in staged(intent) {
            self.staged.entry(tag).or_default().insert(id);
        }
    }

    /// Forgets what a batch has staged that is not open any more.
    pub(super) fn unstage(&self, id: BatchId, intent: &Intent) {
        for tag in staged(intent) {
            self.staged.remove_if_mut(&tag, |_, batches| {
                batches.remove(&id);
                batches.is_empty()
            });
        }
    }

    /// True if another open batch than `id` has staged the manifest with this tag for this version.
    pub(super) fn is_of_another(
        &self,
        id: BatchId,
        line: &TableBranch,
        version: u64,
        tag: &str,
    ) -> bool {
        let batches = self.staged.get(&(line.clone(), version, tag.to_owned()));
        batches.is_some_and(|batches| batches.iter().any(|other| *other != id))
    }

    /// Learns from the answer to a create.
    pub(super) fn learn(&self, entry: &Entry, made: &CatalogDescription) {
        let Some((staged, shown)) = both(entry, Some(made)) else {
            return;
        };
        let catalog = &entry.line.table.backend;
        let keeps = staged == shown;
        if self.kept.get(catalog).is_none_or(|known| *known && !keeps) {
            self.kept.insert(Arc::clone(catalog), keeps);
        }
    }

    /// Forgets the catalogs that are not kept.
    pub(super) fn retain(&self, is_kept: impl Fn(&Arc<str>) -> bool) {
        self.kept.retain(|name, _| is_kept(name));
    }

    /// True if the tag of the found version proves that it is not the staged one. Only a catalog that is known to keep
    /// tags proves this.
    pub(super) fn denies(&self, entry: &Entry, found: Option<&CatalogDescription>) -> bool {
        let differ = both(entry, found).is_some_and(|(staged, shown)| staged != shown);
        differ
            && self
                .kept
                .get(&entry.line.table.backend)
                .is_some_and(|keeps| *keeps)
    }
}

/// The versions that a batch creates, each with the tag of its manifest.
fn staged(intent: &Intent) -> impl Iterator<Item = StagedTag> + '_ {
    intent
        .entries
        .iter()
        .filter_map(|entry| match &entry.action {
            Action::CreateVersion {
                version,
                e_tag: Some(tag),
                ..
            } => Some((entry.line(), *version, tag.clone())),
            _ => None,
        })
}

/// The staged tag and the shown tag; `None` if one of them is missing.
fn both<'a>(entry: &'a Entry, shown: Option<&'a CatalogDescription>) -> Option<(&'a str, &'a str)> {
    let Action::CreateVersion { e_tag, .. } = &entry.action else {
        return None;
    };
    Some((e_tag.as_deref()?, shown?.proof.e_tag.as_deref()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use super::*;
    use crate::batch::log::{CatalogRef, IntentEntry};
    use crate::protocol::identifier::Identifier;

    #[test]
    fn a_staged_manifest_is_known_by_its_tag_while_its_batch_is_open() {
        let intent = |tag: &str| Intent {
            entries: vec![IntentEntry {
                backend: "lake".into(),
                table: Identifier::from_names(["t"]).unwrap(),
                branch: None,
                action: Action::CreateVersion {
                    version: 2,
                    manifest_size: None,
                    e_tag: Some(tag.to_owned()),
                },
                contested: false,
                catalog: CatalogRef::default(),
            }],
            idempotency: None,
            fingerprint: String::new(),
            context: Vec::new(),
        };
        let [one, other] = [1, 2].map(BatchId::from_u128);
        let (a, b) = (intent("a"), intent("b"));
        let line = a.entries[0].line();
        let tags = Tags::default();
        let of_another = |id, version, tag| tags.is_of_another(id, &line, version, tag);
        tags.stage(one, &a);
        // Again, when it is recovered.
        tags.stage(one, &a);
        tags.stage(other, &b);
        assert!(of_another(other, 2, "a") && of_another(one, 2, "b"));
        assert!(!of_another(one, 2, "a"), "its own");
        assert!(!of_another(other, 3, "a") && !of_another(other, 2, "c"));
        tags.unstage(one, &a);
        assert!(!of_another(other, 2, "a") && of_another(one, 2, "b"));
        tags.unstage(other, &b);
        assert!(tags.staged.is_empty());
    }
}
