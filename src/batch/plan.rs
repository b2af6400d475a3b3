//! From the entries of a request to the shares of a batch: which versions, in which tables, in which order. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::backend::Backend;
use crate::batch::locks::TableKey;
use crate::batch::log::{Intent, IntentEntry};
use crate::batch::step::State;
use crate::batch::visibility::Line;
use crate::error::Error;

/// One version to create, routed.
#[derive(Clone)]
pub struct Entry {
    /// Where it goes.
    pub backend: Arc<Backend>,
    /// The line of versions that it extends.
    pub line: Line,
    /// Its number.
    pub version: u64,
    /// The `CreateTableVersionRequest` in the catalog's terms; empty after a crash.
    pub body: Bytes,
    /// Bytes of the staged manifest.
    pub manifest_size: Option<u64>,
    /// The staged manifest's entity tag.
    pub e_tag: Option<String>,
}

/// A batch, admitted.
pub struct Plan {
    /// The versions, in request order.
    pub entries: Vec<Entry>,
    /// For each line its entries in the order of their versions; lines in their global order.
    pub shares: Vec<Vec<usize>>,
}

impl Plan {
    /// Sorts entries into shares; refuses duplicates, gaps, and version 0.
    pub fn new(entries: Vec<Entry>) -> Result<Self, Error> {
        let mut lines: BTreeMap<&Line, Vec<usize>> = BTreeMap::new();
        for (index, entry) in entries.iter().enumerate() {
            if entry.version == 0 {
                return Err(Error::invalid(format!(
                    "entries[{index}].version: 0 is not a version that can be created; they begin with 1"
                )));
            }
            lines.entry(&entry.line).or_default().push(index);
        }
        let mut shares: Vec<Vec<usize>> = lines.into_values().collect();
        for share in &mut shares {
            share.sort_by_key(|index| entries[*index].version);
            for pair in share.windows(2) {
                follows(&entries, pair[0], pair[1])?;
            }
        }
        Ok(Self { entries, shares })
    }

    /// A batch as the log knows it; `None` if one of its backends is not configured any more.
    pub fn recovered(
        intent: &Intent,
        backend: impl Fn(&str) -> Option<Arc<Backend>>,
    ) -> Option<Self> {
        let entries = intent.entries.iter().map(|entry| {
            Some(Entry {
                backend: backend(&entry.backend)?,
                line: entry.line(),
                version: entry.version,
                body: Bytes::new(),
                manifest_size: entry.manifest_size,
                e_tag: entry.e_tag.clone(),
            })
        });
        Self::new(entries.collect::<Option<_>>()?).ok()
    }

    /// The entries as the log keeps them.
    pub fn intent_entries(&self) -> Vec<IntentEntry> {
        self.entries
            .iter()
            .map(|entry| IntentEntry {
                backend: Arc::clone(&entry.line.table.backend),
                table: entry.line.table.table.clone(),
                branch: entry.line.branch.clone(),
                version: entry.version,
                manifest_size: entry.manifest_size,
                e_tag: entry.e_tag.clone(),
            })
            .collect()
    }

    /// The state in which the batch begins.
    pub fn state(&self) -> State {
        State::new(self.shares.clone())
    }

    /// The line of a share.
    pub fn line(&self, share: usize) -> &Line {
        &self.entries[self.shares[share][0]].line
    }

    /// Its tables, each once.
    pub fn tables(&self) -> impl Iterator<Item = TableKey> + '_ {
        (0..self.shares.len()).map(|share| self.line(share).table.clone())
    }
}

impl IntentEntry {
    /// The line of versions that the entry extends.
    pub fn line(&self) -> Line {
        Line {
            table: TableKey {
                backend: Arc::clone(&self.backend),
                table: self.table.clone(),
            },
            branch: self.branch.clone(),
        }
    }
}

fn follows(entries: &[Entry], one: usize, next: usize) -> Result<(), Error> {
    let (version, after) = (entries[one].version, entries[next].version);
    if after == version {
        return Err(Error::invalid(format!(
            "entries[{next}]: version {after} of this table is in entries[{one}] already"
        )));
    }
    if after != version + 1 {
        return Err(Error::invalid(format!(
            "entries[{next}]: version {after} does not follow version {version} of entries[{one}]: several versions of one table must be consecutive"
        )));
    }
    Ok(())
}
