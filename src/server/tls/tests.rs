#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
};
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, HandshakeKind, SupportedProtocolVersion};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client;

use super::*;

/// A folder with an authority, a server's certificate and a client's, both signed by it.
struct Files {
    folder: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Files {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = CertifiedIssuer::self_signed(params, key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        let files = Self { folder, authority };
        files.sign(
            "server",
            &CertificateParams::new(["localhost".to_owned()]).unwrap(),
        );
        files
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn sign(&self, name: &str, params: &CertificateParams) {
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.authority).unwrap();
        std::fs::write(self.at(&format!("{name}.crt")), signed.pem()).unwrap();
        std::fs::write(self.at(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    /// Returns the settings of a client with a certificate whose common name is `subject`.
    fn client(&self, version: &'static SupportedProtocolVersion, subject: &str) -> ClientConfig {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        if !subject.is_empty() {
            params.distinguished_name.push(DnType::CommonName, subject);
        }
        self.sign("client", &params);
        ClientConfig::builder_with_provider(pem::provider())
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(pem::authorities(&self.at("ca.pem")).unwrap())
            .with_client_auth_cert(
                pem::certificates(&self.at("client.crt")).unwrap(),
                pem::key(&self.at("client.key")).unwrap(),
            )
            .unwrap()
    }

    fn server(&self) -> Arc<ServerConfig> {
        let tls = ServerTls {
            certificate: self.at("server.crt"),
            private_key: self.at("server.key"),
            client_ca: Some(self.at("ca.pem")),
        };
        server_config(&tls).unwrap()
    }
}

/// Does the handshake of one connection, and returns both ends. A byte has gone to the client, so
/// that it has its tickets.
async fn shake(
    server: &Arc<ServerConfig>,
    client: &Arc<ClientConfig>,
) -> (
    client::TlsStream<TcpStream>,
    Result<Option<String>, HandshakeError>,
) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Arc::clone(server);
    let accepting = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (mut stream, subject) = accept(server, BudgetedStream::new(stream)).await?;
        stream.write_all(b"!").await.unwrap();
        Ok(subject)
    });
    let stream = TcpStream::connect(address).await.unwrap();
    let connector = TlsConnector::from(Arc::clone(client));
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, stream).await.unwrap();
    let _ = stream.read_u8().await;
    (stream, accepting.await.unwrap())
}

fn kind(stream: &client::TlsStream<TcpStream>) -> HandshakeKind {
    stream.get_ref().1.handshake_kind().unwrap()
}

#[tokio::test]
async fn a_session_is_resumed_with_its_certificate_until_the_files_are_read_again() {
    for version in [&TLS12, &TLS13] {
        let files = Files::new();
        let client = Arc::new(files.client(version, "loader"));
        let server = files.server();
        for expected in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let (stream, subject) = shake(&server, &client).await;
            assert_eq!(kind(&stream), expected, "{version:?}");
            assert_eq!(subject.unwrap().as_deref(), Some("CN=loader"));
        }
        let (stream, _) = shake(&files.server(), &client).await;
        assert_eq!(kind(&stream), HandshakeKind::Full, "{version:?}");
    }
}

#[tokio::test]
async fn http2_is_preferred_and_early_data_never_taken() {
    let files = Files::new();
    let mut client = files.client(&TLS13, "loader");
    client.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
    client.enable_early_data = true;
    let client = Arc::new(client);
    let server = files.server();
    for _ in 0..2 {
        let (stream, _) = shake(&server, &client).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        assert!(!stream.get_ref().1.is_early_data_accepted());
    }
}

#[tokio::test]
async fn a_certificate_without_a_subject_is_good_and_names_nobody() {
    let files = Files::new();
    let client = Arc::new(files.client(&TLS13, ""));
    let (_, subject) = shake(&files.server(), &client).await;
    assert_eq!(subject.unwrap(), None);
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let (files, other) = (Files::new(), Files::new());
    let refused = |certificate: PathBuf, private_key: PathBuf, client_ca: Option<PathBuf>| {
        let tls = ServerTls {
            certificate,
            private_key,
            client_ca,
        };
        server_config(&tls).unwrap_err().to_string()
    };
    let said = refused(files.at("server.crt"), other.at("server.key"), None);
    assert!(said.contains("is not the key of"), "{said}");
    let said = refused(files.at("server.crt"), files.at("none.key"), None);
    assert!(said.contains("none.key cannot be read"), "{said}");
    let said = refused(
        files.at("server.crt"),
        files.at("server.key"),
        Some(files.at("server.key")),
    );
    assert!(said.contains("holds no certificate"), "{said}");
}
