//! Forwards a request that one catalog owns: checks it, sends it and passes the answer back; answers 404 for a table
//! that a batch hides.
//!
//! If the mount keeps the path, the bytes of path, query and body go upstream unchanged.

use std::borrow::BorrowMut;
use std::mem::take;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::header::ACCEPT_ENCODING;
use http::{HeaderValue, Request, Response};

use super::send::{send, waiting};
use super::{Shared, audited, needed_locks, operation_of, outgoing, second_name, versions};
use crate::backend::Backend;
use crate::batch::visibility::names::{NamesEpoch, StaleAnswer, unsettled};
use crate::batch::{Batches, Epoch, Level};
use crate::body::Body;
use crate::error::Error;
use crate::error::code::Code;
use crate::gateway::detached_change::{LockedChange, send_locked};
use crate::gateway::request_body::{self, BodyFlags};
use crate::gateway::response_body::{BodyChange, RewrittenBody};
use crate::gateway::{bulkhead, catalog_scope};
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Access, Kind, Lock, Operation};
use crate::request::caller::KnownCaller;
use crate::request::context::RequestContext;
use crate::route::Mount;

const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// Sends the request to the owner of the route's identifier and returns its answer.
///
/// Every request pays for the largest future that it may await, and a response, which is large, is moved out of each
/// future that it passes through. So common requests pass through few futures, `request` stays in its place until it is
/// sent, and futures of rare cases are boxed.
pub(super) async fn forward<R>(
    shared: Arc<Shared>,
    operation: Operation,
    id: Identifier,
    mut whole: R,
) -> Result<Response<Body>, Error>
where
    R: BorrowMut<Request<Body>> + Send + 'static,
{
    let (shared, world, id) = (&shared, &*shared.world, &id);
    let request = whole.borrow_mut();
    let mount = world
        .routes
        .owner(id, operation.kind().unwrap_or(Kind::Table))?;
    let whole_catalog = world.backend(mount);
    if let Some(exchange) = &RequestContext::of(request.extensions()).exchange {
        exchange.routed(&mount.namespace);
    }
    bulkhead::check(shared.free.as_ref(), world, whole_catalog)?;
    let elsewhere = (!mount.keeps_path()).then(|| mount.to_catalog(id));
    let there = elsewhere.as_ref().unwrap_or(id);
    catalog_scope::check(world, mount, operation, (id, there), request)?;
    outgoing::check(whole_catalog, operation, (id, there))?;
    let said = admit(shared, mount, operation, (id, elsewhere.as_ref()), request).await?;
    // The body may have had some of the context.
    let context = RequestContext::of(request.extensions()).context.as_ref();
    let part = whole_catalog.seen_by(context, request.headers())?;
    let backend = part.as_ref().unwrap_or(whole_catalog);
    let overwrites = catalog_scope::overwrites(operation, said.overwrites, request);
    let overwrites_namespace = overwrites && operation == Operation::CreateNamespace;
    if overwrites_namespace {
        catalog_scope::check_overwriting(id, request)?;
    }
    let named = (there, elsewhere.is_some());
    outgoing::address(request, operation, named, backend.reading())?;
    if backend.is_told_what() && operation.kind().is_some() {
        RequestContext::more(request.extensions_mut()).identifier = Some(there.clone());
    }
    let change = BodyChange {
        operation,
        asked: id,
        there,
        keeps_path: elsewhere.is_none(),
        lacks_credentials: RequestContext::of(request.extensions()).lacks_credentials,
        mount,
        backend,
        held: &shared.bodies.held,
    };
    let changes = change.is_needed();
    // The answer to a change is told, whatever is held.
    let counts = changes && operation.access() == Access::Read;
    let caller = counts.then(|| KnownCaller::of(request));
    if changes {
        request.headers_mut().insert(ACCEPT_ENCODING, IDENTITY);
    }
    let detailed = said.with_details || needed_locks::asks_for_details(operation, request);
    let owner = Owner {
        backend,
        asked: id,
        there,
    };
    let since = owner.since(shared, operation)?;
    let epoch = (operation == Operation::DescribeTable).then(|| shared.batches.read_epoch());
    let way = owner.way(shared, operation, detailed);
    // What is below the namespace goes away with it.
    let way = way.or(overwrites_namespace.then_some(ForwardMode::Changing));
    let response = match way {
        // Repeats `send` inline, to save a future.
        None => {
            let waiting = waiting(backend, request);
            let outcome = backend.pass(request).await;
            drop(waiting);
            owner.check(shared, since)?;
            let stirred = epoch.filter(|epoch| owner.is_stirred(shared, *epoch));
            match outcome {
                Ok(response) if stirred.is_none() && !changes => return Ok(response),
                Ok(response) => match stirred {
                    Some(since) => owner.check_described(shared, since, response).await?,
                    None => response,
                },
                Err(failure) => return Err(failure.into_error(backend.name())),
            }
        }
        Some(ForwardMode::Reading(question)) => {
            Box::pin(owner.ask(shared, question, since, request)).await?
        }
        Some(ForwardMode::Creating) => {
            versions::create(shared, backend, (id, there), whole).await?
        }
        Some(ForwardMode::Changing) => {
            audited::note_named(request, operation, id, shared.bodies.json).await?;
            if second_name::is_given_by(operation) {
                Box::pin(second_name::check(shared, backend, there, request)).await?;
            }
            let is_destructive = needed_locks::may_destroy(operation, overwrites);
            alter(shared, backend, (operation, is_destructive), there, whole).await?
        }
    };
    if !changes {
        return Ok(response);
    }
    match change.apply(response, caller)? {
        RewrittenBody::Whole(response) => Ok(response),
        RewrittenBody::Partly(head, rest) => {
            Box::pin(change.finish(head, *rest, shared.answer_timeout)).await
        }
    }
}

