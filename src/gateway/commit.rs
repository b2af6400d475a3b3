//! `batch-create` and `batch-commit`: several changes, all or none.

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderName};
use http::request::Parts;
use http::{HeaderValue, Request, Response};

use super::{Shared, World, operation_of, payload};
use crate::access::Rights;
use crate::backend::Authority;
use crate::batch::{BatchCall, Caller, Form};
use crate::body::Body;
use crate::error::Error;
use crate::exchange::learned::Learned;
use crate::exchange::origin::Origin;
use crate::protocol::commit::CommitOperation;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Access, Kind, Operation};
use crate::protocol::{batch, commit};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Does everything that the request asks for, or nothing.
pub(super) async fn commit(
    shared: &Shared,
    world: &Arc<World>,
    mut request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let operation = operation_of(&request)?;
    let keep = |_: &_| Ok(None);
    payload::admit(&mut request, operation, None, shared.json_body, keep).await?;
    let (head, body) = request.into_parts();
    let body = payload::read(body, shared.json_body).await?;
    let most = shared.batches.max_entries();
    let (form, operations) = if operation == Operation::BatchCommitTables {
        (Form::Commit, commit::parse(&body, most)?.operations)
    } else {
        let entries = batch::parse(&body, most)?.entries.into_iter();
        let creates = entries.map(CommitOperation::CreateTableVersion);
        (Form::Create, creates.collect())
    };
    let call = BatchCall {
        form,
        operations,
        caller: caller(&head),
    };
    let rights = head.extensions.get::<Rights>();
    let route = |id: &Identifier| {
        if let Some(rights) = rights {
            rights.decide(Access::Write, id)?;
        }
        let mount = world.routes.owner(id, Kind::Table)?;
        Ok((Arc::clone(world.backend(mount)), mount.to_catalog(id)))
    };
    shared.batches.commit(call, route).await
}

/// Who asks for a batch.
pub(super) fn caller(head: &Parts) -> Caller {
    let learned = Learned::of(&head.extensions);
    let key = head.headers.get(IDEMPOTENCY_KEY);
    Caller {
        name: name(head),
        idempotency_key: key.and_then(|key| Some(key.to_str().ok()?.to_owned())),
        authority: Authority::Caller(head.headers.get(AUTHORIZATION).cloned()),
        context: learned.context.clone().unwrap_or_default(),
        origin: Origin::of(&head.extensions),
    }
}

/// Whatever distinguishes callers: who they are, or what they show where nobody asks who they are.
fn name(head: &Parts) -> String {
    let known = Learned::of(&head.extensions).principal.as_ref();
    match known.filter(|principal| !principal.is_anonymous() && !principal.subject().is_empty()) {
        Some(principal) => format!("{}\0{}", principal.issuer(), principal.subject()),
        None => {
            let shown = head.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
            String::from_utf8_lossy(shown.unwrap_or_default()).into_owned()
        }
    }
}
