//! The checks of every history: the promises that every seed must keep.
//!
//! - No client is shown a version of a batch that is not durably committed, nor its rows in a version that was built on
//!   it. This holds for lists, describes and counts.
//! - A version that has been shown, or answered with 200, is shown ever after, and of a batch all versions or none.
//!   Only a client's own request removes it.
//! - Status 200 means that COMMIT is durable. A definite error means that nothing is there or ever will be.
//! - A transaction has the state of its batch, and one `Idempotency-Key` begins one batch.
//! - At the end the catalogs hold exactly what was committed. Each table is one unbroken line, each version is built on
//!   the one that its writer saw, and every name leads where its clients and committed renames have put it.

mod answers;
mod ending;
mod reads;
mod stuck;
mod transactions;

use nsgate::batch::OpenBatch;

use crate::environment::Inner;
use crate::history::History;
use crate::scenario::Scenario;
pub use stuck::Stuck;

/// Returns everything that is wrong with a history; empty if nothing is.
pub fn history(inner: &Inner, scenario: &Scenario, open: &[OpenBatch]) -> Vec<String> {
    let mut check = Check {
        inner,
        history: &inner.history,
        scenario,
        stuck: Stuck::of(inner, scenario, open),
        wrong: inner.wrong.clone(),
    };
    check.reads();
    check.answers();
    check.transactions();
    check.log();
    check.lines();
    check.names();
    check.hazards(open);
    check.wrong
}

struct Check<'a> {
    inner: &'a Inner,
    history: &'a History,
    scenario: &'a Scenario,
    stuck: Stuck,
    wrong: Vec<String>,
}

impl Check<'_> {
    fn fail(&mut self, what: String) {
        self.wrong.push(what);
    }
}
