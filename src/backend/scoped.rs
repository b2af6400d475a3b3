//! The part of a catalog's data that requests over a connection are about.

use std::sync::Arc;

use http::HeaderMap;

use super::Backend;
use crate::error::Error;
use crate::protocol::context::Context;
use crate::protocol::data_scope::{DataScope, Selectors};

impl Backend {
    /// Returns the part of the catalog's data that requests over this connection are about; empty for most catalogs.
    pub fn scope(&self) -> &DataScope {
        &self.scope
    }

    /// Returns the connection for requests with this context and these headers; `None` if nothing in them selects data,
    /// so that it is this one.
    ///
    /// # Errors
    /// 400, code 13, for values that cannot be compared.
    pub fn seen_by(
        self: &Arc<Self>,
        context: Option<&Context>,
        headers: &HeaderMap,
    ) -> Result<Option<Arc<Self>>, Error> {
        let scope = DataScope::of(&self.to.selectors, context, headers)?;
        Ok((!scope.is_empty()).then(|| self.in_scope(&scope)))
    }

    /// Returns the same connection for this part of the catalog's data.
    pub fn in_scope(self: &Arc<Self>, scope: &DataScope) -> Arc<Self> {
        if self.scope == *scope {
            return Arc::clone(self);
        }
        Arc::new(Self {
            catalog: Arc::clone(&self.catalog),
            addresses: Arc::clone(&self.addresses),
            scope: scope.clone(),
            to: Arc::clone(&self.to),
        })
    }

    /// Returns true if both are one connection, whatever part of the data they are about.
    pub fn is_same_connection(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.to, &other.to)
    }

    /// Returns the parts of requests that select the data of the catalog.
    pub fn selectors(&self) -> &Selectors {
        &self.to.selectors
    }
}
