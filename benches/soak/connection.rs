//! A client's connection, over HTTP/1.1 or HTTP/2.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

/// The longest time for one request.
const TIMEOUT: Duration = Duration::from_secs(30);

type Content = BoxBody<Bytes, Infallible>;

pub enum Connection {
    Http1(http1::SendRequest<Content>),
    Http2(http2::SendRequest<Content>),
}

/// A request without what all of them have.
pub struct Message {
    pub method: Method,
    pub target: String,
    pub bearer: Option<String>,
    pub content: Content,
    pub is_arrow: bool,
}

impl Message {
    pub fn get(target: String, bearer: &str) -> Self {
        Self::new(Method::GET, target, bearer, Bytes::new())
    }

    pub fn post(target: String, bearer: &str, json: impl Into<Bytes>) -> Self {
        Self::new(Method::POST, target, bearer, json.into())
    }

    fn new(method: Method, target: String, bearer: &str, content: Bytes) -> Self {
        Self {
            method,
            target,
            bearer: (!bearer.is_empty()).then(|| bearer.to_owned()),
            content: Full::new(content).boxed(),
            is_arrow: false,
        }
    }

    /// Returns an upload of this many pieces of 16 KiB.
    pub fn upload(target: String, bearer: &str, pieces: usize) -> Self {
        Self {
            content: Pieces(pieces).boxed(),
            is_arrow: true,
            ..Self::post(target, bearer, Bytes::new())
        }
    }
}

/// A body of so many pieces, whose length is not told.
struct Pieces(usize);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(left) = self.0.checked_sub(1) else {
            return Poll::Ready(None);
        };
        self.0 = left;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[7; 16 << 10])))))
    }
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Result<Self, String> {
        let stream = connect(address).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
        tokio::spawn(connection);
        Ok(Self::Http1(sender))
    }

    pub async fn open_http2(address: SocketAddr) -> Result<Self, String> {
        let stream = connect(address).await?;
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(text)?;
        tokio::spawn(connection);
        Ok(Self::Http2(sender))
    }

    pub fn is_closed(&self) -> bool {
        match self {
            Self::Http1(sender) => sender.is_closed(),
            Self::Http2(sender) => sender.is_closed(),
        }
    }

    /// Sends a request. Returns the answer's status and body, or what went wrong.
    pub async fn send(&mut self, message: Message) -> Result<(StatusCode, Bytes), String> {
        let mut request = Request::new(message.content);
        *request.method_mut() = message.method;
        let authority = "http://localhost";
        let target = match self {
            Self::Http1(_) => message.target,
            Self::Http2(_) => format!("{authority}{}", message.target),
        };
        *request.uri_mut() = target.parse().unwrap();
        let headers = request.headers_mut();
        if matches!(self, Self::Http1(_)) {
            headers.insert("host", HeaderValue::from_static("localhost"));
        }
        let kind = if message.is_arrow {
            "application/vnd.apache.arrow.stream"
        } else {
            "application/json"
        };
        headers.insert("content-type", HeaderValue::from_static(kind));
        if let Some(bearer) = message.bearer {
            headers.insert("authorization", bearer.parse().unwrap());
        }
        let answered = tokio::time::timeout(TIMEOUT, self.exchange(request)).await;
        answered.unwrap_or_else(|_| Err("no answer in 30 s".to_owned()))
    }

    async fn exchange(&mut self, request: Request<Content>) -> Result<(StatusCode, Bytes), String> {
        let response = match self {
            Self::Http1(sender) => {
                sender.ready().await.map_err(text)?;
                sender.send_request(request).await
            }
            Self::Http2(sender) => {
                sender.ready().await.map_err(text)?;
                sender.send_request(request).await
            }
        };
        let response = response.map_err(text)?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(text)?;
        Ok((status, body.to_bytes()))
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(address).await.map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    Ok(stream)
}

fn text(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
