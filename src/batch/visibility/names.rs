//! Keeps the names of tables that readers may not see; `gateway/forward.rs` answers for them.
//!
//! A name that a batch makes is hidden until the batch is committed. A name that it removes is hidden from then on. All
//! names of a batch change in one step. A reader takes the [`NamesEpoch`] first, then sends its request to the catalog,
//! then checks here: a name that is hidden, or went away since that moment, is not there, whatever the catalog's answer
//! is.

mod buckets;
mod places;
mod reads;
mod watch;

pub use reads::Level;
pub(crate) use reads::{ROUNDS, unsettled};

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::batch::locks::TableKey;
use crate::batch::visibility::commit_flag::CommitFlag;
use buckets::Buckets;
pub use places::RenamedLocation;

/// The number of changes that are kept for readers whose catalog has not answered yet.
const RECENT: usize = 65_536;
/// The low bits of a [`NamesEpoch`] count the names that batches affect, each once for each batch. The other bits count the
/// changes so far.
const ONE_CHANGE: u64 = 1 << 24;

/// The names that batches affect. Cheap to clone.
#[derive(Clone, Default)]
pub struct Names {
    inner: Arc<Inner>,
}

/// A moment in the history of [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamesEpoch(u64);

/// The reason why a reader may not get the catalog's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleAnswer {
    /// The name is not there.
    Absent,
    /// Too many names have changed meanwhile to tell whether it is there.
    Unknown,
}

#[derive(Default)]
struct Inner {
    /// Written only under the lock of `state`. Read without the lock, which is enough while batches affect no name.
    moment: AtomicU64,
    /// The number of changes for each share of the names. While batches affect some names, a reader of another name
    /// compares only the number of its own share.
    buckets: Buckets,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    slots: HashMap<TableKey, Vec<NameChange>>,
    /// The latest changes, the oldest first.
    recent: VecDeque<MissedChange>,
    /// The number of the last change that is not in `recent` any more.
    forgotten: u64,
    /// The places that batches register under second names.
    places: Vec<RenamedLocation>,
}

/// The effect of one batch on one name.
struct NameChange {
    commit_flag: CommitFlag,
    removed: bool,
}

/// A change that readers may have missed.
struct MissedChange {
    at: u64,
    table: TableKey,
    /// True if the name went away at its catalog; false if it began or ceased to be hidden.
    gone: bool,
    effect: Effect,
}

/// The effect of a change on a listing that began before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// A name that a batch has made was committed or undone: the listing can go on without it.
    Made,
    /// The removal of a name was committed, or carried out.
    Removed,
    /// A hidden name was given back to readers.
    GivenBack,
}

impl Names {
    /// The present moment; to be taken before the request to the catalog.
    pub fn moment(&self) -> NamesEpoch {
        NamesEpoch(self.inner.moment.load(Ordering::Acquire))
    }

    /// The tables whose names batches affect.
    pub fn tables(&self) -> Vec<TableKey> {
        self.read().slots.keys().cloned().collect()
    }

    /// True if a batch affects the name of the table, or may yet look at its data through another name.
    pub fn has(&self, table: &TableKey) -> bool {
        let state = self.read();
        state.slots.contains_key(table) || state.places.iter().any(|place| place.name == *table)
    }

    /// Hides a name that a batch is about to make, until `commit_flag` is revealed.
    pub fn hide_made(&self, table: TableKey, commit_flag: &CommitFlag) {
        self.add(table, commit_flag, false);
    }

    /// Hides a name that a batch removes, as soon as `commit_flag` is revealed.
    pub fn hide_removed(&self, table: TableKey, commit_flag: &CommitFlag) {
        self.add(table, commit_flag, true);
    }

