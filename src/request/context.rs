//! What the layers learn of a request, on its way in.

use std::sync::Arc;

use http::Extensions;

use super::RequestRecord;
use super::peer::Peer;
use crate::protocol::context::Context;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;
use crate::protocol::principal::Principal;

/// What is known of a request so far, each fact by the layer that learns it. One request extension for all of them:
/// each extension costs every request memory of its own and a place in a table.
#[derive(Clone, Default)]
pub struct RequestContext {
    /// Who is at the other end of the connection.
    pub peer: Option<Peer>,
    /// The record of the request and its answer.
    pub exchange: Option<Arc<RequestRecord>>,
    /// What is asked.
    pub operation: Option<Operation>,
    /// What the path names: as the client spells it, and once it is on its way to a catalog as the catalog does.
    pub identifier: Option<Identifier>,
    /// Whether the path spells its identifier with the delimiter that catalogs have by themselves.
    pub has_default_delimiter: Option<bool>,
    /// Who asks.
    pub principal: Option<Principal>,
    /// What accompanies it.
    pub context: Option<Context>,
    /// Why no server may take it for a request.
    pub malformed: Option<&'static str>,
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
};

impl RequestContext {
    /// What is known of a request with these extensions.
    pub fn of(extensions: &Extensions) -> &Self {
        extensions.get().unwrap_or(&NOTHING)
    }

    /// The same, for whoever knows more.
    pub fn more(extensions: &mut Extensions) -> &mut Self {
        extensions.get_or_insert_default()
    }

    /// Adds what concerns a catalog as extensions of their own, for those that do not know of this type.
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
