//! Tokens for catalogs: fetched in time, not too often, and never shown where they do not belong.

mod server;

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use crate::batches::{BATCH, assert_both, pair};
use crate::catalog::faults::{Fault, Gate, PATIENCE};
use crate::client::{Client, Reply};
use crate::harness::{Setup, World};
use crate::token;
use server::{TokenServer, Way};

const READ: &str = "/v1/table/west%24t1/exists";
const WRITE: &str = "/v1/table/west%24t1/restore";
const UNAUTHORIZED: Fault = Fault::Instead(401, r#"{"error":"who?","code":16}"#);
/// The content type of most of the token server's answers.
const JSON: &str = "application/json";

/// Starts a world in which `west` gets its tokens from `server`; `line` is added to its section.
async fn world(server: &TokenServer, more: &str, line: &str) -> World {
    let setup = Setup::two().backend("west", &server.oauth(more));
    setup.backend("west", line).start().await.seeded()
}

/// Starts a world in which the gateway exchanges callers' tokens for `west`.
async fn trading(server: &TokenServer) -> World {
    world(server, ", exchange: true", "").await
}

fn caller(world: &World, subject: &str) -> (Client, String) {
    let token = token::token(&json!({ "sub": subject }));
    let client = world.anonymous();
    (
        client.header("authorization", &format!("Bearer {token}")),
        token,
    )
}

/// The `authorization` headers that the catalog received, without those of health checks.
fn shown(world: &World) -> Vec<Option<String>> {
    let seen = world.catalog("west").seen();
    let seen = seen.into_iter().filter(|seen| seen.target != "/");
    seen.map(|seen| seen.header("authorization").map(str::to_owned))
        .collect()
}

#[tokio::test]
async fn the_gateway_asks_with_its_client_credentials() {
    let server = TokenServer::start().await;
    let more = r#", scope: "catalog.write catalog.read", audience: lake"#;
    let oauth = server.oauth(more).replace("nsgate,", "\"ns gate:1\",");
    let oauth = oauth.replace("hunter2hunter2", "\"p@ss/w%r+d ö\"");
    let setup = Setup::two().backend("west", &oauth);
    let world = setup.start().await.seeded();
    until(|| !server.asked().is_empty()).await;
    let asked = server.asked().remove(0);
    assert_eq!(asked.target, "/realm/token?tenant=1");
    // Client id and secret are form-encoded before they go into Basic (RFC 6749, section 2.3.1).
    assert_eq!(asked.client, "ns+gate%3A1:p%40ss%2Fw%25r%2Bd+%C3%B6");
    let expected = [
        ("audience", "lake"),
        ("grant_type", "client_credentials"),
        ("scope", "catalog.write catalog.read"),
    ];
    let form = asked.form.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    assert_eq!(form.collect::<Vec<_>>(), expected);
    // A caller's token is forwarded unchanged.
    let (client, token) = caller(&world, "one");
    client.post(READ, &json!({})).await.ok();
    assert_eq!(shown(&world), [Some(format!("Bearer {token}"))]);
}

#[tokio::test]
async fn an_undo_carries_the_gateways_own_token() {
    let server = TokenServer::start().await;
    let world = world(&server, "", "").await;
    let refused = Fault::Instead(400, r#"{"error":"no","code":13}"#);
    world.catalog("east").fail("create_table_version", refused);
    let batch = pair(&world, 2);
    assert_eq!(world.client().post(BATCH, &batch).await.status, 400);
    assert_both(&world, &[1], "undone").await;
    let deletes = world.catalog("west").seen_of("batch_delete_table_versions");
    assert!(!deletes.is_empty());
    for delete in deletes {
        assert_eq!(delete.header("authorization"), Some("Bearer own-1"));
    }
    let health = world.catalog("west").seen();
    for seen in health.iter().filter(|seen| seen.target == "/") {
        let shown = seen.header("authorization");
        assert!([None, Some("Bearer own-1")].contains(&shown), "{shown:?}");
    }
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_callers_token_is_traded_once_however_many_requests_it_makes() {
    let server = TokenServer::start().await;
    let gate = Gate::new();
    let world = trading(&server).await;
    until(|| server.asked().len() == 1).await;
    server.set(Way::Held(gate.clone()));
    let (client, token) = caller(&world, "one");
    let empty = json!({});
    let all = (0..64).map(|_| client.post(READ, &empty));
    let (replies, ()) = futures_util::future::join(join_all(all), async {
        gate.reached(1).await;
        gate.open();
    })
    .await;
    for reply in replies {
        reply.ok();
    }
    let asked = server.asked();
    assert_eq!(asked.len(), 2, "its own, and one exchange");
    let expected = [
        (
            "grant_type",
            "urn:ietf:params:oauth:grant-type:token-exchange",
        ),
        (
            "requested_token_type",
            "urn:ietf:params:oauth:token-type:access_token",
        ),
        ("subject_token", token.as_str()),
        (
            "subject_token_type",
            "urn:ietf:params:oauth:token-type:access_token",
        ),
    ];
    let form = asked[1].form.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    assert_eq!(form.collect::<Vec<_>>(), expected);
    assert_eq!(shown(&world), vec![Some("Bearer traded-2".to_owned()); 64]);
    // Another caller gets a token of its own, and each keeps its own.
    let (other, _) = caller(&world, "two");
    for (client, expected) in [(&other, 3), (&client, 2), (&other, 3)] {
        world.catalog("west").forget();
        client.post(READ, &json!({})).await.ok();
        assert_eq!(shown(&world), [Some(format!("Bearer traded-{expected}"))]);
    }
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn a_traded_token_ends_with_the_callers() {
    let server = TokenServer::start().await;
    let world = trading(&server).await;
    // The gateway accepts the token thanks to the leeway, but an exchanged token would already have
    // expired.
    let expired = token::token(&json!({ "exp": seconds() - 5 }));
    let client = world.anonymous();
    let client = client.header("authorization", &format!("Bearer {expired}"));
    let reply = client.post(READ, &json!({})).await;
    assert_eq!(reply.outcome(), (401, Some(16)), "{reply:?}");
    assert_eq!(shown(&world), []);
}

#[tokio::test]
async fn what_a_token_server_refuses_is_told_as_whose_fault_it_is() {
    let server = TokenServer::start().await;
    let world = trading(&server).await;
    until(|| server.asked().len() == 1).await;
    let elsewhere = TokenServer::start().await;
    let redirect = Way::Redirect(format!("http://{}/token", elsewhere.address));
    let token = r#"{"access_token":"TOKEN","token_type":"#;
    let mac: &str = Box::leak(format!(r#"{token}"mac"}}"#).into_boxed_str());
    let dull: &str = Box::leak(format!(r#"{token}"bearer","expires_in":0}}"#).into_boxed_str());
    let cases = [
        (
            "grant",
            Way::Says(400, JSON, r#"{"error":"invalid_grant"}"#),
            401,
        ),
        (
            "request",
            Way::Says(
                400,
                JSON,
                r#"{"error":"invalid_request","error_description":"TOKEN"}"#,
            ),
            401,
        ),
        (
            "target",
            Way::Says(400, JSON, r#"{"error":"invalid_target"}"#),
            403,
        ),
        (
            "client",
            Way::Says(401, JSON, r#"{"error":"invalid_client"}"#),
            503,
        ),
        ("broken", Way::Says(500, "text/html", "<html>TOKEN"), 503),
        ("empty", Way::Says(500, JSON, ""), 503),
        (
            "garbage",
            Way::Says(200, JSON, r#"{"access_token":["TOKEN"]"#),
            503,
        ),
        ("no json", Way::Says(200, "text/html", "TOKEN"), 503),
        ("mac", Way::Says(200, JSON, mac), 503),
        ("ended", Way::Says(200, JSON, dull), 503),
        (
            "no header",
            Way::Says(
                200,
                JSON,
                r#"{"access_token":"a\nb","token_type":"bearer"}"#,
            ),
            503,
        ),
        ("redirect", redirect, 503),
        ("endless", Way::Endless, 503),
    ];
    for (name, way, status) in cases {
        // After a failure the gateway does not contact the token server for a moment, so a probe
        // waits for that.
        let (client, token) = loop {
            server.set(Way::Good(3600));
            let (client, _) = caller(&world, "probe");
            let probe = client.header("x-probe", name);
            if probe.post(READ, &json!({})).await.status == 200 {
                break caller(&world, name);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        world.catalog("west").forget();
        server.set(way);
        let reply = client.post(READ, &json!({})).await;
        assert_refused(&world, &server, &reply, &token, status, name);
        assert_eq!(shown(&world), [], "{name}");
    }
    assert!(elsewhere.asked().is_empty(), "a redirect was followed");
    until(|| world.log().matches(r#""reason":"exchange""#).count() == 3).await;
}

fn assert_refused(
    world: &World,
    server: &TokenServer,
    reply: &Reply,
    token: &str,
    status: u16,
    case: &str,
) {
    let code = [(401, 16), (403, 15), (503, 17)];
    let code = code.into_iter().find(|(known, _)| *known == status);
    assert_eq!(
        reply.outcome(),
        (status, code.map(|(_, code)| code)),
        "{case}: {reply:?}"
    );
    let said = reply.json().to_string();
    assert!(said.contains("west"), "{case}: {said}");
    let port = server.address.port().to_string();
    assert!(!said.contains(&port), "{case}: {said}");
    let log = world.log();
    let traded = format!("traded-{}", server.asked().len());
    for secret in [token, "hunter2hunter2", traded.as_str()] {
        assert!(!said.contains(secret), "{case}: {said}");
        assert!(
            !log.contains(secret),
            "{case}: {secret} is in the log:\n{log}"
        );
    }
}

#[tokio::test]
async fn a_token_server_that_hangs_is_not_waited_for_by_everyone() {
    let server = TokenServer::start().await;
    let world = trading(&server).await;
    until(|| server.asked().len() == 1).await;
    let known = caller(&world, "known").0;
    known.post(READ, &json!({})).await.ok();
    let gate = Gate::new();
    server.set(Way::Held(gate.clone()));
    let (first, began) = (caller(&world, "first").0, Instant::now());
    let reply = first.post(READ, &json!({})).await;
    assert_eq!(reply.outcome(), (503, Some(17)));
    assert!(reply.header("retry-after").is_some());
    assert!(
        began.elapsed() > Duration::from_secs(4),
        "it was worth a wait"
    );
    // For a second no token is fetched, and callers that have one continue.
    let failed = Instant::now();
    let reply = caller(&world, "second").0.post(READ, &json!({})).await;
    assert_eq!(reply.outcome(), (503, Some(17)));
    if failed.elapsed() < Duration::from_secs(1) {
        let asked = server.asked().len();
        assert_eq!(asked, 3, "its own, the known caller's and the first's");
    }
    known.post(READ, &json!({})).await.ok();
    gate.open();
    let back = async {
        while first.post(READ, &json!({})).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, back).await.unwrap();
}

#[tokio::test]
async fn a_refused_token_is_renewed_and_only_a_read_is_sent_again() {
    let server = TokenServer::start().await;
    let world = trading(&server).await;
    until(|| server.asked().len() == 1).await;
    let (client, _) = caller(&world, "one");
    let catalog = world.catalog("west");
    client.post(READ, &json!({})).await.ok();
    catalog.fail("table_exists", UNAUTHORIZED);
    client.post(READ, &json!({})).await.ok();
    let expected = [2, 2, 3].map(|number| Some(format!("Bearer traded-{number}")));
    assert_eq!(shown(&world), expected);
    // If the newest token is refused too, that is the answer, and no third one is fetched.
    catalog.forget();
    catalog.fail_always("table_exists", UNAUTHORIZED);
    for _ in 0..3 {
        let reply = client.post(READ, &json!({})).await;
        assert_eq!(reply.outcome(), (401, Some(16)));
    }
    assert_eq!(shown(&world), vec![Some("Bearer traded-3".to_owned()); 3]);
    assert_eq!(server.asked().len(), 3);

    let (writer, _) = caller(&world, "writer");
    catalog.forget();
    catalog.fail("restore_table", UNAUTHORIZED);
    assert_eq!(writer.post(WRITE, &json!({})).await.status, 401);
    assert_eq!(shown(&world), [Some("Bearer traded-4".to_owned())], "once");
    writer.post(WRITE, &json!({})).await.ok();
    assert_eq!(shown(&world)[1], Some("Bearer traded-5".to_owned()));
}

/// The token server may allow the gateway to exchange tokens, but not to get one of its own.
#[tokio::test]
async fn what_the_gateway_is_refused_its_callers_get() {
    let server = TokenServer::start().await;
    server.set(Way::OnlyTrades);
    let health = "health: { interval: 10ms }";
    let world = world(&server, ", exchange: true", health).await;
    for number in 0..20 {
        let (client, _) = caller(&world, &format!("caller-{number}"));
        client.post(READ, &json!({})).await.ok();
    }
    let own = server.asked().into_iter();
    let own = own.filter(|asked| !asked.form.contains_key("subject_token"));
    assert!(
        (1..10).contains(&own.count()),
        "tried, and not at every question about health"
    );
}

#[tokio::test]
async fn no_page_shows_a_secret() {
    let server = TokenServer::start().await;
    let world = trading(&server).await;
    let (client, _) = caller(&world, "one");
    client.post(READ, &json!({})).await.ok();
    for page in ["/config", "/backends", "/metrics", "/ready"] {
        let page = world.admin().get(page).await;
        let page = String::from_utf8(page.body.to_vec()).unwrap();
        for secret in ["hunter2", "own-1", "traded-"] {
            assert!(!page.contains(secret), "{secret} in {page}");
        }
    }
    let config = world.admin().get("/config").await.ok().json();
    let oauth = &config["backends"]["west"]["oauth"];
    assert_eq!(oauth["client_secret"], "***");
    assert_eq!(oauth["client_id"], "nsgate");
}

fn seconds() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

async fn until(mut done: impl FnMut() -> bool) {
    let wait = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap();
}
