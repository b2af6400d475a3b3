//! Serves requests in the task of their connection, without hyper: see [`plain`].

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

/// The most bytes that are read at once. hyper serves a request that is longer.
const ROOM: usize = 16 << 10;

thread_local! {
    static REQUEST: RefCell<Box<[u8]>> = RefCell::new(vec![0; ROOM].into());
    static ANSWER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A request or a response that hyper has to handle.
pub(super) enum Fallback {
    /// The bytes of the next request, and any that came after it.
    Request(Bytes),
    /// The response to the last request, and the bytes that came after that request.
    Answer(Response<ResponseBody>, Bytes),
}

/// Memory that one request leaves for the next, until the connection releases its buffers.
#[derive(Default)]
struct Reused {
    /// The emptied header map of the last response. The next request uses it, so that neither allocates one.
    headers: HeaderMap,
    fields: HeaderCache,
}

/// The result of writing a response.
enum WriteOutcome {
    All,
    /// The system took a part; these bytes are left.
    Partly(Vec<u8>),
    /// hyper has to write this response.
    Not(Response<Body>),
    /// The client is gone.
    Broken,
}

/// Serves the requests of `stream` as long as they are plain; `start` has been read from it already. Returns `None`
/// if the connection is over.
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
        // Boxed, so that an idle connection holds no memory for it.
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

/// Waits for the response, and begins to write it if it is plain. Meanwhile it reads from the client, which may
/// close or send more bytes; those are put into `behind`.
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

/// Writes as much as the system takes at once, which is nearly always the whole response.
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

/// Writes the rest of a response.
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
