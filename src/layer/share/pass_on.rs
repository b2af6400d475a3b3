//! Passes a request on to the owner of the log, and waits for another owner if that one is gone.

use std::borrow::BorrowMut;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body::Body as _;
use tokio::time::{Instant, sleep};
use tower::Service;

use super::client::Unanswered;
use super::subject::SharedSubject;
use super::{Sharing, begin, judged};
use crate::batch::fleet::{Owner, Role};
use crate::body::Body;
use crate::error::Error;
use crate::error::retry_after::RetryAfter;
use crate::gateway::unread;
use crate::protocol::operation::{Access, Lock, Operation};
use crate::request::context::RequestContext;

/// The longest time that a request waits for an owner, and is passed on again. Another gateway takes the log over well
/// within it.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause before a request is passed on again.
const PAUSE: Duration = Duration::from_millis(50);
/// The length up to which a body without a type is kept, to be passed on again. Bodies of reads are short.
const SHORT: u64 = 64 << 10;
/// The words for a time in which no gateway has the log.
const NO_OWNER: &str = "no gateway has the batch log";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Passes `request` on, or has `inner` serve it if this gateway becomes the owner meanwhile.
pub(super) async fn pass_on<S, R>(
    sharing: Arc<Sharing>,
    mut inner: S,
    subject: SharedSubject,
    mut request: R,
) -> Result<Response<Body>, Error>
where
    R: BorrowMut<Request<Body>> + Send + 'static,
    S: Service<R, Response = Response<Body>, Error = Error> + Send + 'static,
    S::Future: Send,
{
    let until = Instant::now() + PATIENCE;
    let asked = request.borrow_mut();
    let learned = RequestContext::of(asked.extensions());
    let (operation, peer) = (learned.operation, learned.peer.clone());
    let exchange = learned.exchange.clone();
    if learned.is_passed_on {
        return Err(later("the gateway that had the batch log lost it"));
    }
    let (kept, repeats) = keep(&sharing, asked, operation).await?;
    let mut may_have_acted = false;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let owner = match sharing.fleet.owner(left).await {
            Err(_) if may_have_acted => {
                let key = request.borrow_mut().headers().get(IDEMPOTENCY_KEY);
                return Err(unknown(NO_OWNER, key));
            }
            owner => owner?,
        };
        let (Some(owner), Some(peers)) = (owner, &sharing.peers) else {
            let asked = request.borrow_mut();
            if let Some(body) = kept {
                *asked.body_mut() = Body::full(body);
            }
            let Some(passage) = sharing.fleet.admit(subject.as_ref())? else {
                return Err(later("the batch log was lost again"));
            };
            let passage = Arc::new(passage);
            let effect = begin(asked, &passage);
            let answer = inner.call(request).await;
            return judged(&passage, effect, answer);
        };
        if let Some(exchange) = &exchange {
            exchange.passes_on_to(&owner.name);
        }
        let sent = match &kept {
            Some(body) => copy(request.borrow_mut(), body.clone()),
            None => take(request.borrow_mut()),
        };
        let answered = tokio::select! {
            biased;
            answered = peers.ask(&owner, peer.as_ref(), sent) => answered,
            () = gone(&sharing, &owner) => Err(Unanswered::Lost("it lost the batch log".to_owned())),
        };
        let (may_repeat, words) = match answered {
            Ok(response) => {
                sharing.fleet.passed_on(true);
                return Ok(response);
            }
            Err(Unanswered::Unsent(words)) => (kept.is_some(), words),
            Err(Unanswered::Lost(words)) => {
                may_have_acted = true;
                (kept.is_some() && repeats, words)
            }
        };
        tracing::debug!(
            gateway = owner.name,
            cause = words,
            "the gateway with the batch log did not answer"
        );
        if !may_repeat || Instant::now() > until {
            sharing.fleet.passed_on(false);
            let key = request.borrow_mut().headers().get(IDEMPOTENCY_KEY);
            let key = key.filter(|_| operation.is_some_and(|of| of.lock() == Lock::Batch));
            let is_change = operation.is_none_or(|of| of.access() == Access::Write);
            return Err(unanswered(&owner, key, may_have_acted && is_change));
        }
        sleep(PAUSE).await;
    }
}

