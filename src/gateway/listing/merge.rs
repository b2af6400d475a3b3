//! The content of a merged listing: pure decisions over names that catalogs have listed.

use std::collections::BTreeSet;

use crate::protocol::identifier::{Identifier, IdentifierError};
use crate::route::{Mount, Table};

/// One page of a listing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) names: Vec<String>,
    /// True if there are more names after the last of `names`.
    pub(super) more: bool,
}

/// Returns the namespaces right below `level`: those that its owner lists, and those that lead to mounts.
pub(super) fn namespaces(
    routes: &Table,
    level: &Identifier,
    listed: Vec<String>,
) -> BTreeSet<String> {
    let mut all: BTreeSet<String> = listed.into_iter().collect();
    all.extend(routes.next_names_below(level).into_iter().map(String::from));
    all
}

/// Returns the tables right below `level`: those that its owner lists, without those that a mount below shadows.
pub(super) fn tables(routes: &Table, level: &Identifier, listed: Vec<String>) -> BTreeSet<String> {
    let owner = routes.find(level).map(|mount| &mount.namespace);
    let is_owners = |name: &String| {
        // A name that is not valid in an identifier cannot be the name of a mount.
        level.join(name).map_or(true, |id| {
            routes.find(&id).map(|mount| &mount.namespace) == owner
        })
    };
    listed.into_iter().filter(is_owners).collect()
}

/// Returns a backend's tables as clients must spell them. `mounts` are those of the backend, `listed` its identifiers,
/// joined by `delimiter` as in the answer.
///
/// Omits a table that is hidden, that must not be shown (in the client's spelling), that no mount serves, or that a
/// mount of another backend shadows. Fails if a table cannot be spelled with this delimiter: without it the listing
/// would be silently incomplete, and with another spelling clients could not request it.
pub(super) fn all_tables(
    routes: &Table,
    mounts: &[&Mount],
    listed: &[String],
    delimiter: &str,
    is_hidden: impl Fn(&Identifier) -> bool,
    is_shown: impl Fn(&Identifier) -> bool,
) -> Result<Vec<String>, IdentifierError> {
    let mut spelled = Vec::new();
    for text in listed {
        let there = Identifier::parse(text, delimiter)?;
        if is_hidden(&there) {
            continue;
        }
        for mount in mounts {
            let Some(here) = mount.to_client(&there) else {
                continue;
            };
            let owner = routes.find(&here).map(|owner| &owner.namespace);
            // Checks the permission before spelling the name, because a spelling error contains it.
            if owner == Some(&mount.namespace) && is_shown(&here) {
                spelled.push(here.to_text(delimiter)?);
            }
        }
    }
    Ok(spelled)
}

/// Returns the page after `after`, with at most `limit` names.
pub(super) fn page(all: BTreeSet<String>, after: Option<&str>, limit: Option<usize>) -> Page {
    let mut rest = all
        .into_iter()
        .skip_while(|name| after.is_some_and(|after| name.as_str() <= after));
    let names: Vec<String> = match limit {
        Some(limit) => rest.by_ref().take(limit).collect(),
        None => rest.by_ref().collect(),
    };
    let more = !names.is_empty() && rest.next().is_some();
    Page { names, more }
}

#[cfg(test)]
mod tests;
