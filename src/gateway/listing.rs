//! One tree over many catalogs: answers requests above and across mounts.
//!
//! The tree is the union of the mounts. A catalog that does not answer fails the listing; what it
//! would have listed is never silently missing.

mod cut;
mod gather;
mod merge;
mod token;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Response, StatusCode};

use crate::auth::access::Rights;
use crate::backend::{Authority, Backend, Failure, InternalAnswer, InternalRequest};
use crate::batch::TableKey;
use crate::batch::visibility::names::{Names, ROUNDS, unsettled};
use crate::body::Body;
use crate::error::Error;
use crate::error::code::Code;
use crate::protocol::context::Context;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;
use crate::protocol::query::Query;
use crate::protocol::rename::is_unfinished;
use crate::request::origin::Origin;
use crate::route::{Mount, Table};
use cut::PageRequest;
use gather::{Budget, ListingError, everything};

/// The catalogs to list, by the index of a mount's backend.
pub trait Catalogs: Sync {
    /// Sends a request to one catalog.
    fn ask(
        &self,
        backend: usize,
        ask: InternalRequest,
    ) -> impl Future<Output = Result<InternalAnswer, Failure>> + Send;

    /// Returns the identity of a mount's catalog.
    fn identity<'a>(&'a self, mount: &'a Mount) -> &'a Arc<str> {
        &mount.backend_name
    }
}

impl Catalogs for [Arc<Backend>] {
    async fn ask(&self, backend: usize, ask: InternalRequest) -> Result<InternalAnswer, Failure> {
        match self.get(backend) {
            Some(backend) => backend.ask(ask).await,
            None => Err(Failure::NotSent("a mount without a backend".into())),
        }
    }

    fn identity<'a>(&'a self, mount: &'a Mount) -> &'a Arc<str> {
        let backend = self.get(mount.backend);
        backend.map_or(&mount.backend_name, |backend| backend.catalog())
    }
}

/// One request that [`concerns`] more than one catalog's own tree.
#[derive(Debug)]
pub struct Request<'a> {
    /// The operation.
    pub operation: Operation,
    /// The route's identifier; the root for `list_all_tables`.
    pub id: &'a Identifier,
    /// The query of the request.
    pub query: Query<'a>,
    /// The body, checked, and in the spelling of the catalog that owns `id`.
    pub body: Bytes,
    /// The authority on which requests are sent to catalogs.
    pub authority: Authority,
    /// The context that is sent to the catalogs.
    pub context: Context,
    /// The caller's rights; `None` if the caller may see everything.
    pub rights: Option<Rights>,
    /// The origin of the request, for the requests to catalogs.
    pub origin: Origin,
}

/// True if [`answer`] must answer. Otherwise one catalog owns the whole answer, and the request can be forwarded.
///
/// `partly`: returns true if the caller may not see everything below `id`.
pub fn concerns(
    routes: &Table,
    operation: Operation,
    id: &Identifier,
    partly: impl Fn() -> bool,
) -> bool {
    match operation {
        Operation::ListNamespaces | Operation::ListTables => {
            routes.below(id).next().is_some() || (partly() && routes.find(id).is_some())
        }
        Operation::ListAllTables if partly() => true,
        Operation::DescribeNamespace
        | Operation::NamespaceExists
        | Operation::CreateNamespace
        | Operation::DropNamespace => routes.below(id).next().is_some(),
        Operation::ListAllTables => match routes.mounts() {
            [only] => !(only.namespace.is_root() && only.keeps_path()),
            _ => true,
        },
        _ => false,
    }
}

/// Answers a request that [`concerns`] the tree.
///
/// `hidden` contains the names that batches hide. 503, code 17, if a catalog does not answer; a catalog's own error
/// passes through.
pub async fn answer<C: Catalogs + ?Sized>(
    routes: &Table,
    catalogs: &C,
    hidden: &Names,
    request: Request<'_>,
) -> Result<Response<Body>, Error> {
    let outcome = match request.operation {
        Operation::CreateNamespace => Err(ListingError::Error(Error::new(
            Code::NamespaceAlreadyExists,
            format!("namespace {} exists: mounts are below it", request.id),
        ))),
        Operation::DropNamespace => Err(ListingError::Error(Error::new(
            Code::NamespaceNotEmpty,
            format!("namespace {} is not empty: mounts are below it", request.id),
        ))),
        Operation::DescribeNamespace | Operation::NamespaceExists => {
            return level(routes, catalogs, request).await;
        }
        Operation::ListAllTables => all_tables(routes, catalogs, hidden, &request).await,
        Operation::ListTables => tables(routes, catalogs, hidden, &request).await,
        _ => namespaces(routes, catalogs, &request).await,
    };
    match outcome {
        Ok(response) => Ok(response),
        Err(ListingError::Error(error)) => Err(error),
        Err(ListingError::Refused(answer)) => Ok(pass(*answer)),
    }
}

