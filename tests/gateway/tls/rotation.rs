//! Certificates and authorities that change while the gateway runs.

use std::time::Duration;

use serde_json::json;

use super::{exists, guarded, secured};
use crate::catalog::faults::PATIENCE;
use crate::client::Client;
use crate::harness::{Setup, World};
use crate::reload::logged;
use crate::test_ca::{Authority, Identity};
use crate::token;

/// Replaces the gateway's certificate and key.
fn rotate(world: &World, certificate: &Identity, key: &Identity) {
    let file = |name: &str| world.folder().join(name);
    std::fs::write(file("server.crt"), certificate.certificate()).unwrap();
    std::fs::write(file("server.key"), key.private_key()).unwrap();
}

#[tokio::test]
async fn a_certificate_is_changed_under_open_connections() {
    let (before, after) = (Authority::new(), Authority::new());
    let world = secured(&before).start().await.seeded();
    let bearer = format!("Bearer {}", token::token(&json!({})));
    let port = world.address().port();
    let trusting = |authority: &Authority, http2| {
        Client::tls(port, authority.client(None), http2)
            .header("authorization", &bearer)
            .header("content-type", "application/json")
    };
    let old = [trusting(&before, false), trusting(&before, true)];
    for client in &old {
        assert_eq!(exists(client).await, Ok(200));
    }
    // One request on each connection is under way while the certificate changes.
    let gate = world.catalog("west").hold("table_exists");
    let held = old
        .clone()
        .map(|client| tokio::spawn(async move { exists(&client).await }));
    gate.reached(1).await;
    let host = after.host("localhost");
    rotate(&world, &host, &host);
    let reloaded = world.admin().post_nothing("/reload").await.ok().json();
    let files = reloaded["files"].as_array().unwrap().len();
    assert_eq!((files, &reloaded["changed"]), (2, &json!([])));
    gate.open();
    for held in held {
        assert_eq!(held.await.unwrap(), Ok(200));
    }
    // Clients that trust only the old authority keep their connections, but could not open new ones.
    for client in &old {
        assert_eq!(exists(client).await, Ok(200));
    }
    for http2 in [false, true] {
        assert!(exists(&trusting(&before, http2)).await.is_err());
        assert_eq!(exists(&trusting(&after, http2)).await, Ok(200));
    }
    // A certificate that cannot be used changes nothing.
    rotate(&world, &before.host("localhost"), &host);
    let refused = world.admin().post_nothing("/reload").await;
    assert_eq!(refused.status, 422);
    let problem = refused.json()["problems"][0].as_str().unwrap().to_owned();
    assert!(problem.contains("listen.tls.private_key"), "{problem}");
    assert_eq!(exists(&trusting(&after, true)).await, Ok(200));
    for client in &old {
        assert_eq!(exists(client).await, Ok(200));
    }
}

#[tokio::test]
async fn a_key_where_a_certificate_belongs_is_shown_nowhere() {
    let authority = Authority::new();
    let world = secured(&authority).start().await;
    let key = authority.host("localhost").private_key();
    let line = key.trim_end().replace('\n', "\\n");
    std::fs::write(world.folder().join("server.crt"), &line).unwrap();
    let refused = world.admin().post_nothing("/reload").await;
    assert_eq!(refused.status, 422);
    let ready = world.admin().get("/ready").await;
    let status = world.admin().get("/status").await;
    let said =
        [refused, ready, status].map(|page| String::from_utf8_lossy(&page.body).into_owned());
    logged(&world, "has in line 1").await;
    let secret = key.lines().nth(1).unwrap();
    for said in said.into_iter().chain([world.log()]) {
        assert!(said.contains("server.crt has in line 1"), "{said}");
        for part in secret.as_bytes().windows(8) {
            let numbers = format!("{part:?}");
            assert!(!said.contains(numbers.trim_matches(['[', ']'])), "{said}");
            assert!(!said.contains(str::from_utf8(part).unwrap()), "{said}");
        }
    }
}

#[tokio::test]
async fn a_change_on_disk_is_enough_and_an_authority_that_is_gone_vouches_no_more() {
    let (before, after) = (Authority::new(), Authority::new());
    let world = guarded(&before, Setup::two()).start().await.seeded();
    let bearer = format!("Bearer {}", token::token(&json!({})));
    let port = world.address().port();
    // This configuration keeps TLS sessions, which would be resumed.
    let config = before.client(Some(&before.person("loader")));
    let client = || {
        Client::tls(port, config.clone(), false)
            .header("authorization", &bearer)
            .header("content-type", "application/json")
    };
    let kept = client();
    for client in [&kept, &client()] {
        assert_eq!(exists(client).await, Ok(200));
    }
    std::fs::write(world.folder().join("clients.pem"), after.pem()).unwrap();
    let shut = async {
        while exists(&client()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let shut = tokio::time::timeout(PATIENCE, shut).await;
    assert!(shut.is_ok(), "{}", world.log());
    assert_eq!(
        exists(&kept).await,
        Ok(200),
        "its connection was open before"
    );
    let newcomer = before.client(Some(&after.person("loader")));
    let newcomer = Client::tls(port, newcomer, true)
        .header("authorization", &bearer)
        .header("content-type", "application/json");
    assert_eq!(exists(&newcomer).await, Ok(200));
}

#[tokio::test]
async fn a_certificate_that_changes_on_disk_is_served_without_a_request_to_reload() {
    let (before, after) = (Authority::new(), Authority::new());
    let world = secured(&before).start().await.seeded();
    let bearer = format!("Bearer {}", token::token(&json!({})));
    let port = world.address().port();
    let trusting = |authority: &Authority| {
        Client::tls(port, authority.client(None), false).header("authorization", &bearer)
    };
    assert_eq!(exists(&trusting(&before)).await, Ok(200));
    let host = after.host("localhost");
    rotate(&world, &host, &host);
    let served = async {
        while exists(&trusting(&after)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let served = tokio::time::timeout(PATIENCE, served).await;
    assert!(served.is_ok(), "{}", world.log());
    assert!(exists(&trusting(&before)).await.is_err());
}
