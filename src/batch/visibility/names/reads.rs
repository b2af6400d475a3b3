//! Listings of the tables of one catalog, as a reader may see them.

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{Request, Response};

use super::filter::without;
use crate::backend::Backend;
use crate::batch::locks::TableKey;
use crate::batch::visibility::reads::{Question, unreadable, whole};
use crate::batch::{Batches, busy};
use crate::body::Body;
use crate::error::Error;
use crate::protocol::identifier::Identifier;
use crate::protocol::rename::{is_unfinished, mentions_unfinished};

/// The largest number of requests to a catalog for one listing, when names change while it lists them.
pub(crate) const ROUNDS: usize = 5;

/// The largest number of pages that are passed over in one listing because nothing on them can be shown.
const PAGES: usize = 100;

/// The scope of a listing.
pub enum Level<'a> {
    /// The tables right below a namespace, by their last names.
    Below(&'a Identifier),
    /// All tables of the catalog, their names joined by this delimiter.
    All(&'a str),
}

impl Batches {
    /// Sends a listing of tables and removes the hidden names from the answer, and those of tables that are still being
    /// written. A page may come out short. An empty one is followed by the next page, because many clients take an
    /// empty page for the last one.
    ///
    /// # Errors
    ///
    /// The catalog failed, its answer cannot be read, or names changed in every round (503).
    pub async fn list_tables(
        &self,
        backend: &Backend,
        level: Level<'_>,
        request: Request<Body>,
    ) -> Result<Response<Body>, Error> {
        let mut question = Question::new(request).await?;
        let (mut rounds, mut pages) = (0, 0);
        while rounds < ROUNDS {
            let since = self.names().moment();
            let (mut head, body) = question.clone().ask(backend).await?;
            let in_scope =
                |table: &TableKey| *table.backend == **backend.catalog() && level.has(table);
            let Some(hidden) = self.names().hidden_in(since, in_scope) else {
                rounds += 1;
                continue;
            };
            let has_hidden = !hidden.is_empty() || mentions_unfinished(&body);
            if !has_hidden || !head.status.is_success() {
                return Ok(Response::from_parts(head, Body::full(body)));
            }
            if head.headers.contains_key(CONTENT_ENCODING) {
                return Err(Error::unavailable(unreadable(backend)));
            }
            let hides = |table| {
                let backend = backend.catalog().clone();
                hidden.contains(&TableKey { backend, table })
            };
            let is_hidden = |name: &str| {
                is_unfinished(level.last(name)) || level.table(name).is_some_and(hides)
            };
            let shown = without(&body, is_hidden)
                .map_err(|error| Error::unavailable(unreadable(backend)).with_cause(error))?;
            let next = shown.as_ref().and_then(|shown| shown.next.as_deref());
            if let Some(next) = next.filter(|_| pages < PAGES) {
                pages += 1;
                question = question.with(None, Some(next.to_owned()))?;
                continue;
            }
            head.headers.remove(CONTENT_LENGTH);
            return Ok(whole(head, shown.map_or(body, |shown| shown.body.into())));
        }
        Err(unsettled())
    }
}

impl Level<'_> {
    fn has(&self, table: &TableKey) -> bool {
        match self {
            Self::Below(namespace) => table.table.parent().is_some_and(|at| at == **namespace),
            Self::All(_) => true,
        }
    }

    /// The table with this name in the listing; `None` if it is not a valid name.
    fn table(&self, name: &str) -> Option<Identifier> {
        match self {
            Self::Below(namespace) => namespace.join(name).ok(),
            Self::All(delimiter) => Identifier::parse(name, delimiter).ok(),
        }
    }

    /// The last part of a name in the listing.
    fn last<'n>(&self, name: &'n str) -> &'n str {
        match self {
            Self::Below(_) => name,
            Self::All(delimiter) => name.rsplit(delimiter).next().unwrap_or(name),
        }
    }
}

/// The error if names changed in every round.
pub(crate) fn unsettled() -> Error {
    busy("tables were renamed or removed several times during the listing; retry later")
}
