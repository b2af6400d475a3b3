//! Changes that are sent while a lock is held. The lock belongs to what was sent, not to the client that waits for it.
//!
//! A client may leave, and its request's future is dropped, while the catalog is still working. Were the lock given
//! back then, a batch could begin on the table and the change land in the middle of it. So a change that has begun to be
//! sent goes on in a task of its own, until the catalog has answered or the gateway's timeout strikes. Such tasks are
//! bounded by `limits.in_flight`: each keeps the record of its request (`exchange`), and with it the place that the
//! request has among those that are served, until it ends.

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

/// A change, and what it holds.
pub(super) struct LockedChange<R> {
    pub(super) batches: Arc<Batches>,
    pub(super) backend: Arc<Backend>,
    /// `None`: it concerns no version or table that a batch could be on.
    pub(super) held: Option<Hold>,
    /// The table that it changes.
    pub(super) table: Option<TableKey>,
    /// The version that it creates, where it says which.
    pub(super) version: Option<(TableBranch, u64)>,
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

/// A request that goes on when it is dropped, once it is being sent.
pub(super) struct DetachOnDrop<F: Detachable>(Option<Pin<Box<F>>>);

/// A future that knows whether it may still be dropped.
pub(super) trait Detachable: Future<Output: Send> + Send + 'static {
    /// Whether it may have sent anything.
    fn is_sending(&self) -> bool;
}

/// Sends what `locking` comes to, once it does. One allocation, and no task unless it is dropped while it sends.
pub(super) fn send_locked<L, T, F, S, O>(locking: L, send: F) -> DetachOnDrop<Stage<L, F, S>>
where
    L: Future<Output = Result<T, Error>> + Send + 'static,
    F: FnOnce(T) -> S + Send + 'static,
    S: Future<Output = Result<O, Error>> + Send + 'static,
    O: Send + 'static,
{
    let send = Some(send);
    DetachOnDrop(Some(Box::pin(Stage::Locking { locking, send })))
}

impl<R: BorrowMut<Request<Body>>> LockedChange<R> {
    /// Has the catalog do it.
    pub(super) async fn send(mut self) -> Result<Response<Body>, Error> {
        let request = self.request.borrow_mut();
        let waiting = waiting(&self.backend, request);
        let outcome = self.backend.pass(request).await;
        drop(waiting);
        if let Some(table) = &self.table {
            let version = self
                .version
                .as_ref()
                .map(|(line, version)| (line, *version));
            let succeeded = matches!(&outcome, Ok(response) if response.status().is_success());
            match version.filter(|_| succeeded) {
                Some((line, version)) => self.batches.created(line, version).await,
                None => self.batches.attempted(table, version).await,
            }
            if is_unclear(&outcome) {
                self.batches.unanswered(table, version);
            }
        }
        // The locks are given back with the head: a catalog has done what it was asked when it sends that, and what
        // may follow is only its report.
        drop(self.held);
        outcome.map_err(|failure| failure.into_error(self.backend.name()))
    }
}

/// Whether the catalog may have acted, or may yet, without having said so.
pub(super) fn is_unclear(outcome: &Result<Response<Body>, Failure>) -> bool {
    match outcome {
        // Also what a proxy says that has lost the catalog, and what a catalog has only taken on.
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
        // One that panics is not polled again by a task of its own.
        let staged = self.0.take();
        let mut staged = staged.expect("a future that was ready is not polled again");
        let polled = staged.as_mut().poll(cx);
        if polled.is_pending() {
            self.0 = Some(staged);
        }
        polled
    }
}

impl<F: Detachable> Drop for DetachOnDrop<F> {
    fn drop(&mut self) {
        let sending = self.0.take().filter(|staged| staged.is_sending());
        // Without a runtime the process is ending.
        if let Some((sending, runtime)) = sending.zip(Handle::try_current().ok()) {
            runtime.spawn(sending);
        }
    }
}
