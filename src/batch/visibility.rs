//! Which versions readers may not see, and which numbers writers may not use.
//!
//! All versions of a batch point at one fate, so that they become visible, or stop being it, in one step. A version of
//! an aborted batch stays hidden, and its number reserved, for the cool-down: a writer that saw the raw file may still
//! arrive. Where a create of ours may still land, it stays hidden for as long as that is watched for.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use tokio::time::Instant;

use crate::batch::fate::Fate;
use crate::batch::locks::TableKey;
use crate::batch::log::{Action, VersionRange};
use crate::batch::names::Names;
use crate::batch::step::Refusal;
use crate::protocol::error::Code;
use shown::Shown;
use slot::{Slot, What};

mod claims;
pub mod filter;
pub mod quick;
mod shown;
mod slot;
mod tables;

pub use shown::Moment;
pub use slot::Claim;

/// The line of versions of one table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line {
    /// The table.
    pub table: TableKey,
    /// The branch; `None` is the main one.
    pub branch: Option<String>,
}

/// What is hidden, and what is reserved.
#[derive(Clone, Default)]
pub struct Visibility {
    /// The names of tables that are hidden.
    pub names: Names,
    lines: Arc<DashMap<Line, Vec<Slot>>>,
    shown: Shown,
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

/// The versions of a line that a reader may not see. Empty for nearly every table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hidden(Vec<RangeInclusive<u64>>);

/// Whether a create of ours may still land as a version that was let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Nobody else has asked for that version.
    Alone,
    /// Somebody else's create of it was let through, and may have landed as well.
    Contested,
    /// Somebody else has made that version.
    Taken,
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

impl Hidden {
    /// Nothing is hidden.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// This version is.
    pub fn contains(&self, version: u64) -> bool {
        self.0.iter().any(|versions| versions.contains(&version))
    }
}

impl Visibility {
    /// Hides a version until its fate is revealed, or it is forgotten or released.
    pub fn hide(&self, line: Line, version: u64, fate: &Fate) {
        self.add(line, version..=version, fate, What::Made);
    }

    /// Hides versions from the moment when their fate is revealed.
    pub fn hide_removed(&self, line: Line, versions: RangeInclusive<u64>, fate: &Fate) {
        self.add(line, versions, fate, What::Removed);
    }

    /// The versions that a reader may not see now.
    pub fn hidden(&self, line: &Line) -> Hidden {
        let now = Instant::now();
        let Some(slots) = self.lines.get(line) else {
            return Hidden::default();
        };
        let hidden = slots.iter().filter(|slot| slot.hides(now));
        Hidden(hidden.map(|slot| slot.versions.clone()).collect())
    }

    /// The present moment; to be taken before a catalog is asked, and looked at once the filter knows what is hidden.
    pub fn moment(&self, line: &Line) -> Moment {
        self.shown.moment(line)
    }

    /// Whether an answer from after this moment may hold a part of a batch, or what was undone since: ask again.
    pub fn has_passed(&self, moment: Moment) -> bool {
        self.shown.has_passed(moment)
    }

    /// Several changes of this line are about to be revealed: an answer from before may hold some of them.
    pub fn overtake(&self, line: &Line) {
        self.shown.overtake(line);
    }

    /// Whether a create of this version may go to the catalog, as far as aborted batches are concerned.
    pub fn may_create(&self, line: &Line, version: u64) -> Result<(), Forbidden> {
        let now = Instant::now();
        let Some(slots) = self.lines.get(line) else {
            return Ok(());
        };
        let gone = slots
            .iter()
            .filter_map(|slot| match slot.what {
                What::Gone { until, watched, .. } if until > now || watched => {
                    Some((*slot.versions.start(), until))
                }
                _ => None,
            })
            .filter(|(gone, _)| *gone <= version)
            .max_by_key(|(gone, _)| *gone);
        match gone {
            Some((gone, until)) if gone == version && until > now => {
                Err(Forbidden::Reserved(until - now))
            }
            Some((gone, _)) if gone < version => Err(Forbidden::BuiltOnGone { version: gone }),
            _ => Ok(()),
        }
    }

