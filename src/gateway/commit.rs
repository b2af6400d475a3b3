//! `batch-create` and `batch-commit`: several changes that happen together or not at all.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response};

use super::{RoutingSnapshot, Shared, audited, operation_of, outgoing, rename};
use crate::auth::access::Rights;
use crate::backend::Authority;
use crate::batch::{BatchCall, Caller, Form};
use crate::body::Body;
use crate::error::Error;
use crate::gateway::request_body;
use crate::protocol::commit::{CommitOperation, Kinds};
use crate::protocol::context::Source;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Access, Kind, Operation};
use crate::protocol::{batch, commit};
use crate::request::caller;
use crate::request::context::RequestContext;
use crate::request::origin::Origin;
use crate::util::budget::pause_among;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The bytes of a short entry of a batch.
const SHORT_ENTRY: usize = 64;
/// The longest `Idempotency-Key`, in bytes.
const LONGEST_KEY: usize = 255;

/// Carries out all changes of the request, or none.
pub(super) async fn commit(
    shared: &Shared,
    world: &Arc<RoutingSnapshot>,
    mut request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let operation = operation_of(&request)?;
    let keep = |_: &_| Ok(None);
    request_body::admit(&mut request, operation, None, &shared.bodies, keep).await?;
    let (head, body) = request.into_parts();
    let caller = caller(&head, world)?;
    let world = &world.seen_by(Some(&caller.context), &head.headers)?;
    let body = request_body::read(body, shared.bodies.json).await?;
    pause_among(body.len() / SHORT_ENTRY).await;
    // Not `batch.max_entries`: a request may repeat a batch from before that was lowered.
    let most = batch::MOST_ENTRIES;
    let (form, operations) = if operation == Operation::BatchCommitTables {
        let kinds = match head.uri.path().trim_end_matches('/') {
            commit::EXTENDED_PATH => Kinds::Extended,
            _ => Kinds::Contract,
        };
        (Form::Commit, commit::parse(&body, kinds, most)?.operations)
    } else {
        let entries = batch::parse(&body, most)?.entries.into_iter();
        let creates = entries.map(CommitOperation::CreateTableVersion);
        (Form::Create, creates.collect())
    };
    let call = BatchCall {
        form,
        operations,
        caller,
    };
    pause_among(call.operations.len()).await;
    audited::note_batch(world, &head.extensions, &call.operations);
    let rights = head.extensions.get::<Rights>();
    let may_write = |id: &Identifier| match rights {
        Some(rights) => rights.decide(Access::Write, id),
        None => Ok(()),
    };
    let new_names = call.operations.iter().filter_map(CommitOperation::new_name);
    let new_names: HashSet<Identifier> = new_names.cloned().collect();
    let route = |id: &Identifier| {
        may_write(id)?;
        if new_names.contains(id) {
            rename::end(world, id.clone())?;
        }
        let mount = world.routes.owner(id, Kind::Table)?;
        let (backend, there) = (world.backend(mount), mount.to_catalog(id));
        outgoing::check(backend, Operation::CreateTableVersion, (id, &there))?;
        Ok((Arc::clone(backend), there))
    };
    shared.batches.commit(call, route).await
}

/// Returns the caller of a batch. 400, code 13, for an `Idempotency-Key` that cannot be stored: ignoring it would
/// execute a repeated request twice.
pub(super) fn caller(head: &Parts, world: &RoutingSnapshot) -> Result<Caller, Error> {
    let learned = RequestContext::of(&head.extensions);
    Ok(Caller {
        name: name(head),
        counts_as: caller::Caller::among(&head.extensions).to_string(),
        besides: besides(head, world),
        idempotency_key: idempotency_key(&head.headers)?,
        authority: Authority::Caller(head.headers.get(AUTHORIZATION).cloned()),
        context: learned.context.clone().unwrap_or_default(),
        origin: Origin::of(&head.extensions),
        came: learned.came(),
        is_judged: head.extensions.get::<Rights>().is_some(),
        held: head.extensions.get().cloned(),
    })
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Error> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = given.next() else {
        return Ok(None);
    };
    let refused = |why: &str| Err(Error::invalid(format!("`Idempotency-Key` {why}")));
    if given.next().is_some() {
        return refused("was sent more than once; send one");
    }
    let key = key.as_bytes();
    if key.is_empty() {
        return refused("is empty; send a key of your own choice, such as a UUID, or leave it out");
    }
    if key.len() > LONGEST_KEY {
        return refused(&format!(
            "has {} bytes; at most {LONGEST_KEY} are allowed",
            key.len()
        ));
    }
    match std::str::from_utf8(key) {
        Ok(key) if key.bytes().all(|byte| matches!(byte, b' '..=b'~')) => Ok(Some(key.to_owned())),
        _ => {
            refused("has other characters than visible ASCII; use letters, digits and punctuation")
        }
    }
}

/// Returns what distinguishes two requests of one caller besides their entries: the context that the client chose, and the
/// headers that select data at some catalog. Empty for most requests.
fn besides(head: &Parts, world: &RoutingSnapshot) -> String {
    let context = RequestContext::of(&head.extensions).context.iter();
    let entries = context.flat_map(|context| context.iter());
    let chosen = entries.filter(|entry| entry.source() != Source::Claim);
    let mut all: BTreeSet<String> = chosen
        .map(|entry| format!("{}={:?}\n", entry.key(), entry.value()))
        .collect();
    for name in world
        .backends
        .iter()
        .flat_map(|one| &one.selectors().headers)
    {
        if let Some(value) = head.headers.get(name) {
            all.insert(format!("{name}: {value:?}\n"));
        }
    }
    all.into_iter().collect()
}

/// Returns a name that distinguishes callers: issuer, subject, and the context that their claims set, such as a tenant. Without a subject, a key is enough, which only its
/// client knows: a token that was renewed between two tries would make the second one another batch. Without a key it is
/// the `Authorization` header.
fn name(head: &Parts) -> String {
    let known = RequestContext::of(&head.extensions).principal.as_ref();
    let known = known.filter(|principal| !principal.is_anonymous());
    let has_key = head.headers.contains_key(IDEMPOTENCY_KEY);
    let mut name = match known.filter(|principal| !principal.subject().is_empty()) {
        Some(principal) => format!("{}\0{}", principal.issuer(), principal.subject()),
        None if has_key => String::new(),
        None => {
            let shown = head.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
            String::from_utf8_lossy(shown.unwrap_or_default()).into_owned()
        }
    };
    for entry in known
        .iter()
        .flat_map(|principal| principal.context().iter())
    {
        let _ = write!(name, "\0{}={}", entry.key(), entry.value());
    }
    name
}
