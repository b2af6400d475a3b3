//! Claims: a batch claims a version that it gave up until another writer sends a create of it, or has made it.

use std::time::Duration;

use tokio::time::Instant;

use super::{TableBranch, Visibility};
use crate::batch::locks::TableKey;
use crate::batch::step::Settled;
use crate::batch::visibility::hidden_range::{Claim, HiddenRange, HideReason};

impl Visibility {
    /// Records that another writer's create of this version goes to the catalog. A version that appears there need not
    /// be ours any more.
    pub fn contest(&self, line: &TableBranch, version: u64) {
        let on = line.branch.as_deref();
        self.change(line, |slot| {
            if let HideReason::Uncertain { contested, .. } = &mut slot.what
                && slot.subject.start(on) == Some(version)
            {
                *contested = true;
            }
        });
    }

    /// The entries that would claim this version after a restart, although theirs is gone.
    pub fn claims(&self, line: &TableBranch, version: u64) -> Vec<Claim> {
        let slots = self.tables.get(&line.table);
        let slots = slots.iter().flat_map(|slots| slots.iter());
        let on = line.branch.as_deref();
        let of = slots.filter(|slot| slot.subject.start(on) == Some(version));
        of.filter_map(|slot| slot.claim()).collect()
    }

    /// The entries whose create may still land as this version, and whose contest the log does not know yet; with the
    /// state to write to the log.
    pub fn uncontested(&self, line: &TableBranch, version: u64) -> Vec<(Claim, Settled)> {
        let slots = self.tables.get(&line.table);
        let slots = slots.iter().flat_map(|slots| slots.iter());
        let on = line.branch.as_deref();
        let of = slots.filter(|slot| slot.subject.start(on) == Some(version));
        of.filter_map(|slot| match slot.what {
            HideReason::Uncertain {
                claim: Some(claim),
                noted: false,
                ..
            } => Some((claim, Settled::Contested)),
            _ => None,
        })
        .collect()
    }

    /// Records that the log knows of the contest.
    pub fn noted(&self, line: &TableBranch, entry: Claim) {
        self.change(line, |slot| {
            if let HideReason::Uncertain { claim, noted, .. } = &mut slot.what
                && *claim == Some(entry)
            {
                *noted = true;
            }
        });
    }

    /// Removes the claims of an entry whose batch has ended.
    pub fn disclaim(&self, line: &TableBranch, entry: Claim) {
        self.change(line, |slot| {
            if let HideReason::Freed { claim, .. } | HideReason::Uncertain { claim, .. } =
                &mut slot.what
                && *claim == Some(entry)
            {
                *claim = None;
            }
        });
        self.sweep(&line.table);
    }

    /// Records that another writer's create of this version has succeeded: it exists, and is not ours to watch for. For
    /// `rest`, creates above it that arrived before are refused. Returns the entries that would claim it after a
    /// restart.
    pub fn taken(&self, line: &TableBranch, version: u64, rest: Duration) -> Vec<Claim> {
        self.reused(line, version);
        let on = line.branch.as_deref();
        // One that may have been made again before was not, or was undone once more.
        let which = |slot: &HiddenRange| {
            let is_free = matches!(
                slot.what,
                HideReason::Freed { .. }
                    | HideReason::Uncertain { .. }
                    | HideReason::Retaken { .. }
            );
            is_free && slot.subject.start(on) == Some(version)
        };
        self.retake(&line.table, which, rest)
    }

    /// Records that a create of this version, or a change whose version the catalog chose (`None`), has ended. Whatever
    /// the answer was, it may have made freed versions again. Returns the entries that would claim them after a
    /// restart.
    pub fn attempted(
        &self,
        table: &TableKey,
        version: Option<(&TableBranch, u64)>,
        rest: Duration,
    ) -> Vec<Claim> {
        let is_one = |slot: &HiddenRange| match version {
            Some((line, version)) => slot.subject.start(line.branch.as_deref()) == Some(version),
            None => true,
        };
        let which =
            |slot: &HiddenRange| matches!(slot.what, HideReason::Freed { .. }) && is_one(slot);
        self.retake(table, which, rest)
    }

    /// Removes the claims of freed versions of a table whose name is about to go to another table, or to none. Returns
    /// the entries that would claim them after a restart.
    pub fn unclaim(&self, table: &TableKey) -> Vec<Claim> {
        let Some(mut slots) = self.tables.get_mut(table) else {
            return Vec::new();
        };
        let claims = slots.iter_mut().filter_map(|slot| match &mut slot.what {
            HideReason::Freed { claim, .. } => claim.take(),
            _ => None,
        });
        claims.collect()
    }

    /// Records that the name has gone to another table, or to none: the versions that were freed or deleted in the
    /// previous table do not matter any more. Returns the entries that would claim them after a restart.
    pub fn renamed(&self, table: &TableKey) -> Vec<Claim> {
        let is_past = |slot: &HiddenRange| match slot.what {
            HideReason::Freed { .. } | HideReason::Retaken { .. } => true,
            HideReason::Removed => slot.commit_flag.is_revealed(),
            HideReason::Made | HideReason::Uncertain { .. } => false,
        };
        let claims = self.unclaim(table);
        self.retain(table, |slot| !is_past(slot));
        claims
    }

    fn retake(
        &self,
        table: &TableKey,
        which: impl Fn(&HiddenRange) -> bool,
        rest: Duration,
    ) -> Vec<Claim> {
        let Some(mut slots) = self.tables.get_mut(table) else {
            return Vec::new();
        };
        let at = Instant::now();
        let until = at + rest;
        let mut claims = Vec::new();
        for slot in slots.iter_mut() {
            if !which(slot) {
                continue;
            }
            claims.extend(slot.claim());
            if slot.is_hiding() {
                self.invalidate_reads(&slot.line(table));
            }
            slot.what = HideReason::Retaken { at, until };
        }
        claims
    }
}

impl HiddenRange {
    fn claim(&self) -> Option<Claim> {
        match self.what {
            HideReason::Freed { claim, .. } | HideReason::Uncertain { claim, .. } => claim,
            HideReason::Made | HideReason::Removed | HideReason::Retaken { .. } => None,
        }
    }
}
