//! The innermost service: finds the owner of the identifier that a request names, and has the request carried out.
//!
//! The facts that the layers learned arrive with the request, in its [`RequestContext`].

mod audited;
mod bulkhead;
mod catalog_scope;
mod commit;
mod detached_change;
mod forward;
pub mod listing;
mod needed_locks;
mod outgoing;
mod rename;
mod request_body;
mod response_body;
mod second_name;
mod send;
mod snapshot;
mod transaction;
mod tree;
mod versions;

use std::borrow::BorrowMut;
use std::collections::BTreeSet;
use std::future::{Future, ready};
use std::mem::take;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use tower::Service;

use crate::auth::access::Rights;
use crate::backend::Backend;
use crate::batch::Batches;
pub use crate::batch::Free;
use crate::body::Body;
use crate::config::Limits;
use crate::error::Error;
use crate::request::context::RequestContext;
use crate::request::held::HeldBodies;
pub use request_body::BodyLimits;
pub(crate) use request_body::read_counted;

use crate::protocol::context;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;
use crate::protocol::query::Query;
use crate::route;

/// The routes and backends for requests. Immutable: a request keeps the snapshot that it began with.
pub struct RoutingSnapshot {
    /// The mounts, by the identifiers that they own.
    pub routes: route::Table,
    /// The backends in the order of their names; [`route::Mount::backend`] is an index into this list.
    pub backends: Vec<Arc<Backend>>,
}

/// The innermost service. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

struct Shared {
    world: Arc<RoutingSnapshot>,
    batches: Arc<Batches>,
    /// The limits on JSON bodies, which are read whole.
    bodies: BodyLimits,
    /// The longest time for reading an answer that must be changed, up to its last byte.
    answer_timeout: Duration,
    free: Option<Free>,
}

impl RoutingSnapshot {
    /// Returns the snapshot for a request with this context and these headers, which may select data of its catalogs.
    ///
    /// # Errors
    /// See [`Backend::seen_by`].
    fn seen_by(
        self: &Arc<Self>,
        context: Option<&context::Context>,
        headers: &HeaderMap,
    ) -> Result<Arc<Self>, Error> {
        let mut seen = None;
        for (number, backend) in self.backends.iter().enumerate() {
            if let Some(scoped) = backend.seen_by(context, headers)? {
                seen.get_or_insert_with(|| self.backends.clone())[number] = scoped;
            }
        }
        Ok(seen.map_or_else(
            || Arc::clone(self),
            |backends| {
                let routes = self.routes.clone();
                Arc::new(Self { routes, backends })
            },
        ))
    }

    /// Returns the backend of a mount of this snapshot.
    pub fn backend(&self, mount: &route::Mount) -> &Arc<Backend> {
        &self.backends[mount.backend]
    }

    /// Returns the backends that serve mounts, each once.
    pub fn mounted(&self) -> impl Iterator<Item = &Arc<Backend>> {
        let mounts = self.routes.mounts();
        let numbers: BTreeSet<usize> = mounts.iter().map(|mount| mount.backend).collect();
        numbers.into_iter().map(|number| &self.backends[number])
    }
}

impl Gateway {
    /// Returns a gateway that serves `world`. A new snapshot needs a new gateway.
    pub fn new(world: Arc<RoutingSnapshot>, batches: Arc<Batches>, limits: &Limits) -> Self {
        let held = Arc::new(HeldBodies::new(limits.json_bodies, limits.caller_share));
        Self::sharing(world, batches, limits, None, held)
    }

    /// Does the same as [`new`](Self::new), and limits how many requests one catalog or one locked table may keep
    /// waiting to the number of requests that the gateway can still accept, as `free` returns it. Bodies that are read
    /// whole are among `held`.
    pub fn sharing(
        world: Arc<RoutingSnapshot>,
        batches: Arc<Batches>,
        limits: &Limits,
        free: Option<Free>,
        held: Arc<HeldBodies>,
    ) -> Self {
        if let Some(free) = &free {
            batches.leave_places(Arc::clone(free));
        }
        Self {
            shared: Arc::new(Shared {
                free,
                world,
                batches,
                bodies: BodyLimits {
                    json: limits.json_body,
                    held,
                },
                answer_timeout: limits.response_timeout,
            }),
        }
    }
}

