//! TLS to the server: its name and its authority are verified, and the gateway shows its certificate.

use std::path::PathBuf;

use nsgate::batch::log::postgres::PostgresLog;
use nsgate::batch::log::{BatchId, Log};
use nsgate::config::{ClientIdentity, ClientTls, LogAddress, PostgresLogConfig};
use tempfile::TempDir;

use crate::house::{SHORT, installed, intent, until};
use crate::postgres::Postgres;
use crate::test_ca::{Authority, Identity};

/// A server that is reached over TLS only, by clients with a certificate.
struct Secured {
    server: Postgres,
    authority: Authority,
    folder: TempDir,
}

impl Secured {
    /// Starts the server, with the schema `secured`.
    async fn start() -> Option<Self> {
        let server = Postgres::start()?;
        // An error only means that the process has a provider already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        installed(&server, "secured").await;
        let authority = Authority::new();
        let host = authority.host("127.0.0.1");
        server.require_tls(&host.certificate(), &host.private_key(), &authority.pem());
        let folder = tempfile::tempdir().unwrap();
        let secured = Self {
            server,
            authority,
            folder,
        };
        secured.file("ca.pem", &secured.authority.pem());
        secured.shows(&secured.user());
        let config = secured.config(&secured.address(), Some(&secured.tls()));
        until(
            "the server has taken over its certificate",
            async || match open(&config).await {
                Ok(log) => log.close().await.is_ok(),
                Err(_) => false,
            },
        )
        .await;
        Some(secured)
    }

    fn address(&self) -> String {
        self.server.loopback(self.server.port)
    }

    /// Makes a certificate of the user of the database, who is its common name.
    fn user(&self) -> Identity {
        self.authority.person("nsgate")
    }

    /// Writes the certificate that the gateway shows.
    fn shows(&self, user: &Identity) {
        self.file("user.crt", &user.certificate());
        self.file("user.key", &user.private_key());
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn tls(&self) -> ClientTls {
        let file = |name: &str| self.folder.path().join(name);
        let shown = ClientIdentity {
            certificate: file("user.crt"),
            private_key: file("user.key"),
        };
        ClientTls {
            ca: Some(file("ca.pem")),
            identity: Some(shown),
        }
    }

    fn config(&self, address: &str, tls: Option<&ClientTls>) -> PostgresLogConfig {
        let LogAddress::Postgres(address) = LogAddress::parse(address).unwrap() else {
            panic!("{address} is a file")
        };
        PostgresLogConfig::new(&address, None, tls, "secured", SHORT)
    }

    /// Ends all connections of gateways. Writes a batch through new ones, and returns the numbers of the certificates that
    /// these show.
    async fn shown_again(&self, log: &PostgresLog) -> String {
        let gateways = "FROM pg_stat_activity WHERE application_name = 'nsgate'";
        self.server.sql(&format!(
            "SELECT count(pg_terminate_backend(pid)) {gateways}"
        ));
        log.intend(BatchId::now_v7(), intent(None)).await.unwrap();
        self.server.sql(
            "SELECT DISTINCT client_serial FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
             WHERE application_name = 'nsgate'",
        )
    }
}

async fn open(config: &PostgresLogConfig) -> Result<PostgresLog, String> {
    let opened = PostgresLog::open(config, "tls", |_| {}).await;
    opened.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_named_server_is_talked_to() {
    let Some(secured) = Secured::start().await else {
        return;
    };
    let (address, trusted) = (secured.address(), secured.tls());
    let log = open(&secured.config(&address, Some(&trusted))).await;
    let log = log.unwrap();
    log.intend(BatchId::now_v7(), intent(None)).await.unwrap();
    let plain = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE application_name = 'nsgate' AND NOT ssl";
    assert_eq!(secured.server.sql(plain), "0");
    log.close().await.unwrap();
    let untrusted = ClientTls {
        ca: Some(secured.file("other.pem", &Authority::new().pem())),
        ..trusted.clone()
    };
    let by_name = address.replace("127.0.0.1", "localhost");
    for (wrong, tls) in [(&address, Some(&untrusted)), (&by_name, Some(&trusted))] {
        let error = open(&secured.config(wrong, tls)).await.err().unwrap();
        assert!(error.contains("certificate"), "{error}");
    }
    // Without `log_tls` the connection on loopback is plain, which this server refuses.
    let plain = open(&secured.config(&address, None)).await.err().unwrap();
    assert!(plain.contains("no encryption"), "{plain}");
    // Away from this machine it is never plain.
    let abroad = secured.config("postgres://nsgate@db.example/nsgate", None);
    let mode = abroad.connection.get_ssl_mode();
    assert_eq!(mode, tokio_postgres::config::SslMode::Require);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewed_files_are_used_for_new_connections() {
    let Some(secured) = Secured::start().await else {
        return;
    };
    let config = secured.config(&secured.address(), Some(&secured.tls()));
    let log = open(&config).await.unwrap();
    let first = secured.shown_again(&log).await;
    // Its half is written: the former one is used on.
    secured.file("user.crt", "-----BEGIN CERTIFICATE-----\nMIIB");
    assert_eq!(secured.shown_again(&log).await, first);
    secured.shows(&secured.user());
    let second = secured.shown_again(&log).await;
    assert_ne!(second, first);
    assert!(!second.is_empty() && !second.contains('\n'), "{second}");
    log.close().await.unwrap();
}
