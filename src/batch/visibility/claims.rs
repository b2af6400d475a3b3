//! Whose a version is that a batch has let go: the batch claims it until somebody else asks for it, or has made it.

use super::slot::{Claim, Slot, What};
use super::{Line, Visibility};
use crate::batch::step::Settled;

impl Visibility {
    /// A create of this version goes to the catalog: what appears as it need not be ours any more.
    pub fn contest(&self, line: &Line, version: u64) {
        self.change(line, |slot| {
            if let What::Gone { contested, .. } = &mut slot.what
                && slot.versions.contains(&version)
            {
                *contested = true;
            }
        });
    }

    /// The entries that will claim this version after a restart, although their own is gone.
    pub fn claims(&self, line: &Line, version: u64) -> Vec<Claim> {
        let slots = self.lines.get(line);
        let slots = slots.iter().flat_map(|slots| slots.iter());
        let of = slots.filter(|slot| slot.versions.contains(&version));
        of.filter_map(|slot| match slot.what {
            What::Gone { claim, .. } => claim,
            _ => None,
        })
        .collect()
    }

    /// Those of them of which the log does not know yet that the version is contested, and what it is to be told: where
    /// nothing of ours can land any more, what appears is the other's.
    pub fn uncontested(&self, line: &Line, version: u64) -> Vec<(Claim, Settled)> {
        let slots = self.lines.get(line);
        let slots = slots.iter().flat_map(|slots| slots.iter());
        let of = slots.filter(|slot| slot.versions.contains(&version));
        of.filter_map(|slot| match slot.what {
            What::Gone {
                claim: Some(claim),
                watched,
                noted: false,
                ..
            } => Some(match watched {
                true => (claim, Settled::Contested),
                false => (claim, Settled::Theirs),
            }),
            _ => None,
        })
        .collect()
    }

    /// The log knows it now.
    pub fn noted(&self, line: &Line, entry: Claim, settled: Settled) {
        if settled == Settled::Theirs {
            return self.disclaim(line, entry);
        }
        self.change(line, |slot| {
            if let What::Gone { claim, noted, .. } = &mut slot.what
                && *claim == Some(entry)
            {
                *noted = true;
            }
        });
    }

    /// This entry claims nothing any more: the log says so, or its batch has ended.
    pub fn disclaim(&self, line: &Line, entry: Claim) {
        self.change(line, |slot| {
            if let What::Gone { claim, .. } = &mut slot.what
                && *claim == Some(entry)
            {
                *claim = None;
            }
        });
        self.sweep(line);
    }

    /// Somebody's create of this version has succeeded: it is not gone, nor ours to look for. Answers with the entries
    /// that would claim it after a restart.
    pub fn taken(&self, line: &Line, version: u64) -> Vec<Claim> {
        if !self.lines.contains_key(line) {
            return Vec::new();
        }
        let claims = self.claims(line, version);
        let gone = |slot: &Slot| matches!(slot.what, What::Gone { .. });
        self.retain(line, |slot| {
            !(gone(slot) && slot.versions.contains(&version))
        });
        claims
    }
}