/// Describes a namespace that has mounts below it: as its owner does, if the owner has that namespace too.
async fn level<C: Catalogs + ?Sized>(
    routes: &Table,
    catalogs: &C,
    request: Request<'_>,
) -> Result<Response<Body>, Error> {
    let operation = request.operation;
    if let Some(owner) = routes.find(request.id) {
        let ask = request.ask(
            owner.to_catalog(request.id),
            Vec::new(),
            Some(request.body.clone()),
        );
        let answer = catalogs
            .ask(owner.backend, ask)
            .await
            .map_err(|failure| failure.into_error(&owner.backend_name))?;
        if !lacks_namespace(&answer) {
            return Ok(pass(answer));
        }
    }
    // Real catalogs describe their root like this.
    Ok(match operation {
        Operation::NamespaceExists => Response::new(Body::empty()),
        _ => json(Bytes::from_static(b"{\"properties\":{}}")),
    })
}

async fn namespaces<C: Catalogs + ?Sized>(
    routes: &Table,
    catalogs: &C,
    request: &Request<'_>,
) -> Result<Response<Body>, ListingError> {
    let cut = PageRequest::of(request)?;
    let listed = one_level(routes, catalogs, request, &cut).await?;
    let mut all = merge::namespaces(routes, request.id, listed);
    request.retain(&mut all, Rights::show);
    Ok(cut.respond(all))
}

/// Returns the names that the owner of the level lists there.
async fn one_level<C: Catalogs + ?Sized>(
    routes: &Table,
    catalogs: &C,
    request: &Request<'_>,
    cut: &PageRequest<'_>,
) -> Result<Vec<String>, ListingError> {
    let Some(owner) = routes.find(request.id) else {
        return Ok(Vec::new());
    };
    // The caller may see none of the names that the owner would list.
    if !request.concerns_owner(routes, owner, request.id) {
        return Ok(Vec::new());
    }
    let there = owner.to_catalog(request.id);
    let ask = request.ask(there, cut.filters.clone(), None);
    match everything(catalogs, owner, ask, &Budget::new()).await {
        // The namespace exists nevertheless: a mount is below it.
        Err(ListingError::Refused(answer))
            if lacks_namespace(&answer) && routes.below(request.id).next().is_some() =>
        {
            Ok(Vec::new())
        }
        other => other,
    }
}

async fn tables<C: Catalogs + ?Sized>(
    routes: &Table,
    catalogs: &C,
    names: &Names,
    request: &Request<'_>,
) -> Result<Response<Body>, ListingError> {
    let cut = PageRequest::of(request)?;
    let owner = routes.find(request.id);
    let level = owner.map(|owner| (catalogs.identity(owner), owner.to_catalog(request.id)));
    let in_scope = |table: &TableKey| {
        level.as_ref().is_some_and(|(backend, there)| {
            table.backend == **backend && table.table.parent().as_ref() == Some(there)
        })
    };
    for _ in 0..ROUNDS {
        let since = names.moment();
        let mut listed = one_level(routes, catalogs, request, &cut).await?;
        let Some(hidden) = names.hidden_in(since, in_scope) else {
            continue;
        };
        if !hidden.is_empty() {
            let hidden: HashSet<_> = hidden.iter().filter_map(|key| key.table.last()).collect();
            listed.retain(|name| !hidden.contains(&**name));
        }
        listed.retain(|name| !is_unfinished(name));
        let mut all = merge::tables(routes, request.id, listed);
        request.retain(&mut all, Rights::read);
        return Ok(cut.respond(all));
    }
    Err(ListingError::Error(unsettled()))
}

