//! Exchanges that the task which asks makes itself: see [`plain`].

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::mem::take;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use hyper::rt::{Read as _, ReadBuf, Write as _};
use tokio::time::Instant;

use super::{Connection, ExchangeError, Http1Driver};
use crate::backend::endpoints::retry;
use crate::backend::endpoints::retry::AnswerVerdict;
use crate::backend::rest::injected::InjectedHeaders;
use crate::backend::transport::connect::Io;
use crate::backend::transport::driver_waker::DriverWaker;
use crate::backend::transport::http1;
use crate::backend::transport::http1::ParsedAnswer;
use crate::body::Body;

/// What is read at once: an answer that is longer streams.
const ROOM: usize = 16 << 10;
/// Room for so many headers is made where none is left over: the map goes on to the client's connection, which reads
/// its next request into it, and the gateway adds some to that.
const HEADERS: usize = 24;
/// Of a map with more room than this none is kept.
const MOST_HEADERS: usize = 128;

thread_local! {
    /// For the headers of the next answer, without any: those of a request that was answered were here before.
    static HEADERS_LEFT: Cell<HeaderMap> = Cell::default();
    static REQUEST: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static ANSWER: RefCell<Box<[u8]>> = RefCell::new(vec![0; ROOM].into());
}

/// An answer, or what came instead and is for hyper to understand; `None`: the request is for hyper to write.
type BufferedRead = Result<Response<Bytes>, Option<Bytes>>;

impl Connection {
    /// Sends `request`, which is plain, and waits until `deadline` for what comes. `keeps`: the request may be sent
    /// again after an answer that says so. Otherwise its headers are gone with its answer.
    pub(super) async fn ask(
        &mut self,
        request: &mut Request<Body>,
        added: InjectedHeaders<'_>,
        keeps: bool,
        deadline: Instant,
    ) -> Result<BufferedRead, ExchangeError> {
        let Some(mut rest) = self.begin(request, added)? else {
            return Ok(Err(None));
        };
        let heard = poll_fn(|cx| self.poll_answer(cx, &mut rest, deadline)).await?;
        let mut headers = room();
        let Some(whole) = http1::read(&heard, &mut self.fields, &mut headers) else {
            leave(headers);
            return Ok(Err(Some(heard)));
        };
        let ParsedAnswer {
            status,
            body,
            stays,
        } = whole;
        if !keeps || retry::judge(status) == AnswerVerdict::Well {
            leave(take(request.headers_mut()));
        }
        if !stays {
            self.speaker = Http1Driver::Gone;
        }
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(Ok(response))
    }

    /// Whether another request can be sent, as far as the last answer said.
    pub(super) fn stays(&self) -> bool {
        !matches!(self.speaker, Http1Driver::Gone)
    }

    /// Writes what the system takes at once. What is left is nearly always nothing. `None`: the request is not plain.
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
            if !http1::write_head(piece, request, added) {
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
            // Some of what is meant for the other end may have been written nevertheless.
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
        // What nobody called has nothing new.
        if bell.rang()
            && let Poll::Ready(heard) = poll_exchange(io, bell, rest)
        {
            // It calls again only once it has said that there is no more.
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

/// An empty map with room for the headers of an answer.
fn room() -> HeaderMap {
    match HEADERS_LEFT.take() {
        headers if headers.capacity() == 0 => HeaderMap::with_capacity(HEADERS),
        headers => headers,
    }
}

/// For the next answer.
fn leave(mut headers: HeaderMap) {
    if headers.capacity() <= MOST_HEADERS {
        headers.clear();
        HEADERS_LEFT.set(headers);
    }
}

/// Whether nothing has come over a connection on which nothing was asked: neither its end nor anything else. When it
/// does, the bell rings.
pub(super) fn is_silent(io: &mut Io, bell: &DriverWaker) -> bool {
    bell.rang();
    let mut one = [0];
    let mut one = ReadBuf::new(&mut one);
    let cx = &mut Context::from_waker(bell.waker());
    Pin::new(io).poll_read(cx, one.unfilled()).is_pending()
}

/// Writes what is left to write, then reads.
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
