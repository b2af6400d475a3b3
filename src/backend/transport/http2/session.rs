//! One HTTP/2 connection: its limit of requests, its keep-alive, its idle time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use h2::{Ping, PingPong};
use hyper_util::rt::TokioIo;
use tokio::time::{sleep, timeout};

use crate::backend::transport::coarse_clock;
use crate::backend::transport::coarse_clock::Moment;
use crate::backend::transport::connect::Io;
use crate::error::BoxError;

/// The largest number of requests at a time in one connection; a catalog may allow fewer. More requests open more
/// connections.
const STREAMS: usize = 64;
/// The number of bytes that a catalog may send of one answer before they are read.
const STREAM_WINDOW: u32 = 512 << 10;
/// The number of bytes that it may send of all answers, so that no answer waits until others are read.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * STREAMS as u32;
/// The number of bytes of a request's body that are held while the catalog does not take them.
const SEND_BUFFER: usize = 128 << 10;
/// The largest size of all headers of an answer, in bytes.
const HEADERS: u32 = 64 << 10;
/// The interval of pings that check whether a catalog is still there …
const PING_EVERY: Duration = Duration::from_secs(20);
/// … and the time limit for their answers.
const PONG_WITHIN: Duration = Duration::from_secs(20);

/// One HTTP/2 connection.
pub(super) struct Http2Connection {
    sender: SendRequest<Bytes>,
    streams: AtomicUsize,
    idle_since: AtomicU64,
}

/// A request's place in a connection. Dropping it frees the place.
pub(super) struct StreamPermit {
    session: Arc<Http2Connection>,
    /// True if the connection has carried a request before.
    pub(super) used: bool,
}

impl Http2Connection {
    /// Opens an HTTP/2 connection over `io`.
    pub(super) async fn open(io: Io) -> Result<Self, h2::Error> {
        let mut builder = Builder::new();
        builder
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buffer_size(SEND_BUFFER)
            .max_header_list_size(HEADERS)
            .initial_max_send_streams(STREAMS)
            .enable_push(false);
        let (sender, connection) = builder.handshake(TokioIo::new(io)).await?;
        tokio::spawn(drive(connection));
        Ok(Self {
            sender,
            streams: AtomicUsize::new(0),
            idle_since: AtomicU64::new(0),
        })
    }

    /// True if the catalog takes further requests here, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        let cx = &mut Context::from_waker(Waker::noop());
        !matches!(self.sender.clone().poll_ready(cx), Poll::Ready(Err(_)))
    }

    /// True if no request has been under way for this long.
    pub(super) fn is_idle_for(&self, time: Duration) -> bool {
        let since = self.idle_since.load(Ordering::Relaxed);
        self.streams.load(Ordering::Relaxed) == 0
            && Duration::from_micros(coarse_clock::now().saturating_sub(since)) >= time
    }

    /// Takes a place for a request; `None` if there is none.
    pub(super) fn slot(self: &Arc<Self>) -> Option<StreamPermit> {
        let room = STREAMS.min(self.sender.current_max_send_streams());
        let taken = |streams| (streams < room).then_some(streams + 1);
        let order = Ordering::Relaxed;
        self.streams.fetch_update(order, order, taken).ok()?;
        let slot = StreamPermit {
            session: Arc::clone(self),
            used: self.idle_since.load(order) != 0,
        };
        self.is_open().then_some(slot)
    }
}

impl StreamPermit {
    /// Returns the sender for the request.
    pub(super) fn sender(&self) -> SendRequest<Bytes> {
        self.session.sender.clone()
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let now: Moment = coarse_clock::now();
        self.session.idle_since.store(now, Ordering::Relaxed);
        self.session.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Moves the frames of a connection until it ends: by itself, once no task holds it, or because the catalog does not
/// answer pings.
async fn drive(mut connection: Connection<TokioIo<Io>, Bytes>) {
    let pings = connection.ping_pong();
    tokio::select! {
        ended = connection => if let Err(error) = ended {
            tracing::debug!(cause = %error, "an HTTP/2 connection to a catalog ended");
        },
        error = silent(pings) => {
            tracing::debug!(cause = %error, "an HTTP/2 connection to a catalog was closed by the gateway");
        }
    }
}

/// Returns once a ping is not answered.
async fn silent(pings: Option<PingPong>) -> BoxError {
    let Some(mut pings) = pings else {
        return std::future::pending().await;
    };
    loop {
        sleep(PING_EVERY).await;
        match timeout(PONG_WITHIN, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return error.into(),
            Err(_) => return "no answer to a ping".into(),
        }
    }
}
