//! The tables of a batch log.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

/// All tables.
#[derive(Default)]
pub struct Database {
    pub fence: i64,
    pub owner: Option<Uuid>,
    pub(super) moved: Option<String>,
    pub(super) ticket: i64,
    pub(super) released: i64,
    /// The gateways in the order in which they came.
    pub instances: Vec<Instance>,
    /// The ticket of each guard, and whether its batch gives or takes names.
    pub guards: BTreeMap<String, (i64, bool)>,
    pub owed: BTreeSet<(i64, Uuid)>,
    pub(super) strays: BTreeSet<String>,
    /// The fence and the try of each writer.
    pub(super) writers: BTreeMap<i32, (i64, i64)>,
    pub batches: BTreeMap<Uuid, Batch>,
    pub entries: BTreeMap<(Uuid, i32), Entry>,
    pub resolutions: BTreeMap<Uuid, Vec<Vec<u8>>>,
    /// The batches whose rows were changed since they were last taken.
    pub changed: Vec<Uuid>,
    /// True if connections that listen are to be told.
    pub notifies: bool,
}

/// A gateway that uses the log.
#[derive(Clone)]
pub struct Instance {
    pub id: Uuid,
    pub name: String,
    pub(super) version: String,
    pub lease_millis: i64,
    pub beat: i64,
    pub(super) address: Option<String>,
    pub(super) token: Option<String>,
    pub(super) routes: Option<String>,
}

#[derive(Clone)]
pub struct Batch {
    pub intent: Vec<u8>,
    pub key: Option<String>,
    /// `c` or `a`.
    pub verdict: Option<u8>,
    pub body: Option<Vec<u8>>,
    pub ended: Option<i64>,
}

#[derive(Clone, Default)]
pub struct Entry {
    pub settled: Option<Vec<u8>>,
    pub(super) sent: Option<i64>,
}

impl Database {
    /// The heartbeats of the gateways, in the order of their ids.
    pub(super) fn beats(&self) -> (Vec<Uuid>, Vec<i64>) {
        let beats = self.instances.iter().map(|one| (one.id, one.beat));
        beats.collect::<BTreeMap<_, _>>().into_iter().unzip()
    }

    pub(super) fn instance(&mut self, id: Uuid) -> Option<&mut Instance> {
        self.instances.iter_mut().find(|one| one.id == id)
    }

    pub(super) fn is_owner(&self, me: Uuid, fence: i64) -> bool {
        self.owner == Some(me) && self.fence == fence
    }

    /// Returns the lines of a batch in an order that they can have in a file; `None` if there is no such batch.
    pub fn lines(&self, id: Uuid) -> Option<Vec<Vec<u8>>> {
        let batch = self.batches.get(&id)?;
        let resolutions = self.resolutions.get(&id).into_iter().flatten().cloned();
        let mut lines: Vec<Vec<u8>> = [batch.intent.clone()]
            .into_iter()
            .chain(resolutions)
            .collect();
        lines.extend(batch.body.clone());
        lines.extend(self.settled(id));
        lines.extend(
            batch
                .ended
                .map(|at| format!("{{\"End\":{at}}}").into_bytes()),
        );
        Some(lines)
    }

    pub(super) fn settled(&self, id: Uuid) -> impl Iterator<Item = Vec<u8>> {
        let entries = self.entries.range((id, i32::MIN)..=(id, i32::MAX));
        entries.filter_map(|(_, entry)| entry.settled.clone())
    }
}
