//! Recovery: reads the unfinished batches of a log that this process owns before anything is served, and finishes them
//! while serving.

pub mod forgotten;
mod stranded;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::batch::api::outcomes::{Outcome, Outcomes};
use crate::batch::identities::Finder;
use crate::batch::locks::Hold;
use crate::batch::log::{BatchId, LogError, Record, Verdict};
use crate::batch::plan::Plan;
use crate::batch::run::{BatchRun, Coordinator, STRAYS};
use crate::batch::step::{Decision, Event, Refusal, Settled, State, step};
use crate::batch::visibility::TableBranch;
use crate::error::code::Code;
use stranded::StrandedBatch;

/// The pause before a log is read again whose server did not answer.
const READ_AGAIN: Duration = Duration::from_millis(500);

/// Reads the log, locks the tables and hides the versions of every unfinished batch, and continues each in a task of
/// its own.
///
/// Returns their number. A batch whose backend is not configured any more waits for it.
///
/// # Errors
///
/// The log cannot be read or written.
pub async fn recover(
    coordinator: &Arc<Coordinator>,
    outcomes: &Arc<Outcomes>,
    finder: &Finder<'_>,
) -> Result<usize, LogError> {
    let (past, last) = loop {
        let (mut past, mut last) = (UnfinishedBatches::default(), None);
        let mut sort = |mut record: Record| {
            last = Some(record.id);
            finder.name(&mut record.intent);
            past.add(record);
        };
        match coordinator.log.scan_needed(&mut sort).await {
            Ok(()) => break (past, last),
            // The log reports it. Another gateway could not read it, either.
            Err(LogError::Away { .. }) => sleep(READ_AGAIN).await,
            Err(error) => return Err(error),
        }
    };
    if let Some(last) = last {
        coordinator.ids.begin_after(last);
    }
    if !coordinator.log.is_new() {
        // Creates that an earlier life let through without an answer are not known.
        coordinator.visibility.expect_strays(STRAYS);
    }
    // The outcomes of finished batches are read when somebody asks for them.
    let mut unfinished = 0;
    // Before the first of them looks at its versions.
    for record in &past.kept {
        coordinator.tags.stage(record.id, &record.intent);
    }
    for mut record in past.kept {
        let outcome = outcomes.recall(&record);
        for entry in past.made.let_go(&mut record) {
            // This must be durable before the later batch may be forgotten.
            let log = &coordinator.log;
            log.note(record.id, entry, Settled::Theirs).await?;
        }
        unfinished += 1;
        match Plan::recovered(&record.intent, |identity| finder.backend(identity)) {
            Some(plan) => take_over(coordinator, plan, record, outcome, None),
            None => StrandedBatch::begin(Arc::clone(coordinator), record, outcome),
        }
    }
    Ok(unfinished)
}

/// The records that are kept while a log is read. The log may be far longer than its useful part.
#[derive(Default)]
struct UnfinishedBatches {
    /// The unfinished batches.
    kept: Vec<Record>,
    made: MadeVersions,
}

/// The versions that committed batches have made.
#[derive(Default)]
struct MadeVersions {
    /// The last committed batch that made each version that an unfinished batch had freed; `None` if there is none.
    last: HashMap<(TableBranch, u64), Option<BatchId>>,
    /// Those of committed batches that are unfinished: the log does not say yet whose versions they have taken.
    by_unfinished: HashSet<(TableBranch, u64)>,
}

impl UnfinishedBatches {
    /// Adds a record. Records come in the order of their batches, so a batch that made a version which an earlier one
    /// had freed comes after it.
    fn add(&mut self, record: Record) {
        let is_unfinished = record.ended.is_none();
        let MadeVersions {
            last,
            by_unfinished,
        } = &mut self.made;
        if matches!(record.verdict, Some(Verdict::Commit(_))) && (is_unfinished || !last.is_empty())
        {
            for entry in &record.intent.entries {
                let Some(version) = entry.version() else {
                    continue;
                };
                let made = (entry.line(), version);
                if let Some(last) = last.get_mut(&made) {
                    *last = Some(record.id);
                }
                if is_unfinished {
                    by_unfinished.insert(made);
                }
            }
        }
        if !is_unfinished {
            return;
        }
        for (_, freed) in freed(&record) {
            last.entry(freed).or_default();
        }
        self.kept.push(record);
    }
}