impl<R: BorrowMut<Request<Body>> + Send + 'static> Service<R> for Gateway {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: R) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        let (operation, id) = match named(request.borrow()) {
            Ok(named) => named,
            Err(error) => return Box::pin(ready(Err(error))),
        };
        if shared.is_forwarded(operation, &id, request.borrow()) {
            // Allocates before the future is made: it is large, and would otherwise be copied from the stack.
            let memory = Box::new_uninit();
            let answer = forward::forward(shared, operation, id, request);
            let answer: Pin<Box<_>> = Box::into_pin(Box::write(memory, answer));
            return answer;
        }
        Box::pin(shared.serve(operation, id, take(request.borrow_mut())))
    }
}

impl Shared {
    /// True if the answer of one catalog is the whole answer, as it nearly always is.
    fn is_forwarded(&self, operation: Operation, id: &Identifier, request: &Request<Body>) -> bool {
        use Operation as Op;
        let is_decided_here = matches!(
            operation,
            Op::BatchCreateTableVersions
                | Op::BatchCommitTables
                | Op::RenameTable
                | Op::DescribeTransaction
                | Op::AlterTransaction
                | Op::Snapshot
        );
        !is_decided_here && !self.concerns_tree(operation, id, request)
    }

    fn concerns_tree(
        &self,
        operation: Operation,
        id: &Identifier,
        request: &Request<Body>,
    ) -> bool {
        // Catalogs spell the names of all tables in one way only.
        let is_respelled = || !Query::new(request.uri().query()).is_default_delimiter();
        let partly = || request.extensions().get::<Rights>().is_some();
        (operation == Operation::ListAllTables && is_respelled())
            || listing::concerns(&self.world.routes, operation, id, partly)
    }

    /// Serves operations that are decided here, and forwards what turns out to concern one catalog.
    async fn serve(
        self: Arc<Self>,
        operation: Operation,
        id: Identifier,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, Error> {
        use Operation as Op;
        let (shared, world) = (&self, &self.world);
        RequestContext::more(request.extensions_mut()).identifier =
            operation.kind().map(|_| id.clone());
        if self.concerns_tree(operation, &id, &request) {
            return tree::answer(shared, world, &id, request).await;
        }
        match operation {
            Op::BatchCreateTableVersions | Op::BatchCommitTables => {
                commit::commit(shared, world, request).await
            }
            Op::RenameTable => rename::rename(shared, world, &id, request).await,
            Op::Snapshot => snapshot::snapshot(shared, request).await,
            Op::DescribeTransaction | Op::AlterTransaction => {
                transaction::serve(shared, world, &id, request).await
            }
            _ => forward::forward(self, operation, id, request).await,
        }
    }
}

/// Returns the operation and the path's identifier. Both stay in the request's context, because a breaker groups failures by
/// table.
fn named(request: &Request<Body>) -> Result<(Operation, Identifier), Error> {
    let learned = RequestContext::of(request.extensions());
    let operation = known("operation", learned.operation)?;
    let id = match operation.kind() {
        Some(_) => known("identifier", learned.identifier.clone())?,
        None => Identifier::root(),
    };
    Ok((operation, id))
}

/// Returns the request's operation.
fn operation_of(request: &Request<Body>) -> Result<Operation, Error> {
    known(
        "operation",
        RequestContext::of(request.extensions()).operation,
    )
}

/// Returns a fact that a layer must have recorded; an internal error if it is missing.
fn known<T>(what: &str, fact: Option<T>) -> Result<T, Error> {
    fact.ok_or_else(|| {
        Error::internal(
            "internal error: the request has come without what an earlier layer should have found out; report it with its `x-request-id`",
            format!("no {what} is known of the request"),
        )
    })
}

#[cfg(test)]
mod tests;
