//! The content of a merged listing: pure decisions over names that catalogs have listed.

use crate::protocol::identifier::{Identifier, IdentifierError};
use crate::protocol::query::DEFAULT_DELIMITER;
use crate::route::{Mount, Table};

/// Returns the tables of `listed`, right below `level`, without those that a mount below shadows.
pub(super) fn tables(routes: &Table, level: &Identifier, mut listed: Vec<String>) -> Vec<String> {
    let owner = routes.find(level).map(|mount| &mount.namespace);
    listed.retain(|name| {
        // A name that is not valid in an identifier cannot be the name of a mount.
        level.join(name).map_or(true, |id| {
            routes.find(&id).map(|mount| &mount.namespace) == owner
        })
    });
    listed
}

/// Returns a backend's tables as clients must spell them. `mounts` are those of the backend, `listed` its identifiers,
/// joined by the default delimiter. They are spelled with `delimiter`.
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
        let there = Identifier::parse(text, DEFAULT_DELIMITER)?;
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

#[cfg(test)]
mod tests;
