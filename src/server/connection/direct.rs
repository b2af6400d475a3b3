//! Requests that the task of their connection reads and answers by itself: see [`plain`].

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::mem::take;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tower::Service;

use super::plain::{self, ParsedRequest};
use crate::body::Body;
use crate::http1::HeaderCache;
use crate::server::service::{ConnectionService, ResponseBody};
use crate::server::state::{ConnectionState, Serving};

/// What is read at once. A request that is longer streams.
const ROOM: usize = 16 << 10;

thread_local! {
    static REQUEST: RefCell<Box<[u8]>> = RefCell::new(vec![0; ROOM].into());
    static ANSWER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What has to be understood or written by others.
pub(super) enum Fallback {
    /// The bytes of the next request, and whatever came behind it.
    Request(Bytes),
    /// The answer to the last request, and what came behind that.
    Answer(Response<ResponseBody>, Bytes),
}

/// What one request leaves for the next, until a pause.
#[derive(Default)]
struct Reused {
    /// Empty, with room: the answer's, so that neither needs memory of its own.
    headers: HeaderMap,
    fields: HeaderCache,
}

/// What became of an answer.
enum WriteOutcome {
    All,
    /// So much is left.
    Partly(Vec<u8>),
    /// It is to be written by others.
    Not(Response<Body>),
    /// The client is gone.
    Broken,
}

/// Serves the requests of `stream`, of which `start` was read already, as long as they are plain. `None`: the
/// connection is over.
pub(super) async fn serve<T, S>(
    stream: &mut T,
    mut start: Bytes,
    door: &mut ConnectionService<S>,
    longest_head: usize,
) -> Option<Fallback>
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
        let whole = plain::read(
            &start,
            longest_head,
            &mut kept.fields,
            take(&mut kept.headers),
        );
        let Some(ParsedRequest { request, rest }) = whole else {
            return Some(Fallback::Request(start));
        };
        start = rest;
        let (answering, serving) = door.enter(request);
        // Boxed, or every connection that has nothing to do would hold room for it.
        let answering = Box::pin(answering);
        match answer(stream, answering, &serving, &mut kept, &mut start).await {
            WriteOutcome::All => {}
            WriteOutcome::Partly(left) => send(stream, left, door.pulse()).await.ok()?,
            WriteOutcome::Not(response) => {
                let response = response.map(|body| ResponseBody::new(body, Some(serving)));
                return Some(Fallback::Answer(response, start));
            }
            WriteOutcome::Broken => return None,
        }
    }
}

/// What the client sends next; `None` if that is its end, or the connection is to finish before.
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

/// Waits for the answer, and sends it if it is plain. The client is heard meanwhile: it may go, or send more, which
/// becomes `behind`.
async fn answer<T, F>(
    stream: &mut T,
    mut answering: Pin<Box<F>>,
    serving: &Serving,
    kept: &mut Reused,
    behind: &mut Bytes,
) -> WriteOutcome
where
    T: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Result<Response<Body>, Infallible>>,
{
    let mut finishes = false;
    poll_fn(|cx| {
        finishes |= serving.pulse().should_finish();
        if let Poll::Ready(Ok(mut response)) = answering.as_mut().poll(cx) {
            if finishes || serving.is_last() {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(CONNECTION, close);
            }
            return Poll::Ready(begin(stream, cx, response, serving.pulse(), kept));
        }
        if behind.is_empty() {
            match ready!(poll_read(stream, cx)) {
                Ok(read) if !read.is_empty() => {
                    serving.pulse().on_read();
                    *behind = read;
                }
                _ => return Poll::Ready(WriteOutcome::Broken),
            }
        }
        Poll::Pending
    })
    .await
}

/// Writes what the system takes at once, which is nearly always all.
fn begin<T>(
    stream: &mut T,
    cx: &mut Context<'_>,
    mut response: Response<Body>,
    pulse: &ConnectionState,
    kept: &mut Reused,
) -> WriteOutcome
where
    T: AsyncWrite + Unpin,
{
    ANSWER.with_borrow_mut(|out| {
        out.clear();
        if !plain::write_head(out, &response) {
            return WriteOutcome::Not(response);
        }
        kept.headers = take(response.headers_mut());
        kept.headers.clear();
        let body = response.body_mut().take_whole();
        out.extend_from_slice(&body.unwrap_or_default());
        let written = match Pin::new(&mut *stream).poll_write(cx, out) {
            Poll::Ready(Ok(written)) => written,
            Poll::Ready(Err(_)) => return WriteOutcome::Broken,
            Poll::Pending => 0,
        };
        pulse.on_write();
        if written == out.len() && matches!(Pin::new(stream).poll_flush(cx), Poll::Ready(Ok(()))) {
            return WriteOutcome::All;
        }
        pulse.blocks(true);
        WriteOutcome::Partly(out[written..].to_vec())
    })
}

/// Writes what is left of an answer.
async fn send<T>(stream: &mut T, mut left: Vec<u8>, pulse: &ConnectionState) -> io::Result<()>
where
    T: AsyncWrite + Unpin,
{
    poll_fn(|cx| {
        while !left.is_empty() {
            match ready!(Pin::new(&mut *stream).poll_write(cx, &left))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => drop(left.drain(..written)),
            }
            pulse.on_write();
        }
        Pin::new(&mut *stream).poll_flush(cx)
    })
    .await?;
    pulse.blocks(false);
    Ok(())
}

/// What has come; nothing is the end.
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
