//! Which versions readers may not see, and which numbers writers may not use.
//!
//! All versions of a batch point at one fate, so that they become visible in one step. A version of an aborted batch
//! stays hidden, and its number reserved, for the cool-down: a writer that saw the raw file may still arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use tokio::time::Instant;

use crate::batch::locks::TableKey;
use crate::batch::names::Names;
use crate::batch::step::Refusal;
use crate::protocol::error::Code;

pub mod filter;

/// The line of versions of one table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line {
    /// The table.
    pub table: TableKey,
    /// The branch; `None` is the main one.
    pub branch: Option<String>,
}

/// Whether a batch is committed; shared by all that is hidden of it.
#[derive(Clone, Debug, Default)]
pub struct Fate(Arc<AtomicBool>);

/// What is hidden, and what is reserved.
#[derive(Clone, Default)]
pub struct Visibility {
    /// The names of tables that are hidden.
    pub names: Names,
    lines: Arc<DashMap<Line, Vec<Slot>>>,
}

/// A create that may not go to the catalog now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// The number was freed by an aborted batch and rests for this long.
    Reserved(Duration),
    /// The version would be built on one that is gone.
    BuiltOnGone {
        /// The version that is gone.
        version: u64,
    },
}

#[derive(Debug)]
struct Slot {
    version: u64,
    fate: Fate,
    /// Set when the version is gone: until then it is remembered.
    until: Option<Instant>,
}

impl Forbidden {
    /// What the writer is told.
    pub fn refusal(self, version: u64) -> Refusal {
        let (status, code, message) = match self {
            Self::Reserved(rest) => (
                503,
                Code::ServiceUnavailable,
                format!(
                    "version {version} was undone with its batch and its number rests for {} s more",
                    rest.as_secs() + 1
                ),
            ),
            Self::BuiltOnGone { version: gone } => (
                409,
                Code::ConcurrentModification,
                format!(
                    "version {version} was built on version {gone}, which was undone with its batch"
                ),
            ),
        };
        Refusal {
            status,
            code,
            message,
        }
    }
}

impl Fate {
    /// Makes every version with this fate visible.
    pub fn reveal(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn is_revealed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Whether it is the very same fate.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Visibility {
    /// Hides a version until its fate is revealed, or it is shown or released.
    pub fn hide(&self, line: Line, version: u64, fate: &Fate) {
        let slot = Slot {
            version,
            fate: fate.clone(),
            until: None,
        };
        self.lines.entry(line).or_default().push(slot);
    }

    /// The versions that a reader may not see now. Empty for nearly every table.
    pub fn hidden(&self, line: &Line) -> Vec<u64> {
        let now = Instant::now();
        self.lines.get(line).map_or_else(Vec::new, |slots| {
            slots
                .iter()
                .filter(|slot| !slot.is_over(now))
                .map(|slot| slot.version)
                .collect()
        })
    }

    /// Whether a create of this version may go to the catalog, as far as aborted batches are concerned.
    pub fn may_create(&self, line: &Line, version: u64) -> Result<(), Forbidden> {
        let now = Instant::now();
        let Some(slots) = self.lines.get(line) else {
            return Ok(());
        };
        let gone = slots
            .iter()
            .filter_map(|slot| Some((slot.version, slot.until?)))
            .filter(|(gone, until)| *gone <= version && *until > now)
            .max_by_key(|(gone, _)| *gone);
        match gone {
            None => Ok(()),
            Some((gone, until)) if gone == version => Err(Forbidden::Reserved(until - now)),
            Some((gone, _)) => Err(Forbidden::BuiltOnGone { version: gone }),
        }
    }

    /// The version is gone: it stays hidden and its number reserved for `rest`.
    pub fn release(&self, line: &Line, version: u64, fate: &Fate, rest: Duration) {
        let until = Instant::now() + rest;
        if let Some(mut slots) = self.lines.get_mut(line) {
            for slot in slots.iter_mut() {
                if slot.version == version && Arc::ptr_eq(&slot.fate.0, &fate.0) {
                    slot.until = Some(until);
                }
            }
        }
    }

    /// Forgets the slots of one batch on a line, or only one version of them.
    pub fn forget(&self, line: &Line, version: Option<u64>, fate: &Fate) {
        self.retain(line, |slot| {
            !Arc::ptr_eq(&slot.fate.0, &fate.0) || version.is_some_and(|v| v != slot.version)
        });
    }

    /// Forgets what is over on a line.
    pub fn sweep(&self, line: &Line) {
        let now = Instant::now();
        self.retain(line, |slot| !slot.is_over(now));
    }

    /// Lines about which anything is remembered.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Nothing is hidden or reserved anywhere.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn retain(&self, line: &Line, keep: impl Fn(&Slot) -> bool) {
        self.lines.remove_if_mut(line, |_, slots| {
            slots.retain(&keep);
            slots.is_empty()
        });
    }
}

impl Slot {
    fn is_over(&self, now: Instant) -> bool {
        self.fate.is_revealed() || self.until.is_some_and(|until| until <= now)
    }
}

#[cfg(test)]
mod tests;
