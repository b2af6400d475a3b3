//! Connections that are used for many requests, and report how they ended.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::catalog::faults::PATIENCE;
use crate::client::Reply;
use crate::harness::World;
use crate::token;

/// A connection that sends requests one after the other.
pub struct Connection {
    sender: Sender,
    driver: JoinHandle<()>,
    /// The head of every request.
    request: Request<()>,
}

enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

/// The outcome of many requests on one connection.
#[derive(Debug, Default)]
pub struct Asked {
    /// The number of correct answers.
    pub served: usize,
    /// True if the gateway said that it accepts no more requests on this connection.
    pub told: bool,
    /// True if it said so to a request that had been sent or was about to be: that one was not carried out.
    pub told_off: bool,
    /// The description of a request that got no answer or a wrong one; `None` if there was none.
    pub failed: Option<String>,
}

impl Connection {
    /// Opens a connection for counts of the rows of a table; the expected count is 1.
    pub async fn open(world: &World, http2: bool, table: &str) -> Self {
        Self::at(world.address(), http2, table).await.unwrap()
    }

    /// Opens such a connection to this address.
    pub async fn at(address: SocketAddr, http2: bool, table: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self::over(stream, address, http2, table).await)
    }

    /// Opens such a connection over TLS.
    pub async fn secured(world: &World, mut trust: ClientConfig, http2: bool, table: &str) -> Self {
        let protocol: &[u8] = if http2 { b"h2" } else { b"http/1.1" };
        trust.alpn_protocols = vec![protocol.to_vec()];
        let stream = handshake(world, trust).await;
        Self::over(stream, world.address(), http2, table).await
    }

    /// Opens such a connection over an existing stream.
    async fn over<T>(stream: T, address: SocketAddr, http2: bool, table: &str) -> Self
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let io = TokioIo::new(stream);
        let (sender, driver) = if http2 {
            let (sender, driver) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
            let driver = tokio::spawn(async move { drop(driver.await) });
            (Sender::Two(sender), driver)
        } else {
            let (sender, driver) = http1::handshake(io).await.unwrap();
            let driver = tokio::spawn(async move { drop(driver.await) });
            (Sender::One(sender), driver)
        };
        let host = address.to_string();
        let request = Request::post(format!("http://{host}/v1/table/{table}/count_rows"))
            .header("host", host)
            .header(
                "authorization",
                format!("Bearer {}", token::token(&json!({}))),
            )
            .header("content-type", "application/json");
        Self {
            sender,
            driver,
            request: request.body(()).unwrap(),
        }
    }

    /// Sends one request and reads the answer.
    pub async fn ask(&mut self) -> hyper::Result<Reply> {
        let request = self.request.clone().map(|()| Full::from("{}"));
        let answer = async {
            let (head, body) = self.sender.send(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok(Reply {
                status: head.status.as_u16(),
                headers: head.headers,
                body,
            })
        };
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        answer.expect("an answer in time")
    }

    /// Returns true if the connection accepts no more requests.
    pub fn is_closed(&self) -> bool {
        self.driver.is_finished()
    }

    /// Sends requests until `stop` is set or the gateway closes the connection.
    pub fn go_on(mut self, stop: &Arc<AtomicBool>) -> JoinHandle<Asked> {
        let stop = Arc::clone(stop);
        tokio::spawn(async move {
            let mut asked = Asked::default();
            while !stop.load(Ordering::Relaxed) {
                let reply = match self.ask().await {
                    Ok(reply) => reply,
                    // The request was never sent, because the gateway had already announced the
                    // close.
                    Err(error)
                        if error.is_canceled() || error.is_closed() || is_refused(&error) =>
                    {
                        asked.told = true;
                        asked.told_off = true;
                        break;
                    }
                    Err(error) => {
                        asked.failed = Some(format!("{error:?}"));
                        break;
                    }
                };
                if reply.status != 200 || reply.body != "1" {
                    asked.failed = Some(format!("{reply:?}"));
                    break;
                }
                asked.served += 1;
                if reply.header("connection") == Some("close") {
                    asked.told = true;
                    break;
                }
            }
            asked.told |= self.is_closed();
            asked
        })
    }
}

/// True if the gateway promised not to carry the request out, because it closes the HTTP/2 connection.
fn is_refused(error: &hyper::Error) -> bool {
    let cause =
        std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| {
        cause.is_go_away() && cause.is_remote() && cause.reason() == Some(h2::Reason::NO_ERROR)
    })
}

/// Opens a TLS connection without sending a request.
pub async fn handshake(world: &World, trust: ClientConfig) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(world.address()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(trust));
    connector.connect(name, stream).await.unwrap()
}

impl Sender {
    async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::One(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Two(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }
}
