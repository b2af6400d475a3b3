//! Makes each of the ten faults, and says what must be seen of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{Fault, Stage};
use crate::batches::{BATCH, full as full_disk, pair};
use crate::batches_command::built_on;
use crate::catalog::Catalog;
use crate::catalog::faults::{Fault as CatalogFault, Gate};
use crate::client::{Client, full};
use crate::harness::{Setup, World};
use crate::{audit, batches, tls, token};

const EXISTS: &str = "/v1/table/east%24t1/exists";
const RESTORE: &str = "/v1/table/west%24t1/restore";
/// The defaults of the gateway, which the other tests replace.
const HEALTH: &str = "health: { interval: 10s, timeout: 2s }";
const BREAKER: &str = "breaker: { failures: 5, open_for: 10s }";

/// Two catalogs as operators have them.
fn usual() -> Setup {
    let setup = Setup::two()
        .backend("west", HEALTH)
        .backend("west", BREAKER);
    setup.backend("east", HEALTH).backend("east", BREAKER)
}

/// Error of a connection to a stopped server: `refused`, or `reset` if it came while the server stopped.
const STOPPED: &str = "Connection re";

/// Clients that send the same request again and again, each after the answer to the last.
fn clients(world: &World, count: usize, path: &'static str, pause: Duration) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    for _ in 0..count {
        let client = world.client().header("content-type", "application/json");
        clients.spawn(async move {
            loop {
                let _ = client.send(Method::POST, path, full("{}")).await;
                tokio::time::sleep(pause).await;
            }
        });
    }
    clients
}

/// The command that asks every catalog; its file is in the folder of the gateway.
fn check_online(world: &World) -> String {
    let file = world.folder().join("gateway.yaml");
    format!("nsgate check --online --config {}", file.display())
}

fn status_at(world: &World) -> String {
    format!("nsgate status --admin http://{}", world.admin_address())
}

fn strings(all: &[&str]) -> Vec<String> {
    all.iter().map(|one| (*one).to_owned()).collect()
}

pub async fn catalog_down(stage: &Stage) -> Fault {
    let world = usual().start().await.seeded();
    let since = stage.begin(&world).await;
    world.catalog("east").stop().await;
    let clients = clients(&world, 1, EXISTS, Duration::from_millis(500));
    Fault {
        what: "catalog east is down".into(),
        facts: strings(&[STOPPED, "it serves east"]),
        command: check_online(&world),
        alert: &["NsgateBackendDown"],
        alert_names: vec!["`east`".into(), status_at(&world)],
        _clients: clients,
        ..Fault::new("1 catalog down", world, since)
    }
}

pub async fn catalog_slow(stage: &Stage) -> Fault {
    let world = usual().start().await.seeded();
    let since = stage.begin(&world).await;
    let late = CatalogFault::Late(Duration::from_secs(3));
    world.catalog("east").fail_always("table_exists", late);
    let clients = clients(&world, 8, EXISTS, Duration::ZERO);
    Fault {
        what: "catalog east is slow".into(),
        facts: strings(&[
            "table_exists east$t1 of tester",
            "waited 3.",
            "it serves east",
        ]),
        command: check_online(&world),
        alert: &["NsgateCatalogSlow"],
        alert_names: vec!["`east`".into(), status_at(&world)],
        _clients: clients,
        ..Fault::new("2 catalog slow", world, since)
    }
}

pub async fn one_address_of_three_resets(stage: &Stage) -> Fault {
    let first = Catalog::start().await;
    let others = vec![Catalog::start().await, Catalog::start().await];
    for catalog in others.iter().chain([&first]) {
        catalog.can("table_exists", 200, "application/json", b"{}");
    }
    let endpoints: Vec<String> = others.iter().map(Catalog::uri).collect();
    let setup = Setup::new()
        .mount("[east]", "east")
        .backend("east", &format!("endpoints: {endpoints:?}"))
        .backend("east", "retry: { attempts: 2, budget: 20% }")
        .backend("east", HEALTH)
        .backend("east", BREAKER);
    let world = setup.over(vec![("east", first)]).await;
    let since = stage.begin(&world).await;
    for operation in ["table_exists", "health"] {
        world
            .catalog("east")
            .fail_always(operation, CatalogFault::ResetBefore);
    }
    let clients = clients(&world, 4, EXISTS, Duration::from_millis(10));
    let address = world.catalog("east").uri();
    Fault {
        what: "1 of 3 addresses of catalog east does not serve".into(),
        facts: vec![address, "reset".into(), "serve east".into()],
        command: check_online(&world),
        // Requests or a health check find it first.
        alert: &["NsgateBreakerOpen", "NsgateAddressDown"],
        alert_names: vec!["`east`".into(), status_at(&world)],
        _clients: clients,
        _kept: vec![Box::new(others)],
        ..Fault::new("3 one address of three resets", world, since)
    }
}

