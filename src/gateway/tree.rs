//! Answers requests about namespaces of the merged tree, if more than one catalog has a part in it.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{Request, Response};

use super::{RoutingSnapshot, Shared, bulkhead, operation_of, outgoing};
use crate::auth::access::Rights;
use crate::backend::Authority;
use crate::body::Body;
use crate::error::Error;
use crate::gateway::listing;
use crate::gateway::request_body;
use crate::protocol::identifier::Identifier;
use crate::protocol::query::Query;
use crate::request::context::RequestContext;
use crate::request::origin::Origin;

/// Answers requests that [`listing::concerns`]. Converts the body for the catalog that owns `id`, if one does.
pub(super) async fn answer(
    shared: &Shared,
    world: &Arc<RoutingSnapshot>,
    id: &Identifier,
    mut request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let operation = operation_of(&request)?;
    let owner = world.routes.find(id);
    if let Some(owner) = owner {
        let there = owner.to_catalog(id);
        outgoing::check(world.backend(owner), operation, (id, &there))?;
    }
    for mount in world.routes.below(id).chain(owner) {
        bulkhead::check(shared.free.as_ref(), world, world.backend(mount))?;
    }
    let elsewhere = owner.filter(|owner| !owner.keeps_path());
    let locate = |id: &_| Ok(elsewhere.map(|owner| owner.to_catalog(id)));
    let route = operation.kind().map(|_| id);
    request_body::admit(&mut request, operation, route, &shared.bodies, locate).await?;
    let (head, body) = request.into_parts();
    let learned = RequestContext::of(&head.extensions);
    let seen = world.seen_by(learned.context.as_ref(), &head.headers)?;
    let question = listing::Request {
        operation,
        id,
        query: Query::new(head.uri.query()),
        body: request_body::read(body, shared.bodies.json).await?,
        authority: Authority::Caller(head.headers.get(AUTHORIZATION).cloned()),
        context: learned.context.clone().unwrap_or_default(),
        rights: head.extensions.get::<Rights>().cloned(),
        origin: Origin::of(&head.extensions),
        log: shared.batches.fleet().and_then(|fleet| fleet.copy().log()),
    };
    listing::answer(
        &world.routes,
        seen.backends.as_slice(),
        shared.batches.names(),
        question,
    )
    .await
}