/// The entries whose versions are free again, as far as the log says, with those versions.
fn freed(record: &Record) -> impl Iterator<Item = (usize, (TableBranch, u64))> {
    let entries = record.intent.entries.iter().zip(&record.settled);
    entries.enumerate().filter_map(|(index, (entry, settled))| {
        let free = settled.is_some_and(Settled::is_free);
        let version = entry.version().filter(|_| free)?;
        Some((index, (entry.line(), version)))
    })
}

impl MadeVersions {
    /// Marks the freed versions that another batch has used since as not ours: they are not in cool-down, and a version
    /// that is found there is no late create. Returns the marked entries.
    fn let_go(&self, record: &mut Record) -> Vec<usize> {
        let is_used = |entry: usize, freed: &(TableBranch, u64)| {
            let by = self.last.get(freed).copied().flatten();
            // A batch with a lower id may have waited for its tables while this one had them. The log knows then that it
            // was to make the version after this one had freed it.
            by.is_some_and(|by| by > record.id)
                || (record.settled[entry] == Some(Settled::Contested)
                    && self.by_unfinished.contains(freed))
        };
        let used = freed(record).filter(|(entry, freed)| is_used(*entry, freed));
        let let_go: Vec<usize> = used.map(|(entry, _)| entry).collect();
        for entry in &let_go {
            record.settled[*entry] = Some(Settled::Theirs);
        }
        let_go
    }
}

/// The decision for an undecided batch that an operator ended as it was.
fn let_be_verdict() -> Verdict {
    let why = "an operator ended the batch as it was: what its catalogs had made by then stays, and readers see it. Look at \
               its tables before you begin again";
    let refusal = Refusal::new(Code::InvalidTableState, why);
    Verdict::abort(Vec::new(), Some(&refusal))
}

/// Ends a batch as it is, because an operator decided so.
async fn let_be(coordinator: &Coordinator, record: &Record) -> Result<(), LogError> {
    let (id, log) = (record.id, &coordinator.log);
    if record.verdict.is_none() {
        log.decide(id, let_be_verdict()).await?;
    }
    for (entry, settled) in record.settled.iter().enumerate() {
        if settled.is_none() {
            log.note(id, entry, Settled::Kept).await?;
        }
    }
    log.end(id, (coordinator.clock)()).await?;
    coordinator.open.remove(id);
    coordinator.tags.unstage(id, &record.intent);
    Ok(())
}

fn take_over(
    coordinator: &Arc<Coordinator>,
    plan: Plan,
    record: Record,
    outcome: Arc<Outcome>,
    held: Option<Hold>,
) {
    let (decision, proofs) = match record.verdict {
        None => (None, Vec::new()),
        Some(Verdict::Commit(_)) => (Some(Decision::Commit), Vec::new()),
        Some(Verdict::Abort { proofs, .. }) => (Some(Decision::Abort), proofs),
    };
    let (mut state, mut effects) = State::recovered(plan.shape.clone(), decision, &record.settled);
    // An operator's decision that was recorded is carried out by whoever goes on with the batch.
    if let Some(last) = record.resolutions.last() {
        let mut hazards = state.hazards();
        let is_left = match decision {
            None => !last.commit,
            // To keep what is there harms nobody. What has become a hazard since needs a decision of its own, and so does a
            // delete: the version may be another one by now.
            Some(_) if last.commit && record.settled.iter().all(Option::is_some) => {
                hazards.all(|(entry, _)| last.hazards.contains(&entry))
            }
            Some(_) => false,
        };
        drop(hazards);
        if is_left {
            let more;
            (state, more) = step(state, Event::Resolved(last.decision()));
            effects.extend(more);
        }
    }
    // A request that began before this gateway had the log may still be under way. Later ones wait for the batch.
    let hold = held.unwrap_or_else(|| coordinator.locks.exclusive_in_turn(plan.tables()));
    tracing::info!(batch = %record.id, decision = decision.map(Decision::name), "recovering an unfinished batch");
    let mut run = BatchRun::recovered(
        Arc::clone(coordinator),
        plan,
        record.intent,
        outcome,
        proofs,
        decision,
        hold,
    );
    run.resolved_before(record.resolutions);
    run.settled_before(decision, &record.settled);
    tokio::spawn(run.run(state, effects));
}

#[cfg(test)]
mod tests;