pub async fn hazard(stage: &Stage) -> Fault {
    let world = batches::world("lock_timeout: 200ms").await;
    let since = stage.begin(&world).await;
    let id = built_on(&world).await;
    Fault {
        what: "west$t1 waits for a person's decision".into(),
        facts: strings(&["cannot be rolled back safely"]),
        command: format!("nsgate batches show {id}"),
        alert: &["NsgateBatchHazard"],
        alert_names: vec![format!(
            "nsgate batches --admin http://{}",
            world.admin_address()
        )],
        ..Fault::new("4 hazard", world, since)
    }
}

pub async fn reload_refused(stage: &Stage) -> Fault {
    let world = World::two().await;
    let since = stage.begin(&world).await;
    let broken = world
        .configuration()
        .replace("backend: west", "backend: wset");
    assert_eq!(world.reload(&broken).await.status, 422);
    let file = world.folder().join("gateway.yaml");
    Fault {
        what: "the last reload was refused".into(),
        facts: strings(&["gateway.yaml:", "no backend of this name"]),
        command: format!("nsgate check --config {}", file.display()),
        alert: &["NsgateReloadFailed"],
        alert_names: vec![status_at(&world)],
        ..Fault::new("5 reload refused", world, since)
    }
}

/// Serves the key set until the task ends.
async fn key_server() -> (JoinSet<()>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/jwks", listener.local_addr().unwrap());
    let body = token::key_set().to_string();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (serving, url)
}

