//! One HTTP/1.1 connection to a catalog, driven by the task that uses it.
//!
//! Most exchanges are plain (see [`crate::http1`]): the task writes the request and reads the answer itself. For all others
//! hyper takes over, and gives the connection back when the answer has ended. Its connection future is not spawned: the
//! task that exchanges a request polls it, and so does the task that reads the response. No second task wakes for a
//! request, and an abandoned request closes its connection at once. An idle connection is not polled;
//! [`Connection::is_usable`] checks it before it is used again.
//!
//! Wakers: the connection is polled with the waker of a [`DriverWaker`], and hyper is polled only after that waker was
//! called, because otherwise it has nothing to do. The channels between hyper's halves are polled with a waker that
//! does nothing, because the driver is always polled right after them.

mod direct;
mod streamed;

use std::future::poll_fn;
use std::mem::{replace, take};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{Method, Request, Response};
use http_body::{Body as _, Frame};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1 as hyper_http1;
use hyper::client::conn::http1::SendRequest;
use pin_project_lite::pin_project;
use tokio::task::unconstrained;
use tokio::time::Instant;

use crate::backend::rest::headers;
use crate::backend::rest::injected::InjectedHeaders;
use crate::backend::transport::connect::Io;
use crate::backend::transport::deadline::DeadlineTimer;
use crate::backend::transport::driver_waker::DriverWaker;
use crate::backend::transport::request_copy::RequestCopy;
use crate::backend::transport::rewind::{AnswerSignal, Rewind};
use crate::body::Body;
use crate::error::BoxError;
use crate::http1::{self, HeaderCache, request};
pub(in crate::backend) use streamed::{PoolHandle, body};

/// The largest number of bytes that are read ahead of an answer, and that are held of a request that the catalog does
/// not take.
const READ_AHEAD: usize = 256 << 10;

/// The number of consecutive answers that were not plain after which hyper keeps the connection.
const OTHERS: u8 = 3;

/// One connection. It serves one request at a time.
pub(in crate::backend) struct Connection {
    speaker: Http1Driver,
    bell: DriverWaker,
    patience: DeadlineTimer,
    /// The headers of its last answer, parsed.
    fields: HeaderCache,
    /// The number of answers since the last plain one.
    others: u8,
}

/// The reader and writer of a connection.
enum Http1Driver {
    /// The task that uses the connection.
    Own(Io),
    /// hyper.
    Hyper {
        sender: SendRequest<Body>,
        driver: Box<hyper_http1::Connection<Rewind, Body>>,
    },
    /// The connection has ended.
    Gone,
}

/// The body of an answer.
pub(in crate::backend) enum ReceivedBody {
    /// The whole body, in memory.
    Whole(Bytes),
    /// A body that is still to be read.
    Streaming(Incoming),
}

/// The reason why an exchange gave no response.
pub(in crate::backend) enum ExchangeError {
    /// A request of which nothing was written; it is unchanged.
    Unsent(BoxError),
    /// A request that may have been written in part.
    Lost(BoxError),
    /// No response arrived in time.
    Late,
}

impl Connection {
    /// Returns an HTTP connection over `io`. Sends nothing yet.
    pub(in crate::backend) fn open(io: Io) -> Self {
        Self {
            speaker: Http1Driver::Own(io),
            bell: DriverWaker::new(),
            patience: DeadlineTimer::default(),
            fields: HeaderCache::default(),
            others: 0,
        }
    }

    /// True if a request may be sent: the last one is over, and the catalog has not closed the connection, as far as is
    /// known.
    pub(in crate::backend) fn is_usable(&mut self) -> bool {
        // A task that has used up its read budget would find every connection silent.
        let looking = unconstrained(poll_fn(|_| Poll::Ready(self.is_quiet())));
        looking.now_or_never() == Some(true)
    }

    fn is_quiet(&mut self) -> bool {
        self.bell.hush();
        match &mut self.speaker {
            Http1Driver::Own(io) => direct::is_silent(io, &self.bell),
            Http1Driver::Hyper { .. } => {
                self.drive();
                matches!(&self.speaker, Http1Driver::Hyper { sender, .. } if sender.is_ready())
            }
            Http1Driver::Gone => false,
        }
    }

    /// Sends `request` with the headers in `added`, and waits for the response's headers until `deadline`. With
    /// `keeps`, the request may be sent again afterwards, if its body is in memory. Otherwise its content must not be
    /// used afterwards, unless it is unsent.
    pub(in crate::backend) async fn exchange(
        &mut self,
        request: &mut Request<Body>,
        added: InjectedHeaders<'_>,
        keeps: bool,
        deadline: Instant,
    ) -> Result<Response<ReceivedBody>, ExchangeError> {
        let mut read = None;
        if matches!(self.speaker, Http1Driver::Own(_)) && request::is_plain(request) {
            match self.ask(request, added, deadline).await? {
                Ok(response) => {
                    self.others = 0;
                    return Ok(response.map(ReceivedBody::Whole));
                }
                Err(other) => {
                    self.others += u8::from(other.is_some());
                    read = other;
                }
            }
        }
        // Boxed, because it would make the future of every request large.
        added.insert_into(request.headers_mut());
        Box::pin(self.exchange_by_hyper(request, keeps, read, deadline)).await
    }

