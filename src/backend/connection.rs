//! One HTTP/1.1 connection to a catalog, driven by the task that uses it.
//!
//! hyper's connection future is not spawned: whoever exchanges a request polls it, and so does whoever reads the
//! response. No second task wakes for a request, and an abandoned request closes its connection at once.
//! While nobody uses the connection nobody polls it; [`Connection::is_usable`] looks before it is used again.
//!
//! Wakers: only the driver is polled with the task's own waker. The channels between hyper's halves are polled
//! with one that does nothing, since the driver is always polled in the same breath.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use pin_project_lite::pin_project;

use super::dial::Io;
use crate::body::Body;

/// Read ahead of an answer, and held of a request that the catalog does not take, at most.
const READ_AHEAD: usize = 256 << 10;

/// One connection. It serves one request at a time.
pub(super) struct Connection {
    sender: SendRequest<Body>,
    /// `None` once it has ended.
    driver: Option<http1::Connection<Io, Body>>,
}

/// Why an exchange gave no response.
pub(super) struct Broken {
    /// hyper's words.
    pub(super) error: hyper::Error,
    /// The request, when nothing of it was written.
    pub(super) unsent: Option<Request<Body>>,
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
        })
    }

    /// Whether a request may be sent: the last one is over, and the catalog has not hung up as far as is known.
    pub(super) fn is_usable(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.sender.is_ready()
    }

    /// Sends `request` and waits for the response's headers.
    pub(super) fn exchange(
        &mut self,
        request: Request<Body>,
    ) -> impl Future<Output = Result<Response<Incoming>, Broken>> {
        Exchange {
            response: self.sender.try_send_request(request),
            connection: self,
        }
    }

    /// Reads from the response's body.
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut Incoming,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let quiet = &mut Context::from_waker(Waker::noop());
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(quiet) {
            return Poll::Ready(frame);
        }
        self.drive(cx);
        Pin::new(body).poll_frame(quiet)
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && Pin::new(driver).poll(cx).is_ready()
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
    }
}

impl<F> Future for Exchange<'_, F>
where
    F: Future<Output = Result<Response<Incoming>, TrySendError<Request<Body>>>>,
{
    type Output = Result<Response<Incoming>, Broken>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.connection.drive(cx);
        let outcome = this.response.poll(&mut Context::from_waker(Waker::noop()));
        outcome.map_err(|mut refused| Broken {
            unsent: refused.take_message(),
            error: refused.into_error(),
        })
    }
}

/// A response body that takes its connection along and gives it back when it has ended well.
pub(super) struct Streamed<H: Home> {
    body: Incoming,
    /// `None` once it was given back.
    connection: Option<Box<Connection>>,
    home: H,
}

/// Where a connection goes when its response is over.
pub(super) trait Home: Send + Unpin + 'static {
    /// Takes it back.
    fn give_back(&self, connection: Box<Connection>);
}

impl<H: Home> Streamed<H> {
    /// The body of a response that came over `connection`.
    pub(super) fn new(body: Incoming, connection: Box<Connection>, home: H) -> Self {
        let mut streamed = Self {
            body,
            connection: Some(connection),
            home,
        };
        if streamed.body.is_end_stream() {
            streamed.give_back();
        }
        streamed
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
        let frame = match &mut this.connection {
            Some(connection) => connection.poll_frame(cx, &mut this.body),
            None => Pin::new(&mut this.body).poll_frame(cx),
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
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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

    #[tokio::test]
    async fn a_request_that_was_never_written_comes_back() {
        let (mut connection, server) = pair().await;
        drop(server);
        // Wait for the hang-up without looking, as when it comes between the look and the use.
        let driver = connection.driver.as_mut().unwrap();
        let ended = std::future::poll_fn(|cx| driver.poll_without_shutdown(cx));
        assert!(ended.await.is_err());
        let request = Request::new(Body::full("whole"));
        let broken = connection.exchange(request).await.err().unwrap();
        let body = broken.unsent.unwrap().into_body();
        assert_eq!(body.collect_up_to(9).await.unwrap(), "whole");
    }

    #[tokio::test]
    async fn a_request_of_which_anything_was_written_does_not() {
        let (mut connection, mut server) = pair().await;
        let reader = tokio::spawn(async move { server.read_u8().await.unwrap() });
        let request = Request::new(Body::full("whole"));
        let broken = connection.exchange(request).await.err().unwrap();
        assert_eq!(reader.await.unwrap(), b'G');
        assert!(broken.unsent.is_none());
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
        let (response, ()) = tokio::join!(connection.exchange(Request::default()), answering);
        assert!(response.is_ok());
        drop(response);
        assert!(connection.is_usable());
        server.write_all(answer).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert!(!connection.is_usable());
    }
}
