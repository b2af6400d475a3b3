//! Opening one connection: name, TCP, TLS, within one time limit.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::BoxError;
use crate::gather;

/// Where and how to connect.
pub(super) struct Dialer {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    timeout: Duration,
}

/// An open connection.
pub(super) enum Io {
    Plain(TokioIo<TcpStream>),
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Dialer {
    /// For the authority of `uri`; `tls` is used when its scheme is `https`.
    pub(super) fn new(
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

    /// Connects, and says whether HTTP/2 is to be spoken: over TLS the catalog chose, otherwise it was known
    /// beforehand.
    pub(super) async fn dial_either(&self) -> Result<(Io, bool), BoxError> {
        let io = self.dial().await?;
        let http2 = match &io {
            Io::Plain(_) => true,
            Io::Tls(stream) => stream.inner().get_ref().1.alpn_protocol() == Some(b"h2"),
        };
        Ok((io, http2))
    }

    /// Connects. Whatever fails here, no byte of a request has been sent.
    pub(super) async fn dial(&self) -> Result<Io, BoxError> {
        match tokio::time::timeout(self.timeout, self.open()).await {
            Ok(opened) => opened.map_err(Into::into),
            Err(_) => Err("no connection in time".into()),
        }
    }

    async fn open(&self) -> io::Result<Io> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Io::Plain(TokioIo::new(stream))),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await?;
                Ok(Io::Tls(Box::new(TokioIo::new(stream))))
            }
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
            Self::Plain(io) => gather::poll_write(io, cx, bufs),
            Self::Tls(io) => gather::poll_write(io.as_mut(), cx, bufs),
        }
    }
}
