//! Keys over HTTPS, from an issuer with a certificate of a private authority.

use std::io::Write;
use std::sync::Arc;

use nsgate::auth::keys::{Clock, Keys, SystemClock};
use nsgate::config::Auth;
use nsgate::metrics::Metrics;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::forge::{ONE, RSA, good, set};
use crate::log;
use crate::verifier::{Door, one};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

/// Publishes a key set as `localhost`, with a certificate of `authority`. Returns its port.
async fn publish(authority: &Authority) -> u16 {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        );
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let body = set(&[RSA.jwk("rsa")]);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    port
}

#[tokio::test]
async fn a_private_authority_is_trusted_where_it_is_configured_and_no_other() {
    let ours = authority();
    let port = publish(&ours).await;
    let door = async |ca: Option<&str>, host: &str| {
        let mut config = one(&format!("https://{host}:{port}/jwks"));
        let ca = ca.map(file);
        config.keys.ca = ca.as_ref().map(|file| file.path().to_owned());
        Door::open(vec![config]).await
    };
    let trusted = door(Some(&ours.pem()), "localhost").await;
    trusted.ask(&good()).await.unwrap();
    let refused = [
        ("the system's authorities", door(None, "localhost").await),
        (
            "another authority",
            door(Some(&authority().pem()), "localhost").await,
        ),
        ("another name", door(Some(&ours.pem()), "127.0.0.1").await),
    ];
    for (name, door) in refused {
        assert_eq!(door.keys.missing().collect::<Vec<_>>(), [ONE], "{name}");
    }
    for words in [
        "signed by no authority that is trusted",
        "for other names than the one in its address",
    ] {
        assert!(log::text().contains(words), "{words}");
    }
}

#[test]
fn an_authority_that_cannot_be_read_is_an_error_that_names_the_file() {
    let metrics = Metrics::new();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    for text in [
        "",
        "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
    ] {
        let file = file(text);
        let mut config = one("https://localhost/jwks");
        config.keys.ca = Some(file.path().to_owned());
        let auth = Auth {
            issuers: vec![config],
            anonymous: false,
        };
        let error = Keys::new(&auth, &clock, metrics.auth())
            .err()
            .expect(text)
            .to_string();
        assert!(
            error.contains(&file.path().display().to_string()),
            "{error}"
        );
    }
}
