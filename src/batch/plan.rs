//! Plans a batch: sorts the entries of a request by table, version and order into shares. Pure.

mod conflicts;
mod rename;

use std::collections::{BTreeMap, HashMap, hash_map};
use std::sync::Arc;

use bytes::Bytes;

use crate::backend::Backend;
use crate::batch::locks::TableKey;
use crate::batch::log::{Action, CatalogRef, Intent, IntentEntry};
use crate::batch::step::{Kind, Shape, State};
use crate::batch::visibility::{Subject, TableBranch};
use crate::error::Error;
use crate::request::held::HeldBody;

/// One change, routed.
#[derive(Clone)]
pub struct Entry {
    /// The backend that the change goes to.
    pub backend: Arc<Backend>,
    /// The table branch that is changed.
    pub line: TableBranch,
    /// The change.
    pub action: Action,
    /// The request of the single operation in the catalog's terms; empty after a crash.
    pub body: Bytes,
}

/// An admitted batch.
pub struct Plan {
    /// The changes, in request order. A rename is two of them, one after the other.
    pub entries: Vec<Entry>,
    /// The shape of the batch for the protocol, with the table branches in their global order.
    pub shape: Shape,
    /// The memory that the bodies of the entries take: they outlive the request. `None` if they do not count.
    pub held: Option<Arc<HeldBody>>,
}

impl Plan {
    /// Sorts entries into shares. Refuses what `conflicts.rs` refuses. `label` returns the request's
    /// name for an entry, e.g. `operations[2]`. `atomic` returns true for a backend that makes all of its versions
    /// atomically.
    pub fn new(
        entries: Vec<Entry>,
        label: impl Fn(usize) -> String,
        atomic: impl Fn(&Backend) -> bool,
    ) -> Result<Self, Error> {
        conflicts::check(&entries, &label)?;
        let mut lines: BTreeMap<&TableBranch, Vec<usize>> = BTreeMap::new();
        for (index, entry) in entries.iter().enumerate() {
            lines.entry(&entry.line).or_default().push(index);
        }
        let mut shares: Vec<Vec<usize>> = lines.into_values().collect();
        for share in &mut shares {
            share.sort_by_key(|index| entries[*index].action.place());
            for pair in share.windows(2) {
                conflicts::follows(&entries, &label, pair[0], pair[1])?;
            }
        }
        let shape = Shape {
            shares,
            kinds: entries.iter().map(|entry| entry.action.kind()).collect(),
            groups: groups(&entries, atomic),
        };
        Ok(Self {
            entries,
            shape,
            held: None,
        })
    }

    /// Returns the plan of a batch from the log; `None` if one of its backends is not configured any more. `backend`
    /// finds a backend by the identity of its catalog.
    pub fn recovered(
        intent: &Intent,
        backend: impl Fn(&str) -> Option<Arc<Backend>>,
    ) -> Option<Self> {
        let mut scoped = HashMap::new();
        let entries = intent.entries.iter().map(|entry| {
            let (identity, scope) = (entry.identity(), &entry.catalog.scope);
            let found = match scoped.entry((identity, scope)) {
                hash_map::Entry::Occupied(known) => Arc::clone(known.get()),
                hash_map::Entry::Vacant(new) => {
                    Arc::clone(new.insert(backend(identity)?.in_scope(scope)))
                }
            };
            Some(Entry {
                backend: found,
                line: entry.line(),
                action: entry.action.clone(),
                body: Bytes::new(),
            })
        });
        // A recovered batch creates nothing any more, so it has no groups.
        let label = |entry| format!("entries[{entry}]");
        Self::new(entries.collect::<Option<_>>()?, label, |_| false).ok()
    }

    /// Returns the entries as the log keeps them.
    pub fn intent_entries(&self) -> Vec<IntentEntry> {
        self.entries
            .iter()
            .map(|entry| IntentEntry {
                backend: Arc::clone(entry.backend.name()),
                table: entry.line.table.table.clone(),
                branch: entry.line.branch.clone(),
                action: entry.action.clone(),
                contested: false,
                catalog: CatalogRef::of(&entry.backend),
            })
            .collect()
    }

    /// Returns the state in which the batch begins.
    pub fn state(&self) -> State {
        State::new(self.shape.clone())
    }