    /// Exchanges a request through hyper. `read` holds the bytes that have come since the request was written; `None`
    /// if it was not written.
    async fn exchange_by_hyper(
        &mut self,
        request: &mut Request<Body>,
        keeps: bool,
        read: Option<Bytes>,
        deadline: Instant,
    ) -> Result<Response<ReceivedBody>, ExchangeError> {
        let written = read.is_some();
        let broken = |cause: BoxError| {
            if written {
                ExchangeError::Lost(cause)
            } else {
                ExchangeError::Unsent(cause)
            }
        };
        let answered = match self
            .hand_over(read, request.body().size_hint().lower())
            .await
        {
            Ok(answered) => answered,
            Err(cause) => return Err(broken(cause.into())),
        };
        let Http1Driver::Hyper { sender, .. } = &mut self.speaker else {
            return Err(broken("the connection has ended".into()));
        };
        headers::set_length(request);
        let spare = keeps.then(|| RequestCopy::of(request)).flatten();
        let is_head = *request.method() == Method::HEAD;
        let exchange = Exchange {
            response: sender.try_send_request(take(request)),
            connection: self,
            deadline,
        };
        let outcome = exchange.await;
        if let Some(spare) = spare {
            spare.restore(request);
        }
        match outcome {
            Ok(Ok(response)) => {
                if let Some(answered) = answered {
                    answered.set();
                }
                if is_head || !http1::has_body(response.status()) && states_body(&response) {
                    // A catalog that sends the body all the same, now or later, would answer the next request with it.
                    self.speaker = Http1Driver::Gone;
                }
                Ok(response.map(ReceivedBody::Streaming))
            }
            Ok(Err(mut refused)) => match refused.take_message() {
                Some(back) => {
                    *request = back;
                    Err(broken(refused.into_error().into()))
                }
                None => Err(ExchangeError::Lost(refused.into_error().into())),
            },
            Err(AnswerTimeout) => Err(ExchangeError::Late),
        }
    }

    /// Hands the connection over to hyper. If the request was already written, returns the signal to set once the
    /// answer's head has arrived. `body` is the length of that request's body, in bytes.
    async fn hand_over(
        &mut self,
        read: Option<Bytes>,
        body: u64,
    ) -> hyper::Result<Option<AnswerSignal>> {
        let io = match replace(&mut self.speaker, Http1Driver::Gone) {
            Http1Driver::Own(io) => io,
            other => {
                self.speaker = other;
                return Ok(None);
            }
        };
        let (io, answered) = match read {
            Some(read) => {
                let (io, answered) = Rewind::of(io, read, body);
                (io, Some(answered))
            }
            None => (Rewind::fresh(io), None),
        };
        let mut builder = hyper_http1::Builder::new();
        let (sender, driver) = builder.max_buf_size(READ_AHEAD).handshake(io).await?;
        let driver = Box::new(driver);
        self.speaker = Http1Driver::Hyper { sender, driver };
        self.bell.ring();
        Ok(answered)
    }

    /// Takes the connection back from hyper after an answer, unless hyper keeps it.
    fn take_back(&mut self) {
        if self.others >= OTHERS {
            return;
        }
        self.speaker = match replace(&mut self.speaker, Http1Driver::Gone) {
            Http1Driver::Hyper { driver, .. } => {
                let parts = driver.into_parts();
                self.bell.ring();
                match parts.io.into_io() {
                    Some(io) if parts.read_buf.is_empty() => Http1Driver::Own(io),
                    _ => Http1Driver::Gone,
                }
            }
            other => other,
        };
    }

    /// Reads from the body of a response that came through hyper.
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut Incoming,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        self.bell.hush();
        let quiet = &mut Context::from_waker(Waker::noop());
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(quiet) {
            return Poll::Ready(frame);
        }
        self.drive();
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(quiet) {
            return Poll::Ready(frame);
        }
        self.bell.wait(cx);
        Poll::Pending
    }

    fn drive(&mut self) {
        if self.bell.rang()
            && let Http1Driver::Hyper { driver, .. } = &mut self.speaker
            && Pin::new(driver)
                .poll(&mut Context::from_waker(self.bell.waker()))
                .is_ready()
        {
            // The error reaches the task that waits for the response. Dropping the driver hands back a request that it
            // never took.
            self.speaker = Http1Driver::Gone;
        }
    }
}

/// True if the headers of a response say that it has a body.
fn states_body<B>(response: &Response<B>) -> bool {
    let headers = response.headers();
    let length = headers.get(CONTENT_LENGTH);
    length.is_some_and(|length| length != "0") || headers.contains_key(TRANSFER_ENCODING)
}

/// The error for an answer that did not come in time.
struct AnswerTimeout;

pin_project! {
    /// A request on its way through hyper. Not an `async fn`, which would hold the request twice.
    struct Exchange<'a, F> {
        #[pin]
        response: F,
        connection: &'a mut Connection,
        deadline: Instant,
    }
}

impl<F> Future for Exchange<'_, F>
where
    F: Future<Output = Result<Response<Incoming>, TrySendError<Request<Body>>>>,
{
    type Output = Result<F::Output, AnswerTimeout>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.connection.bell.hush();
        this.connection.drive();
        let quiet = &mut Context::from_waker(Waker::noop());
        if let Poll::Ready(outcome) = this.response.poll(quiet) {
            return Poll::Ready(Ok(outcome));
        }
        let Connection { bell, patience, .. } = &mut **this.connection;
        if patience.is_over(*this.deadline, bell.waker()) {
            return Poll::Ready(Err(AnswerTimeout));
        }
        bell.wait(cx);
        Poll::Pending
    }
}

impl ExchangeError {
    /// Returns the cause.
    pub(in crate::backend) fn into_cause(self) -> BoxError {
        match self {
            Self::Unsent(cause) | Self::Lost(cause) => cause,
            Self::Late => "no answer in time".into(),
        }
    }
}

#[cfg(test)]
mod tests;
