//! TLS towards catalogs: what callers and the log are told of a catalog that cannot be trusted.

use std::time::Duration;

use serde_json::json;

use super::EXISTS;
use crate::catalog::Catalog;
use crate::catalog::faults::PATIENCE;
use crate::harness::{Setup, World};
use crate::test_ca::{Authority, Identity};

/// Starts a gateway that reaches its catalog over TLS.
async fn before(
    authority: &Authority,
    identity: &Identity,
    clients: Option<&Authority>,
    tls: &str,
) -> World {
    let (west, east) = (Catalog::start().await, Catalog::start().await);
    let port = Authority::guard(west.address, identity, clients).await;
    let gateway = authority.person("gateway");
    let setup = Setup::two()
        .at("west", format!("https://localhost:{port}"))
        .backend("west", &format!("tls: {tls}"))
        .file("ca.pem", authority.pem())
        .file("other.pem", Authority::new().pem())
        .file("client.crt", gateway.certificate())
        .file("client.key", gateway.private_key());
    setup
        .over(vec![("west", west), ("east", east)])
        .await
        .seeded()
}

#[tokio::test]
async fn a_catalog_is_reached_through_tls_of_a_private_authority() {
    const SHOWN: &str = "{ ca: ca.pem, certificate: client.crt, private_key: client.key }";
    let authority = Authority::new();
    let host = authority.host("localhost");
    for (clients, tls) in [(None, "{ ca: ca.pem }"), (Some(&authority), SHOWN)] {
        let world = before(&authority, &host, clients, tls).await;
        for _ in 0..3 {
            world.client().post(EXISTS, &json!({})).await.ok();
        }
    }
}

#[tokio::test]
async fn a_catalog_that_cannot_be_trusted_is_named_to_callers_and_explained_in_the_log() {
    const TRUSTED: &str = "{ ca: ca.pem }";
    let authority = Authority::new();
    let host = authority.host("localhost");
    let cases: [(Identity, Option<&Authority>, &str, &str); 5] = [
        (
            authority.host("localhost"),
            None,
            "{ ca: other.pem }",
            "no authority that is trusted",
        ),
        (authority.expired("localhost"), None, TRUSTED, "has expired"),
        (
            authority.host("elsewhere.test"),
            None,
            TRUSTED,
            "is for other names",
        ),
        (
            authority.host("localhost"),
            Some(&authority),
            TRUSTED,
            "asks for a client certificate",
        ),
        (
            host,
            Some(&Authority::new()),
            "{ ca: ca.pem, certificate: client.crt, private_key: client.key }",
            "does not accept the client certificate",
        ),
    ];
    for (identity, clients, tls, cause) in cases {
        let world = before(&authority, &identity, clients, tls).await;
        let reply = world.client().post(EXISTS, &json!({})).await;
        assert_eq!(reply.outcome(), (503, Some(17)), "{cause}");
        assert_eq!(reply.words(), "backend `west` cannot be reached", "{cause}");
        let told = String::from_utf8_lossy(&reply.body);
        assert!(
            !told.contains("localhost") && !told.contains("127.0.0.1"),
            "{told}"
        );
        let logged = async {
            while !world.log().contains(cause) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let logged = tokio::time::timeout(PATIENCE, logged).await;
        assert!(logged.is_ok(), "{cause}: {}", world.log());
        world
            .client()
            .post(&EXISTS.replace("west", "east"), &json!({}))
            .await
            .ok();
    }
}