/// The issuer signs with a new key, and the address of its keys is away: the gateway has only the expired set.
pub async fn keys_cannot_be_fetched(stage: &Stage) -> Fault {
    let (serving, url) = key_server().await;
    let world = Setup::two()
        .section(&format!(
            "auth:\n  issuers:\n    - {{ issuer: \"{}\", audiences: [catalog], algorithms: [ES256], keys: {{ url: \"{url}\" }} }}",
            token::ISSUER
        ))
        .start()
        .await
        .seeded();
    let since = stage.begin(&world).await;
    drop(serving);
    let head = json!({ "alg": "ES256", "kid": "next", "typ": "JWT" }).to_string();
    let old = token::token(&json!({}));
    let (_, rest) = old.split_once('.').unwrap();
    let bearer = format!("Bearer {}.{rest}", BASE64.encode(head));
    let mut clients = JoinSet::new();
    let client = world.anonymous().header("authorization", &bearer);
    clients.spawn(async move {
        loop {
            let status = client.post(EXISTS, &json!({})).await.status;
            assert!([401, 503].contains(&status), "{status}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    Fault {
        what: format!(
            "the keys of {} cannot be fetched; the old ones stay in use",
            token::ISSUER
        ),
        facts: vec![STOPPED.into(), url.clone()],
        command: format!("curl -fsS {url}"),
        alert: &["NsgateKeyRefreshFailing"],
        alert_names: vec![token::ISSUER.into(), status_at(&world)],
        _clients: clients,
        ..Fault::new("6 expired key set", world, since)
    }
}

pub async fn certificate_with_three_days_left(stage: &Stage) -> Fault {
    let world = tls::expiring(73).start().await;
    let since = stage.begin(&world).await;
    let file = world.folder().join("server.crt").display().to_string();
    Fault {
        what: "the certificate of `listen` expires in 3 days".into(),
        command: format!("openssl x509 -noout -subject -enddate -in {file}"),
        facts: vec![file],
        alert: &["NsgateCertificateExpiring"],
        alert_names: vec!["listen".into(), status_at(&world)],
        ..Fault::new("7 certificate with three days left", world, since)
    }
}

pub async fn disk_of_the_batch_log_full(stage: &Stage) -> Fault {
    let mut world = batches::world("").await;
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
    full_disk::fill_the_disk(&mut world).await;
    let since = stage.begin(&world).await;
    let body = full(full_disk::large(&world, 3).to_string());
    let client = world.client().header("content-type", "application/json");
    let _ = client.send(Method::POST, BATCH, body).await;
    assert_eq!(world.ended().await, Some(3));
    Fault {
        what: "the batch log cannot be written".into(),
        facts: strings(&["batches.redb", "File too large", "start the gateway again"]),
        command: "df -h".into(),
        alert: &["NsgateDown"],
        alert_names: strings(&["journalctl -u nsgate", "df -h"]),
        has_page: false,
        ..Fault::new("8 disk of the batch log full", world, since)
    }
}

pub async fn disk_of_the_audit_log_full(stage: &Stage) -> Fault {
    let mut world = audit::world("audit_required: true").await;
    audit::outage::fill_the_disk(&mut world).await;
    let since = stage.begin(&world).await;
    let status = world
        .client()
        .post(RESTORE, &json!({ "version": 1 }))
        .await
        .status;
    assert_eq!(status, 503);
    let file = audit::path(&world).display().to_string();
    Fault {
        what: "changes are refused: the audit log cannot be written".into(),
        facts: strings(&["File too large", &file]),
        command: format!("df -h {file}"),
        alert: &["NsgateAuditUnwritable"],
        alert_names: vec![status_at(&world), "df -h".into()],
        ..Fault::new("8 disk of the audit log full", world, since)
    }
}

pub async fn all_places_taken(stage: &Stage) -> Fault {
    let places = stage.places;
    let setup = Setup::new()
        .mount("[east]", "east")
        .backend("east", HEALTH)
        .section(&format!("limits: {{ in_flight: {places} }}"));
    let world = setup.start().await.seeded();
    let gate = Gate::new();
    let held = CatalogFault::HoldBefore(gate.clone());
    stage.begin(&world).await;
    world.catalog("east").fail_always("table_exists", held);
    // One caller may have three quarters of the places at most.
    let callers = ["ann", "bob", "cat", "dan"].map(|sub| world.client_with(&json!({ "sub": sub })));
    let callers = callers.map(|caller| caller.header("content-type", "application/json"));
    let mut clients = JoinSet::new();
    for client in callers.iter().cycle().take(places) {
        let client: Client = client.clone();
        // One that is refused, or whose connection the crowd cost it, tries again until it is held.
        clients.spawn(async move {
            loop {
                let _ = client.send(Method::POST, EXISTS, full("{}")).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
    gate.reached(places).await;
    let since = Instant::now();
    let refused = callers[0].post(EXISTS, &json!({})).await;
    assert_eq!(refused.status, 503);
    Fault {
        what: format!("all {places} places of requests (`limits.in_flight`) are taken"),
        facts: vec![format!("{places} wait for catalog east, which serves east")],
        command: check_online(&world),
        alert: &["NsgateInFlightHigh"],
        alert_names: vec![status_at(&world)],
        _clients: clients,
        _kept: vec![Box::new(Arc::new(gate))],
        ..Fault::new("9 all places taken", world, since)
    }
}

pub async fn caller_denied_a_thousand_times(stage: &Stage) -> Fault {
    let rules =
        "authorization:\n  - { namespace: [west], read: { scope: r }, write: { scope: w } }";
    let world = Setup::two().section(rules).start().await.seeded();
    let client = world.client_with(&json!({ "sub": "mallory", "scope": "r" }));
    // The counter must be there before its increase is measured.
    assert_eq!(client.post(RESTORE, &json!({})).await.status, 403);
    let since = stage.begin(&world).await;
    for _ in 0..999 {
        assert_eq!(client.post(RESTORE, &json!({})).await.status, 403);
    }
    let file = world.folder().join("gateway.yaml");
    Fault {
        what: format!("caller mallory of {} was denied", token::ISSUER),
        facts: strings(&[
            "restore_table west$t1 of mallory from 127.0.0.1",
            "needs the scope `w`",
        ]),
        command: format!(
            "nsgate explain --config {} --claim 'sub=mallory' 'west$t1'",
            file.display()
        ),
        alert: &["NsgateRequestsDenied"],
        alert_names: vec![status_at(&world)],
        ..Fault::new("10 caller denied 1,000 times", world, since)
    }
}
