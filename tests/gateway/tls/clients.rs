//! TLS towards clients and operators: who gets in, and what the subject of a certificate counts for.

use std::time::Duration;

use http::Method;
use rustls::version::{TLS12, TLS13};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{EXISTS, exists, guarded, secured, shown};
use crate::catalog::faults::PATIENCE;
use crate::client::{Client, full, raw};
use crate::harness::{Setup, World};
use crate::test_ca::Authority;
use crate::token;

const CLIENT: &str = "x-ns-ctx-client";

/// Configures the usual issuer; the context entry `client` is the subject of the client's certificate.
fn issuer(more: &str) -> String {
    format!(
        "auth:\n  issuers:\n    - issuer: {}\n      audiences: [catalog]\n      algorithms: [ES256]\n      \
         keys: {{ file: keys.json }}\n      context: {{ client: tls.subject }}\n{more}",
        token::ISSUER
    )
}

fn client(world: &World, config: rustls::ClientConfig, claims: &Value) -> Client {
    let bearer = format!("Bearer {}", token::token(claims));
    let port = world.address().port();
    Client::tls(port, config, false)
        .header("authorization", &bearer)
        .header("content-type", "application/json")
}

/// Returns the context entry `client` of the only request that the catalog received, and forgets the request.
fn told(world: &World) -> Option<String> {
    let catalog = world.catalog("west");
    let seen = catalog.only();
    catalog.forget();
    let value = seen.headers.get(CLIENT)?.as_bytes().to_vec();
    Some(String::from_utf8(value).unwrap())
}

