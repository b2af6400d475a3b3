//! Listings of the tables of one catalog, as a reader may see them.

use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderValue, Request, Response};

use super::filter::without;
use crate::backend::Backend;
use crate::batch::locks::TableKey;
use crate::batch::visibility::reads::{Question, unreadable, whole};
use crate::batch::{Batches, busy};
use crate::body::Body;
use crate::error::Error;
use crate::protocol::identifier::Identifier;

/// The largest number of requests to a catalog for one listing, when names change while it lists them.
pub(crate) const ROUNDS: usize = 5;

/// The scope of a listing.
pub enum Level<'a> {
    /// The tables right below a namespace, by their last names.
    Below(&'a Identifier),
    /// All tables of the catalog, their names joined by this delimiter.
    All(&'a str),
}

impl Batches {
    /// Sends a listing of tables and removes the hidden names from the answer. A page may come out short.
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
        let mut question = Question::read(request).await?;
        for _ in 0..ROUNDS {
            let since = self.names().moment();
            let (mut head, body) = question.clone().ask(backend).await?;
            let in_scope =
                |table: &TableKey| *table.backend == **backend.catalog() && level.has(table);
            let Some(hidden) = self.names().hidden_in(since, in_scope) else {
                continue;
            };
            if hidden.is_empty() || !head.status.is_success() {
                return Ok(Response::from_parts(head, Body::full(body)));
            }
            if head.headers.contains_key(CONTENT_ENCODING) {
                let identity = HeaderValue::from_static("identity");
                let before = question.parts.headers.insert(ACCEPT_ENCODING, identity);
                if before.is_some_and(|before| before == "identity") {
                    return Err(Error::unavailable(unreadable(backend)));
                }
                continue;
            }
            let is_hidden = |name: &str| {
                let table = level.table(name);
                table.is_some_and(|table| {
                    hidden.contains(&TableKey {
                        backend: backend.catalog().clone(),
                        table,
                    })
                })
            };
            let shown = without(&body, is_hidden)
                .map_err(|error| Error::unavailable(unreadable(backend)).with_cause(error))?;
            head.headers.remove(CONTENT_LENGTH);
            return Ok(whole(head, shown.map_or(body, Into::into)));
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
}

/// The error if names changed in every round.
pub(crate) fn unsettled() -> Error {
    busy("tables were renamed or removed several times during the listing; retry later")
}
