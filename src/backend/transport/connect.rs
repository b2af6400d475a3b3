//! Opens one connection: name lookup, TCP and TLS, within one time limit.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::sleep;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::BoxError;
use crate::util::budget::BudgetedStream;

/// The time for which one address of a name is tried alone.
const HEAD_START: Duration = Duration::from_millis(250);

/// The target and the settings of new connections.
pub(in crate::backend) struct Dialer {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    timeout: Duration,
}

/// An open connection. It joins small writes; the enum of `hyper-rustls` passes them on as they are, and a wrapper for
/// them would be as long as this.
pub(in crate::backend) enum Io {
    Plain(TokioIo<BudgetedStream>),
    Tls(Box<TokioIo<TlsStream<BudgetedStream>>>),
}

impl Dialer {
    /// Builds a dialer for the authority of `uri`. `tls` is used if the scheme is `https`.
    pub(in crate::backend) fn new(
        uri: &Uri,
        tls: Option<&Arc<ClientConfig>>,
        timeout: Duration,
    ) -> Result<Self, BoxError> {
        let host = uri.host().ok_or("a base address needs a host")?;
        // `Uri` keeps the brackets of an IPv6 literal; names and certificates have none.
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let secure = uri.scheme_str() == Some("https");
        let tls = match tls {
            Some(config) if secure => {
                let name = ServerName::try_from(host.clone())?;
                Some((TlsConnector::from(Arc::clone(config)), name))
            }
            _ => None,
        };
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        Ok(Self {
            host,
            port,
            tls,
            timeout,
        })
    }

    /// Connects, and returns true if HTTP/2 must be used: over TLS the catalog chose, otherwise it was known
    /// beforehand.
    pub(in crate::backend) async fn dial_either(&self) -> Result<(Io, bool), BoxError> {
        let io = self.dial().await?;
        let http2 = match &io {
            Io::Plain(_) => true,
            Io::Tls(stream) => stream.inner().get_ref().1.alpn_protocol() == Some(b"h2"),
        };
        Ok((io, http2))
    }

    /// Connects. If this fails, no byte of a request has been sent.
    pub(in crate::backend) async fn dial(&self) -> Result<Io, BoxError> {
        match tokio::time::timeout(self.timeout, self.open()).await {
            Ok(opened) => opened.map_err(Into::into),
            Err(_) => Err("no connection in time".into()),
        }
    }

    async fn open(&self) -> io::Result<Io> {
        let addresses = lookup_host((self.host.as_str(), self.port)).await?;
        let stream = reach(addresses).await?;
        stream.set_nodelay(true)?;
        let stream = BudgetedStream::new(stream);
        match &self.tls {
            None => Ok(Io::Plain(TokioIo::new(stream))),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await?;
                Ok(Io::Tls(Box::new(TokioIo::new(stream))))
            }
        }
    }
}

/// Connects to the first of a name's addresses that answers. A silent address would use up the whole time limit, so
/// the next one is tried beside it after a moment (RFC 8305, section 5).
async fn reach(mut addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut asked = FuturesUnordered::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut next = addresses.next();
    loop {
        match next {
            Some(address) => asked.push(TcpStream::connect(address)),
            None if asked.is_empty() => return Err(failure),
            None => {}
        }
        next = addresses.next();
        tokio::select! {
            Some(answer) = asked.next() => match answer {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            },
            () = sleep(HEAD_START), if next.is_some() => {}
        }
    }
}

impl Read for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_read(cx, buf),
            Self::Tls(io) => Pin::new(io.as_mut()).poll_read(cx, buf),
        }
    }
}

impl Write for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_write(cx, buf),
            Self::Tls(io) => Pin::new(io.as_mut()).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_flush(cx),
            Self::Tls(io) => Pin::new(io.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_shutdown(cx),
            Self::Tls(io) => Pin::new(io.as_mut()).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(io) => io.is_write_vectored(),
            Self::Tls(io) => io.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_write_vectored(cx, bufs),
            Self::Tls(io) => Pin::new(io.as_mut()).poll_write_vectored(cx, bufs),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use tokio::net::{TcpListener, TcpSocket};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn an_address_that_is_silent_or_refuses_keeps_nobody_from_the_next() {
        let any = "127.0.0.1:0".parse().unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(any).unwrap();
        let full = socket.listen(0).unwrap();
        let silent = full.local_addr().unwrap();
        // The address is silent once its queue of connections is full.
        let short = Duration::from_millis(200);
        let mut crowd = Vec::new();
        while let Ok(connected) = timeout(short, TcpStream::connect(silent)).await {
            crowd.push(connected.unwrap());
        }
        let closed = TcpListener::bind(any).await.unwrap().local_addr().unwrap();
        let open = TcpListener::bind(any).await.unwrap();
        let good = open.local_addr().unwrap();

        for before in [vec![], vec![closed], vec![silent], vec![silent, closed]] {
            let all = before.iter().copied().chain([good]);
            // A silent address may delay the connection by this much in all.
            let reached = timeout(Duration::from_secs(2), reach(all)).await;
            let reached = reached.unwrap_or_else(|_| panic!("{before:?} took all the time"));
            assert_eq!(reached.unwrap().peer_addr().unwrap(), good, "{before:?}");
        }
        let refused = reach([closed].into_iter()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert!(reach(std::iter::empty()).await.is_err());
    }
}
