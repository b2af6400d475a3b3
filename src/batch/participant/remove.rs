//! What goes: what an aborted batch made is taken back, what a committed one removes is removed.

use super::answers::{is_absent, refusal};
use super::{Asker, body, conflict, silent, table};
use crate::backend::{Answer, Failure};
use crate::batch::log::{Action, VersionRange};
use crate::batch::plan::Entry;
use crate::batch::step::Refusal;
use crate::protocol::operation::Operation;

/// Asks for what the entry made to be taken back: exactly that. What came of it is found out by asking for it, whatever
/// the answer is.
pub async fn delete(entry: &Entry, asker: &Asker) -> Result<(), Refusal> {
    let undone = match entry.version() {
        Some(version) => {
            let Some(end) = version.checked_add(1) else {
                return Ok(());
            };
            let start = version;
            delete_versions(entry, &[VersionRange { start, end }], asker).await
        }
        None => deregister(entry, asker).await,
    };
    done(entry, undone)
}

/// Removes what the entry removes; an error if it is not gone. Asking again does no harm.
pub async fn remove(entry: &Entry, asker: &Asker) -> Result<(), Refusal> {
    if let Action::DeleteVersions { ranges } = &entry.action {
        return done(entry, delete_versions(entry, ranges, asker).await);
    }
    done(entry, deregister(entry, asker).await)?;
    is_gone(entry, asker).await
}

fn done(entry: &Entry, answer: Result<Answer, Failure>) -> Result<(), Refusal> {
    let backend = &entry.backend;
    let answer = answer.map_err(|failure| silent(backend, &failure))?;
    if answer.status.is_success() || is_absent(&answer) {
        return Ok(());
    }
    Err(refusal(backend.name(), &answer))
}

/// Some catalogs find tables in storage, whatever has been deregistered: their word alone is not enough.
async fn is_gone(entry: &Entry, asker: &Asker) -> Result<(), Refusal> {
    let Entry { backend, line, .. } = entry;
    match table(backend, line, asker).await? {
        None => Ok(()),
        Some(_) => Err(conflict(format!(
            "backend `{}` still has table {}, although it was deregistered there",
            backend.name(),
            line.table.table
        ))),
    }
}

pub(super) async fn deregister(entry: &Entry, asker: &Asker) -> Result<Answer, Failure> {
    let mut ask = asker.ask(Operation::DeregisterTable, &entry.line.table.table);
    ask.body = Some(body(&entry.line, &[]));
    entry.backend.ask(ask).await
}

async fn delete_versions(
    entry: &Entry,
    ranges: &[VersionRange],
    asker: &Asker,
) -> Result<Answer, Failure> {
    let ranges = ranges
        .iter()
        .map(|VersionRange { start, end }| serde_json::json!({"start_version": start, "end_version": end}));
    let ranges: Vec<_> = ranges.collect();
    let table = &entry.line.table.table;
    let mut ask = asker.ask(Operation::BatchDeleteTableVersions, table);
    ask.body = Some(body(&entry.line, &[("ranges", ranges.into())]));
    entry.backend.ask(ask).await
}
