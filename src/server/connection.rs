//! One client connection: its HTTP version, its limits, and the requests that go into the stack.
//!
//! HTTP/1.1 and HTTP/2 by prior knowledge are told apart by the first bytes (RFC 9113, section 3.3). There is no timer
//! for a connection or a request: each connection keeps a [`ConnectionState`], and the listener checks all of them from
//! time to time.

mod direct;
mod frames;
mod inspected;
mod io;
mod outgoing;
mod request_scanner;
pub(in crate::server) mod rest;

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::{http1, http2};
use hyper::service::HttpService;
use hyper_util::rt::TokioTimer;
use tokio::io::{AsyncRead, AsyncWrite};
use tower::Service;

pub use crate::server::connection_state::{ConnectionState, Directive, IdleTracker, Timeouts};

use crate::backend::Peer;
use crate::body::Body;
use crate::config::Limits;
use crate::error::BoxError;
use crate::server::service::ConnectionService;
use crate::server::stream_tasks::StreamExecutor;
use crate::util::wakers;
use frames::Frames;
use inspected::Inspector;
use io::Io;
use request_scanner::RequestScanner;

/// The bytes that open an HTTP/2 connection (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The most requests of one HTTP/2 connection at a time.
const MAX_STREAMS: u32 = 256;
/// The flow-control window of one HTTP/2 stream, in bytes: the most that a client may send of a request before it is
/// read.
const STREAM_WINDOW: u32 = 1 << 20;
/// The flow-control window of one HTTP/2 connection, in bytes. It is larger than that of a stream, so that a request
/// whose catalog does not read leaves room for the others.
const CONNECTION_WINDOW: u32 = 4 << 20;
/// The most bytes that are buffered of a response that an HTTP/2 client does not read.
const SEND_BUFFER: usize = 128 << 10;
/// The interval of pings that check whether a quiet HTTP/2 client is still there.
const PING_EVERY: Duration = Duration::from_secs(60);
/// The most bytes that hyper reads ahead on one HTTP/1.1 connection, and that it buffers of a response that the client
/// does not read. Longer headers raise it. A buffer grows to this size only if that much comes at once: a smaller one
/// costs more system calls for a body that streams, a larger one more memory for clients that do not read.
const READ_AHEAD: usize = 256 << 10;

/// The most bytes that are read and discarded of a request whose response came before its end. A client that sends its
/// whole request before it reads the response gets the response if less is missing.
const MOST_DISCARDED: usize = 16 << 20;

/// The HTTP settings for the connections of one listener.
#[derive(Clone)]
pub struct Protocols {
    http1: http1::Builder,
    header_bytes: usize,
}

impl Protocols {
    /// Creates settings with the limits of `limits`. Requests with longer headers get 431.
    pub fn new(limits: &Limits) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            // `ConnectionState` enforces this timeout, without a timer for each request.
            .header_read_timeout(None)
            .max_header_size(limits.header_bytes)
            // The line that ends the headers must fit as well.
            .max_buf_size(READ_AHEAD.max(limits.header_bytes + (8 << 10)));
        Self {
            http1,
            header_bytes: limits.header_bytes,
        }
    }

    /// Returns the settings for one HTTP/2 connection.
    fn http2(&self, pulse: &Arc<ConnectionState>) -> http2::Builder<StreamExecutor> {
        let mut http2 = http2::Builder::new(StreamExecutor::new(pulse));
        http2
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(self.header_bytes).unwrap_or(u32::MAX))
            .max_concurrent_streams(MAX_STREAMS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .keep_alive_interval(PING_EVERY);
        http2
    }

    /// Serves a connection until it ends by itself or `pulse` orders its end. Returns the error if its bytes could not
    /// be parsed as a request, because nothing else reports that.
    ///
    /// `stack` is always ready: it refuses instead of waiting.
    pub async fn serve<T, S>(
        &self,
        stream: T,
        peer: Peer,
        stack: S,
        pulse: Arc<ConnectionState>,
    ) -> Option<hyper::Error>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Send + 'static,
        S::Future: Send + 'static,
    {
        let door = ConnectionService::new(stack, peer, Arc::clone(&pulse));
        let speaking = pin!(self.speak(stream, door, &pulse));
        pulse.unless_aborted(speaking).await.flatten()
    }

    async fn speak<T, S>(
        &self,
        mut stream: T,
        door: ConnectionService<S>,
        pulse: &Arc<ConnectionState>,
    ) -> Option<hyper::Error>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Send + 'static,
        S::Future: Send + 'static,
    {
        let mut start = Bytes::new();
        let http2 = {
            let mut first = pin!(is_http2(&mut stream, &mut start));
            poll_fn(|cx| {
                if pulse.should_finish() {
                    Poll::Ready(None)
                } else {
                    first.as_mut().poll(cx).map(Result::ok)
                }
            })
            .await
        };
        // No other end of a connection is reported: its requests have been counted.
        if http2? {
            let inspector = Inspector::Http2(Frames::after(PREFACE.len()));
            let io = Io::new(stream, start, Arc::clone(pulse), inspector);
            // Boxed, so that the task of an HTTP/1.1 connection stays small.
            Box::pin(self.speak_http2(io, door, pulse)).await;
            None
        } else {
            let ended = self.speak_http1(stream, start, door, pulse).await;
            ended.err().filter(hyper::Error::is_parse)
        }
    }

    /// Serves plain requests in this task. Passes any other request to hyper, and all that follow it until the
    /// connection is idle. Then it keeps nothing but the stream, because hyper's buffers are larger than everything
    /// else that a connection holds.
    async fn speak_http1<T, S>(
        &self,
        mut stream: T,
        mut start: Bytes,
        mut door: ConnectionService<S>,
        pulse: &Arc<ConnectionState>,
    ) -> hyper::Result<()>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Send + 'static,
        S::Future: Send + 'static,
    {
        loop {
            let read = direct::serve(&mut stream, start, &mut door, self.header_bytes).await;
            let Some(read) = read else {
                return Ok(());
            };
            start = read;
            let inspector = Inspector::Http1(RequestScanner::default());
            let io = Io::new(stream, start, Arc::clone(pulse), inspector);
            let mut connection = self.http1.serve_connection(io, door);
            let mut waker = wakers::TaskWaker::default();
            let rests =
                poll_fn(|cx| poll_http1(&mut connection, pulse, &mut waker.context(cx))).await;
            let rests = rests?;
            let parts = connection.into_parts();
            if !rests {
                if pulse.has_unread() {
                    discard_rest(parts.io.into_inner(), pulse).await;
                }
                return Ok(());
            }
            (stream, door, start) = (parts.io.into_inner(), parts.service, parts.read_buf);
            if start.is_empty() {
                // Even an empty `Bytes` keeps hyper's buffer alive.
                start = Bytes::new();
            }
        }
    }

    async fn speak_http2<T, S>(
        &self,
        io: Io<T>,
        door: ConnectionService<S>,
        pulse: &Arc<ConnectionState>,
    ) where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Send + 'static,
        S::Future: Send + 'static,
    {
        let mut connection = pin!(self.http2(pulse).serve_connection(io, door));
        let mut told = false;
        let _ = poll_fn(|cx| {
            // Unlike in HTTP/1.1, requests that are already on their way are not lost by this.
            let last = pulse.is_last() && !std::mem::replace(&mut told, true);
            if last || pulse.should_finish() {
                connection.as_mut().graceful_shutdown();
            }
            connection.as_mut().poll(cx)
        })
        .await;
    }
}

