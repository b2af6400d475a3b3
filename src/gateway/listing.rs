//! One tree over many catalogs: answers requests above and across mounts.
//!
//! The tree is the union of the mounts. A catalog that does not answer fails the listing; what it
//! would have listed is never silently missing.

mod answers;
mod merge;
mod page;
mod read_catalog;
mod requested_page;
mod selection;
mod spelling;
mod token;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use uuid::Uuid;

use crate::auth::access::Rights;
use crate::backend::{AnswerStream, Authority, Backend, Failure, InternalRequest};
use crate::batch::TableKey;
use crate::batch::visibility::names::{Names, ROUNDS, unsettled};
use crate::body::Body;
use crate::error::Error;
use crate::error::code::Code;
use crate::protocol::context::Context;
use crate::protocol::data_scope::DataScope;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;
use crate::protocol::query::{DEFAULT_DELIMITER, Query};
use crate::request::origin::Origin;
use crate::route::{Mount, Table};
use answers::{json, lacks_namespace, pass};
use page::Segment;
use read_catalog::ListingError;
use requested_page::PageRequest;
use spelling::{Level, Tree};
use token::{Place, Position};

/// The catalogs to list, by the index of a mount's backend.
pub trait Catalogs: Sync {
    /// Sends a request to one catalog.
    fn open_answer(
        &self,
        backend: usize,
        ask: InternalRequest,
    ) -> impl Future<Output = Result<AnswerStream<'_>, Failure>> + Send;

    /// Returns the identity of a mount's catalog, and the part of its data that the listing is about.
    fn identity<'a>(&'a self, mount: &'a Mount) -> (&'a Arc<str>, DataScope) {
        (&mount.backend_name, DataScope::default())
    }
}

