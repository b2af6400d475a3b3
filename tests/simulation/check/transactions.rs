//! The checks of the states of transactions, and of the records of the log.

use std::collections::{BTreeMap, BTreeSet};

use nsgate::batch::log::Verdict;
use nsgate::batch::step::Decision;

use super::Check;
use crate::history::Outcome;

impl Check<'_> {
    pub(super) fn transactions(&mut self) {
        // The time from which a client knows the result, by transaction.
        let mut told: BTreeMap<String, u64> = BTreeMap::new();
        let mut tell = |id: String, at: u64| {
            let since = told.entry(id).or_insert(at);
            *since = at.min(*since);
        };
        for op in &self.history.ops {
            for attempt in &op.attempts {
                if let Outcome::Done(Some(id)) = &attempt.outcome {
                    tell(id.clone(), attempt.to);
                }
            }
        }
        for asked in &self.history.transactions {
            if matches!(asked.said.as_str(), "Succeeded" | "Failed") {
                tell(asked.id.to_string(), asked.to);
            }
        }
        for asked in &self.history.transactions {
            let name = self.inner.ledger.name(asked.id);
            let decided = self.inner.ledger.decided.get(&asked.id);
            let by_then = decided
                .filter(|(_, at)| *at < asked.to)
                .map(|(decision, _)| *decision);
            let right = match asked.said.as_str() {
                "Succeeded" => by_then == Some(Decision::Commit),
                "Failed" => by_then == Some(Decision::Abort),
                "Running" => told
                    .get(&asked.id.to_string())
                    .is_none_or(|at| *at > asked.from),
                _ => false,
            };
            if !right {
                self.fail(format!(
                    "{name} was said to be {} {:?}, when it was {by_then:?}",
                    asked.status, asked.said
                ));
            }
        }
    }

    pub(super) fn log(&mut self) {
        let mut keys = BTreeSet::new();
        for record in self.inner.ledger.records() {
            let name = self.inner.ledger.name(record.id);
            // A batch that failed for a passing reason has released its key.
            let refusal = record.verdict.as_ref().and_then(Verdict::refusal);
            let keeps = refusal.is_none_or(|it| !matches!(it.status, 408 | 425 | 429 | 500..));
            if let Some(key) = record.intent.idempotency.as_ref().filter(|_| keeps)
                && !keys.insert(key.clone())
            {
                self.fail(format!("{name} is the second batch of one Idempotency-Key"));
            }
            if record.verdict.is_none() {
                self.fail(format!("{name} is still undecided"));
            }
        }
    }
}
