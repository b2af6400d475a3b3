#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::path::PathBuf;

use http::{Method, Request};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::backend::Failure;
use crate::backend::fake_server::read_request;
use crate::backend::rest::Rest;
use crate::body::Body;
use crate::config::{ClientIdentity, RestConfig};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A certificate authority, and PEM files of the certificates that it has signed.
struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    fn sign(&self, name: &str) -> ClientIdentity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        let certificate = self.folder.path().join(format!("{name}.crt"));
        let private_key = self.folder.path().join(format!("{name}.key"));
        std::fs::write(&certificate, signed.pem()).unwrap();
        std::fs::write(&private_key, key.serialize_pem()).unwrap();
        ClientIdentity {
            certificate,
            private_key,
        }
    }
}

/// Starts a catalog with a certificate for `name`, and returns its port. With `clients`, it requires a
/// client certificate.
async fn catalog(authority: &Authority, name: &str, clients: bool) -> u16 {
    let identity = authority.sign(name);
    let chain = pem::certificates(&identity.certificate).unwrap();
    let key = pem::key(&identity.private_key).unwrap();
    let builder = ServerConfig::builder_with_provider(pem::provider())
        .with_safe_default_protocol_versions()
        .unwrap();
    let roots = Arc::new(pem::authorities(&authority.file()).unwrap());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, pem::provider());
    let builder = if clients {
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let acceptor = TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = match acceptor.accept(stream).into_fallible().await {
                Ok(stream) => stream,
                Err((_, mut stream)) => {
                    // A connection that is closed with unread bytes is reset, and the alert is lost.
                    let _ = stream.shutdown().await;
                    while matches!(stream.read(&mut [0; 1024]).await, Ok(1..)) {}
                    continue;
                }
            };
            while read_request(&mut stream).await.is_some() {
                stream.write_all(ANSWER).await.unwrap();
            }
        }
    });
    port
}

fn rest(port: u16, tls: ClientTls) -> Rest {
    let uri = format!("https://localhost:{port}");
    let mut config = RestConfig::new(uri.parse().unwrap());
    config.tls = Some(tls);
    let metrics = crate::metrics::Metrics::new().backend(&Arc::from("lake"));
    Rest::new(&config, ("x-ns-ctx-", &[]), &metrics).unwrap()
}

async fn send(port: u16, tls: ClientTls) -> Result<http::StatusCode, Failure> {
    let rest = rest(port, tls);
    let mut request = Request::new(Body::full("{}"));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = "/v1/table/t/update".parse().unwrap();
    let limit = std::time::Duration::from_secs(10);
    let deadline = tokio::time::Instant::now() + limit;
    let response = rest.send_within(deadline, &mut request).await?;
    Ok(response.status())
}

fn trusting(authority: &Authority) -> ClientTls {
    ClientTls {
        ca: Some(authority.file()),
        identity: None,
    }
}

#[tokio::test]
async fn a_catalog_is_trusted_for_its_name_by_the_configured_authority_alone() {
    let (ours, other) = (Authority::new(), Authority::new());
    let good = catalog(&ours, "localhost", false).await;
    assert_eq!(send(good, trusting(&ours)).await.unwrap(), 200);
    let strange = send(good, trusting(&other)).await;
    assert!(matches!(strange, Err(Failure::NotSent(_))), "{strange:?}");
    let misnamed = catalog(&ours, "elsewhere.test", false).await;
    let misnamed = send(misnamed, trusting(&ours)).await;
    assert!(matches!(misnamed, Err(Failure::NotSent(_))), "{misnamed:?}");
}

#[tokio::test]
async fn a_catalog_that_asks_for_a_certificate_is_shown_it() {
    let authority = Authority::new();
    let port = catalog(&authority, "localhost", true).await;
    let mut tls = trusting(&authority);
    let none = send(port, tls.clone()).await;
    assert!(matches!(none, Err(Failure::NotSent(_))), "{none:?}");
    let words = none.unwrap_err().to_string();
    assert!(words.contains("asks for a client certificate"), "{words}");
    tls.identity = Some(authority.sign("gateway.test"));
    assert_eq!(send(port, tls).await.unwrap(), 200);
}

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let authority = Authority::new();
    let path = authority.folder.path();
    std::fs::write(path.join("empty.pem"), "").unwrap();
    for name in ["empty.pem", "missing.pem"] {
        let tls = ClientTls {
            ca: Some(path.join(name)),
            identity: None,
        };
        let error = client_config(Some(&tls), false).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[tokio::test]
async fn a_health_question_says_what_to_change_as_a_request_does() {
    let (ours, other) = (Authority::new(), Authority::new());
    let rest = rest(catalog(&ours, "localhost", false).await, trusting(&other));
    rest.check().await;
    let why = rest.standing()[0].error.clone().unwrap();
    assert!(why.contains("name its authority in `ca`"), "{why}");
}
