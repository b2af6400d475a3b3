//! Whose a version is that a batch has let go: the batch claims it until somebody else asks for it, or has made it.

use std::time::Duration;

use tokio::time::Instant;

use super::slot::{Claim, Slot, What};
use super::{Line, Visibility};
use crate::batch::locks::TableKey;
use crate::batch::step::Settled;

impl Visibility {
    /// A create of this version goes to the catalog: what appears as it need not be ours any more.
    pub fn contest(&self, line: &Line, version: u64) {
        let on = line.branch.as_deref();
        self.change(line, |slot| {
            if let What::Uncertain { contested, .. } = &mut slot.what
                && slot.subject.start(on) == Some(version)
            {
                *contested = true;
            }
        });
    }

    /// The entries that will claim this version after a restart, although their own is gone.
    pub fn claims(&self, line: &Line, version: u64) -> Vec<Claim> {
        let slots = self.tables.get(&line.table);
        let slots = slots.iter().flat_map(|slots| slots.iter());
        let on = line.branch.as_deref();
        let of = slots.filter(|slot| slot.subject.start(on) == Some(version));
        of.filter_map(|slot| slot.claim()).collect()
    }

    /// The entries of which the log does not know yet that their version is contested, where a create of theirs may still
    /// land as it; and what it is to be told.
    pub fn uncontested(&self, line: &Line, version: u64) -> Vec<(Claim, Settled)> {
        let slots = self.tables.get(&line.table);
        let slots = slots.iter().flat_map(|slots| slots.iter());
        let on = line.branch.as_deref();
        let of = slots.filter(|slot| slot.subject.start(on) == Some(version));
        of.filter_map(|slot| match slot.what {
            What::Uncertain {
                claim: Some(claim),
                noted: false,
                ..
            } => Some((claim, Settled::Contested)),
            _ => None,
        })
        .collect()
    }

    /// The log knows it now.
    pub fn noted(&self, line: &Line, entry: Claim) {
        self.change(line, |slot| {
            if let What::Uncertain { claim, noted, .. } = &mut slot.what
                && *claim == Some(entry)
            {
                *noted = true;
            }
        });
    }

    /// This entry claims nothing any more: its batch has ended.
    pub fn disclaim(&self, line: &Line, entry: Claim) {
        self.change(line, |slot| {
            if let What::Freed { claim, .. } | What::Uncertain { claim, .. } = &mut slot.what
                && *claim == Some(entry)
            {
                *claim = None;
            }
        });
        self.sweep(&line.table);
    }

    /// Somebody's create of this version has succeeded: it is not gone, nor ours to look for. For `rest`, creates above it
    /// that came before are refused. Answers with the entries that would claim it after a restart.
    pub fn taken(&self, line: &Line, version: u64, rest: Duration) -> Vec<Claim> {
        let on = line.branch.as_deref();
        let which = |slot: &Slot| slot.subject.start(on) == Some(version);
        self.retake(&line.table, which, rest)
    }

    /// A create of this version, or a change of which the catalog chose the version (`None`), has ended: freed versions may
    /// have been made again, whatever was answered.
    pub fn attempted(
        &self,
        table: &TableKey,
        version: Option<(&Line, u64)>,
        rest: Duration,
    ) -> Vec<Claim> {
        let is_one = |slot: &Slot| match version {
            Some((line, version)) => slot.subject.start(line.branch.as_deref()) == Some(version),
            None => true,
        };
        let which = |slot: &Slot| matches!(slot.what, What::Freed { .. }) && is_one(slot);
        self.retake(table, which, rest)
    }

    /// The name goes to another table, or to none: what was freed of the one that had it says nothing of that. Answers with
    /// the entries that would claim it after a restart.
    pub fn renamed(&self, table: &TableKey) -> Vec<Claim> {
        let is_freed = |slot: &Slot| matches!(slot.what, What::Freed { .. } | What::Retaken { .. });
        let mut claims = Vec::new();
        if let Some(slots) = self.tables.get(table) {
            let freed = slots.iter().filter(|slot| is_freed(slot));
            claims.extend(freed.filter_map(Slot::claim));
        }
        self.retain(table, |slot| !is_freed(slot));
        claims
    }

    fn retake(
        &self,
        table: &TableKey,
        which: impl Fn(&Slot) -> bool,
        rest: Duration,
    ) -> Vec<Claim> {
        let Some(mut slots) = self.tables.get_mut(table) else {
            return Vec::new();
        };
        let at = Instant::now();
        let until = at + rest;
        let mut claims = Vec::new();
        for slot in slots.iter_mut() {
            let is_free = matches!(slot.what, What::Freed { .. } | What::Uncertain { .. });
            if !is_free || !which(slot) {
                continue;
            }
            claims.extend(slot.claim());
            if slot.is_hiding() {
                self.overtake(&slot.line(table));
            }
            slot.what = What::Retaken { at, until };
        }
        claims
    }
}

impl Slot {
    fn claim(&self) -> Option<Claim> {
        match self.what {
            What::Freed { claim, .. } | What::Uncertain { claim, .. } => claim,
            What::Made | What::Removed | What::Retaken { .. } => None,
        }
    }
}
