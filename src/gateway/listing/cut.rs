//! The page of a listing that a request asks for, and the answer with that page.

use std::collections::BTreeSet;

use http::Response;
use serde::Serialize;

use super::merge::page;
use super::token::Scope;
use super::{Request, json};
use crate::body::Body;
use crate::error::Error;
use crate::protocol::operation::Operation;

/// The page of a listing that is requested.
pub(super) struct PageRequest<'a> {
    pub(super) scope: Scope<'a>,
    after: Option<String>,
    /// The largest number of names in the page; `None` if it is not limited.
    limit: Option<usize>,
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
        };
        let token = query.get("page_token")?.filter(|token| !token.is_empty());
        let after = token.map(|token| scope.open(&token)).transpose()?;
        let declared = query.get("include_declared")?;
        let filters = declared.map(|value| ("include_declared", value.into_owned()));
        Ok(Self {
            after,
            limit,
            filters: filters.into_iter().collect(),
            scope,
        })
    }

    pub(super) fn respond(&self, all: BTreeSet<String>) -> Response<Body> {
        #[derive(Serialize)]
        struct Listing {
            #[serde(skip_serializing_if = "Option::is_none")]
            namespaces: Option<Vec<String>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            tables: Option<Vec<String>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            page_token: Option<String>,
        }
        let page = page(all, self.after.as_deref(), self.limit);
        let last = page.names.last().filter(|_| page.more);
        let page_token = last.map(|last| self.scope.seal(last));
        let (namespaces, tables) = match self.scope.operation {
            Operation::ListNamespaces => (Some(page.names), None),
            _ => (None, Some(page.names)),
        };
        let listing = Listing {
            namespaces,
            tables,
            page_token,
        };
        let body = serde_json::to_vec(&listing).expect("strings can be written as JSON");
        json(body.into())
    }
}
