//! Removes objects at a catalog (those that an aborted batch created, those that a committed one removes), and decides
//! whether an answer means that they are gone.

use std::ops::ControlFlow;

use super::answers::{Numbers, is_absent, is_definite, refusal};
use super::{CallerContext, body, silent, table};
use crate::backend::{Failure, InternalAnswer};
use crate::batch::log::{Action, VersionRange};
use crate::batch::plan::Entry;
use crate::batch::step::Refusal;
use crate::protocol::operation::Operation;

/// The outcome of a removal.
#[derive(Clone, Debug)]
pub enum Removal {
    /// The catalog answered that it removed the object, or that it does not exist.
    Done,
    /// The catalog was not reached.
    Unsent(Refusal),
    /// The catalog refused definitely.
    Refused(Refusal),
    /// The catalog may still carry it out.
    Lost(Refusal),
}

/// The largest number of pages that are read to check that versions are gone.
const PAGES: usize = 1000;
/// The number of versions that is asked for on a page. Catalogs may have pages of 10 otherwise.
const ON_A_PAGE: usize = 1000;

/// Removes exactly the object that the entry created. The result must be checked with another request, whatever the
/// answer is.
pub async fn delete(entry: &Entry, caller: &CallerContext) -> Removal {
    let answer = match entry.version() {
        Some(version) => {
            let Some(end) = version.checked_add(1) else {
                return Removal::Done;
            };
            let start = version;
            delete_versions(entry, &[VersionRange { start, end }], caller).await
        }
        None => deregister(entry, caller).await,
    };
    removal(entry, answer)
}

/// Removes the versions or the name that the entry removes. A repetition does no harm as long as no other table has the
/// name.
pub async fn remove(entry: &Entry, caller: &CallerContext) -> Removal {
    let (answer, gone) = match &entry.action {
        Action::DeleteVersions { ranges } => {
            let answer = delete_versions(entry, ranges, caller).await;
            (answer, ControlFlow::Continue(ranges))
        }
        _ => (deregister(entry, caller).await, ControlFlow::Break(())),
    };
    match removal(entry, answer) {
        Removal::Done => {}
        undone => return undone,
    }
    // The catalog's answer alone is not enough: some catalogs find tables in storage, even if they were deregistered.
    let seen = match gone {
        ControlFlow::Continue(ranges) => lacks_versions(entry, ranges, caller).await,
        ControlFlow::Break(()) => lacks_table(entry, caller).await,
    };
    seen.map_or_else(Removal::Lost, |()| Removal::Done)
}

/// Classifies the answer to a removal. Server errors and a proxy's 404 do not say that the catalog has not acted, nor
/// that it will not.
fn removal(entry: &Entry, answer: Result<InternalAnswer, Failure>) -> Removal {
    let backend = &entry.backend;
    let answer = match answer {
        Ok(answer) => answer,
        Err(failure) if failure.may_have_acted() => {
            return Removal::Lost(silent(backend, &failure));
        }
        Err(failure) => return Removal::Unsent(silent(backend, &failure)),
    };
    let refusal = || refusal(backend.name(), &answer);
    match answer.status {
        status if status.is_success() || is_absent(&answer) => Removal::Done,
        status if is_definite(status, &answer.body) => Removal::Refused(refusal()),
        _ => Removal::Lost(refusal()),
    }
}

async fn lacks_table(entry: &Entry, caller: &CallerContext) -> Result<(), Refusal> {
    let Entry { backend, line, .. } = entry;
    match table(backend, line, caller).await? {
        None => Ok(()),
        Some(_) => Err(Refusal::conflict(format!(
            "backend `{}` still has table {}, although it was deregistered there",
            backend.name(),
            line.table.table
        ))),
    }
}

async fn lacks_versions(
    entry: &Entry,
    ranges: &[VersionRange],
    caller: &CallerContext,
) -> Result<(), Refusal> {
    let Entry { backend, line, .. } = entry;
    let mut token = None;
    for _ in 0..PAGES {
        let mut ask = caller.ask(Operation::ListTableVersions, &line.table.table);
        ask.query.push(("limit", ON_A_PAGE.to_string()));
        ask.query
            .extend(line.branch.iter().map(|branch| ("branch", branch.clone())));
        ask.query.extend(token.map(|token| ("page_token", token)));
        let answer = backend.ask(ask).await;
        let answer = answer.map_err(|failure| silent(backend, &failure))?;
        if is_absent(&answer) {
            return Ok(());
        }
        let numbers = Numbers::of(&answer).ok_or_else(|| refusal(backend.name(), &answer))?;
        let is_removed = |version: &&u64| {
            let mut ranges = ranges.iter();
            ranges.any(|range| (range.start..range.end).contains(*version))
        };
        if let Some(version) = numbers.versions.iter().find(is_removed) {
            return Err(Refusal::conflict(format!(
                "backend `{}` still has version {version} of table {}, although it was deleted there",
                backend.name(),
                line.table.table
            )));
        }
        token = numbers.token;
        if token.is_none() {
            return Ok(());
        }
    }
    Err(Refusal::conflict(format!(
        "table {} has too many versions to check that the deleted ones are gone",
        line.table.table
    )))
}

pub(super) async fn deregister(
    entry: &Entry,
    caller: &CallerContext,
) -> Result<InternalAnswer, Failure> {
    let mut ask = caller.ask(Operation::DeregisterTable, &entry.line.table.table);
    ask.body = Some(body(&entry.line, &[]));
    entry.backend.ask(ask).await
}

async fn delete_versions(
    entry: &Entry,
    ranges: &[VersionRange],
    caller: &CallerContext,
) -> Result<InternalAnswer, Failure> {
    let ranges = ranges
        .iter()
        .map(|VersionRange { start, end }| serde_json::json!({"start_version": start, "end_version": end}));
    let ranges: Vec<_> = ranges.collect();
    let table = &entry.line.table.table;
    let mut ask = caller.ask(Operation::BatchDeleteTableVersions, table);
    ask.body = Some(body(&entry.line, &[("ranges", ranges.into())]));
    entry.backend.ask(ask).await
}
