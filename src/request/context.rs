//! The facts that the layers learn about a request on its way in.

use std::sync::Arc;

use http::Extensions;
use tokio::time::Instant;

use super::RequestRecord;
use super::peer::Peer;
use crate::protocol::context::Context;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;
use crate::protocol::principal::Principal;

/// The facts that are known about a request so far, each noted by the layer that learns it. All are in one request
/// extension, because each extension costs every request memory of its own and a place in a table.
#[derive(Clone, Default)]
pub struct RequestContext {
    /// The client at the other end of the connection.
    pub peer: Option<Peer>,
    /// The record of the request and its response.
    pub exchange: Option<Arc<RequestRecord>>,
    /// The operation that the client requests.
    pub operation: Option<Operation>,
    /// The identifier in the path: as the client spells it, and as the catalog spells it once the request is on its
    /// way there.
    pub identifier: Option<Identifier>,
    /// True if the path spells its identifier with the delimiter that is the catalogs' default.
    pub has_default_delimiter: Option<bool>,
    /// The caller.
    pub principal: Option<Principal>,
    /// The context that accompanies the request.
    pub context: Option<Context>,
    /// The reason why the request is malformed, and must be refused.
    pub malformed: Option<&'static str>,
    /// True if the answer must not hold the keys of the table's storage.
    pub lacks_credentials: bool,
    /// True if another gateway has passed the request on.
    pub is_passed_on: bool,
    /// The time at which the request came, if it has waited for an owner of the batch log since.
    pub came: Option<Instant>,
}

static NOTHING: RequestContext = RequestContext {
    peer: None,
    exchange: None,
    operation: None,
    identifier: None,
    has_default_delimiter: None,
    principal: None,
    context: None,
    malformed: None,
    lacks_credentials: false,
    is_passed_on: false,
    came: None,
};

impl RequestContext {
    /// The time at which the request came; the present one if it has not waited for an owner of the batch log.
    pub fn came(&self) -> Instant {
        self.came.unwrap_or_else(Instant::now)
    }

    /// Returns the facts in these extensions; without any, an empty set.
    pub fn of(extensions: &Extensions) -> &Self {
        extensions.get().unwrap_or(&NOTHING)
    }

    /// Returns the facts in these extensions, to add more.
    pub fn more(extensions: &mut Extensions) -> &mut Self {
        extensions.get_or_insert_default()
    }

    /// Adds the facts that concern a catalog as extensions of their own, for readers that do not know this type.
    pub fn spread(extensions: &mut Extensions) {
        let known = Self::of(extensions).clone();
        set(extensions, known.peer);
        set(extensions, known.operation);
        set(extensions, known.identifier);
        set(extensions, known.context);
    }
}

fn set<T: Clone + Send + Sync + 'static>(extensions: &mut Extensions, fact: Option<T>) {
    if let Some(fact) = fact {
        extensions.insert(fact);
    }
}