/// The owner of the identifier that a request names, and the catalog's spelling of it.
struct Owner<'a> {
    backend: &'a Backend,
    /// The identifier as the client spells it.
    asked: &'a Identifier,
    there: &'a Identifier,
}

/// The treatment of a request with which batches can interfere.
enum ForwardMode {
    /// A read whose answer depends on batches.
    Reading(VersionQuestion),
    /// The create of a version that a batch may also create.
    Creating,
    /// A change of a table or a namespace that may be part of a batch.
    Changing,
}

/// The subject of a read.
enum VersionQuestion {
    /// The versions, without those that a batch hides.
    Versions,
    /// One version, unless a batch hides it.
    Version,
    /// The tables, without those that a batch hides.
    Tables,
    /// The latest version, which no batch may change during the read.
    Latest,
    /// A table with versions that batches hide or reserve: the answer may contain the latest version.
    Table,
}

impl ForwardMode {
    /// Returns the mode for an operation; `None` if the request is just sent.
    fn of(operation: Operation, detailed: bool) -> Option<Self> {
        Some(match operation {
            Operation::ListTableVersions => Self::Reading(VersionQuestion::Versions),
            Operation::DescribeTableVersion => Self::Reading(VersionQuestion::Version),
            Operation::ListTables | Operation::ListAllTables => {
                Self::Reading(VersionQuestion::Tables)
            }
            Operation::CreateTableVersion => Self::Creating,
            _ if !needed_locks::is_needed(operation, detailed) => return None,
            _ => match operation.access() {
                Access::Read => Self::Reading(VersionQuestion::Latest),
                Access::Write => Self::Changing,
            },
        })
    }
}

impl<'a> Owner<'a> {
    /// Returns the mode for this request. Batches affect a describe only if they hide or reserve versions of the table.
    fn way(&self, shared: &Shared, operation: Operation, detailed: bool) -> Option<ForwardMode> {
        let way = ForwardMode::of(operation, detailed);
        if operation != Operation::DescribeTable || way.is_some() {
            return way;
        }
        let is_near = shared
            .batches
            .is_near(|| needed_locks::key(self.backend, self.there));
        is_near.then_some(ForwardMode::Reading(VersionQuestion::Table))
    }