/// Returns when `owner` does not own the log any more.
async fn gone(sharing: &Sharing, owner: &Owner) {
    let is_other = |role: &Role| !matches!(role, Role::Follower(Some(now)) if now.id == owner.id);
    sharing.fleet.role_when(is_other).await;
}

/// Reads the body if it is short enough to be passed on again, and makes sure that a batch can be. Returns the body, and
/// true if the request may be passed on again although it may have been carried out.
async fn keep(
    sharing: &Sharing,
    request: &mut Request<Body>,
    operation: Option<Operation>,
) -> Result<(Option<Bytes>, bool), Error> {
    let is_batch = operation.is_some_and(|operation| operation.lock() == Lock::Batch);
    let is_read = operation.is_some_and(|operation| operation.access() == Access::Read);
    let limit = if is_batch {
        sharing.json_body
    } else {
        let longest = request.body().size_hint().upper();
        if longest.is_none_or(|longest| longest > SHORT) {
            return Ok((None, false));
        }
        // At most `SHORT`.
        longest.unwrap_or_default() as usize
    };
    let body = take(request.body_mut()).collect_up_to(limit).await;
    let body = body.map_err(|error| unread(error, limit))?;
    if is_batch && !request.headers().contains_key(IDEMPOTENCY_KEY) {
        // With a key, the batch is found again at the next owner.
        let key = format!("nsgate-{}", uuid::Uuid::new_v4());
        if let Ok(key) = HeaderValue::try_from(key) {
            request.headers_mut().insert(IDEMPOTENCY_KEY, key);
        }
    }
    Ok((Some(body), is_batch || is_read))
}

/// Copies what of a request is passed on.
fn copy(request: &Request<Body>, body: Bytes) -> Request<Body> {
    let mut copy = Request::new(Body::full(body));
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    copy
}

fn unanswered(owner: &Owner, key: Option<&HeaderValue>, may_have_acted: bool) -> Error {
    let name = &owner.name;
    let words = format!("gateway `{name}`, which has the batch log, does not answer");
    if may_have_acted {
        unknown(&words, key)
    } else {
        later(&words)
    }
}

/// Returns the error for a request of which nothing was carried out.
fn later(words: &str) -> Error {
    Error::unavailable(format!("{words}; retry later")).with_retry_after(RetryAfter::SOON)
}

/// Returns the refusal of a request that this gateway cannot serve. A batch with a key may be a repeat, and the gateway
/// that had the batch log may have carried the first one out: the refusal must not read as the end of the batch.
pub(super) fn of_repeat(request: &Request<Body>, refusal: Error) -> Error {
    let operation = RequestContext::of(request.extensions()).operation;
    let key = request.headers().get(IDEMPOTENCY_KEY);
    match key.and_then(|key| key.to_str().ok()) {
        Some(key) if operation.is_some_and(|of| of.lock() == Lock::Batch) => {
            let words = format!(
                "this gateway has lost its contact to the batch log. If this batch was sent before, it may have been carried out: send it again with `Idempotency-Key: {key}` to learn how it ended"
            );
            Error::unavailable(words).with_retry_after(RetryAfter::SOON)
        }
        _ => refusal,
    }
}

/// Returns the error for a request that may have been carried out.
fn unknown(words: &str, key: Option<&HeaderValue>) -> Error {
    let key = key.and_then(|key| key.to_str().ok());
    Error::unavailable(match key {
        Some(key) => format!(
            "{words}. The batch may have been carried out: send it again with `Idempotency-Key: {key}` to learn how it ended"
        ),
        None => format!("{words}. The change may have been carried out: look before you repeat it"),
    })
}
