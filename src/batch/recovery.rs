//! What the log says is unfinished is taken over before anything is served, and finished while serving.

mod stranded;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Backend;
use crate::batch::coordinator::{Coordinator, Run, WATCH};
use crate::batch::locks::Hold;
use crate::batch::log::{BatchId, LogError, Record, Verdict};
use crate::batch::outcomes::{Answered, Outcome, Outcomes};
use crate::batch::plan::Plan;
use crate::batch::step::{Decision, Refusal, Settled, State};
use crate::batch::visibility::{Fate, Line};
use crate::protocol::error::Code;
use stranded::Stranded;

/// Reads the log; locks the tables and hides the versions of every unfinished batch; goes on with each in a task of its own.
///
/// Answers how many there were. A batch whose backend is not configured any more waits for it.
pub async fn recover(
    coordinator: &Arc<Coordinator>,
    outcomes: &Outcomes,
    backend: impl Fn(&str) -> Option<Arc<Backend>>,
) -> Result<usize, LogError> {
    let mut unfinished = 0;
    let records = coordinator.log.scan().await?;
    let made = made(&records);
    for mut record in records {
        let outcome = recall(outcomes, &record);
        for entry in let_go(&mut record, &made) {
            // Durable before the later batch may be forgotten.
            let log = &coordinator.log;
            log.note(record.id, entry, Settled::Theirs).await?;
        }
        if let Some(ended) = record.ended {
            rest(coordinator, &record, ended);
            continue;
        }
        unfinished += 1;
        match Plan::recovered(&record.intent, &backend) {
            Some(plan) => take_over(coordinator, plan, record, outcome, None).await,
            None => Stranded::begin(Arc::clone(coordinator), record, outcome).await,
        }
    }
    Ok(unfinished)
}

/// Who has made each version: the last batch that was committed with it.
fn made(records: &[Record]) -> HashMap<(Line, u64), BatchId> {
    let committed = |record: &&Record| matches!(record.verdict, Some(Verdict::Commit(_)));
    let versions = |record: &Record| {
        let entries = record.intent.entries.iter();
        let versions = entries.filter_map(|entry| Some((entry.line(), entry.version()?)));
        versions
            .map(|version| (version, record.id))
            .collect::<Vec<_>>()
    };
    records
        .iter()
        .filter(committed)
        .flat_map(versions)
        .collect()
}

/// A number that a later batch has used is not the earlier one's any more: it neither rests, nor is what is found there
/// a late create. Answers with the entries of which the log did not say so.
fn let_go(record: &mut Record, made: &HashMap<(Line, u64), BatchId>) -> Vec<usize> {
    let mut let_go = Vec::new();
    let entries = record.intent.entries.iter().zip(&mut record.settled);
    for (index, (entry, settled)) in entries.enumerate() {
        let free = matches!(settled, Some(Settled::Gone | Settled::Unseen));
        if let Some(version) = entry.version().filter(|_| free)
            && made
                .get(&(entry.line(), version))
                .is_some_and(|by| *by > record.id)
        {
            *settled = Some(Settled::Theirs);
            let_go.push(index);
        }
    }
    let_go
}

/// Ends a batch as it is, on a person's word.
async fn let_be(coordinator: &Coordinator, record: &Record) -> Result<(), LogError> {
    let (id, log) = (record.id, &coordinator.log);
    if record.verdict.is_none() {
        let reason = "an operator let the batch be".to_owned();
        let proofs = Vec::new();
        log.decide(id, Verdict::Abort { proofs, reason }).await?;
    }
    for (entry, settled) in record.settled.iter().enumerate() {
        if settled.is_none() {
            log.note(id, entry, Settled::Kept).await?;
        }
    }
    log.end(id, (coordinator.clock)()).await?;
    coordinator.open.remove(id);
    Ok(())
}

async fn take_over(
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
    let (state, effects) = State::recovered(plan.shape.clone(), decision, &record.settled);
    let tables: Vec<_> = plan.tables().collect();
    // Two batches that have something left to do never share a table, and one that has nothing left to do there gives it
    // back at once; a log in which they do is taken as far as it goes.
    let hold = match held {
        Some(held) => Ok(held),
        None => coordinator.locks.exclusive(tables, Duration::ZERO).await,
    };
    let hold = hold.unwrap_or_else(|_| {
        tracing::error!(batch = %record.id, "its tables are locked by another unfinished batch");
        Hold::none(&coordinator.locks)
    });
    tracing::info!(batch = %record.id, ?decision, "an unfinished batch is being finished");
    let mut run = Run::recovered(
        Arc::clone(coordinator),
        plan,
        record.intent,
        outcome,
        proofs,
        decision,
        hold,
    );
    run.resolved_before(record.resolutions);
    tokio::spawn(run.run(state, effects));
}

/// What is known of the batch is told to whoever asks again.
fn recall(outcomes: &Outcomes, record: &Record) -> Arc<Outcome> {
    let entries = record.intent.entries.iter();
    let tables = entries.map(|entry| entry.line().table).collect();
    let fingerprint = record.intent.fingerprint.clone();
    let outcome = Arc::new(Outcome::new(record.id, fingerprint, tables));
    match &record.verdict {
        None => {}
        Some(Verdict::Commit(versions)) => outcome.set(Answered::Committed(versions.clone())),
        Some(Verdict::Abort { reason, .. }) => outcome.set(Answered::Refused {
            refusal: Refusal {
                status: 409,
                code: Code::ConcurrentModification,
                message: reason.clone(),
            },
            written: true,
        }),
    }
    outcomes.recall(record.intent.idempotency.clone(), &outcome);
    outcome
}

/// The numbers that a batch freed shortly before the stop go on resting.
fn rest(coordinator: &Coordinator, record: &Record, ended: u64) {
    let mut since = Duration::from_millis((coordinator.clock)().saturating_sub(ended));
    if record.settled.contains(&Some(Settled::Unseen)) {
        // It ended when it had been watched for long enough; somebody may have used its numbers since.
        since += WATCH;
    }
    let rest = coordinator.settings().slot_cooldown.saturating_sub(since);
    if rest.is_zero() || !matches!(record.verdict, Some(Verdict::Abort { .. })) {
        return;
    }
    let fate = Fate::default();
    for (entry, settled) in record.intent.entries.iter().zip(&record.settled) {
        let gone = matches!(settled, Some(Settled::Gone | Settled::Unseen));
        if let Some(version) = entry.version().filter(|_| gone) {
            let line = entry.line();
            let visibility = &coordinator.visibility;
            visibility.hide(line.clone(), version, &fate);
            visibility.release(&line, version, &fate, rest, None);
        }
    }
}