    /// True if batches have affected the table after `since`.
    fn is_stirred(&self, shared: &Shared, since: Epoch) -> bool {
        let key = || needed_locks::key(self.backend, self.there);
        shared.batches.is_stirred(since, key)
    }

    /// Checks the answer to a describe that was sent before batches affected the table. Boxed and cold: this is rare.
    #[cold]
    #[inline(never)]
    fn check_described(
        &self,
        shared: &'a Shared,
        since: Epoch,
        answer: Response<Body>,
    ) -> BoxFuture<'a, Result<Response<Body>, Error>> {
        let key = needed_locks::key(self.backend, self.there);
        let checked = shared
            .batches
            .check_described(self.backend, key, since, answer);
        Box::pin(checked)
    }

    /// Returns the moment since which [`Owner::check`] must look for changes of names by batches; `None` if no check is
    /// needed. A name that is hidden from readers is not found, whatever the catalog has. Requests that take the
    /// table's lock check the name once they hold it.
    fn since(&self, shared: &Shared, operation: Operation) -> Result<Option<NamesEpoch>, Error> {
        if operation.kind() != Some(Kind::Table)
            || !matches!(operation.lock(), Lock::None | Lock::Versions)
        {
            return Ok(None);
        }
        let names = shared.batches.names();
        let since = names.moment();
        if names.is_hidden(|| needed_locks::key(self.backend, self.there)) {
            return Err(self.not_found());
        }
        Ok(Some(since))
    }

    /// Returns an error if a reader that sent its request to the catalog after `since` must not get the answer.
    fn check(&self, shared: &Shared, since: Option<NamesEpoch>) -> Result<(), Error> {
        let Some(since) = since else { return Ok(()) };
        let names = shared.batches.names();
        match names.check(since, || needed_locks::key(self.backend, self.there)) {
            Ok(()) => Ok(()),
            Err(StaleAnswer::Absent) => Err(self.not_found()),
            Err(StaleAnswer::Unknown) => Err(unsettled()),
        }
    }

    fn not_found(&self) -> Error {
        let message = format!("table {} does not exist", self.asked);
        Error::new(Code::TableNotFound, message)
    }

    /// Sends a read to the catalog. Removes from the answer what batches hide, and holds the lock of a table whose
    /// latest version is read.
    async fn ask(
        &self,
        shared: &Shared,
        question: VersionQuestion,
        since: Option<NamesEpoch>,
        request: &mut Request<Body>,
    ) -> Result<Response<Body>, Error> {
        let Self { backend, there, .. } = *self;
        let batches = &shared.batches;
        let key = || needed_locks::key(backend, there);
        // The latest version is asked for once the lock is held.
        let is_latest = matches!(question, VersionQuestion::Latest);
        let _waiting = (!is_latest).then(|| waiting(backend, request));
        let answer = match question {
            VersionQuestion::Versions => batches.list_versions(backend, key(), take(request)).await,
            VersionQuestion::Version => {
                let request = take(request);
                batches.describe_version(backend, key(), request).await
            }
            VersionQuestion::Tables => list_tables(batches, backend, there, take(request)).await,
            VersionQuestion::Table => batches.describe_table(backend, key(), take(request)).await,
            // A hidden name can reappear without a batch that readers could wait for.
            VersionQuestion::Latest if batches.names().is_hidden(key) => Err(self.not_found()),
            // Holds the lock until the head of the answer: a catalog that sends it has chosen the version that it
            // reads, and the rest comes from files that do not change. So a slow client delays no batch.
            VersionQuestion::Latest => match batches.hold(key(), Access::Read).await {
                Ok(_held) if batches.names().is_hidden(key) => Err(self.not_found()),
                Ok(_held) => match needed_locks::may_send(request) {
                    Err(error) => Err(error),
                    Ok(()) => {
                        let table = key();
                        tokio::select! {
                            biased;
                            answer = self.ask_latest(batches, request) => answer,
                            error = batches.gives_way(&table) => Err(error),
                        }
                    }
                },
                Err(error) => Err(error),
            },
        };
        self.check(shared, since)?;
        answer
    }

    /// Sends a read of the latest version, whose lock the caller holds.
    async fn ask_latest(
        &self,
        batches: &Batches,
        request: &mut Request<Body>,
    ) -> Result<Response<Body>, Error> {
        let answer = send(self.backend, request).await?;
        let key = needed_locks::key(self.backend, self.there);
        batches.check_latest(self.backend, &key).await?;
        Ok(answer)
    }
}

