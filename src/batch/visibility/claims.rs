//! Whose a version is that a batch has let go: the batch claims it until somebody else asks for it, or has made it.

use std::time::Duration;

use tokio::time::Instant;

use super::{TableBranch, Visibility};
use crate::batch::locks::TableKey;
use crate::batch::step::Settled;
use crate::batch::visibility::hidden_range::{Claim, HiddenRange, HideReason};

impl Visibility {
    /// A create of this version goes to the catalog: what appears as it need not be ours any more.
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

    /// The entries that will claim this version after a restart, although their own is gone.
    pub fn claims(&self, line: &TableBranch, version: u64) -> Vec<Claim> {
        let slots = self.tables.get(&line.table);
        let slots = slots.iter().flat_map(|slots| slots.iter());
        let on = line.branch.as_deref();
        let of = slots.filter(|slot| slot.subject.start(on) == Some(version));
        of.filter_map(|slot| slot.claim()).collect()
    }

    /// The entries of which the log does not know yet that their version is contested, where a create of theirs may still
    /// land as it; and what it is to be told.
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

    /// The log knows it now.
    pub fn noted(&self, line: &TableBranch, entry: Claim) {
        self.change(line, |slot| {
            if let HideReason::Uncertain { claim, noted, .. } = &mut slot.what
                && *claim == Some(entry)
            {
                *noted = true;
            }
        });
    }

    /// This entry claims nothing any more: its batch has ended.
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

    /// Somebody's create of this version has succeeded: it is not gone, nor ours to look for. For `rest`, creates above it
    /// that came before are refused. Answers with the entries that would claim it after a restart.
    pub fn taken(&self, line: &TableBranch, version: u64, rest: Duration) -> Vec<Claim> {
        let on = line.branch.as_deref();
        let which = |slot: &HiddenRange| slot.subject.start(on) == Some(version);
        self.retake(&line.table, which, rest)
    }

    /// A create of this version, or a change of which the catalog chose the version (`None`), has ended: freed versions may
    /// have been made again, whatever was answered.
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

    /// The name goes to another table, or to none: what was freed of the one that had it says nothing of that. Answers with
    /// the entries that would claim it after a restart.
    pub fn renamed(&self, table: &TableKey) -> Vec<Claim> {
        let is_freed = |slot: &HiddenRange| {
            matches!(
                slot.what,
                HideReason::Freed { .. } | HideReason::Retaken { .. }
            )
        };
        let mut claims = Vec::new();
        if let Some(slots) = self.tables.get(table) {
            let freed = slots.iter().filter(|slot| is_freed(slot));
            claims.extend(freed.filter_map(HiddenRange::claim));
        }
        self.retain(table, |slot| !is_freed(slot));
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
            let is_free = matches!(
                slot.what,
                HideReason::Freed { .. } | HideReason::Uncertain { .. }
            );
            if !is_free || !which(slot) {
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
