//! One HTTP/1.1 connection to a catalog, driven by the task that uses it.
//!
//! hyper's connection future is not spawned: whoever exchanges a request polls it, and so does whoever reads the
//! response. No second task wakes for a request, and an abandoned request closes its connection at once.
//! While nobody uses the connection nobody polls it; [`Connection::is_usable`] looks before it is used again.
//!
//! Wakers: the driver is polled with that of a [`Bell`], and only when it rang: what nobody called has nothing to do. The
//! channels between hyper's halves are polled with one that does nothing, since the driver is always polled in the same
//! breath.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::bell::Bell;
use super::dial::Io;
use super::patience::Patience;
use crate::body::Body;
use crate::error::BoxError;

/// Read ahead of an answer, and held of a request that the catalog does not take, at most.
const READ_AHEAD: usize = 256 << 10;

/// One connection. It serves one request at a time.
pub(super) struct Connection {
    sender: SendRequest<Body>,
    /// `None` once it has ended.
    driver: Option<http1::Connection<Io, Body>>,
    bell: Bell,
    patience: Patience,
}

/// Why an exchange gave no response.
pub(super) enum Broken {
    /// Nothing was written; here is the request.
    Unsent(Box<Request<Body>>, hyper::Error),
    /// Some of it may have been.
    Lost(hyper::Error),
    /// There was none in time.
    Late,
}

impl Connection {
    /// Speaks HTTP over `io`. Nothing is sent yet.
    pub(super) async fn open(io: Io) -> hyper::Result<Self> {
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(READ_AHEAD)
            .handshake(io)
            .await?;
        Ok(Self {
            sender,
            driver: Some(driver),
            bell: Bell::new(),
            patience: Patience::default(),
        })
    }

    /// Whether a request may be sent: the last one is over, and the catalog has not hung up as far as is known.
    pub(super) fn is_usable(&mut self) -> bool {
        self.bell.hush();
        self.drive();
        self.driver.is_some() && self.sender.is_ready()
    }

    /// Sends `request` and waits for the response's headers until `deadline`.
    pub(super) fn exchange(
        &mut self,
        request: Request<Body>,
        deadline: Instant,
    ) -> impl Future<Output = Result<Response<Incoming>, Broken>> {
        Exchange {
            response: self.sender.try_send_request(request),
            connection: self,
            deadline,
        }
    }

    /// Reads from the response's body.
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
            && let Some(driver) = &mut self.driver
            && Pin::new(driver)
                .poll(&mut Context::from_waker(self.bell.waker()))
                .is_ready()
        {
            // Its error reaches whoever waits for the response; dropping it hands back a request it never took.
            self.driver = None;
        }
    }
}

pin_project! {
    /// A request on its way over a connection. Not an `async fn`, which would hold the request twice.
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
    type Output = Result<Response<Incoming>, Broken>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.connection.bell.hush();
        this.connection.drive();
        let quiet = &mut Context::from_waker(Waker::noop());
        if let Poll::Ready(outcome) = this.response.poll(quiet) {
            return Poll::Ready(outcome.map_err(Broken::from));
        }
        let Connection { bell, patience, .. } = &mut **this.connection;
        if patience.is_over(*this.deadline, bell.waker()) {
            return Poll::Ready(Err(Broken::Late));
        }
        bell.wait(cx);
        Poll::Pending
    }
}

impl Broken {
    /// What is known of it.
    pub(super) fn into_cause(self) -> BoxError {
        match self {
            Self::Unsent(_, error) | Self::Lost(error) => error.into(),
            Self::Late => "no answer in time".into(),
        }
    }
}

impl From<TrySendError<Request<Body>>> for Broken {
    fn from(mut refused: TrySendError<Request<Body>>) -> Self {
        match refused.take_message() {
            Some(request) => Self::Unsent(Box::new(request), refused.into_error()),
            None => Self::Lost(refused.into_error()),
        }
    }
}

/// A response body that takes its connection along and gives it back when it has ended well.
pub(super) struct Streamed<H: Home> {
    /// What came of it with the headers.
    first: Option<Received>,
    body: Incoming,
    /// `None` once it was given back.
    connection: Option<Box<Connection>>,
    home: H,
}

/// What reading from a body led to.
type Received = Option<hyper::Result<Frame<Bytes>>>;