/// Lists the versions of a table, without hidden ones, for a request whose path does not name the table. `asked` is
/// the client's identifier, `there` the catalog's.
pub(super) async fn list_versions(
    shared: &Shared,
    backend: &Backend,
    (asked, there): (&Identifier, &Identifier),
    mut request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let owner = Owner {
        backend,
        asked,
        there,
    };
    let since = owner.since(shared, Operation::ListTableVersions)?;
    let question = VersionQuestion::Versions;
    owner.ask(shared, question, since, &mut request).await
}

/// Sends a change to the catalog and holds the locks that it needs.
fn alter<R>(
    shared: &Shared,
    backend: &Arc<Backend>,
    (operation, is_destructive): (Operation, bool),
    there: &Identifier,
    request: R,
) -> impl Future<Output = Result<Response<Body>, Error>> + Send + use<R>
where
    R: BorrowMut<Request<Body>> + Send + 'static,
{
    let (batches, backend) = (Arc::clone(&shared.batches), Arc::clone(backend));
    let there = there.clone();
    let locking = async move {
        let held = needed_locks::for_change(&batches, &backend, operation, is_destructive, &there);
        let held = held.await?;
        let mut request = request;
        needed_locks::may_send(request.borrow_mut())?;
        let is_table = operation.lock() == Lock::Shared;
        Ok(LockedChange {
            table: is_table.then(|| needed_locks::key(&backend, &there)),
            batches,
            backend,
            held: Some(held),
            version: None,
            takes_name: matches!(operation, Operation::DropTable | Operation::DeregisterTable),
            renumbers: operation.is_about_name()
                || matches!(
                    operation,
                    Operation::CreateTableBranch | Operation::DeleteTableBranch
                ),
            request,
        })
    };
    send_locked(&shared.batches, locking, LockedChange::send)
}

/// Lists the tables right below a namespace, or all of them if the route names none.
async fn list_tables(
    batches: &Batches,
    backend: &Backend,
    there: &Identifier,
    request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let level = match operation_of(&request)? {
        Operation::ListTables => Level::Below(there.clone()),
        _ => Level::All,
    };
    batches.list_tables(backend, level, request).await
}

/// Checks the request's body against its route and changes the identifiers in it to the catalog's spelling. `id` is the
/// route's own identifier; `there` is its name in the catalog if that differs.
async fn admit(
    shared: &Shared,
    mount: &Arc<Mount>,
    operation: Operation,
    (id, there): (&Identifier, Option<&Identifier>),
    request: &mut Request<Body>,
) -> Result<BodyFlags, Error> {
    let locate = |other: &Identifier| {
        if other == id {
            return Ok(there.cloned());
        }
        let owner = shared.world.routes.find(other);
        if !owner.is_some_and(|owner| Arc::ptr_eq(owner, mount)) {
            let message = format!("{id} and {other} do not belong to the same mount");
            return Err(Error::new(Code::Unsupported, message));
        }
        Ok((!mount.keeps_path()).then(|| mount.to_catalog(other)))
    };
    request_body::admit(request, operation, Some(id), &shared.bodies, locate).await
}