/// Waits until the gateway serves `expected` connections.
async fn connections(world: &World, expected: f64) {
    let reached = async {
        while world.metric("nsgate_connections").await != expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let reached = tokio::time::timeout(PATIENCE, reached).await;
    assert!(reached.is_ok(), "never {expected} connections");
}

/// Waits until at least `expected` handshakes have failed for this reason.
async fn failures(world: &World, reason: &str, expected: f64) {
    let sample = format!("nsgate_tls_handshake_failures_total{{reason=\"{reason}\"}}");
    let reached = async {
        while world.metric(&sample).await < expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let reached = tokio::time::timeout(PATIENCE, reached).await;
    assert!(reached.is_ok(), "never {expected} failures: {reason}");
}

#[tokio::test]
async fn both_versions_of_http_are_spoken_over_both_versions_of_tls() {
    let authority = Authority::new();
    let world = secured(&authority).start().await.seeded();
    let bearer = format!("Bearer {}", token::token(&json!({})));
    for version in [&TLS12, &TLS13] {
        for http2 in [false, true] {
            let config = authority.client_of(&[version], None);
            let client = Client::tls(world.address().port(), config, http2);
            let client = client.header("authorization", &bearer);
            for _ in 0..2 {
                client.post(EXISTS, &json!({})).await.ok();
                let catalog = world.catalog("west");
                let forwarded = catalog.only().header("forwarded").map(str::to_owned);
                assert_eq!(forwarded.unwrap(), "for=127.0.0.1;proto=https");
                catalog.forget();
            }
        }
    }
    let stranger = Authority::new().client(None);
    let refused = client(&world, stranger, &json!({}));
    let refused = refused.send(Method::POST, EXISTS, full("{}")).await;
    assert!(refused.is_err(), "{refused:?}");
    failures(&world, "rejected", 1.0).await;
}

#[tokio::test]
async fn operators_are_met_with_tls_and_one_token_only_reads() {
    let authority = Authority::new();
    let admin = "admin: { address: 127.0.0.1:0, token: everything, read_token: reading, \
                 tls: { certificate: server.crt, private_key: server.key } }";
    let setup = shown(&authority.host("localhost"), Setup::two()).section(admin);
    let world = setup.start().await;
    let plain = raw(
        world.admin_address(),
        b"GET /live HTTP/1.1\r\nhost: x\r\n\r\n",
    )
    .await;
    assert!(plain.starts_with("HTTP/1.1 400 ") && plain.contains("speaks TLS"));
    let client = |authority: &Authority| {
        let port = world.admin_address().port();
        Client::tls(port, authority.client(None), false)
    };
    let stranger = client(&Authority::new());
    let refused = stranger.send(Method::GET, "/live", full("")).await;
    assert!(refused.is_err(), "{refused:?}");
    let client = client(&authority);
    let with = |token: &str| client.header("authorization", &format!("Bearer {token}"));
    for (token, may_see, may_change) in [
        ("everything", 200, 200),
        ("reading", 200, 403),
        ("neither", 401, 401),
    ] {
        for page in ["/config", "/backends", "/batches"] {
            let reply = with(token).get(page).await;
            assert_eq!(reply.status, may_see, "{token} {page}");
            let shown = String::from_utf8_lossy(&reply.body).into_owned();
            assert!(
                !shown.contains("everything") && !shown.contains("\"reading\""),
                "{shown}"
            );
        }
        let reload = with(token).post_nothing("/reload").await;
        assert_eq!(reload.status, may_change, "{token}");
    }
    assert_eq!(client.get("/live").await.status, 200);
    let from_elsewhere = with("everything").header("origin", "https://evil.example");
    let reload = from_elsewhere.post_nothing("/reload").await;
    assert_eq!(reload.status, 403);
}

#[tokio::test]
async fn who_does_not_speak_tls_is_told_or_cut_off() {
    let authority = Authority::new();
    let setup = secured(&authority).section("limits: { header_timeout: 500ms }");
    let world = setup.start().await.seeded();
    for begun in [
        "GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\n",
    ] {
        let answer = raw(world.address(), begun.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{begun}: {answer}");
        assert!(answer.contains("speaks TLS"), "{answer}");
    }
    for begun in [
        &b"\x16\x03\x01\x00\x02hi"[..],
        b"\x80\x2e\x01\x00\x02",
        b"\0",
    ] {
        let answer = raw(world.address(), begun).await;
        assert!(!answer.contains("HTTP"), "{answer}");
    }
    let client = client(&world, authority.client(None), &json!({}));
    client.post(EXISTS, &json!({})).await.ok();
    failures(&world, "plain_http", 2.0).await;
    failures(&world, "not_tls", 2.0).await;
    let log = world.log();
    assert!(!log.contains("TLS"), "at this level nothing is said: {log}");
}

#[tokio::test]
async fn handshakes_that_do_not_come_to_an_end_are_cut_off_with_the_headers_bound() {
    let authority = Authority::new();
    let setup = secured(&authority).section("limits: { header_timeout: 400ms, connections: 200 }");
    let world = setup.start().await.seeded();
    let mut half_open = Vec::new();
    for number in 0..200 {
        let mut stream = TcpStream::connect(world.address()).await.unwrap();
        // This announces a record of 512 bytes, of which the rest never comes.
        let begun: &[u8] = match number % 3 {
            0 => b"",
            1 => b"\x16",
            _ => b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        };
        stream.write_all(begun).await.unwrap();
        half_open.push(stream);
    }
    // One more client waits until these are cut off, and is then served.
    let client = client(&world, authority.client(None), &json!({}));
    client.post(EXISTS, &json!({})).await.ok();
    for mut stream in half_open {
        let ended = tokio::time::timeout(PATIENCE, stream.read(&mut [0; 64])).await;
        assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
    }
    connections(&world, 1.0).await;
    failures(&world, "timeout", 1.0).await;
}

#[tokio::test]
async fn nobody_gets_in_without_a_certificate_that_was_asked_for() {
    let (authority, other) = (Authority::new(), Authority::new());
    let world = guarded(&authority, Setup::two()).start().await.seeded();
    let refused = [
        ("none", authority.client(None)),
        ("a stranger's", {
            // It trusts the gateway, but its certificate was signed by another authority.
            authority.client(Some(&other.person("loader")))
        }),
        (
            "one that is over",
            authority.client(Some(&authority.expired("loader"))),
        ),
    ];
    for version in [&TLS12, &TLS13] {
        let config = authority.client_of(&[version], None);
        let answer = client(&world, config, &json!({}));
        let answer = answer.send(Method::POST, EXISTS, full("{}")).await;
        assert!(answer.is_err(), "{answer:?}");
    }
    for (case, config) in refused {
        let answer = client(&world, config, &json!({}));
        let answer = answer.send(Method::POST, EXISTS, full("{}")).await;
        assert!(answer.is_err(), "{case}: {answer:?}");
    }
    failures(&world, "no_certificate", 3.0).await;
    failures(&world, "certificate", 2.0).await;
    let loader = authority.client(Some(&authority.person("loader")));
    client(&world, loader, &json!({}))
        .post(EXISTS, &json!({}))
        .await
        .ok();
}

#[tokio::test]
async fn the_certificates_subject_is_a_claim_that_no_token_can_make() {
    let authority = Authority::new();
    let setup = guarded(&authority, Setup::two()).section(&issuer(""));
    let world = setup.start().await.seeded();
    // The same token is sent over two connections, and each must get the subject of its own certificate.
    let bearer = format!(
        "Bearer {}",
        token::token(&json!({ "tls.subject": "CN=root" }))
    );
    for _ in 0..2 {
        for name in ["loader", "Strauß, Franz"] {
            let config = authority.client(Some(&authority.person(name)));
            let client = Client::tls(world.address().port(), config, name == "loader");
            let client = client
                .header("authorization", &bearer)
                .header(CLIENT, "CN=me");
            client.post(EXISTS, &json!({})).await.ok();
            let subject = format!("CN={},O=Acme", name.replace(',', "\\,"));
            assert_eq!(told(&world), Some(subject));
        }
    }
}

#[tokio::test]
async fn without_a_certificate_a_tokens_own_word_for_it_counts_for_nothing() {
    let world = Setup::two().section(&issuer("")).start().await.seeded();
    let claims = json!({ "tls.subject": "CN=root" });
    let client = world.client_with(&claims).header(CLIENT, "CN=me");
    client.post(EXISTS, &json!({})).await.ok();
    assert_eq!(told(&world), None);
    let required = "      require: { tls.subject: [\"CN=root\"] }\n";
    let world = Setup::two().section(&issuer(required)).start().await;
    let refused = world.client_with(&claims).post(EXISTS, &json!({})).await;
    assert_eq!(refused.outcome(), (401, Some(16)));
}

#[tokio::test]
async fn a_certificate_can_be_required_of_a_tokens_bearer() {
    let authority = Authority::new();
    let required = "      require: { tls.subject: [\"CN=loader,O=Acme\"] }\n";
    let setup = guarded(&authority, Setup::two()).section(&issuer(required));
    let world = setup.start().await.seeded();
    for (name, status) in [("loader", 200), ("reader", 401)] {
        let config = authority.client(Some(&authority.person(name)));
        let reply = client(&world, config, &json!({}))
            .post(EXISTS, &json!({}))
            .await;
        assert_eq!(reply.status, status, "{name}");
    }
}

#[tokio::test]
async fn rules_may_ask_for_the_certificates_subject() {
    let authority = Authority::new();
    let rules = "authorization:
  - { namespace: [west], read: { claim: tls.subject, any_of: [\"CN=loader,O=Acme\"] }, write: { deny: true } }";
    let forged =
        json!({ "tls.subject": "CN=loader,O=Acme", "tls": {"subject": "CN=loader,O=Acme"} });
    for auth in [issuer(""), "auth: { anonymous: true }".to_owned()] {
        let setup = guarded(&authority, Setup::two()).section(&auth);
        let world = setup.section(rules).start().await.seeded();
        for (name, status) in [("loader", 200), ("reader", 403)] {
            let config = authority.client(Some(&authority.person(name)));
            let reply = client(&world, config, &forged)
                .post(EXISTS, &json!({}))
                .await;
            assert_eq!(reply.status, status, "{name} {auth}");
        }
    }
    let world = Setup::two().section(rules).start().await.seeded();
    let reply = world.client_with(&forged).post(EXISTS, &json!({})).await;
    assert_eq!(reply.outcome(), (403, Some(15)));
}

#[tokio::test]
async fn where_no_token_is_asked_for_a_certificate_says_who_it_is() {
    let authority = Authority::new();
    let setup = guarded(&authority, Setup::two()).section("auth: { anonymous: true }");
    let world = setup.start().await.seeded();
    let config = authority.client(Some(&authority.person("loader")));
    client(&world, config, &json!({}))
        .post(EXISTS, &json!({}))
        .await
        .ok();
    let logged = async {
        while !world.log().contains("\"CN=loader,O=Acme\"") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let logged = tokio::time::timeout(PATIENCE, logged).await;
    assert!(logged.is_ok(), "{}", world.log());
}

#[tokio::test]
async fn a_client_that_says_goodbye_is_let_go_though_its_connection_stays() {
    let authority = Authority::new();
    let world = secured(&authority).start().await.seeded();
    let gate = world.catalog("west").hold("table_exists");
    let stream = TcpStream::connect(world.address()).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(authority.client(None)));
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, stream).await.unwrap();
    let bearer = token::token(&json!({}));
    let request = format!(
        "POST {EXISTS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {bearer}\r\n\
         content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    gate.reached(1).await;
    connections(&world, 1.0).await;
    let (plain, session) = stream.get_mut();
    session.send_close_notify();
    let mut goodbye = Vec::new();
    session.write_tls(&mut goodbye).unwrap();
    plain.write_all(&goodbye).await.unwrap();
    connections(&world, 0.0).await;
    assert_eq!(world.metric("nsgate_requests_in_flight").await, 0.0);
    drop(stream);
}

#[tokio::test]
async fn rules_may_ask_for_a_certificate() {
    let authority = Authority::new();
    let rules = "authorization:\n  - namespace: [west]\n    read: { claim: tls.subject, any_of: [\"CN=loader,O=Acme\"] }\n    \
                 write: { deny: true }\n";
    for auth in ["auth: { anonymous: true }", &issuer("")] {
        let setup = guarded(&authority, Setup::two()).section(auth);
        let world = setup.section(rules).start().await.seeded();
        for (name, status) in [("loader", 200), ("reader", 403)] {
            let config = authority.client(Some(&authority.person(name)));
            let claims = json!({ "tls.subject": "CN=loader,O=Acme" });
            let client = client(&world, config, &claims);
            assert_eq!(exists(&client).await, Ok(status), "{name}");
        }
    }
}
