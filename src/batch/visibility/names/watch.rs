//! The names that one listing of a catalog may show, from its first byte to its last.
//!
//! A listing may take as long as its client likes, and batches must not wait for it. So it shows the names as they were
//! when it began, whatever batches do meanwhile:
//!
//! - A name that a batch makes is hidden before the catalog can list it. It stays out of the listing, whether the batch
//!   commits or is undone.
//! - A name that a batch removes goes away at its catalog after the commit. The catalog may list it no more, and its new
//!   name, if the batch renames it, stays out of this listing. So the listing ends: its client asks again. A name whose
//!   removal was committed before the listing began stays out of it.
//! - A name that a batch gives back to readers may have been there all the time. The listing ends, too.
//!
//! The names of tables that are being written are in no listing, so nothing that becomes of them ends one.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;

use super::reads::Level;
use super::{Effect, MissedChange, Names, NamesEpoch};
use crate::batch::locks::TableKey;
use crate::batch::visibility::list_filter::{Judgement, View};
use crate::protocol::data_scope::DataScope;
use crate::protocol::identifier::Identifier;
use crate::protocol::query::DEFAULT_DELIMITER;
use crate::protocol::rename::is_unfinished;

/// The most names that are kept out of one listing although readers may see them by now.
const OUTDATED: usize = 65_536;

/// The names that are kept out of one listing, in its spelling.
pub(super) struct ListedNames {
    names: Names,
    catalog: Arc<str>,
    scope: DataScope,
    level: Level,
    /// The moment of the last look; at first that before the request to the catalog.
    looked: NamesEpoch,
    hidden: HashSet<String>,
}

/// The error of a listing that cannot go on, because batches removed names of it or gave some back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NamesChanged;

impl ListedNames {
    /// Begins a listing of the catalog, of this part of its data; to be called before the request is sent to it.
    pub(super) fn of(names: &Names, catalog: &Arc<str>, scope: &DataScope, level: Level) -> Self {
        let mut listed = Self {
            names: names.clone(),
            catalog: Arc::clone(catalog),
            scope: scope.clone(),
            level,
            looked: names.moment(),
            hidden: HashSet::new(),
        };
        if listed.looked.has_some() {
            let state = names.read();
            listed.looked = names.moment();
            listed.hide_all(state.hidden());
        }
        listed
    }

    /// Looks which names are hidden; to be called when a piece of the catalog's answer has arrived, before it is shown.
    ///
    /// # Errors
    ///
    /// The listing must not go on.
    pub(super) fn look(&mut self) -> Result<(), NamesChanged> {
        if self.names.moment() == self.looked {
            return Ok(());
        }
        let names = self.names.clone();
        let state = names.read();
        for change in state.since(self.looked).ok_or(NamesChanged)? {
            self.follow(change)?;
        }
        self.looked = names.moment();
        self.hide_all(state.hidden());
        if self.hidden.len() > state.slots.len() + OUTDATED {
            return Err(NamesChanged);
        }
        Ok(())
    }

    /// True if names are kept out of the listing.
    pub(super) fn hides_some(&self) -> bool {
        !self.hidden.is_empty()
    }

    fn follow(&mut self, change: &MissedChange) -> Result<(), NamesChanged> {
        let Some(name) = self.spell(&change.table) else {
            return Ok(());
        };
        match change.effect {
            Effect::Made => {
                self.hidden.insert(name);
                Ok(())
            }
            Effect::Removed if self.hidden.contains(&name) => Ok(()),
            Effect::Removed | Effect::GivenBack => Err(NamesChanged),
        }
    }

    fn hide_all<'a>(&mut self, tables: impl Iterator<Item = &'a TableKey>) {
        for table in tables {
            if let Some(name) = self.spell(table) {
                self.hidden.insert(name);
            }
        }
    }

    /// Returns the name of a table in the listing; `None` if the listing cannot have it.
    fn spell(&self, table: &TableKey) -> Option<String> {
        if (&table.backend, &table.scope) != (&self.catalog, &self.scope)
            || table.table.last().is_some_and(is_unfinished)
        {
            return None;
        }
        match &self.level {
            Level::Below(namespace) => {
                let is_below = table.table.parent().as_ref() == Some(namespace);
                let name = table.table.last().filter(|_| is_below);
                name.map(str::to_owned)
            }
            Level::All => {
                let names: Vec<&str> = table.table.names().collect();
                let name = names.join(DEFAULT_DELIMITER);
                // The same text can be another table, if the delimiter is in a name.
                let parsed = Identifier::parse(&name, DEFAULT_DELIMITER);
                let is_its_own = parsed.as_ref() == Ok(&table.table);
                is_its_own.then_some(name)
            }
        }
    }
}

impl View for ListedNames {
    fn is_all(&self) -> bool {
        !self.hides_some()
    }

    /// Names that were shown are never hidden later.
    fn is_overtaken(&self, _: u64) -> bool {
        false
    }

    fn judge(&self, element: &[u8]) -> Option<Judgement> {
        #[derive(Deserialize)]
        struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

        let is_shown = match serde_json::from_slice(element) {
            Ok(Name(name)) => {
                !is_unfinished(self.level.last(&name)) && !self.hidden.contains(&*name)
            }
            Err(_) if self.is_all() => true,
            Err(_) => return None,
        };
        let number = 0;
        Some(Judgement { is_shown, number })
    }
}

#[cfg(test)]
mod tests;
