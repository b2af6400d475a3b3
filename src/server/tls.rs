//! TLS towards clients: what the gateway shows them, what it asks of them, and the handshake.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::{ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config::ServerTls;
use crate::error::BoxError;
use crate::pem::{self, Validity};

/// The first byte of a handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;
/// Sessions of TLS 1.2 that are remembered for clients without tickets.
const SESSIONS: usize = 4096;
/// What is read of a client that was refused, so that the reason reaches it, at most.
const LINGER: u64 = 64 << 10;
/// What a client gets that does not know that this is TLS.
const PLAIN: &str = "This port speaks TLS: use https.\n";

/// Why there is no connection, for the log.
#[derive(Debug)]
pub enum HandshakeError {
    /// The client left before it had said anything.
    Gone,
    /// It spoke plain HTTP, and was told.
    PlainHttp,
    /// It spoke something else.
    Foreign,
    /// The handshake failed.
    Handshake(io::Error),
    /// Its certificate was verified, and is of no use all the same.
    Certificate(&'static str),
}

/// Reads the files of `listen.tls`.
///
/// # Errors
/// A file cannot be read or used, or certificate and key do not fit each other.
pub fn server_config(tls: &ServerTls) -> Result<Arc<ServerConfig>, BoxError> {
    let provider = pem::provider();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let builder = match &tls.client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let authorities = Arc::new(pem::authorities(file)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(authorities, provider);
            builder.with_client_cert_verifier(verifier.build()?)
        }
    };
    let identity = pem::identity(&tls.certificate, &tls.private_key)?;
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Their keys are this configuration's own: with other files, everyone is verified anew.
    config.ticketer = Ticketer::new()?;
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    Ok(Arc::new(config))
}

/// Shakes hands. With the stream comes the subject of the client's certificate, where one was asked for and has one.
/// How long it may take is for the caller to limit.
///
/// # Errors
/// There is no connection; the client was told why as far as it can be.
pub async fn accept(
    config: Arc<ServerConfig>,
    stream: TcpStream,
) -> Result<(TlsStream<TcpStream>, Option<String>), HandshakeError> {
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(0) | Err(_) => return Err(HandshakeError::Gone),
        Ok(_) if first[0] == HANDSHAKE => {}
        Ok(_) if first[0].is_ascii_uppercase() => {
            answer_plain(stream).await;
            return Err(HandshakeError::PlainHttp);
        }
        Ok(_) => return Err(HandshakeError::Foreign),
    }
    let accepting = TlsAcceptor::from(config).accept(stream).into_fallible();
    match accepting.await {
        Ok(stream) => {
            let subject = subject(&stream).map_err(HandshakeError::Certificate)?;
            Ok((stream, subject))
        }
        Err((error, stream)) => {
            linger(stream).await;
            Err(HandshakeError::Handshake(error))
        }
    }
}

/// The handshake has verified the certificate, or the session that is resumed had one: that may be over by now.
fn subject(stream: &TlsStream<TcpStream>) -> Result<Option<String>, &'static str> {
    let (_, session) = stream.get_ref();
    let Some(leaf) = session.peer_certificates().and_then(<[_]>::first) else {
        return Ok(None);
    };
    match pem::validity(leaf, SystemTime::now()) {
        Some(Validity::Good(..)) => {}
        Some(_) => return Err("the client's certificate has expired since its session began"),
        None => return Err("the client's certificate does not follow RFC 5280"),
    }
    Ok(pem::subject(leaf).filter(|subject| !subject.is_empty()))
}

async fn answer_plain(mut stream: TcpStream) {
    let length = PLAIN.len();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{PLAIN}"
    );
    if stream.write_all(answer.as_bytes()).await.is_ok() {
        linger(stream).await;
    }
}

/// Closes only when the client has, or has said a lot: closing on unread bytes would reset the connection, and what it
/// was told with it.
async fn linger(mut stream: TcpStream) {
    if stream.shutdown().await.is_ok() {
        let mut rest = stream.take(LINGER);
        let mut unread = [0; 1 << 10];
        while rest.read(&mut unread).await.is_ok_and(|read| read > 0) {}
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("the client closed the connection"),
            Self::PlainHttp => f.write_str("the client speaks plain HTTP"),
            Self::Foreign => f.write_str("the client speaks something other than TLS"),
            Self::Handshake(error) => write!(f, "{error}"),
            Self::Certificate(words) => f.write_str(words),
        }
    }
}

#[cfg(test)]
mod tests;
