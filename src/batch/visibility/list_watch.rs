//! The lists of versions that stream to clients at the moment, so that batches tell them what they may not show.
//!
//! A list may take as long as its client likes, and batches must not wait for it. So it shows the table as it was when
//! the list began, whatever batches do meanwhile:
//!
//! - What a batch makes is hidden together with all versions above it, so one number tells what is hidden: the list ends
//!   below the lowest version that was hidden at any time since it began. A batch hides its versions before it creates
//!   them, thus before the catalog can list them. The end never rises again: a batch that commits in the middle of the
//!   list stays out of it as a whole, and one that is undone was never in it.
//! - What a batch removes is hidden alone, from its commit on. Some of it may have gone to the client, and the catalog
//!   may list the rest no more. Such a list is neither from before nor from after the commit: it is cut, and its client
//!   asks again. Versions that were removed before it began stay out of it, however long it takes.
//!
//! Each piece of the answer is filtered after it arrived, by what is known then.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

use dashmap::DashMap;

use super::list_filter::ListView;
use super::{Hidden, Subject, TableBranch, Visibility};
use crate::batch::locks::{TableHasher, TableKey};
use crate::batch::visibility::hidden_range::{HiddenRange, HideReason};

/// The lists that stream, by table.
#[derive(Clone, Default)]
pub(super) struct ListWatches(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// The number of lists, to see without a lookup that there are none.
    count: AtomicUsize,
    tables: DashMap<TableKey, Vec<Arc<Watched>>, TableHasher>,
}

struct Watched {
    branch: Option<String>,
    end: AtomicU64,
    is_cut: AtomicBool,
}

/// The watch of one list, until it is dropped.
pub struct ListWatch {
    lists: ListWatches,
    table: TableKey,
    watched: Arc<Watched>,
    view: ListView,
}

/// The error of a list of which a batch has removed versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a batch removed versions of the table while they were listed; ask again")]
pub struct ListCut;

impl Visibility {
    /// Watches a list of the branch that streams to a client. Check [`Self::has_passed`] afterwards: what was shown or
    /// freed before the watch began is not known to it.
    pub fn watch_list(&self, line: &TableBranch) -> ListWatch {
        self.lists.watch(line, || self.hidden(line))
    }

    /// Cuts the lists of the branch that stream: some of its versions were removed.
    pub fn cut_lists(&self, line: &TableBranch) {
        self.lists.cut(&line.table, line.branch.as_deref());
    }

    /// Tells the lists that stream what a record hides now. Called after it was recorded.
    pub(super) fn tell_lists(&self, table: &TableKey, slot: &HiddenRange) {
        let Subject::Versions { branch, .. } = &slot.subject else {
            return;
        };
        match slot.hides(branch.as_deref()) {
            Some(_) if slot.what == HideReason::Removed => self.lists.cut(table, branch.as_deref()),
            Some(range) => self.lists.hide(table, branch.as_deref(), *range.start()),
            None => {}
        }
    }
}

impl ListWatches {
    /// Hides a version, and all above it, from the lists of a branch.
    fn hide(&self, table: &TableKey, branch: Option<&str>, start: u64) {
        self.each(table, branch, |watched| {
            watched.end.fetch_min(start, Ordering::SeqCst);
        });
    }

    /// Cuts the lists of a branch.
    fn cut(&self, table: &TableKey, branch: Option<&str>) {
        self.each(table, branch, |watched| {
            watched.is_cut.store(true, Ordering::SeqCst);
        });
    }

    fn each(&self, table: &TableKey, branch: Option<&str>, change: impl Fn(&Watched)) {
        // A list that is not counted yet looks later, and finds what was recorded before.
        fence(Ordering::SeqCst);
        if self.0.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let lists = self.0.tables.get(table);
        let lists = lists.iter().flat_map(|lists| lists.iter());
        let of_branch = lists.filter(|watched| watched.branch.as_deref() == branch);
        of_branch.for_each(|watched| change(watched));
    }

    /// Watches a list. `hidden` is called when batches know of it.
    fn watch(&self, line: &TableBranch, hidden: impl FnOnce() -> Hidden) -> ListWatch {
        let watched = Arc::new(Watched {
            branch: line.branch.clone(),
            end: AtomicU64::new(u64::MAX),
            is_cut: AtomicBool::new(false),
        });
        self.0.count.fetch_add(1, Ordering::SeqCst);
        let mut lists = self.0.tables.entry(line.table.clone()).or_default();
        lists.push(Arc::clone(&watched));
        drop(lists);
        fence(Ordering::SeqCst);
        let is_open = |range: &RangeInclusive<u64>| *range.end() == u64::MAX;
        let (open, removed): (Vec<_>, Vec<_>) = hidden().0.into_iter().partition(is_open);
        for range in open {
            watched.end.fetch_min(*range.start(), Ordering::SeqCst);
        }
        ListWatch {
            lists: self.clone(),
            table: line.table.clone(),
            watched,
            view: ListView {
                end: u64::MAX,
                removed: Hidden(removed),
            },
        }
    }
}

impl ListWatch {
    /// The table whose versions are listed.
    pub fn table(&self) -> &TableKey {
        &self.table
    }

    /// The versions that may be shown, of those that have arrived before.
    ///
    /// # Errors
    ///
    /// The list must not go on.
    pub fn view(&mut self) -> Result<&ListView, ListCut> {
        self.view.end = self.watched.end.load(Ordering::SeqCst);
        if self.watched.is_cut.load(Ordering::SeqCst) {
            return Err(ListCut);
        }
        Ok(&self.view)
    }
}

impl Drop for ListWatch {
    fn drop(&mut self) {
        let tables = &self.lists.0.tables;
        tables.remove_if_mut(&self.table, |_, lists| {
            lists.retain(|watched| !Arc::ptr_eq(watched, &self.watched));
            lists.is_empty()
        });
        self.lists.0.count.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