/// Where a connection goes when its response is over.
pub(super) trait Home: Send + Unpin + 'static {
    /// Takes it back.
    fn give_back(&self, connection: Box<Connection>);
}

impl<H: Home> Streamed<H> {
    /// The body of a response that came over `connection`: in memory if all of it came with the headers, as most do.
    pub(super) fn body(body: Incoming, connection: Box<Connection>, home: H) -> Body {
        let mut streamed = Self {
            first: None,
            body,
            connection: Some(connection),
            home,
        };
        if streamed.body.is_end_stream() {
            streamed.give_back();
            return Body::empty();
        }
        let quiet = &mut Context::from_waker(Waker::noop());
        if streamed.body.size_hint().exact().is_some()
            && let Poll::Ready(received) = Pin::new(&mut streamed.body).poll_frame(quiet)
        {
            if streamed.body.is_end_stream()
                && let Some(Ok(frame)) = &received
                && let Some(whole) = frame.data_ref().cloned()
            {
                streamed.give_back();
                return Body::full(whole);
            }
            streamed.first = Some(received);
        }
        Body::stream(streamed)
    }

    fn give_back(&mut self) {
        if let Some(mut connection) = self.connection.take()
            && connection.is_usable()
        {
            self.home.give_back(connection);
        }
    }
}

impl<H: Home> http_body::Body for Streamed<H> {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let frame = match (this.first.take(), &mut this.connection) {
            (Some(first), _) => Poll::Ready(first),
            (None, Some(connection)) => connection.poll_frame(cx, &mut this.body),
            (None, None) => Pin::new(&mut this.body).poll_frame(cx),
        };
        match &frame {
            Poll::Ready(None) => this.give_back(),
            Poll::Ready(Some(Ok(_))) if this.body.is_end_stream() => this.give_back(),
            Poll::Ready(Some(Err(_))) => this.connection = None,
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.body.size_hint();
        let first = self.first.as_ref().and_then(Option::as_ref);
        let first = first.and_then(|received| received.as_ref().ok()?.data_ref());
        match (first, rest.exact()) {
            (Some(first), Some(rest)) => SizeHint::with_exact(first.len() as u64 + rest),
            _ => rest,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn pair() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let io = Io::Plain(TokioIo::new(client));
        (Connection::open(io).await.unwrap(), server)
    }

    fn soon() -> Instant {
        Instant::now() + std::time::Duration::from_secs(9)
    }

    #[tokio::test]
    async fn a_request_that_was_never_written_comes_back() {
        let (mut connection, server) = pair().await;
        drop(server);
        // Wait for the hang-up without looking, as when it comes between the look and the use.
        let driver = connection.driver.as_mut().unwrap();
        let ended = std::future::poll_fn(|cx| driver.poll_without_shutdown(cx));
        assert!(ended.await.is_err());
        let request = Request::new(Body::full("whole"));
        let outcome = connection.exchange(request, soon()).await;
        let Err(Broken::Unsent(back, _)) = outcome else {
            panic!("it does not come back");
        };
        let body = back.into_body();
        assert_eq!(body.collect_up_to(9).await.unwrap(), "whole");
    }

    #[tokio::test]
    async fn a_request_of_which_anything_was_written_does_not() {
        let (mut connection, mut server) = pair().await;
        let reader = tokio::spawn(async move { server.read_u8().await.unwrap() });
        let request = Request::new(Body::full("whole"));
        let outcome = connection.exchange(request, soon()).await;
        assert_eq!(reader.await.unwrap(), b'G');
        assert!(matches!(outcome, Err(Broken::Lost(_))));
    }

    #[tokio::test]
    async fn a_connection_over_which_something_came_that_was_not_asked_for_is_not_used() {
        let (mut connection, mut server) = pair().await;
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        let answering = async {
            let mut request = [0; 1000];
            let _ = server.read(&mut request).await.unwrap();
            server.write_all(answer).await.unwrap();
        };
        let exchange = connection.exchange(Request::default(), soon());
        let (response, ()) = tokio::join!(exchange, answering);
        assert!(response.is_ok());
        drop(response);
        assert!(connection.is_usable());
        server.write_all(answer).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert!(!connection.is_usable());
    }
}
