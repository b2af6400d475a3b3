//! The checks of what writers were answered: after a 200 all is there, after a definite error nothing.

use std::collections::BTreeSet;

use super::Check;
use crate::history::{Attempt, Kind, Op, Outcome};

impl Check<'_> {
    pub(super) fn answers(&mut self) {
        for (number, op) in self.history.ops.iter().enumerate() {
            let Some(last) = op.attempts.last() else {
                continue;
            };
            let done: BTreeSet<_> = op
                .attempts
                .iter()
                .filter_map(Attempt::transaction)
                .collect();
            if done.len() > 1 && (op.keyed || op.attempts.len() == 1) {
                self.fail(format!("w{number} was answered with several transactions"));
            }
            match &last.outcome {
                Outcome::Done(_) => self.all_there(number, op, last),
                Outcome::Definite(status, code) => self.none_there(number, op, (*status, *code)),
                Outcome::Unknown => {}
            }
        }
    }

    /// Returns true if a version is where it landed.
    pub(super) fn is_there(&self, author: &str) -> bool {
        let landed = self.history.landed.get(author);
        landed.is_some_and(|(spot, version)| {
            self.inner.stored(*spot).get(version).map(String::as_str) == Some(author)
        })
    }

    fn all_there(&mut self, number: usize, op: &Op, answer: &Attempt) {
        for entry in &op.entries {
            let landed = self.history.landed.get(&entry.author).map(|it| it.0);
            let spot = landed.or_else(|| self.inner.spot(self.scenario, entry.table, entry.branch));
            // A version that never landed may have been taken for one made behind the gateway's back, under any name.
            let catalog = self.scenario.tables[entry.table].catalog;
            let disturbed = spot.is_some_and(|spot| self.history.disturbed.contains(&spot))
                || (landed.is_none()
                    && self
                        .history
                        .disturbed
                        .iter()
                        .any(|it| it.catalog == catalog));
            let removed = self.history.removed.contains_key(&entry.author);
            if !self.is_there(&entry.author) && !removed && !disturbed {
                self.fail(format!(
                    "w{number} was answered 200, but {} is not there",
                    entry.author
                ));
            }
            let committed = self.history.committed.get(&entry.author);
            if op.kind == Kind::Coordinated
                && committed.is_none_or(|at| *at > answer.to)
                && !disturbed
            {
                self.fail(format!(
                    "w{number} was answered 200 before it was committed"
                ));
            }
        }
    }

    fn none_there(&mut self, number: usize, op: &Op, (status, code): (u16, u64)) {
        let unclear = op.attempts.iter().any(|it| it.outcome == Outcome::Unknown);
        // An earlier attempt without an idempotency key is another batch.
        if unclear && !(op.kind == Kind::Coordinated && op.keyed) {
            return;
        }
        for entry in &op.entries {
            let passed_on = op.kind != Kind::Coordinated;
            if passed_on && self.history.mistreated.contains(&entry.author) {
                continue;
            }
            let landed = self.history.landed.get(&entry.author);
            let waits = landed.is_some_and(|landed| self.stuck.versions.contains(landed));
            if self.is_there(&entry.author) && !waits {
                self.fail(format!(
                    "w{number} was answered {status} (code {code}), but {} is there",
                    entry.author
                ));
            }
            if self.history.committed.contains_key(&entry.author) {
                self.fail(format!(
                    "w{number} was answered {status} (code {code}), but is committed"
                ));
            }
        }
    }
}

impl Attempt {
    fn transaction(&self) -> Option<&String> {
        match &self.outcome {
            Outcome::Done(Some(id)) => Some(id),
            _ => None,
        }
    }
}
