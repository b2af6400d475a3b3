//! Changes that are sent while a lock is held. The lock belongs to the change, not to the client that waits for it.
//!
//! A client may disconnect, and its request's future is then dropped, while the catalog is still working. If the lock
//! were released then, a batch could begin on the table and the change could land in the middle of it. So a change that
//! has begun to be sent continues in a task of its own, until the catalog has answered or the gateway's timeout
//! expires. The number of such tasks is limited by `limits.in_flight`: each keeps the record of its request
//! (`exchange`), and with it the request's place among those that are served, until it ends. A gateway that stops waits
//! for them ([`Batches::at_rest`]).

use std::borrow::BorrowMut;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tokio::runtime::Handle;

use super::send::waiting;
use crate::backend::{Backend, Failure};
use crate::batch::{Batches, Hold, TableBranch, TableKey};
use crate::body::Body;
use crate::error::Error;
use crate::request::CatalogWait;

/// A change and the locks that it holds.
pub(super) struct LockedChange<R> {
    pub(super) batches: Arc<Batches>,
    pub(super) backend: Arc<Backend>,
    /// The locks; `None` if the change concerns no version or table that a batch could be on.
    pub(super) held: Option<Hold>,
    /// The table that is changed.
    pub(super) table: Option<TableKey>,
    /// The version that the change creates, if the request names it.
    pub(super) version: Option<(TableBranch, u64)>,
    /// True if the change takes the name from its table.
    pub(super) takes_name: bool,
    /// True if the versions of the table, or of a branch of it, may begin anew by the change.
    pub(super) renumbers: bool,
    pub(super) request: R,
}

pin_project! {
    /// A request that takes locks and is then sent.
    #[project = StageProjection]
    pub(super) enum Stage<L, F, S> {
        Locking { #[pin] locking: L, send: Option<F> },
        Sending { #[pin] sending: S },
    }
}

/// A request that continues in a task if it is dropped while it is being sent.
pub(super) struct DetachOnDrop<F: Detachable> {
    /// The request; `None` once it was ready.
    staged: Option<Pin<Box<F>>>,
    batches: Arc<Batches>,
}

/// A future that knows whether it may still be dropped.
pub(super) trait Detachable: Future<Output: Send> + Send + 'static {
    /// True if the future may have sent anything.
    fn is_sending(&self) -> bool;
}

/// Waits for `locking`, which takes locks of `batches`, and then sends its result. Costs one allocation, and no task unless it is dropped while it
/// sends.
pub(super) fn send_locked<L, T, F, S, O>(
    batches: &Arc<Batches>,
    locking: L,
    send: F,
) -> DetachOnDrop<Stage<L, F, S>>
where
    L: Future<Output = Result<T, Error>> + Send + 'static,
    F: FnOnce(T) -> S + Send + 'static,
    S: Future<Output = Result<O, Error>> + Send + 'static,
    O: Send + 'static,
{
    let send = Some(send);
    DetachOnDrop {
        staged: Some(Box::pin(Stage::Locking { locking, send })),
        batches: Arc::clone(batches),
    }
}

impl<R: BorrowMut<Request<Body>>> LockedChange<R> {
    /// Sends the change to the catalog.
    pub(super) async fn send(mut self) -> Result<Response<Body>, Error> {
        let request = self.request.borrow_mut();
        let waiting = waiting(&self.backend, request);
        let outcome = self.backend.pass(request).await;
        settled(waiting.as_ref(), &outcome);
        drop(waiting);
        if let Some(table) = &self.table {
            let version = self
                .version
                .as_ref()
                .map(|(line, version)| (line, *version));
            let succeeded = matches!(&outcome, Ok(response) if response.status().is_success());
            match version.filter(|_| succeeded) {
                Some((line, version)) => self.batches.created(line, version).await,
                None if self.takes_name && succeeded => {
                    self.batches.renamed(std::slice::from_ref(table)).await
                }
                None => self.batches.attempted(table, version).await,
            }
            let is_unclear = is_unclear(&outcome);
            if self.renumbers && (succeeded || is_unclear) {
                self.batches.renumbered(table);
            }
            if is_unclear {
                self.batches.unanswered(table, version);
            }
        }
        // Releases the locks once the head of the answer has arrived: a catalog that sends it has done the change, and
        // the rest is only its report.
        drop(self.held);
        outcome.map_err(|failure| failure.into_error(self.backend.name()))
    }
}

/// Notes the catalog's answer to a change in the record of its request: its client may be gone.
pub(super) fn settled(waiting: Option<&CatalogWait>, outcome: &Result<Response<Body>, Failure>) {
    if let (Some(waiting), Ok(response)) = (waiting, outcome) {
        waiting.settled(response.status());
    }
}

/// True if the catalog may have acted, or may still act, without a clear answer.
pub(super) fn is_unclear(outcome: &Result<Response<Body>, Failure>) -> bool {
    match outcome {
        // Includes the answers of a proxy that lost the catalog, and those of a catalog that has only accepted the
        // request.
        Ok(response) => {
            response.status().is_server_error() || response.status() == StatusCode::ACCEPTED
        }
        Err(failure) => failure.may_have_acted(),
    }
}

impl<L, T, F, S, O> Future for Stage<L, F, S>
where
    L: Future<Output = Result<T, Error>>,
    F: FnOnce(T) -> S,
    S: Future<Output = Result<O, Error>>,
{
    type Output = Result<O, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let sending = match self.as_mut().project() {
                StageProjection::Locking { locking, send } => {
                    let locked = match ready!(locking.poll(cx)) {
                        Ok(locked) => locked,
                        Err(error) => return Poll::Ready(Err(error)),
                    };
                    let send = send.take();
                    send.expect("a future that was ready is not polled again")(locked)
                }
                StageProjection::Sending { sending } => return sending.poll(cx),
            };
            self.set(Self::Sending { sending });
        }
    }
}

impl<L, T, F, S, O> Detachable for Stage<L, F, S>
where
    L: Future<Output = Result<T, Error>> + Send + 'static,
    F: FnOnce(T) -> S + Send + 'static,
    S: Future<Output = Result<O, Error>> + Send + 'static,
    O: Send + 'static,
{
    fn is_sending(&self) -> bool {
        matches!(self, Self::Sending { .. })
    }
}

impl<F: Detachable> Future for DetachOnDrop<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // Takes the future out first: a future that panics must not be polled again in a task of its own.
        let staged = self.staged.take();
        let mut staged = staged.expect("a future that was ready is not polled again");
        let polled = staged.as_mut().poll(cx);
        if polled.is_pending() {
            self.staged = Some(staged);
        }
        polled
    }
}

impl<F: Detachable> Drop for DetachOnDrop<F> {
    fn drop(&mut self) {
        let sending = self.staged.take().filter(|staged| staged.is_sending());
        // A missing runtime means that the process is ending.
        if let Some((sending, runtime)) = sending.zip(Handle::try_current().ok()) {
            let mark = self.batches.detach();
            runtime.spawn(async move {
                // Dropped last: when the change is not counted any more, its record has ended.
                let _mark = mark;
                drop(sending.await);
            });
        }
    }
}