/// Lists the tables of all catalogs. The catalogs answer at different moments, and a renamed table could be missing
/// from all answers: if names changed during a round, it is repeated.
async fn all_tables<C: Catalogs + ?Sized>(
    routes: &Table,
    catalogs: &C,
    names: &Names,
    request: &Request<'_>,
) -> Result<Response<Body>, ListingError> {
    let cut = PageRequest::of(request)?;
    let mut mounts: BTreeMap<usize, Vec<&Mount>> = BTreeMap::new();
    let rights = request.rights.as_ref();
    for mount in routes.mounts() {
        // A catalog that has nothing for the caller may be down, and must not fail the listing.
        if request.concerns_owner(routes, mount, &mount.namespace) {
            mounts.entry(mount.backend).or_default().push(mount);
        }
    }
    let is_shown = |here: &Identifier| rights.is_none_or(|rights| rights.read(here));
    let mut query = cut.filters.clone();
    query.push(("delimiter", cut.scope.delimiter.clone().into_owned()));
    for _ in 0..ROUNDS {
        let since = names.moment();
        let budget = Budget::new();
        let asked = mounts.values().map(|mounts| {
            let ask = request.ask(Identifier::root(), query.clone(), None);
            everything(catalogs, mounts[0], ask, &budget)
        });
        let listed = join_all(asked).await;
        let Some(hidden) = names.hidden_in(since, |_| true) else {
            continue;
        };
        let mut all = BTreeSet::new();
        for (mounts, listed) in mounts.values().zip(listed) {
            let backend = catalogs.identity(mounts[0]);
            let is_hidden = |there: &Identifier| {
                let hides = |table| {
                    let backend = Arc::clone(backend);
                    hidden.contains(&TableKey { backend, table })
                };
                there.last().is_some_and(is_unfinished)
                    || (!hidden.is_empty() && hides(there.clone()))
            };
            let delimiter = &cut.scope.delimiter;
            let spelled =
                merge::all_tables(routes, mounts, &listed?, delimiter, is_hidden, is_shown);
            all.extend(spelled.map_err(Error::from)?);
        }
        return Ok(cut.respond(all));
    }
    Err(ListingError::Error(unsettled()))
}

impl Request<'_> {
    /// True if the caller may read something that `mount` serves at `level` or below it.
    fn concerns_owner(&self, routes: &Table, mount: &Mount, level: &Identifier) -> bool {
        let serves = |place: &Identifier| {
            let owner = routes.find(place);
            owner.is_some_and(|owner| owner.namespace == mount.namespace)
        };
        let rights = self.rights.as_ref();
        rights.is_none_or(|rights| rights.show_in(level, serves))
    }
    /// Retains only the names right below the route's identifier that the caller may see.
    fn retain(&self, names: &mut BTreeSet<String>, sees: impl Fn(&Rights, &Identifier) -> bool) {
        if let Some(rights) = &self.rights {
            // A name that is not valid in an identifier cannot be requested, and no rule can cover it.
            names.retain(|name| self.id.join(name).is_ok_and(|id| sees(rights, &id)));
        }
    }

    fn ask(
        &self,
        identifier: Identifier,
        query: Vec<(&'static str, String)>,
        body: Option<Bytes>,
    ) -> InternalRequest {
        InternalRequest {
            operation: self.operation,
            identifier,
            query,
            body,
            authority: self.authority.clone(),
            context: self.context.clone(),
            origin: self.origin.clone(),
            timeout: None,
        }
    }
}

/// True if a catalog answers that it has no such namespace. Any other 404 has another meaning.
fn lacks_namespace(answer: &InternalAnswer) -> bool {
    #[derive(serde::Deserialize)]
    struct Refusal {
        code: u64,
    }
    answer.status == StatusCode::NOT_FOUND
        && serde_json::from_slice(&answer.body)
            .is_ok_and(|Refusal { code }| Code::from_number(code) == Some(Code::NamespaceNotFound))
}

/// Returns a catalog's own answer as the response.
fn pass(answer: InternalAnswer) -> Response<Body> {
    const PASSED: [HeaderName; 4] = [
        // Some catalogs compress although the request forbids it.
        CONTENT_ENCODING,
        CONTENT_TYPE,
        RETRY_AFTER,
        WWW_AUTHENTICATE,
    ];
    let mut response = Response::new(Body::full(answer.body));
    *response.status_mut() = answer.status;
    for name in PASSED {
        if let Some(value) = answer.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

fn json(body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests;
