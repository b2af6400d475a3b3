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

impl Claimed {
    /// Waits for later claims of the same tables, too: a guard has only its last ticket, so the others acknowledge it with
    /// that.
    pub(super) fn follow(&mut self, later: &[Self]) {
        for claim in later
            .iter()
            .filter(|claim| claim.shares(|key| self.keys.contains(key)))
        {
            self.tickets.extend(&claim.tickets);
        }
    }

    fn shares(&self, is_known: impl Fn(&String) -> bool) -> bool {
        self.keys.iter().any(is_known)
    }
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

    /// Answers all claims that they were not made, and earlier ones of the same tables: their guards may have new tickets
    /// now, which are not known.
    pub(super) fn fail(self, earlier: &mut Vec<Claimed>, error: impl Fn() -> LogError) {
        let is_known = |key: &String| self.tables.contains_key(key);
        let earlier = earlier.extract_if(.., |claim| claim.shares(is_known));
        let earlier = earlier.map(|claim| claim.done);
        for done in earlier.chain(self.claims.into_iter().map(|(_, done)| done)) {
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

    /// Another gateway that looks at its tickets before the second claim, and at the guards after it, acknowledges the
    /// first ticket without the table that has moved to the second.
    #[test]
    fn a_claim_follows_its_tables_to_later_tickets() {
        let mut first = group(&[&["a", "b"], &["c"]]).claimed(2);
        let second = group(&[&["b", "x"], &["y"]]).claimed(4);
        first.iter_mut().for_each(|claim| claim.follow(&second));
        let tickets = first
            .iter()
            .map(|it| Vec::from_iter(it.tickets.iter().copied()));
        assert_eq!(tickets.collect::<Vec<_>>(), [vec![1, 3], vec![2]]);
    }

    #[test]
    fn a_failed_group_answers_every_claim_and_earlier_ones_of_its_tables() {
        let (mut group, mut before) = (ClaimGroup::default(), ClaimGroup::default());
        let [mut shares, mut waits] = [["b"], ["c"]].map(|keys| {
            let (done, waiting) = oneshot::channel();
            before.add(guards(&keys), done);
            waiting
        });
        let mut before = before.claimed(2);
        let waiting = [["a"], ["b"]].map(|keys| {
            let (done, waiting) = oneshot::channel();
            group.add(guards(&keys), done);
            waiting
        });
        group.fail(&mut before, || LogError::Write("x".into()));
        for mut waiting in waiting {
            assert!(waiting.try_recv().unwrap().is_err());
        }
        assert!(shares.try_recv().unwrap().is_err());
        assert_eq!((before.len(), waits.try_recv().is_err()), (1, true));
    }
}
