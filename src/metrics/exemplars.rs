//! Exemplars: for each bucket of the duration of requests, the trace of the last request in it that is worth a look.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::families::SECONDS;
use super::operations::{OPERATIONS, names, number};
use crate::protocol::operation::Operation;

/// The number of buckets of the duration of requests, the infinite one included.
const BUCKETS: usize = SECONDS.len() + 1;

/// One request as an example for its bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Exemplar {
    /// The id of its trace.
    pub(super) trace: u128,
    /// The duration of the request.
    pub(super) seconds: f64,
    /// The time of its end, since the epoch.
    pub(super) at: Duration,
}

/// The exemplars of one operation, by bucket.
pub(super) type Buckets = [Option<Exemplar>; BUCKETS];

/// The exemplars that one thread has noted, by operation. Nothing is allocated before the first, and there is one slot
/// for each bucket, so that their number is bounded.
#[derive(Default)]
pub(super) struct Exemplars {
    operations: Vec<Option<Box<Buckets>>>,
}

impl Exemplars {
    /// Keeps a request that ends now as the exemplar of its bucket.
    pub(super) fn note(&mut self, operation: Option<Operation>, seconds: f64, trace: u128) {
        let exemplar = Exemplar {
            trace,
            seconds,
            at: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
        };
        if self.operations.is_empty() {
            self.operations.resize_with(OPERATIONS, || None);
        }
        let bucket = SECONDS.partition_point(|bound| *bound < seconds);
        let buckets = self.operations[number(operation)].get_or_insert_default();
        buckets[bucket] = Some(exemplar);
    }

    /// Adds the exemplars to `all`, by the name of their operation. The later one of a bucket stays.
    pub(super) fn gather(&self, all: &mut BTreeMap<&'static str, Buckets>) {
        let noted = self.operations.iter().zip(names());
        for (buckets, name) in noted.filter_map(|(buckets, name)| Some((buckets.as_ref()?, name))) {
            let known = all.entry(name).or_default();
            for (known, new) in known.iter_mut().zip(&**buckets) {
                let is_later = |new: &Exemplar| known.is_none_or(|known| known.at <= new.at);
                if let Some(new) = new.filter(is_later) {
                    *known = Some(new);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    #[test]
    fn a_bucket_keeps_its_last_exemplar_whichever_thread_noted_it() {
        let (mut one, mut other) = (Exemplars::default(), Exemplars::default());
        let describe = Some(Operation::DescribeTable);
        one.note(describe, 0.0004, 1);
        one.note(describe, 0.0005, 2);
        other.note(describe, 700.0, 3);
        other.note(describe, 0.0005, 4);
        one.note(None, 0.3, 5);
        let mut all = BTreeMap::new();
        other.gather(&mut all);
        one.gather(&mut all);
        let traces = |name: &str| -> Vec<_> {
            let found = all[name].iter().enumerate();
            let found = found.filter_map(|(bucket, one)| Some((bucket, (*one)?.trace)));
            found.collect()
        };
        assert_eq!(traces("describe_table"), [(0, 4), (BUCKETS - 1, 3)]);
        assert_eq!(traces("unrecognized"), [(9, 5)]);
        assert_eq!(all.len(), 2);
    }
}
