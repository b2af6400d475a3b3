//! Looks up the latest version of a table.

use std::collections::BTreeSet;

use super::answers::{LatestVersion, Numbers, is_absent, is_unsupported, latest_of, refusal};
use super::{CallerContext, Found, UnclearAnswer, silent, unreachable};
use crate::backend::{Backend, Failure, InternalAnswer};
use crate::batch::plan::Entry;
use crate::batch::step::{Finding, Refusal};
use crate::batch::visibility::TableBranch;
use crate::protocol::operation::Operation;

/// The largest number of pages that are read to see a second version: catalogs may have pages of one, or empty ones.
const PAGES: usize = 8;

/// Returns a table's latest version; 0 if it has none.
pub async fn latest(
    backend: &Backend,
    line: &TableBranch,
    caller: &CallerContext,
) -> Result<u64, Refusal> {
    let latest = latest_version(backend, line, caller).await?;
    Ok(latest.number)
}

/// Returns a table's latest version, and where its manifest is; the number 0 if it has none.
pub(super) async fn latest_version(
    backend: &Backend,
    line: &TableBranch,
    caller: &CallerContext,
) -> Result<LatestVersion, Refusal> {
    let answer = list_highest(backend, line, 1, None, caller).await;
    let answer = answer.map_err(|failure| unreachable(backend, &failure))?;
    latest_of(&answer).ok_or_else(|| refusal(backend.name(), &answer))
}

/// Returns a table's latest version; 0 also if the table is only declared.
pub(super) async fn versions(
    backend: &Backend,
    line: &TableBranch,
    caller: &CallerContext,
) -> Result<u64, Refusal> {
    let answer = list_highest(backend, line, 1, None, caller).await;
    let answer = answer.map_err(|failure| silent(backend, &failure))?;
    latest_or_none(backend, &answer)
}

/// Returns a table's latest version, 0 if it has none; `None` if its catalog lists no versions.
pub(super) async fn versions_if_listed(
    backend: &Backend,
    line: &TableBranch,
    caller: &CallerContext,
) -> Result<Option<u64>, Refusal> {
    let answer = list_highest(backend, line, 1, None, caller).await;
    let answer = answer.map_err(|failure| unreachable(backend, &failure))?;
    if is_unsupported(answer.status, &answer.body) {
        return Ok(None);
    }
    latest_or_none(backend, &answer).map(Some)
}

/// Returns the latest version in a listing; 0 if there is none, or no table.
fn latest_or_none(backend: &Backend, answer: &InternalAnswer) -> Result<u64, Refusal> {
    match latest_of(answer) {
        Some(latest) => Ok(latest.number),
        None if is_absent(answer) => Ok(0),
        None => Err(refusal(backend.name(), answer)),
    }
}

/// Returns a table's latest version, 0 if it has none, and whether its catalog lists no other one.
pub(super) async fn latest_and_alone(
    backend: &Backend,
    line: &TableBranch,
    caller: &CallerContext,
) -> Result<(u64, bool), Refusal> {
    let mut listed = BTreeSet::new();
    let mut token = None;
    for _ in 0..PAGES {
        let answer = list_highest(backend, line, 2, token, caller).await;
        let answer = answer.map_err(|failure| unreachable(backend, &failure))?;
        let page = Numbers::of(&answer).ok_or_else(|| refusal(backend.name(), &answer))?;
        listed.extend(page.versions);
        token = page.token;
        if listed.len() > 1 || token.is_none() {
            break;
        }
    }
    let latest = listed.last().copied().unwrap_or_default();
    Ok((latest, listed.len() < 2))
}

async fn list_highest(
    backend: &Backend,
    line: &TableBranch,
    limit: u8,
    token: Option<String>,
    caller: &CallerContext,
) -> Result<InternalAnswer, Failure> {
    let mut ask = caller.ask(Operation::ListTableVersions, &line.table.table);
    ask.query = vec![
        ("descending", "true".to_owned()),
        ("limit", limit.to_string()),
    ];
    if let Some(branch) = &line.branch {
        ask.query.push(("branch", branch.clone()));
    }
    ask.query.extend(token.map(|token| ("page_token", token)));
    backend.ask(ask).await
}

/// Looks for higher versions if the version that an entry creates was not found.
pub async fn look_above(
    entry: &Entry,
    found: Found,
    caller: &CallerContext,
) -> Result<Found, UnclearAnswer> {
    if let (Some(version), Finding::Absent) = (entry.version(), found.finding)
        && versions(&entry.backend, &entry.line, caller).await? > version
    {
        let finding = Finding::Buried;
        return Ok(Found { finding, ..found });
    }
    Ok(found)
}
