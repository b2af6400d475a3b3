//! TLS towards clients: the server's certificate, the check of client certificates, and the handshake.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::{ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config::ServerTls;
use crate::error::BoxError;
use crate::metrics::TlsFailure;
use crate::pem::{self, Validity};
use crate::util::budget::BudgetedStream;

/// The first byte of a handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;
/// The number of TLS 1.2 sessions that are remembered for clients without tickets.
const SESSIONS: usize = 4096;
/// The most bytes that are read from a refused client, so that the reason reaches it.
const LINGER: u64 = 64 << 10;
/// The response to a client that does not know that this port speaks TLS.
const PLAIN: &str = "This port speaks TLS: use https.\n";

/// The reason why a handshake failed, for the log.
#[derive(Debug)]
pub enum HandshakeError {
    /// The client left before it had sent anything.
    Gone,
    /// The client spoke plain HTTP, and was told.
    PlainHttp,
    /// The client spoke another protocol.
    Foreign,
    /// The handshake failed.
    Handshake(io::Error),
    /// The client's certificate was verified, but cannot be used.
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
    // The session keys belong to this configuration: after a change of files, every client is verified again.
    config.ticketer = Ticketer::new()?;
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    Ok(Arc::new(config))
}

/// Does the handshake. Returns the stream, and the subject of the client's certificate; `None` if no certificate was
/// requested or it has no subject. The caller must limit the time that this may take.
///
/// # Errors
/// The handshake failed; the client was told why, as far as possible.
pub(in crate::server) async fn accept(
    config: Arc<ServerConfig>,
    stream: BudgetedStream,
) -> Result<(TlsStream<BudgetedStream>, Option<String>), HandshakeError> {
    let mut first = [0];
    match stream.get_ref().peek(&mut first).await {
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

/// Returns the subject of the client's certificate. Checks its validity again: the handshake has verified it, but in a
/// resumed session it may have expired since.
fn subject(stream: &TlsStream<BudgetedStream>) -> Result<Option<String>, &'static str> {
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

async fn answer_plain(mut stream: BudgetedStream) {
    let length = PLAIN.len();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{PLAIN}"
    );
    if stream.write_all(answer.as_bytes()).await.is_ok() {
        linger(stream).await;
    }
}

/// Waits until the client closes, or has sent [`LINGER`] bytes. Closing with unread bytes would reset the connection,
/// and the client would not see the response.
async fn linger(mut stream: BudgetedStream) {
    if stream.shutdown().await.is_ok() {
        let mut rest = stream.take(LINGER);
        let mut unread = [0; 1 << 10];
        while rest.read(&mut unread).await.is_ok_and(|read| read > 0) {}
    }
}

impl HandshakeError {
    /// Returns the reason under which it is counted.
    pub fn kind(&self) -> TlsFailure {
        match self {
            Self::Gone => TlsFailure::Closed,
            Self::PlainHttp => TlsFailure::PlainHttp,
            Self::Foreign => TlsFailure::NotTls,
            Self::Certificate(_) => TlsFailure::Certificate,
            Self::Handshake(error) => kind(error),
        }
    }
}

fn kind(error: &io::Error) -> TlsFailure {
    use rustls::Error::{
        AlertReceived, InvalidCertificate, InvalidMessage, NoApplicationProtocol,
        NoCertificatesPresented, PeerIncompatible,
    };
    let cause = error.get_ref();
    match cause.and_then(|cause| cause.downcast_ref::<rustls::Error>()) {
        // The system reports a lost connection without a cause from rustls.
        None => TlsFailure::Closed,
        Some(AlertReceived(_)) => TlsFailure::Rejected,
        Some(InvalidCertificate(_)) => TlsFailure::Certificate,
        Some(NoCertificatesPresented) => TlsFailure::NoCertificate,
        Some(PeerIncompatible(_) | NoApplicationProtocol) => TlsFailure::Incompatible,
        Some(InvalidMessage(_)) => TlsFailure::NotTls,
        Some(_) => TlsFailure::Other,
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
