//! Gateways that share a batch log: a request that only the owner of the log can serve is passed on to it.
//!
//! The request goes on as the client sent it, with its token: the owner authenticates it, too. What is served here is
//! checked once more when the catalog has answered: meanwhile a batch may have begun, or this gateway may have lost its
//! contact to the log.

mod client;
mod doubt;
mod entrance;
mod pass_on;
mod streamed;
mod subject;

use std::borrow::BorrowMut;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::future::{BoxFuture, Either};
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use super::refused::RefusedFuture;
use crate::batch::fleet::{Fleet, Passage};
use crate::body::Body;
use crate::error::Error;
use crate::gateway::{BodyLimits, RoutingSnapshot};
use crate::protocol::operation::{Access, Lock, Operation};
use crate::request::RequestRecord;
use crate::request::context::RequestContext;
pub use client::{PeerClient, PeerNetwork, Unanswered};
use doubt::Doubt;
pub use entrance::Entrance;
use pass_on::pass_on;
use streamed::StreamedAnswer;
use subject::SharedSubject;

/// Makes [`Share`] services.
#[derive(Clone)]
pub struct ShareLayer(Option<Arc<Sharing>>);

/// The service. It notes the [`Passage`] of requests that take locks.
#[derive(Clone)]
pub struct Share<S> {
    inner: S,
    sharing: Option<Arc<Sharing>>,
}

/// The gateways and routes by which the layer decides.
pub struct Sharing {
    /// The gateways that use the log.
    pub fleet: Arc<Fleet>,
    /// The routes, which tell the catalog of a table.
    pub world: Arc<RoutingSnapshot>,
    /// The client to the owner of the log; `None` if this gateway has the log for itself.
    pub peers: Option<Arc<PeerClient>>,
    /// The limits on JSON bodies. A request with such a body can be passed on again.
    pub bodies: BodyLimits,
}

pin_project! {
    /// A request that is served here.
    pub struct PassageFuture<F> {
        #[pin]
        inner: F,
        passage: Arc<Passage>,
        effect: Effect,
    }
}

/// The kind of a request, as far as the check of its answer depends on it.
enum Effect {
    /// A read. The head of its answer decides what the rest shows.
    Read,
    /// A list of versions or of tables: each piece of its answer may show a batch.
    List,
    Change,
    /// A batch, with its record. Once it has begun, its answer is what the log says.
    Batch(Arc<RequestRecord>),
}

impl ShareLayer {
    /// Passes on what `sharing` says; `None` if the log is for one process only.
    pub fn new(sharing: Option<Arc<Sharing>>) -> Self {
        Self(sharing)
    }
}

impl<S> Layer<S> for ShareLayer {
    type Service = Share<S>;

    fn layer(&self, inner: S) -> Share<S> {
        Share {
            inner,
            sharing: self.0.clone(),
        }
    }
}

impl<S, R> Service<R> for Share<S>
where
    R: BorrowMut<Request<Body>> + Send + 'static,
    S: Service<R, Response = Response<Body>, Error = Error> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Error;
    type Future = Either<
        Either<S::Future, PassageFuture<S::Future>>,
        Either<RefusedFuture, BoxFuture<'static, Result<Response<Body>, Error>>>,
    >;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: R) -> Self::Future {
        let Some(sharing) = &self.sharing else {
            return Either::Left(Either::Left(self.inner.call(request)));
        };
        let asked = request.borrow_mut();
        let subject = SharedSubject::of(&sharing.world, RequestContext::of(asked.extensions()));
        if subject == SharedSubject::Nothing {
            return Either::Left(Either::Left(self.inner.call(request)));
        }
        match sharing.fleet.admit(subject.as_ref()) {
            Err(refusal) if !is_batch(asked) => {
                let operation = RequestContext::of(asked.extensions()).operation;
                let refusal = Doubt::of(asked, operation).instead_of(refusal);
                Either::Right(Either::Left(RefusedFuture::with(refusal)))
            }
            Ok(Some(passage)) => {
                let passage = Arc::new(passage);
                let effect = begin(asked, &passage);
                let inner = self.inner.call(request);
                Either::Left(Either::Right(PassageFuture {
                    inner,
                    passage,
                    effect,
                }))
            }
            // A batch that finds no contact to the log waits for it.
            Ok(None) | Err(_) => {
                let sharing = Arc::clone(sharing);
                // The service that was polled ready must be the one that is called.
                let spare = self.inner.clone();
                let inner = std::mem::replace(&mut self.inner, spare);
                let passed = pass_on(sharing, inner, subject, request);
                Either::Right(Either::Right(Box::pin(passed)))
            }
        }
    }
}

/// Returns the answer, or an error if it must not be given: a batch may have begun on the table.
fn judged(
    passage: &Passage,
    effect: &Effect,
    answer: Result<Response<Body>, Error>,
) -> Result<Response<Body>, Error> {
    match (effect, answer) {
        (Effect::List, Ok(response)) if !response.body().is_whole() => {
            // First: a batch that begins after the check ends the stream.
            let stream = passage.stream();
            passage.check_read()?;
            Ok(response.map(|body| Body::stream(StreamedAnswer::new(body, stream))))
        }
        (Effect::Read | Effect::List, answer) => {
            passage.check_read()?;
            answer
        }
        (Effect::Batch(record), answer) if record.transaction().is_some() => answer,
        (Effect::Change | Effect::Batch(_), answer) => {
            if answer.as_ref().is_ok_and(|it| it.status().is_success()) {
                passage.check_change()?;
            }
            answer
        }
    }
}

fn is_batch(request: &Request<Body>) -> bool {
    let operation = RequestContext::of(request.extensions()).operation;
    operation.is_some_and(|operation| operation.lock() == Lock::Batch)
}

/// Notes the passage of a request that takes locks, which checks it again once it has them. Returns its kind.
fn begin(request: &mut Request<Body>, passage: &Arc<Passage>) -> Effect {
    let learned = RequestContext::more(request.extensions_mut());
    let operation = learned.operation;
    let is_read = operation.is_some_and(|operation| operation.access() == Access::Read);
    let lock = operation.map(Operation::lock);
    let record = learned.exchange.as_ref();
    if let Some(record) = record.filter(|_| lock == Some(Lock::Batch)).cloned() {
        request.extensions_mut().insert(Arc::clone(passage));
        return Effect::Batch(record);
    }
    if !is_read || lock == Some(Lock::Shared) {
        request.extensions_mut().insert(Arc::clone(passage));
    }
    match lock {
        _ if !is_read => Effect::Change,
        _ if matches!(
            operation,
            Some(Operation::ListTables | Operation::ListAllTables)
        ) =>
        {
            Effect::List
        }
        Some(Lock::Versions) => Effect::List,
        _ => Effect::Read,
    }
}

impl<F> Future for PassageFuture<F>
where
    F: Future<Output = Result<Response<Body>, Error>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let answer = ready!(this.inner.poll(cx));
        Poll::Ready(judged(this.passage, this.effect, answer))
    }
}
