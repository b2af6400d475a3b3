//! Whether the caller may: what the path names is decided here; what only the body names, where the body is read.
//!
//! Requests of the latter kind go on with their caller's [`Rights`].

use std::sync::{Arc, LazyLock};

use http::{Request, Uri};
use tower::Layer;

use super::guard::{Guard, GuardService};
use crate::auth::access::{Rights, Rules};
use crate::body::Body;
use crate::error::Error;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Access, Kind, Operation};
use crate::protocol::principal::Principal;
use crate::protocol::query::{DEFAULT_DELIMITER, Query};
use crate::request::context::RequestContext;

static ROOT: LazyLock<Identifier> = LazyLock::new(Identifier::root);

/// How much of a request its path decides.
#[derive(PartialEq)]
enum PathDecision {
    Whole,
    InPart,
}

/// Makes [`Authorize`].
#[derive(Clone, Debug)]
pub struct AuthorizeLayer(Option<Arc<Rules>>);

/// The service. Sets the extension [`Rights`] where something is left to decide.
pub type Authorize<S> = GuardService<S, AuthorizeLayer>;

impl AuthorizeLayer {
    /// Holds callers to `rules`; without any, everyone may do everything.
    pub fn new(rules: Option<Arc<Rules>>) -> Self {
        Self(rules)
    }
}

impl<S> Layer<S> for AuthorizeLayer {
    type Service = Authorize<S>;

    fn layer(&self, inner: S) -> Authorize<S> {
        GuardService::new(inner, self.clone())
    }
}

impl Guard for AuthorizeLayer {
    fn admit(&self, request: &mut Request<Body>) -> Result<(), Error> {
        match &self.0 {
            Some(rules) => decide(rules, request),
            None => Ok(()),
        }
    }
}

fn decide(rules: &Arc<Rules>, request: &mut Request<Body>) -> Result<(), Error> {
    let learned = RequestContext::of(request.extensions());
    let (Some(operation), Some(caller)) = (learned.operation, &learned.principal) else {
        return Err(misplaced());
    };
    let id = match operation.kind() {
        Some(_) => learned.identifier.as_ref().ok_or_else(misplaced)?,
        None => &ROOT,
    };
    let decided = match operation.kind() {
        Some(Kind::Transaction) => {
            transaction(rules, caller, operation.access(), id, request.uri())?
        }
        _ => by_path(rules, caller, operation, id)?,
    };
    if decided == PathDecision::InPart {
        let rights = Rights::new(Arc::clone(rules), caller.clone());
        request.extensions_mut().insert(rights);
    }
    Ok(())
}

fn by_path(
    rules: &Rules,
    caller: &Principal,
    operation: Operation,
    id: &Identifier,
) -> Result<PathDecision, Error> {
    use Operation as Op;
    match operation {
        Op::BatchCreateTableVersions | Op::BatchCommitTables => return Ok(PathDecision::InPart),
        Op::RenameTable => {
            rules.decide(caller, Access::Write, id)?;
            return Ok(PathDecision::InPart);
        }
        Op::ListNamespaces | Op::ListTables | Op::ListAllTables => {
            // What leads to something that may be read is listed, without the rest.
            if !rules.shows(caller, id) {
                rules.decide(caller, Access::Read, id)?;
            }
            if !rules.allows_all(caller, Access::Read, id) {
                return Ok(PathDecision::InPart);
            }
        }
        // Its name is in the listing of what is above it.
        Op::NamespaceExists if rules.shows(caller, id) => {}
        // `version` in `/v1/table/version/batch-create` is no table; what is like it in a newer contract may be about
        // any tables at all.
        Op::Unlisted(Kind::Table) if id.len() < 2 => {
            rules.decide(caller, Access::Write, &ROOT)?;
            return Ok(PathDecision::InPart);
        }
        // What it acts on is decided where its catalog is known.
        Op::Unlisted(_) => {
            rules.decide(caller, Access::Write, id)?;
            return Ok(PathDecision::InPart);
        }
        // Nothing is below a new namespace; what overwrites one is told by its body.
        Op::CreateNamespace => {
            rules.decide_at(caller, Access::Write, id)?;
            if rules.decide(caller, Access::Write, id).is_err() {
                return Ok(PathDecision::InPart);
            }
        }
        _ => rules.decide(caller, operation.access(), id)?,
    }
    Ok(PathDecision::Whole)
}

/// A name alone does not say which tables a transaction is about.
fn transaction(
    rules: &Rules,
    caller: &Principal,
    access: Access,
    id: &Identifier,
    uri: &Uri,
) -> Result<PathDecision, Error> {
    if id.len() < 2 {
        // Whoever may write, but not read, may ask what became of it.
        let has = |access| rules.leads_to(caller, access, &ROOT);
        if !has(access) && !has(Access::Write) {
            rules.decide(caller, access, &ROOT)?;
        }
        return Ok(PathDecision::InPart);
    }
    rules.decide(caller, access, id)?;
    // Split by some other delimiter, it may be a name alone to the catalog.
    if Query::new(uri.query()).delimiter()? != DEFAULT_DELIMITER {
        rules.decide(caller, Access::Write, &ROOT)?;
    }
    // As it may be where the mount has another root, which only the gateway knows.
    Ok(PathDecision::InPart)
}

fn misplaced() -> Error {
    Error::internal(
        "the gateway is put together wrongly",
        "authorize stands before what it needs to know",
    )
}