/// Reads and discards what a client still sends of a request that has its response. A connection that is closed with
/// unread bytes is reset, and the reset can reach the client before it has read the response. Ends with the client, at
/// an order to finish, after [`MOST_DISCARDED`] bytes, or when the listener ends the connection: to the listener, these
/// bytes are headers that are not complete.
async fn discard_rest<T>(mut stream: T, pulse: &ConnectionState)
where
    T: AsyncRead + Unpin,
{
    let mut left = MOST_DISCARDED;
    while left > 0 {
        let read = poll_fn(|cx| {
            if pulse.should_finish() {
                return Poll::Ready(None);
            }
            direct::poll_read(&mut stream, cx).map(Result::ok)
        });
        let Some(read) = read.await.filter(|read| !read.is_empty()) else {
            return;
        };
        pulse.on_read();
        left = left.saturating_sub(read.len());
    }
}

/// Polls hyper's connection until it is over or cannot be read any further. Returns true if only the buffers are to be
/// released, and false if the connection is over.
fn poll_http1<I, B, S>(
    connection: &mut http1::Connection<I, S>,
    pulse: &ConnectionState,
    cx: &mut Context<'_>,
) -> Poll<hyper::Result<bool>>
where
    I: Read + Write + Unpin,
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<BoxError>,
    B: http_body::Body + 'static,
    B::Error: Into<BoxError>,
{
    let (mut connection, activity) = (Pin::new(connection), pulse.activity());
    // Orders come after this: a shutdown before the bytes that have arrived are served would leave them without a
    // response.
    if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
        return Poll::Ready(ended.map(|()| false));
    }
    // After any activity there may be bytes that hyper has not read, or the rest of a body; hyper would close the
    // connection.
    // A connection that closes after an unread request has nothing to rest for, and hyper would cut the request off.
    if pulse.should_rest() && pulse.activity() == activity && !pulse.has_unread() {
        // hyper knows best whether the connection is idle. If it is, it ends at once, with nothing left to write. If it
        // is not, the request being served becomes the last.
        connection.as_mut().graceful_shutdown();
        return pulse
            .resting(|| connection.poll(cx))
            .map(|ended| ended.map(|()| true));
    }
    if pulse.should_finish() {
        connection.as_mut().graceful_shutdown();
        return connection.poll(cx).map(|ended| ended.map(|()| false));
    }
    Poll::Pending
}

/// Reads into `start` until its bytes tell whether they are the HTTP/2 preface. Returns true if they are.
async fn is_http2<T>(stream: &mut T, start: &mut Bytes) -> std::io::Result<bool>
where
    T: AsyncRead + Unpin,
{
    loop {
        let read = poll_fn(|cx| direct::poll_read(stream, cx)).await?;
        let over = read.is_empty();
        *start = if start.is_empty() {
            read
        } else {
            [&start[..], &read].concat().into()
        };
        let known = start.len().min(PREFACE.len());
        if start[..known] != PREFACE[..known] || over {
            return Ok(false);
        }
        if known == PREFACE.len() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests;
