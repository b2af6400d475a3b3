//! Exchanges that the requesting task makes itself: see [`crate::http1`].

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderName, Request, Response};
use hyper::rt::{Read as _, ReadBuf, Write as _};
use tokio::time::Instant;

use super::{Connection, ExchangeError, Http1Driver};
use crate::backend::rest::headers::is_for_clients;
use crate::backend::rest::injected::InjectedHeaders;
use crate::backend::transport::connect::Io;
use crate::backend::transport::driver_waker::DriverWaker;
use crate::body::Body;
use crate::http1::request::write_head;
use crate::http1::response::{self, ParsedResponse};

/// The number of bytes that are read at once. A longer answer streams.
const ROOM: usize = 16 << 10;

thread_local! {
    static REQUEST: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static ANSWER: RefCell<Box<[u8]>> = RefCell::new(vec![0; ROOM].into());
}

/// An answer. `Err` holds the bytes that hyper must parse instead; `None` if hyper must write the request.
type BufferedRead = Result<Response<Bytes>, Option<Bytes>>;

impl Connection {
    /// Sends `request`, which must be plain and stays as it is, and waits for the answer until `deadline`.
    pub(super) async fn ask(
        &mut self,
        request: &mut Request<Body>,
        added: InjectedHeaders<'_>,
        deadline: Instant,
    ) -> Result<BufferedRead, ExchangeError> {
        let Some(mut rest) = self.begin(request, added)? else {
            return Ok(Err(None));
        };
        let heard = poll_fn(|cx| self.poll_answer(cx, &mut rest, deadline)).await?;
        let passes_on = |name: &HeaderName| is_for_clients(name.as_str());
        let Some(ParsedResponse { response, stays }) =
            response::read(&heard, &mut self.fields, passes_on)
        else {
            return Ok(Err(Some(heard)));
        };
        if !stays {
            self.speaker = Http1Driver::Gone;
        }
        Ok(Ok(response))
    }

    /// True if another request can be sent, as far as the last answer said.
    pub(super) fn stays(&self) -> bool {
        !matches!(self.speaker, Http1Driver::Gone)
    }

    /// Writes as much as the system takes at once. Returns the rest, which is nearly always empty; `None` if the
    /// request is not plain.
    fn begin(
        &mut self,
        request: &mut Request<Body>,
        added: InjectedHeaders<'_>,
    ) -> Result<Option<Vec<u8>>, ExchangeError> {
        let Http1Driver::Own(io) = &mut self.speaker else {
            return Err(ExchangeError::Unsent("the connection has ended".into()));
        };
        let cx = &mut Context::from_waker(self.bell.waker());
        let outcome = REQUEST.with_borrow_mut(|piece| {
            piece.clear();
            if !write_head(piece, request, &added) {
                return Ok(None);
            }
            let body = request.body_mut().take_whole().unwrap_or_default();
            piece.extend_from_slice(&body);
            *request.body_mut() = Body::full(body);
            match Pin::new(&mut *io).poll_write(cx, piece) {
                Poll::Ready(Ok(length)) => Ok(Some(piece[length..].to_vec())),
                Poll::Ready(Err(error)) => Err(error),
                Poll::Pending => Ok(Some(piece.clone())),
            }
        });
        if !matches!((&outcome, &*io), (Ok(Some(rest)), Io::Plain(_)) if rest.is_empty()) {
            self.bell.ring();
        }
        outcome.map_err(|error| match io {
            Io::Plain(_) => ExchangeError::Unsent(error.into()),
            // Some of the request may have been written nevertheless.
            Io::Tls(_) => ExchangeError::Lost(error.into()),
        })
    }

    fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        rest: &mut Vec<u8>,
        deadline: Instant,
    ) -> Poll<Result<Bytes, ExchangeError>> {
        let Self {
            speaker: Http1Driver::Own(io),
            bell,
            patience,
            ..
        } = self
        else {
            return Poll::Ready(Err(ExchangeError::Lost("the connection has ended".into())));
        };
        bell.hush();
        // Without a call since the last poll, there is nothing new.
        if bell.rang()
            && let Poll::Ready(heard) = poll_exchange(io, bell, rest)
        {
            // The socket calls the waker again only after a read has found no more.
            bell.ring();
            return Poll::Ready(match heard {
                Ok(heard) if heard.is_empty() => Err(ExchangeError::Lost(
                    "it closed the connection before it answered".into(),
                )),
                Ok(heard) => Ok(heard),
                Err(error) => Err(ExchangeError::Lost(error.into())),
            });
        }
        if patience.is_over(deadline, bell.waker()) {
            return Poll::Ready(Err(ExchangeError::Late));
        }
        bell.wait(cx);
        Poll::Pending
    }
}

/// True if nothing has come over an idle connection: neither its end nor any data. When something comes, `bell` is
/// called.
pub(super) fn is_silent(io: &mut Io, bell: &DriverWaker) -> bool {
    bell.rang();
    let mut one = [0];
    let mut one = ReadBuf::new(&mut one);
    let cx = &mut Context::from_waker(bell.waker());
    Pin::new(io).poll_read(cx, one.unfilled()).is_pending()
}

/// Writes the rest of the request, then reads.
fn poll_exchange(io: &mut Io, bell: &DriverWaker, rest: &mut Vec<u8>) -> Poll<io::Result<Bytes>> {
    let cx = &mut Context::from_waker(bell.waker());
    while !rest.is_empty() {
        match ready!(Pin::new(&mut *io).poll_write(cx, rest))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            length => drop(rest.drain(..length)),
        }
    }
    ready!(Pin::new(&mut *io).poll_flush(cx))?;
    ANSWER.with_borrow_mut(|room| {
        let mut room = ReadBuf::new(room);
        ready!(Pin::new(io).poll_read(cx, room.unfilled()))?;
        Poll::Ready(Ok(Bytes::copy_from_slice(room.filled())))
    })
}
