//! The page of a listing that a request asks for, and the answer with that page.

use http::Response;
use serde::Serialize;

use super::Request;
use super::answers::json;
use super::read_catalog::off_worker;
use super::token::{Position, Scope};
use crate::body::Body;
use crate::error::Error;
use crate::protocol::operation::Operation;

/// The number of names from which on they are sorted and written off the worker, where they take about 1 ms.
pub(super) const MANY: usize = 4096;

/// The page of a listing that is requested.
pub(super) struct PageRequest<'a> {
    pub(super) scope: Scope<'a>,
    /// The position at which the page begins; `None` for the first page.
    pub(super) from: Option<Position>,
    /// The largest number of names in the page; `None` if it is not limited.
    pub(super) limit: Option<usize>,
    /// True if the caller may not see every name.
    is_partial: bool,
    /// Further query parameters for the catalogs.
    pub(super) filters: Vec<(&'static str, String)>,
}

impl<'a> PageRequest<'a> {
    pub(super) fn of(request: &'a Request<'_>) -> Result<Self, Error> {
        let query = &request.query;
        let limit = query.get("limit")?.map(|raw| {
            let number: Result<i32, _> = raw.parse();
            number.map_err(|_| Error::invalid("`limit` must be an integer of 32 bits"))
        });
        // Real catalogs treat a negative limit as no limit.
        let limit = limit
            .transpose()?
            .and_then(|limit| usize::try_from(limit).ok());
        let scope = Scope {
            operation: request.operation,
            level: request.id,
            delimiter: request.query.delimiter()?,
            log: request.log,
        };
        let token = query.get("page_token")?.filter(|token| !token.is_empty());
        let is_partial = request.rights.is_some();
        let from = token.map(|token| scope.open(&token, is_partial));
        let from = from.transpose()?;
        let declared = query.get("include_declared")?;
        let filters = declared.map(|value| ("include_declared", value.into_owned()));
        Ok(Self {
            from,
            limit,
            is_partial,
            filters: filters.into_iter().collect(),
            scope,
        })
    }

    /// Answers with `names`, sorted and each once. `next` is the position of the next page.
    pub(super) async fn respond(
        &self,
        names: Vec<String>,
        next: Option<Position>,
    ) -> Result<Response<Body>, Error> {
        let next = next.map(|next| self.scope.seal(&next, self.is_partial));
        let next = next.transpose()?;
        let operation = self.scope.operation;
        let size = names.len();
        let body = off_worker(size >= MANY, move || write(operation, names, next)).await?;
        Ok(json(body.into()))
    }
}

/// Returns the answer as JSON.
fn write(operation: Operation, mut names: Vec<String>, page_token: Option<String>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Listing {
        #[serde(skip_serializing_if = "Option::is_none")]
        namespaces: Option<Vec<String>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tables: Option<Vec<String>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        page_token: Option<String>,
    }
    names.sort_unstable();
    names.dedup();
    let (namespaces, tables) = match operation {
        Operation::ListNamespaces => (Some(names), None),
        _ => (None, Some(names)),
    };
    let listing = Listing {
        namespaces,
        tables,
        page_token,
    };
    serde_json::to_vec(&listing).expect("strings can be written as JSON")
}