impl Catalogs for [Arc<Backend>] {
    async fn open_answer(
        &self,
        backend: usize,
        ask: InternalRequest,
    ) -> Result<AnswerStream<'_>, Failure> {
        match self.get(backend) {
            Some(backend) => backend.open_answer(ask).await,
            None => Err(Failure::NotSent("a mount without a backend".into())),
        }
    }

    fn identity<'a>(&'a self, mount: &'a Mount) -> (&'a Arc<str>, DataScope) {
        match self.get(mount.backend) {
            Some(backend) => (backend.catalog(), backend.scope().clone()),
            None => (&mount.backend_name, DataScope::default()),
        }
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
    /// The id of the batch log that this gateway shares with others.
    pub log: Option<Uuid>,
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
        Err(ListingError::Changed) => Err(unsettled()),
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
        let failed = |failure: Failure| failure.into_error(&owner.backend_name);
        let answer = catalogs.open_answer(owner.backend, ask).await;
        let answer = answer.map_err(failed)?.whole().await.map_err(failed)?;
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

/// The key of the segment of names that lead to mounts, and of that of the catalog that owns the level. The first is
/// first in the order of keys.
const MOUNTS: &str = "";
const OWNER: &str = "owner";

async fn namespaces<C: Catalogs + ?Sized>(
    routes: &Table,
    catalogs: &C,
    request: &Request<'_>,
) -> Result<Response<Body>, ListingError> {
    let cut = PageRequest::of(request)?;
    let level = Level {
        routes,
        request,
        leading: routes.next_names_below(request.id),
        hidden: &|| Some(HashSet::new()),
    };
    let leading = level.leading.iter().map(|name| (*name).to_owned());
    let mut leading = request.retain(leading.collect(), Rights::show);
    let owner = request.owner(routes, &cut);
    let from = cut.from.as_ref().filter(|from| from.segment != MOUNTS);
    if from.is_some() {
        leading.clear();
    } else if let Some(last) = cut.from.as_ref().and_then(|from| from.place.last.as_ref()) {
        leading.retain(|name| name > last);
    }
    let limit = cut.limit.unwrap_or(usize::MAX);
    let more = leading.len() > limit || leading.len() == limit && owner.is_some();
    if more && limit > 0 {
        leading.truncate(limit);
        let place = Place {
            last: leading.last().cloned(),
            ..Place::default()
        };
        let segment = MOUNTS.to_owned();
        return Ok(cut
            .respond(leading, Some(Position { segment, place }))
            .await?);
    }
    leading.truncate(limit);
    let limit = cut.limit.map(|limit| limit - leading.len());
    let page = page::page(catalogs, owner.as_slice(), from, limit, &level).await?;
    let (mut names, next) = page;
    names.extend(leading);
    Ok(cut.respond(names, next).await?)
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
        level.as_ref().is_some_and(|((backend, scope), there)| {
            table.backend == **backend
                && table.scope == *scope
                && table.table.parent().as_ref() == Some(there)
        })
    };
    let Some(owner) = request.owner(routes, &cut) else {
        return Ok(cut.respond(Vec::new(), None).await?);
    };
    for _ in 0..ROUNDS {
        let since = names.moment();
        let level = Level {
            routes,
            request,
            leading: BTreeSet::new(),
            hidden: &|| names.hidden_in(since, in_scope),
        };
        let (segments, from) = (std::slice::from_ref(&owner), cut.from.as_ref());
        match page::page(catalogs, segments, from, cut.limit, &level).await {
            Err(ListingError::Changed) => {}
            page => {
                let (names, next) = page?;
                return Ok(cut.respond(names, next).await?);
            }
        }
    }
    Err(ListingError::Changed)
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
    for mount in routes.mounts() {
        // A catalog that has nothing for the caller may be down, and must not fail the listing.
        if request.concerns_owner(routes, mount, &mount.namespace) {
            mounts.entry(mount.backend).or_default().push(mount);
        }
    }
    let mut query = cut.filters.clone();
    // Catalogs may ignore another delimiter, and with one that names contain, an answer would be ambiguous.
    query.push(("delimiter", DEFAULT_DELIMITER.to_owned()));
    let ask = Arc::new(request.ask(Identifier::root(), query, None));
    let segments = mounts.values().map(|mounts| Segment {
        key: mounts[0].namespace.to_string(),
        mount: mounts[0],
        ask: Arc::clone(&ask),
        may_lack: false,
    });
    let mut segments: Vec<_> = segments.collect();
    segments.sort_by(|one, other| one.key.cmp(&other.key));
    for _ in 0..ROUNDS {
        let since = names.moment();
        let tree = Tree {
            routes,
            request,
            mounts: &mounts,
            delimiter: &cut.scope.delimiter,
            identity: &|mount| catalogs.identity(mount),
            hidden: &|| names.hidden_in(since, |_| true),
        };
        let from = cut.from.as_ref();
        match page::page(catalogs, &segments, from, cut.limit, &tree).await {
            Err(ListingError::Changed) => {}
            page => {
                let (names, next) = page?;
                return Ok(cut.respond(names, next).await?);
            }
        }
    }
    Err(ListingError::Changed)
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
    fn retain(
        &self,
        mut names: Vec<String>,
        sees: impl Fn(&Rights, &Identifier) -> bool,
    ) -> Vec<String> {
        if let Some(rights) = &self.rights {
            // A name that is not valid in an identifier cannot be requested, and no rule can cover it.
            names.retain(|name| self.id.join(name).is_ok_and(|id| sees(rights, &id)));
        }
        names
    }

    /// Returns the names of the level that its owner lists; `None` if the caller may see none of them.
    fn owner<'a>(&self, routes: &'a Table, cut: &PageRequest<'_>) -> Option<Segment<'a>> {
        let owner = routes.find(self.id)?;
        let is_seen = self.concerns_owner(routes, owner, self.id);
        is_seen.then(|| Segment {
            key: OWNER.to_owned(),
            mount: owner,
            ask: Arc::new(self.ask(owner.to_catalog(self.id), cut.filters.clone(), None)),
            may_lack: routes.below(self.id).next().is_some(),
        })
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

#[cfg(test)]
mod tests;
