//! The operations on table versions that batches have a say in.

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderName};
use http::request::Parts;
use http::{HeaderValue, Request, Response};
use serde::Deserialize;

use super::{Shared, World, extension, hold, payload};
use crate::backend::{Authority, Backend};
use crate::batch::{BatchCall, Hold, Line};
use crate::body::Body;
use crate::error::Error;
use crate::protocol::batch;
use crate::protocol::context::Context;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Kind, Operation};
use crate::protocol::principal::Principal;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Holds a table for the create of one version, whose number and branch are in the body: the version, too.
pub(super) async fn hold_for_create(
    shared: &Shared,
    backend: &Backend,
    there: &Identifier,
    request: &mut Request<Body>,
) -> Result<Option<(Hold, Line, u64)>, Error> {
    #[derive(Deserialize)]
    struct Create {
        version: Option<u64>,
        branch: Option<String>,
    }
    let body = std::mem::take(request.body_mut());
    let body = payload::read(body, shared.json_body).await?;
    *request.body_mut() = Body::full(body.clone());
    if body.is_empty() {
        return Ok(None);
    }
    let asked: Option<Create> = serde_json::from_slice(&body)
        .map_err(|error| Error::invalid(format!("`version` or `branch`: {error}")))?;
    let Some(Create {
        version: Some(version),
        branch,
    }) = asked
    else {
        // Nothing is created without a number; the catalog says so.
        return Ok(None);
    };
    let line = Line::new(hold::key(backend, there), branch);
    let hold = shared.batches.hold_for_create(&line, version).await?;
    Ok(Some((hold, line, version)))
}

/// `batch-create`.
pub(super) async fn batch_create(
    shared: &Shared,
    world: &Arc<World>,
    mut request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let operation = extension::<Operation>(&request)?;
    let keep = |_: &_| Ok(None);
    payload::admit(&mut request, operation, None, shared.json_body, keep).await?;
    let (head, body) = request.into_parts();
    let body = payload::read(body, shared.json_body).await?;
    let text = |name| {
        let value = head.headers.get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    let call = BatchCall {
        request: batch::parse(&body, shared.batches.max_entries())?,
        caller: caller(&head),
        idempotency_key: text(IDEMPOTENCY_KEY),
        authority: Authority::Caller(head.headers.get(AUTHORIZATION).cloned()),
        context: head
            .extensions
            .get::<Context>()
            .cloned()
            .unwrap_or_default(),
    };
    let route = |id: &Identifier| {
        let mount = world.routes.owner(id, Kind::Table)?;
        Ok((Arc::clone(world.backend(mount)), mount.to_catalog(id)))
    };
    shared.batches.create(call, route).await
}

/// Whatever distinguishes callers: who they are, or what they show where nobody asks who they are.
fn caller(head: &Parts) -> String {
    let known = head.extensions.get::<Principal>();
    match known.filter(|principal| !principal.is_anonymous() && !principal.subject().is_empty()) {
        Some(principal) => format!("{}\0{}", principal.issuer(), principal.subject()),
        None => {
            let shown = head.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
            String::from_utf8_lossy(shown.unwrap_or_default()).into_owned()
        }
    }
}
