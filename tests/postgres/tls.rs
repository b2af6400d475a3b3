//! TLS to the server: its name and its authority are verified, and the gateway shows its certificate.

use nsgate::batch::log::postgres::PostgresLog;
use nsgate::batch::log::{BatchId, Log};
use nsgate::config::{ClientIdentity, ClientTls, LogAddress, PostgresLogConfig};

use crate::house::{SHORT, installed, intent, until};
use crate::postgres::Postgres;
use crate::test_ca::Authority;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_named_server_is_talked_to() {
    let Some(server) = Postgres::start() else {
        return;
    };
    // An error only means that the process has a provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    installed(&server, "secured").await;
    let (authority, other) = (Authority::new(), Authority::new());
    let host = authority.host("127.0.0.1");
    server.require_tls(&host.certificate(), &host.private_key(), &authority.pem());
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    // The user of the database is the common name of the certificate.
    let user = authority.person("nsgate");
    let shown = ClientIdentity {
        certificate: file("user.crt", user.certificate()),
        private_key: file("user.key", user.private_key()),
    };
    let trusted = ClientTls {
        ca: Some(file("ca.pem", authority.pem())),
        identity: Some(shown.clone()),
    };
    let config = |address: &str, tls: Option<&ClientTls>| {
        let LogAddress::Postgres(address) = LogAddress::parse(address).unwrap() else {
            panic!("{address} is a file")
        };
        PostgresLogConfig::new(&address, None, tls, "secured", SHORT)
    };
    let open = async |config: &PostgresLogConfig| PostgresLog::open(config, "tls", |_| {}).await;
    let address = server.loopback(server.port);
    let secured = config(&address, Some(&trusted));
    until(
        "the server has taken over its certificate",
        async || match open(&secured).await {
            Ok(log) => log.close().await.is_ok(),
            Err(_) => false,
        },
    )
    .await;
    let log = open(&secured).await.unwrap();
    log.intend(BatchId::now_v7(), intent(None)).await.unwrap();
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE application_name = 'nsgate' AND NOT ssl";
    assert_eq!(server.sql(encrypted), "0");
    log.close().await.unwrap();
    let untrusted = ClientTls {
        ca: Some(file("other.pem", other.pem())),
        identity: Some(shown),
    };
    let by_name = address.replace("127.0.0.1", "localhost");
    for (wrong, tls) in [(&address, Some(&untrusted)), (&by_name, Some(&trusted))] {
        let error = open(&config(wrong, tls)).await.err().unwrap().to_string();
        assert!(error.contains("certificate"), "{error}");
    }
    // Without `log_tls` the connection on loopback is plain, which this server refuses.
    let plain = open(&config(&address, None))
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(plain.contains("no encryption"), "{plain}");
    // Away from this machine it is never plain.
    let abroad = config("postgres://nsgate@db.example/nsgate", None);
    let mode = abroad.connection.get_ssl_mode();
    assert_eq!(mode, tokio_postgres::config::SslMode::Require);
}
