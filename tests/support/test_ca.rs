//! A certificate authority of the test's own, the identities that it signs, and clients that trust it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
pub struct Identity {
    key: KeyPair,
    certificate: rcgen::Certificate,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Each authority gets a name of its own, so that two of them can be told apart.
        let key = KeyPair::generate().unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(
            DnType::CommonName,
            format!("{:x?}", &key.public_key_raw()[..8]),
        );
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Makes a certificate for a host name.
    pub fn host(&self, name: &str) -> Identity {
        self.sign(&CertificateParams::new([name.to_owned()]).unwrap())
    }

    /// Makes a client certificate for a person of the organization Acme with this name.
    pub fn person(&self, name: &str) -> Identity {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in [
            (DnType::OrganizationName, "Acme"),
            (DnType::CommonName, name),
        ] {
            params.distinguished_name.push(kind, value);
        }
        self.sign(&params)
    }

    /// Makes a certificate for a host name that has expired.
    pub fn expired(&self, name: &str) -> Identity {
        self.until(name, UNIX_EPOCH + Duration::from_secs(1_577_836_800))
    }

    /// Makes a certificate for a host name that expires at this time.
    pub fn until(&self, name: &str, end: SystemTime) -> Identity {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        let since = end.duration_since(UNIX_EPOCH).unwrap();
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + since;
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity { key, certificate }
    }

    /// Makes a client that trusts this authority; it presents `identity` if there is one.
    pub fn client(&self, identity: Option<&Identity>) -> ClientConfig {
        self.client_of(rustls::ALL_VERSIONS, identity)
    }

    /// Makes a client as [`Self::client`] does that allows only these versions of TLS.
    pub fn client_of(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        identity: Option<&Identity>,
    ) -> ClientConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(self.roots());
        match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = vec![identity.certificate.der().clone()];
                builder
                    .with_client_auth_cert(chain, identity.key())
                    .unwrap()
            }
        }
    }

    /// Starts a TLS server, shown as `identity`, that forwards to what listens at `behind`, and returns its
    /// port. If `clients` is given, clients must present a certificate that it has signed.
    pub async fn guard(
        behind: std::net::SocketAddr,
        identity: &Identity,
        clients: Option<&Self>,
    ) -> u16 {
        Self::guard_of(behind, identity, clients, &[]).await
    }

    /// Starts a server as [`Self::guard`] does that offers these protocols (ALPN).
    pub async fn guard_of(
        behind: std::net::SocketAddr,
        identity: &Identity,
        clients: Option<&Self>,
        protocols: &[&[u8]],
    ) -> u16 {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let roots = Arc::new(clients.roots());
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let chain = vec![identity.certificate.der().clone()];
        let mut config = builder.with_single_cert(chain, identity.key()).unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut stream = match acceptor.accept(stream).into_fallible().await {
                        Ok(stream) => stream,
                        Err((_, mut stream)) => {
                            // If the socket were closed with unread bytes, it would be reset and the alert
                            // would be lost.
                            let _ = stream.shutdown().await;
                            while matches!(stream.read(&mut [0; 1024]).await, Ok(1..)) {}
                            return;
                        }
                    };
                    if let Ok(mut inside) = TcpStream::connect(behind).await {
                        let _ = tokio::io::copy_bidirectional(&mut stream, &mut inside).await;
                    }
                });
            }
        });
        port
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        roots
    }
}

impl Identity {
    /// PEM of the certificate.
    pub fn certificate(&self) -> String {
        self.certificate.pem()
    }

    /// PEM of the key.
    pub fn private_key(&self) -> String {
        self.key.serialize_pem()
    }

    /// Returns true if `der` is this certificate.
    pub fn is(&self, der: &[u8]) -> bool {
        &**self.certificate.der() == der
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::try_from(self.key.serialize_der()).unwrap()
    }
}