    /// The versions that aborted batches have let go, and that rest or may still land.
    pub fn gone(&self, line: &Line) -> Vec<u64> {
        let slots = self.lines.get(line);
        let slots = slots.iter().flat_map(|slots| slots.iter());
        let gone = slots.filter(|slot| matches!(slot.what, What::Gone { .. }));
        gone.map(|slot| *slot.versions.start()).collect()
    }

    /// The version is gone: it stays hidden and its number reserved for `rest`. Who has asked the catalog before it was
    /// gone asks again, for `rest` may be shorter than that takes.
    pub fn release(
        &self,
        line: &Line,
        version: u64,
        fate: &Fate,
        rest: Duration,
        claim: Option<Claim>,
    ) {
        let until = Instant::now() + rest;
        self.overtake(line);
        self.change(line, |slot| {
            if slot.is(version, fate) {
                slot.what = What::Gone {
                    until,
                    watched: false,
                    contested: false,
                    claim,
                    noted: false,
                };
            }
        });
    }

    /// A create of the version may still land: it stays hidden until that is no longer watched for.
    pub fn watch(&self, line: &Line, version: u64, fate: &Fate) {
        let mut known = false;
        self.change(line, |slot| {
            if let What::Gone { watched, .. } = &mut slot.what
                && *slot.versions.start() == version
                && slot.fate.is(fate)
            {
                *watched = true;
                known = true;
            }
        });
        if !known {
            let gone = What::Gone {
                until: Instant::now(),
                watched: true,
                contested: false,
                claim: None,
                noted: false,
            };
            self.add(line.clone(), version..=version, fate, gone);
        }
    }

    /// Whether a watched version is still nobody else's.
    pub fn watched(&self, line: &Line, version: u64, fate: &Fate) -> Watched {
        let slots = self.lines.get(line);
        let slot = slots
            .iter()
            .flat_map(|slots| slots.iter())
            .find(|slot| slot.is(version, fate));
        match slot.map(|slot| slot.what) {
            None => Watched::Taken,
            Some(What::Gone {
                contested: true, ..
            }) => Watched::Contested,
            Some(_) => Watched::Alone,
        }
    }

    /// The watch is over: the version is as free as its number.
    pub fn unwatch(&self, line: &Line, version: u64, fate: &Fate) {
        self.change(line, |slot| {
            if let What::Gone { watched, .. } = &mut slot.what
                && slot.versions.contains(&version)
                && slot.fate.is(fate)
            {
                *watched = false;
            }
        });
        self.sweep(line);
    }

    /// Hides what one change of a batch makes until `fate` is revealed, and what it removes from then on.
    pub fn hide_action(&self, line: &Line, action: &Action, fate: &Fate) {
        match action {
            Action::CreateVersion { version, .. } => self.hide(line.clone(), *version, fate),
            Action::DeleteVersions { ranges } => {
                for VersionRange { start, end } in ranges {
                    let versions = *start..=end.saturating_sub(1);
                    self.hide_removed(line.clone(), versions, fate);
                }
            }
            Action::Declare { .. } | Action::Register { .. } => {
                self.names.hide_made(line.table.clone(), fate);
            }
            Action::Deregister => self.names.hide_removed(line.table.clone(), fate),
        }
    }

    /// Forgets the slots of one batch on a line, or only those of one version.
    pub fn forget(&self, line: &Line, version: Option<u64>, fate: &Fate) {
        self.retain(line, |slot| {
            let other = version.is_some_and(|version| *slot.versions.start() != version);
            other || !slot.fate.is(fate)
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

    fn add(&self, line: Line, versions: RangeInclusive<u64>, fate: &Fate, what: What) {
        let fate = fate.clone();
        let slot = Slot {
            versions,
            fate,
            what,
        };
        self.lines.entry(line).or_default().push(slot);
    }

    fn change(&self, line: &Line, change: impl FnMut(&mut Slot)) {
        if let Some(mut slots) = self.lines.get_mut(line) {
            slots.iter_mut().for_each(change);
        }
    }

    fn retain(&self, line: &Line, keep: impl Fn(&Slot) -> bool) {
        let now = Instant::now();
        self.lines.remove_if_mut(line, |_, slots| {
            if slots.iter().any(|slot| slot.hides(now) && !keep(slot)) {
                self.overtake(line);
            }
            slots.retain(&keep);
            slots.is_empty()
        });
    }
}

#[cfg(test)]
mod tests;
