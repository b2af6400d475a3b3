//! Serves requests in the task of their connection, without hyper: see [`crate::http1`].

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::mem::take;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tower::Service;

use super::outgoing::{Outgoing, WriteOutcome};
use crate::body::Body;
use crate::http1::HeaderCache;
use crate::http1::request::{self, ParsedRequest};
use crate::server::connection_state::{ConnectionState, Serving};
use crate::server::service::ConnectionService;

/// The most bytes that are read at once. hyper serves a request that is longer.
const ROOM: usize = 16 << 10;

thread_local! {
    static REQUEST: RefCell<Box<[u8]>> = RefCell::new(vec![0; ROOM].into());
}

/// Memory that one request leaves for the next, until the connection releases its buffers.
#[derive(Default)]
struct Reused {
    /// The emptied header map of the last response. The next request uses it, so that neither allocates one.
    headers: HeaderMap,
    fields: HeaderCache,
}

/// Serves the requests of `stream` as long as they are plain; `start` has been read from it already. Returns the bytes
/// of the first request that hyper has to read, and any that came after it; `None` if the connection is over.
pub(super) async fn serve<T, S>(
    stream: &mut T,
    mut start: Bytes,
    door: &mut ConnectionService<S>,
    longest_head: usize,
) -> Option<Bytes>
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let mut kept = Reused::default();
    loop {
        if start.is_empty() {
            start = next(stream, &mut kept, door.pulse()).await?;
        } else {
            // The next request arrived together with the last one.
            door.pulse().on_read();
        }
        let headers = take(&mut kept.headers);
        let whole = request::read(&start, longest_head, &mut kept.fields, headers);
        let Some(whole) = whole else {
            return Some(start);
        };
        let ParsedRequest {
            request,
            keeps_alive,
            rest,
        } = whole;
        start = rest;
        let (answering, serving) = door.enter(request);
        // Boxed, so that an idle connection holds no memory for it.
        let answering = Box::pin(answering);
        let mut closes = !keeps_alive;
        let written = answer(
            stream,
            answering,
            &serving,
            &mut closes,
            &mut kept,
            &mut start,
        );
        if let WriteOutcome::Left(left) = written.await? {
            left.send(stream, door.pulse(), &mut start).await?;
        }
        if closes {
            drop(stream.shutdown().await);
            return None;
        }
    }
}

/// Reads the next bytes from the client; `None` if the client has closed or fails, or the connection is to finish
/// first.
async fn next<T>(stream: &mut T, kept: &mut Reused, pulse: &ConnectionState) -> Option<Bytes>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let read = poll_fn(|cx| {
        if pulse.should_finish() {
            return Poll::Ready(None);
        }
        if pulse.should_rest() {
            *kept = Reused::default();
        }
        poll_read(stream, cx).map(Result::ok)
    })
    .await
    .filter(|read| !read.is_empty());
    match &read {
        Some(_) => pulse.on_read(),
        None => drop(stream.shutdown().await),
    }
    read
}

/// Waits for the response, and begins to write it. Meanwhile it reads from the client, which may close or send more
/// bytes; those are put into `behind`. `closes` becomes true if the connection is to end after the response. Returns
/// `None` if the client is gone.
async fn answer<T, F>(
    stream: &mut T,
    mut answering: Pin<Box<F>>,
    serving: &Serving,
    closes: &mut bool,
    kept: &mut Reused,
    behind: &mut Bytes,
) -> Option<WriteOutcome>
where
    T: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Result<Response<Body>, Infallible>>,
{
    poll_fn(|cx| {
        *closes |= serving.pulse().should_finish();
        if let Poll::Ready(Ok(mut response)) = answering.as_mut().poll(cx) {
            *closes |= serving.is_last();
            let begun = Outgoing::begin(stream, cx, &mut response, closes, serving.pulse());
            kept.headers = take(response.headers_mut());
            kept.headers.clear();
            return Poll::Ready(begun);
        }
        if behind.is_empty() {
            return poll_behind(stream, cx, behind, serving.pulse()).map(|()| None);
        }
        Poll::Pending
    })
    .await
}

/// Reads what a client sends before it has its response into `behind`. Ready only if the client is gone.
pub(super) fn poll_behind<T>(
    stream: &mut T,
    cx: &mut Context<'_>,
    behind: &mut Bytes,
    state: &ConnectionState,
) -> Poll<()>
where
    T: AsyncRead + Unpin,
{
    match ready!(poll_read(stream, cx)) {
        Ok(read) if !read.is_empty() => {
            state.on_read();
            *behind = read;
            Poll::Pending
        }
        _ => Poll::Ready(()),
    }
}

/// Reads the bytes that have come; none of them means the end of the stream.
pub(super) fn poll_read<T>(stream: &mut T, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>>
where
    T: AsyncRead + Unpin,
{
    REQUEST.with_borrow_mut(|room| {
        let mut room = ReadBuf::new(room);
        ready!(Pin::new(stream).poll_read(cx, &mut room))?;
        Poll::Ready(Ok(Bytes::copy_from_slice(room.filled())))
    })
}
