//! Passes a request on to the owner of the log, and waits for another owner if that one is gone.

use std::borrow::BorrowMut;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body::Body as _;
use tokio::time::{Instant, sleep, timeout};
use tower::Service;

use super::client::{PeerClient, Unanswered};
use super::doubt::{Doubt, IDEMPOTENCY_KEY, LOST_CONTACT};
use super::subject::SharedSubject;
use super::{Sharing, begin, judged};
use crate::batch::fleet::{Fleet, Owner, Role};
use crate::body::Body;
use crate::error::Error;
use crate::error::origin::ErrorOrigin;
use crate::gateway::{BodyLimits, read_counted};
use crate::protocol::operation::{Access, Lock, Operation};
use crate::request::context::RequestContext;

/// The longest time that a request waits for an owner that reaches the log, and is passed on again. Another gateway takes
/// the log over well within it.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause before a request is passed on again.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest time after which an owner that could not reach the log is asked again, if no other gateway takes over.
const AWAY_PAUSE: Duration = Duration::from_millis(250);
/// The time after which the owner is asked whether it is there, again and again, and the longest time for that answer.
const QUIET: Duration = Duration::from_secs(5);
const PROBE: Duration = Duration::from_secs(5);
/// The length up to which a body without a type is kept, to be passed on again. Bodies of reads are short.
const SHORT: u64 = 64 << 10;
/// The words for a time in which no gateway has the log.
const NO_OWNER: &str = "no gateway has the batch log at the moment; another one takes it over";
/// The words for an owner that cannot reach the log.
const NO_LOG: &str = "the batch log does not answer, so no batch can begin";
/// The words for an owner that has yet to recover its batches, here and elsewhere.
const RECOVERS: &str = "this gateway has the batch log now, and still recovers its batches";
const STILL_RECOVERS: &str = "still recovers its batches";
/// The words for an owner that gives no answer, and for one that refused this gateway's certificate, or the other way.
const UNANSWERED: &str = "does not answer";
const UNTRUSTED: &str = "and this one do not trust each other's certificates";

/// Passes `request` on, or has `inner` serve it if this gateway becomes the owner meanwhile, or reaches the log again.
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
    let began = Instant::now();
    let until = began + PATIENCE;
    let asked = request.borrow_mut();
    let learned = RequestContext::more(asked.extensions_mut());
    learned.came.get_or_insert(began);
    let (operation, peer) = (learned.operation, learned.peer.clone());
    let (exchange, is_passed_on) = (learned.exchange.clone(), learned.is_passed_on);
    let mut doubt = Doubt::of(asked, operation);
    if is_passed_on {
        let refusal = doubt.refusal(unserved(&sharing.fleet));
        // The outage is in the log, and the other gateway asks again and again.
        return Err(refusal.of(ErrorOrigin::BatchLog).already_logged());
    }
    // Its body is read once it can be served.
    let served = sharing.fleet.owner(subject.as_ref(), PATIENCE).await;
    served.map_err(|_| doubt.refusal(unserved(&sharing.fleet)))?;
    let (kept, repeats) = keep(&sharing, asked, operation, &mut doubt).await?;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let owner = sharing.fleet.owner(subject.as_ref(), left).await;
        let owner = owner.map_err(|_| doubt.refusal(unserved(&sharing.fleet)))?;
        let (Some(owner), Some(peers)) = (owner, &sharing.peers) else {
            let Ok(Some(passage)) = sharing.fleet.admit(subject.as_ref()) else {
                // This gateway was it for a moment.
                if Instant::now() > until {
                    return Err(doubt.refusal(unserved(&sharing.fleet)));
                }
                sleep(PAUSE).await;
                continue;
            };
            if let Some(exchange) = &exchange {
                exchange.passes_on_to(None);
            }
            let asked = request.borrow_mut();
            if let Some(body) = kept {
                *asked.body_mut() = Body::full(body);
            }
            let passage = Arc::new(passage);
            let effect = begin(asked, &passage);
            let answer = inner.call(request).await;
            let answer = judged(&passage, &effect, answer);
            let copy = sharing.fleet.copy().number();
            return doubt.judge(answer, copy).await;
        };
        if let Some(exchange) = &exchange {
            exchange.passes_on_to(Some(&owner.name));
        }
        let sent = match &kept {
            Some(body) => copy(request.borrow_mut(), body.clone()),
            None => take(request.borrow_mut()),
        };
        let copy = sharing.fleet.copy().number();
        let answered = tokio::select! {
            biased;
            answered = peers.ask(&owner, peer.as_ref(), began.elapsed(), sent) => answered,
            () = gone(&sharing, &owner) => Err(Unanswered::Lost("it lost the batch log".to_owned())),
            () = silent(peers, &owner) => Err(Unanswered::Lost("it takes connections and answers nothing".to_owned())),
        };
        let (may_repeat, refusal, words) = match answered {
            Ok(response) => {
                sharing.fleet.passed_on(true);
                let copy = sharing.fleet.copy().number();
                return doubt.judge(Ok(response), copy).await;
            }
            Err(Unanswered::Away(response)) => {
                // A gateway that cannot reach the log either does not learn of the next owner. Batches wait for the log.
                let may_learn = doubt.is_about_batch() || sharing.fleet.knows_of_batches();
                let may_wait = Instant::now() < until && may_learn;
                if kept.is_none() || !repeats || !may_wait {
                    sharing.fleet.passed_on(true);
                    if doubt.is_about_batch() {
                        return Err(doubt.refusal(NO_LOG));
                    }
                    return doubt.judge(Ok(*response), copy).await;
                }
                let _ = timeout(AWAY_PAUSE, gone(&sharing, &owner)).await;
                continue;
            }
            Err(Unanswered::Unsent(words)) => (kept.is_some(), UNANSWERED, words),
            Err(Unanswered::Recovering) => {
                (kept.is_some(), STILL_RECOVERS, STILL_RECOVERS.to_owned())
            }
            // That needs a person.
            Err(Unanswered::Insecure(words)) => (false, UNTRUSTED, words),
            Err(Unanswered::Lost(words)) => {
                doubt.was_sent(copy);
                (kept.is_some() && repeats, UNANSWERED, words)
            }
        };
        tracing::debug!(
            gateway = owner.name,
            cause = words,
            "the gateway with the batch log did not answer"
        );
        if !may_repeat || Instant::now() > until {
            sharing.fleet.passed_on(false);
            if !sharing.fleet.knows_of_batches() {
                return Err(doubt.refusal(LOST_CONTACT));
            }
            let name = owner.name;
            return Err(doubt.refusal(&format!(
                "gateway `{name}`, which has the batch log, {refusal}"
            )));
        }
        sleep(PAUSE).await;
    }
}