    /// Returns the table branch of a share.
    pub fn line(&self, share: usize) -> &TableBranch {
        &self.entries[self.shape.shares[share][0]].line
    }

    /// Returns the entries of a share that must be validated before anything is done: the first, from whose state the
    /// others follow, and every removal of versions that existed before.
    pub fn to_validate(&self, share: usize) -> &[usize] {
        let share = &self.shape.shares[share];
        match self.entries[share[0]].action {
            Action::DeleteVersions { .. } => share,
            _ => &share[..1],
        }
    }

    /// Returns the names of tables that the batch makes or removes.
    pub fn names(&self) -> impl Iterator<Item = &TableKey> {
        let entries = self.entries.iter();
        let named = entries.filter(|entry| entry.action.is_about_name());
        named.map(|entry| &entry.line.table)
    }

    /// Returns the table of each share.
    pub fn tables(&self) -> impl Iterator<Item = TableKey> + '_ {
        (0..self.shape.shares.len()).map(|share| self.line(share).table.clone())
    }
}

impl IntentEntry {
    /// Returns the table branch that the entry changes.
    pub fn line(&self) -> TableBranch {
        TableBranch {
            table: TableKey {
                backend: Arc::clone(self.identity()),
                scope: self.catalog.scope.clone(),
                table: self.table.clone(),
            },
            branch: self.branch.clone(),
        }
    }

    /// Returns the version that the entry creates; `None` if it creates none.
    pub fn version(&self) -> Option<u64> {
        self.action.version()
    }
}

impl Entry {
    /// Returns the version that the entry creates; `None` if it creates none.
    pub fn version(&self) -> Option<u64> {
        self.action.version()
    }
}

impl Action {
    /// Returns the version that the change creates; `None` if it creates none.
    fn version(&self) -> Option<u64> {
        match self {
            Self::CreateVersion { version, .. } => Some(*version),
            _ => None,
        }
    }

    /// Returns what others must leave alone while a request that was sent for the change may still arrive.
    pub fn subject(&self, line: &TableBranch) -> Subject {
        match self {
            Self::CreateVersion { version, .. } => {
                Subject::version(line.branch.as_deref(), *version)
            }
            Self::DeleteVersions { .. } => Subject::Table,
            Self::Declare { .. } | Self::Register { .. } | Self::Deregister => Subject::Name,
        }
    }

    /// Returns the kind of the change, which says whether it can be undone.
    pub fn kind(&self) -> Kind {
        match self {
            Self::CreateVersion { .. } | Self::Declare { .. } | Self::Register { .. } => Kind::Made,
            Self::Deregister | Self::DeleteVersions { .. } => Kind::Removed,
        }
    }

    /// Returns true if the change makes or removes a name, and not versions.
    pub fn is_about_name(&self) -> bool {
        match self {
            Self::Declare { .. } | Self::Register { .. } | Self::Deregister => true,
            Self::CreateVersion { .. } | Self::DeleteVersions { .. } => false,
        }
    }

    /// Returns the rank among the changes of one table branch: a name comes before its versions, what is made before
    /// what is removed.
    fn place(&self) -> (u8, u64) {
        match self {
            Self::Declare { .. } | Self::Register { .. } => (0, 0),
            Self::CreateVersion { version, .. } => (1, *version),
            Self::DeleteVersions { .. } => (2, 0),
            Self::Deregister => (3, 0),
        }
    }
}

/// Returns the group of each entry: two or more versions in a catalog that makes them atomically are one group.
fn groups(entries: &[Entry], atomic: impl Fn(&Backend) -> bool) -> Vec<Option<usize>> {
    let mut first: BTreeMap<&Arc<str>, (usize, usize)> = BTreeMap::new();
    let versions = || {
        let entries = entries.iter().enumerate();
        entries.filter(|(_, entry)| entry.version().is_some() && atomic(&entry.backend))
    };
    for (index, entry) in versions() {
        first.entry(entry.backend.name()).or_insert((index, 0)).1 += 1;
    }
    let mut groups = vec![None; entries.len()];
    for (index, entry) in versions() {
        let together = first.get(entry.backend.name());
        groups[index] = together
            .filter(|(_, count)| *count > 1)
            .map(|(first, _)| *first);
    }
    groups
}
