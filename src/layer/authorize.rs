//! Decides which permission an operation needs, and whether the caller has it for the names in the path.
//!
//! Names that only the body holds are decided where the body is read. Such requests go on with their caller's
//! [`Rights`].

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
use crate::request::RequestRecord;
use crate::request::context::RequestContext;

static ROOT: LazyLock<Identifier> = LazyLock::new(Identifier::root);

/// The extent to which the path decides about a request.
#[derive(PartialEq)]
enum PathDecision {
    Whole,
    InPart,
}

/// Makes [`Authorize`].
#[derive(Clone, Debug)]
pub struct AuthorizeLayer(Option<Arc<Rules>>);

/// The service. Sets the extension [`Rights`] if something is left to decide.
pub type Authorize<S> = GuardService<S, AuthorizeLayer>;

impl AuthorizeLayer {
    /// Applies `rules` to callers; `None` lets every caller do everything.
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
    if operation == Operation::DescribeTable
        && let Some(gives) = rules.credentials_for(caller, id)
    {
        RequestContext::more(request.extensions_mut()).lacks_credentials = !gives;
        if gives {
            RequestRecord::of(request).gives();
        }
        return Ok(());
    }
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
        Op::BatchCreateTableVersions | Op::BatchCommitTables | Op::Snapshot => {
            return Ok(PathDecision::InPart);
        }
        Op::RenameTable => {
            rules.decide(caller, Access::Write, id)?;
            return Ok(PathDecision::InPart);
        }
        Op::ListNamespaces | Op::ListTables | Op::ListAllTables => {
            // A listing shows what leads to something readable, without the rest.
            if !rules.shows(caller, id) {
                rules.decide(caller, Access::Read, id)?;
            }
            if !rules.allows_all(caller, Access::Read, id) {
                return Ok(PathDecision::InPart);
            }
        }
        // Its name is in the listing of the level above it.
        Op::NamespaceExists if rules.shows(caller, id) => {}
        // `version` in `/v1/table/version/batch-create` is no table. A similar operation of a newer contract may be
        // about any tables at all.
        Op::Unlisted(Kind::Table) if id.len() < 2 => {
            rules.decide(caller, Access::Write, &ROOT)?;
            return Ok(PathDecision::InPart);
        }
        // The table that it acts on is decided where its catalog is known.
        Op::Unlisted(_) => {
            rules.decide(caller, Access::Write, id)?;
            return Ok(PathDecision::InPart);
        }
        // Nothing is below a new namespace. Only the body tells whether an existing one is overwritten.
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

/// Decides about a transaction. A name alone does not say which tables it is about.
fn transaction(
    rules: &Rules,
    caller: &Principal,
    access: Access,
    id: &Identifier,
    uri: &Uri,
) -> Result<PathDecision, Error> {
    if id.len() < 2 {
        // A caller that may write, but not read, may still ask for its outcome.
        let has = |access| rules.leads_to(caller, access, &ROOT);
        if !has(access) && !has(Access::Write) {
            rules.decide(caller, access, &ROOT)?;
        }
        return Ok(PathDecision::InPart);
    }
    rules.decide(caller, access, id)?;
    // Split by another delimiter, it may be a name alone to the catalog.
    if Query::new(uri.query()).delimiter()? != DEFAULT_DELIMITER {
        rules.decide(caller, Access::Write, &ROOT)?;
    }
    // It may also be one if the mount has another root, which only the gateway knows.
    Ok(PathDecision::InPart)
}

fn misplaced() -> Error {
    Error::internal(
        "internal error: the request has come without what an earlier layer should have found out; report it with its `x-request-id`",
        "authorize stands before what it needs to know",
    )
}