    /// Reveals `commit_flag`: in one step, the names that its batch has made appear and those that it removes disappear.
    /// `tables` are all names of the batch.
    pub fn reveal<'a>(
        &self,
        commit_flag: &CommitFlag,
        tables: impl IntoIterator<Item = &'a TableKey>,
    ) {
        let mut tables = tables.into_iter().peekable();
        if tables.peek().is_none() {
            return commit_flag.reveal();
        }
        let mut state = self.write();
        commit_flag.reveal();
        for table in tables {
            let effect = state.effect(table, commit_flag);
            self.note(&mut state, table, false, effect);
        }
    }

    /// Records that the name went away at its catalog: the batch's name was undone, or the name that it removes is
    /// removed. The batch does not affect it any more. Does nothing if it never did.
    pub fn gone(&self, table: &TableKey, commit_flag: &CommitFlag) {
        let mut state = self.write();
        if state.slot(table, commit_flag).is_none() {
            return;
        }
        let effect = state.effect(table, commit_flag);
        self.note(&mut state, table, true, effect);
        self.drop_slot(&mut state, table, commit_flag);
    }

    /// Ends the batch's effect on the name; readers see the state at the catalog.
    pub fn forget(&self, table: &TableKey, commit_flag: &CommitFlag) {
        let mut state = self.write();
        if state
            .slot(table, commit_flag)
            .is_some_and(NameChange::hides)
        {
            self.note(&mut state, table, false, Effect::GivenBack);
        }
        self.drop_slot(&mut state, table, commit_flag);
    }

    /// True if the name is not there now, whatever its catalog's answer is.
    pub fn is_hidden(&self, table: impl FnOnce() -> TableKey) -> bool {
        if !self.moment().has_some() {
            return false;
        }
        let table = table();
        !self.inner.buckets.has_none(&table) && self.read().hides(&table)
    }

    /// Checks that a reader who sent its request to the catalog after `since` may see the name.
    ///
    /// # Errors
    ///
    /// The name is not there, or that cannot be told.
    pub fn check(
        &self,
        since: NamesEpoch,
        table: impl FnOnce() -> TableKey,
    ) -> Result<(), StaleAnswer> {
        if self.is_calm(since) {
            return Ok(());
        }
        let table = table();
        if self.inner.buckets.is_calm(&table, since.changes()) {
            return Ok(());
        }
        let state = self.read();
        if state.hides(&table) {
            return Err(StaleAnswer::Absent);
        }
        let mut changes = state.since(since).ok_or(StaleAnswer::Unknown)?;
        if changes.any(|change| change.gone && change.table == table) {
            Err(StaleAnswer::Absent)
        } else {
            Ok(())
        }
    }

    /// The names in `scope` that are not there, for a reader who sent its requests to catalogs after `since`; `None` if
    /// some of them changed meanwhile. Then the listings may be from different moments, and the requests must be sent
    /// again.
    pub fn hidden_in(
        &self,
        since: NamesEpoch,
        scope: impl Fn(&TableKey) -> bool,
    ) -> Option<HashSet<TableKey>> {
        if self.is_calm(since) {
            return Some(HashSet::new());
        }
        let state = self.read();
        if state.since(since)?.any(|change| scope(&change.table)) {
            return None;
        }
        Some(
            state
                .hidden()
                .filter(|table| scope(table))
                .cloned()
                .collect(),
        )
    }

    /// True if batches affect no name, and none has changed since that moment.
    fn is_calm(&self, since: NamesEpoch) -> bool {
        let now = self.moment();
        now == since && !now.has_some()
    }

    fn add(&self, table: TableKey, commit_flag: &CommitFlag, removed: bool) {
        let mut state = self.write();
        let slot = NameChange {
            commit_flag: commit_flag.clone(),
            removed,
        };
        self.inner.buckets.add(&table);
        state.slots.entry(table).or_default().push(slot);
        self.inner.moment.fetch_add(1, Ordering::Release);
    }

    fn drop_slot(&self, state: &mut State, table: &TableKey, commit_flag: &CommitFlag) {
        let Some(slots) = state.slots.get_mut(table) else {
            return;
        };
        let before = slots.len();
        slots.retain(|slot| !slot.commit_flag.is(commit_flag));
        let dropped = before - slots.len();
        if slots.is_empty() {
            state.slots.remove(table);
        }
        state.forget_places(commit_flag);
        let dropped = dropped as u64;
        self.inner.buckets.remove(table, dropped);
        self.inner.moment.fetch_sub(dropped, Ordering::Release);
    }

    fn note(&self, state: &mut State, table: &TableKey, gone: bool, effect: Effect) {
        let before = self.inner.moment.fetch_add(ONE_CHANGE, Ordering::Release);
        let at = before / ONE_CHANGE + 1;
        self.inner.buckets.change(table, at);
        state.recent.push_back(MissedChange {
            at,
            table: table.clone(),
            gone,
            effect,
        });
        if state.recent.len() > RECENT
            && let Some(oldest) = state.recent.pop_front()
        {
            state.forgotten = oldest.at;
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        let state = self.inner.state.read();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        let state = self.inner.state.write();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

impl NamesEpoch {
    fn changes(self) -> u64 {
        self.0 / ONE_CHANGE
    }

    /// True if batches affect some name.
    fn has_some(self) -> bool {
        !self.0.is_multiple_of(ONE_CHANGE)
    }
}

impl State {
    /// The effect of the batch with this `commit_flag` on a name; `None` if there is none.
    fn slot(&self, table: &TableKey, commit_flag: &CommitFlag) -> Option<&NameChange> {
        let mut slots = self.slots.get(table)?.iter();
        slots.find(|slot| slot.commit_flag.is(commit_flag))
    }

    /// The effect of what this batch has done to a name.
    fn effect(&self, table: &TableKey, commit_flag: &CommitFlag) -> Effect {
        let makes = |slot: &NameChange| !slot.removed;
        if self.slot(table, commit_flag).is_some_and(makes) {
            Effect::Made
        } else {
            Effect::Removed
        }
    }

    /// The names that are not there now.
    fn hidden(&self) -> impl Iterator<Item = &TableKey> {
        let hides = |slots: &[NameChange]| slots.iter().any(NameChange::hides);
        let hidden = self.slots.iter().filter(move |(_, slots)| hides(slots));
        hidden.map(|(table, _)| table)
    }

    fn hides(&self, table: &TableKey) -> bool {
        let slots = self.slots.get(table);
        slots.is_some_and(|slots| slots.iter().any(NameChange::hides))
    }

    /// The changes since a moment; `None` if some of them are not kept any more.
    fn since(&self, since: NamesEpoch) -> Option<impl Iterator<Item = &MissedChange>> {
        let since = since.changes();
        let first = self.recent.partition_point(|change| change.at <= since);
        (since >= self.forgotten).then(|| self.recent.range(first..))
    }
}

impl NameChange {
    fn hides(&self) -> bool {
        self.commit_flag.is_revealed() == self.removed
    }
}

#[cfg(test)]
mod tests;
