//! A response on its way to a client: written at once if it is in memory, and otherwise as its body comes.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::Body as _;
use tokio::io::{AsyncRead, AsyncWrite};

use super::direct;
use crate::body::Body;
use crate::http1::Pieces;
use crate::http1::response::{BodyEncoder, write_head};
use crate::server::connection_state::ConnectionState;

/// The longest body that is copied behind its head, in bytes: as much as the system takes at once.
const LONGEST_COPY: u64 = 16 << 10;
/// The number of bytes of a body that may wait for the client before no more of it is read.
const READ_AHEAD: usize = 64 << 10;
/// The largest number of pieces that are written at once.
const PIECES: usize = 16;

thread_local! {
    static WHOLE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The part of a response that is not written yet.
pub(super) struct Outgoing {
    pieces: Pieces,
    body: Body,
    encoder: BodyEncoder,
    /// True if the end of the body is in `pieces`.
    is_over: bool,
}

/// The result of the first write of a response.
pub(super) enum WriteOutcome {
    All,
    Left(Box<Outgoing>),
}

impl Outgoing {
    /// Begins to write a response. Writes as much as the system takes at once, which is nearly always all of it.
    /// Returns `None` if the client is gone. `closes` says whether the connection ends after it, and
    /// becomes true if a header of the response says so. Leaves the headers of `response` as they are, and takes its body.
    pub(super) fn begin<T>(
        stream: &mut T,
        cx: &mut Context<'_>,
        response: &mut Response<Body>,
        closes: &mut bool,
        state: &ConnectionState,
    ) -> Option<WriteOutcome>
    where
        T: AsyncWrite + Unpin,
    {
        WHOLE.with_borrow_mut(|whole| {
            whole.clear();
            let encoder = write_head(whole, response, closes);
            let mut body = std::mem::take(response.body_mut());
            let is_short = match encoder {
                BodyEncoder::None => true,
                BodyEncoder::Length(length) => body.is_whole() && length <= LONGEST_COPY,
                BodyEncoder::Chunked => false,
            };
            if !is_short {
                return Some(WriteOutcome::Left(Box::new(Self {
                    pieces: one(whole),
                    body,
                    encoder,
                    is_over: false,
                })));
            }
            let bytes = body.take_whole().unwrap_or_default();
            if encoder != BodyEncoder::None {
                whole.extend_from_slice(&bytes);
            }
            let written = match Pin::new(&mut *stream).poll_write(cx, whole) {
                Poll::Ready(Ok(written)) => written,
                Poll::Ready(Err(_)) => return None,
                Poll::Pending => 0,
            };
            state.on_write();
            if written == whole.len()
                && matches!(Pin::new(stream).poll_flush(cx), Poll::Ready(Ok(())))
            {
                return Some(WriteOutcome::All);
            }
            state.blocks(true);
            Some(WriteOutcome::Left(Box::new(Self {
                pieces: one(&whole[written..]),
                body,
                encoder,
                is_over: true,
            })))
        })
    }

    /// Writes the rest. Meanwhile it reads from the client, which may close or send more bytes; those are put into
    /// `behind`. Returns `None` if the client is gone or the body fails: the client must not take the response for
    /// complete.
    pub(super) async fn send<T>(
        mut self: Box<Self>,
        stream: &mut T,
        state: &ConnectionState,
        behind: &mut Bytes,
    ) -> Option<()>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        poll_fn(|cx| {
            if let Poll::Ready(sent) = self.poll_send(stream, cx, state) {
                return Poll::Ready(sent);
            }
            if behind.is_empty() {
                return direct::poll_behind(stream, cx, behind, state).map(|()| None);
            }
            Poll::Pending
        })
        .await
    }

    fn poll_send<T>(
        &mut self,
        stream: &mut T,
        cx: &mut Context<'_>,
        state: &ConnectionState,
    ) -> Poll<Option<()>>
    where
        T: AsyncWrite + Unpin,
    {
        loop {
            if self.fill(cx).is_none() {
                return Poll::Ready(None);
            }
            if self.pieces.len() == 0 {
                let flushed = Pin::new(&mut *stream).poll_flush(cx);
                state.blocks(flushed.is_pending());
                let flushed = ready!(flushed);
                return match (flushed, self.is_over) {
                    (Ok(()), true) => Poll::Ready(Some(())),
                    (Ok(()), false) => Poll::Pending,
                    (Err(_), _) => Poll::Ready(None),
                };
            }
            let mut slices = [IoSlice::new(&[]); PIECES];
            let count = self.pieces.slices(&mut slices);
            let written = Pin::new(&mut *stream).poll_write_vectored(cx, &slices[..count]);
            if written.is_ready() {
                state.on_write();
            }
            state.blocks(written.is_pending());
            match ready!(written) {
                Ok(0) | Err(_) => return Poll::Ready(None),
                Ok(written) => self.pieces.advance(written),
            }
        }
    }

    /// Reads the body, until nothing more of it is there or enough of it waits for the client. Returns `None` if it
    /// fails.
    fn fill(&mut self, cx: &mut Context<'_>) -> Option<()> {
        while !self.is_over && self.pieces.len() < READ_AHEAD {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => break,
                Poll::Ready(None) => {
                    self.encoder.end(&mut self.pieces).ok()?;
                    self.is_over = true;
                }
                Poll::Ready(Some(Err(_))) => return None,
                // Trailers are dropped, as hyper drops them for a client that did not ask for them.
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.encoder.encode(data, &mut self.pieces).ok()?;
                    }
                }
            }
        }
        Some(())
    }
}

fn one(piece: &[u8]) -> Pieces {
    let mut pieces = Pieces::default();
    pieces.push(Bytes::copy_from_slice(piece));
    pieces
}