/// The words for the reason why no gateway serves a request.
fn unserved(fleet: &Fleet) -> &'static str {
    match fleet.role() {
        Role::Owner | Role::Outside => NO_LOG,
        Role::Recovering => RECOVERS,
        Role::Follower(_) => NO_OWNER,
    }
}

/// Returns when `owner` does not own the log any more.
async fn gone(sharing: &Sharing, owner: &Owner) {
    let is_other = |role: &Role| !matches!(role, Role::Follower(Some(now)) if now.id == owner.id);
    sharing.fleet.role_when(is_other).await;
}

/// Returns when `owner` answers nothing at all, though it may take connections. A request may take as long as it likes.
async fn silent(peers: &PeerClient, owner: &Owner) {
    loop {
        sleep(QUIET).await;
        if timeout(PROBE, peers.probe(owner)).await != Ok(true) {
            return;
        }
    }
}

/// Reads the body if it is short enough to be passed on again, and makes sure that a batch can be. Returns the body, and
/// true if the request may be passed on again although it may have been carried out.
async fn keep(
    sharing: &Sharing,
    request: &mut Request<Body>,
    operation: Option<Operation>,
    doubt: &mut Doubt,
) -> Result<(Option<Bytes>, bool), Error> {
    let is_batch = operation.is_some_and(|operation| operation.lock() == Lock::Batch);
    let is_read = operation.is_some_and(|operation| operation.access() == Access::Read);
    let limit = if is_batch {
        sharing.bodies.json
    } else {
        let longest = request.body().size_hint().upper();
        if longest.is_none_or(|longest| longest > SHORT) {
            return Ok((None, false));
        }
        // At most `SHORT`.
        longest.unwrap_or_default() as usize
    };
    let limits = BodyLimits {
        json: limit,
        ..sharing.bodies.clone()
    };
    let body = read_counted(request, &limits).await?;
    if is_batch && !request.headers().contains_key(IDEMPOTENCY_KEY) {
        // With a key, the batch is found again at the next owner.
        let key = format!("nsgate-{}", uuid::Uuid::new_v4());
        if let Ok(key) = HeaderValue::try_from(key) {
            request.headers_mut().insert(IDEMPOTENCY_KEY, key.clone());
            doubt.has_key(key);
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
