//! Claims of guards that share one statement, each with a ticket of its own: a claim waits only for what others serve of
//! its own tables.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::oneshot;

use crate::batch::fleet::Guard;
use crate::batch::log::LogError;

/// The channel that gets the keys for which another gateway knows a change that had no answer.
pub(super) type Done = oneshot::Sender<Result<Vec<String>, LogError>>;

/// A claim that others have yet to acknowledge.
pub(super) struct Claimed {
    /// The tickets under which its tables are guarded.
    pub(super) tickets: BTreeSet<i64>,
    pub(super) keys: Vec<String>,
    pub(super) done: Done,
}

/// The claims of one statement, as its parameters.
#[derive(Default)]
pub(super) struct ClaimGroup {
    claims: Vec<(Vec<String>, Done)>,
    /// The guarded tables: whether names are, and the last claim that has it.
    tables: BTreeMap<String, (bool, usize)>,
}

/// The parameters of the statement. A key that stood twice would be updated twice in one statement.
#[derive(Default)]
pub(super) struct ClaimColumns {
    pub(super) keys: Vec<String>,
    pub(super) names: Vec<bool>,
    /// The claim of each key, counted from 1 among those that have a key.
    pub(super) places: Vec<i64>,
}

impl ClaimGroup {
    pub(super) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    pub(super) fn add(&mut self, guards: Vec<Guard>, done: Done) {
        let number = self.claims.len();
        let mut keys = Vec::with_capacity(guards.len());
        for Guard { key, names } in guards {
            let known = self.tables.entry(key.clone()).or_default();
            *known = (known.0 || names, number);
            keys.push(key);
        }
        self.claims.push((keys, done));
    }

    /// The place of each claim that has a key of its own.
    fn places(&self) -> BTreeMap<usize, i64> {
        let numbers: BTreeSet<usize> = self.tables.values().map(|(_, number)| *number).collect();
        numbers.into_iter().zip(1..).collect()
    }

    pub(super) fn columns(&self) -> ClaimColumns {
        let places = self.places();
        let mut columns = ClaimColumns::default();
        for (key, (names, number)) in &self.tables {
            columns.keys.push(key.clone());
            columns.names.push(*names);
            columns.places.push(places[number]);
        }
        columns
    }

    /// The claims, once the last of them has the ticket `last`.
    pub(super) fn claimed(self, last: i64) -> Vec<Claimed> {
        let places = self.places();
        let before = last - i64::try_from(places.len()).unwrap_or_default();
        let ticket = |key: &String| before + places[&self.tables[key].1];
        let claims = self.claims.into_iter();
        let claimed = claims.map(|(keys, done)| Claimed {
            tickets: keys.iter().map(ticket).collect(),
            keys,
            done,
        });
        claimed.collect()
    }

    /// Answers all claims that they were not made.
    pub(super) fn fail(self, error: impl Fn() -> LogError) {
        for (_, done) in self.claims {
            // Nobody may wait any more.
            let _ = done.send(Err(error()));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use super::*;

    fn guards(keys: &[&str]) -> Vec<Guard> {
        let guard = |key: &&str| Guard {
            key: (*key).to_owned(),
            names: key.starts_with('n'),
        };
        keys.iter().map(guard).collect()
    }

    fn group(claims: &[&[&str]]) -> ClaimGroup {
        let mut group = ClaimGroup::default();
        for keys in claims {
            group.add(guards(keys), oneshot::channel().0);
        }
        group
    }

    #[test]
    fn each_claim_waits_for_its_own_tables_only() {
        // The first claim has all of its tables in common with later ones; `b` is that of the last.
        let group = group(&[&["a", "b"], &["a", "n"], &["c"], &["b", "c"]]);
        let columns = group.columns();
        assert_eq!(columns.keys, ["a", "b", "c", "n"]);
        assert_eq!(columns.names, [false, false, false, true]);
        assert_eq!(columns.places, [1, 2, 2, 1]);
        let tickets = group.claimed(12).into_iter();
        let tickets: Vec<Vec<i64>> = tickets.map(|it| it.tickets.into_iter().collect()).collect();
        assert_eq!(tickets, [vec![11, 12], vec![11], vec![12], vec![12]]);
    }

    #[test]
    fn a_failed_group_answers_every_claim() {
        let mut group = ClaimGroup::default();
        let waiting = [["a"], ["b"]].map(|keys| {
            let (done, waiting) = oneshot::channel();
            group.add(guards(&keys), done);
            waiting
        });
        group.fail(|| LogError::Write("x".into()));
        for mut waiting in waiting {
            assert!(waiting.try_recv().unwrap().is_err());
        }
    }
}
