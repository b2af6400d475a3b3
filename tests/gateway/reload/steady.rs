//! Reloads under load: no request fails, no connection is closed.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::with;
use crate::client::Client;
use crate::harness::World;
use crate::load::{Connection, handshake};
use crate::test_ca::{Authority, Identity};
use crate::tls::secured_by;

const RELOADS: usize = 50;
/// The interval of reloads with an invalid configuration: every fifth.
const UNSOUND: usize = 5;

/// Returns the configuration of the `n`th reload, with other routes, backends, credentials, limits and
/// policies each time.
fn nth(yaml: &str, n: usize) -> String {
    let spare =
        format!("  - {{ namespace: [spare{n}], backend: east, backend_namespace: [east] }}\n");
    let yaml = with(yaml, "mounts:\n", &format!("mounts:\n{spare}"));
    let yaml = with(
        &yaml,
        "Bearer service-of-east",
        &format!("Bearer service-{n}-of-east"),
    );
    let yaml = with(
        &yaml,
        "audiences: [catalog]",
        &format!("audiences: [catalog]\n      leeway: {}s", 30 + n % 2),
    );
    let mut yaml = with(
        &yaml,
        "health: { interval: 1h }",
        &format!("health: {{ interval: {}m }}", 30 + n % 3),
    );
    let _ = writeln!(
        yaml,
        "limits: {{ in_flight: {}, connections: {}, header_timeout: {}s }}",
        100 + n,
        200 + n,
        5 + n
    );
    yaml
}

/// Writes a certificate and a key to the gateway's files.
fn show(world: &World, certificate: &Identity, key: &Identity) {
    let at = |name: &str| world.folder().join(name);
    std::fs::write(at("server.crt"), certificate.certificate()).unwrap();
    std::fs::write(at("server.key"), key.private_key()).unwrap();
}

/// Returns true if a client that connects now is shown this certificate.
async fn shows(world: &World, authority: &Authority, identity: &Identity) -> bool {
    let stream = handshake(world, authority.client(None)).await;
    let shown = stream.get_ref().1.peer_certificates().unwrap();
    identity.is(&shown[0])
}

#[tokio::test]
async fn fifty_reloads_fail_no_request_and_close_no_connection() {
    let authority = Authority::new();
    let identity = || authority.host("localhost");
    let mut current = identity();
    let world = secured_by(&current).start().await.seeded();
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = Vec::new();
    for (http2, table) in [
        (false, "west%24t1"),
        (false, "east%24t1"),
        (true, "west%24t1"),
        (true, "east%24t1"),
    ] {
        let trust = authority.client(None);
        let connection = Connection::secured(&world, trust, http2, table).await;
        clients.push(connection.go_on(&stop));
    }
    let bearer = format!("Bearer {}", crate::token::token(&json!({})));
    let client = Client::tls(world.address().port(), authority.client(None), false)
        .header("authorization", &bearer);
    let yaml = world.configuration();
    let (mut unsound, mut rotated) = (0, 0);
    for n in 1..=RELOADS {
        let next = nth(&yaml, n);
        let spare = format!("/v1/table/spare{n}%24t1/count_rows");
        let other = identity();
        if n % UNSOUND == 0 {
            // The faults alternate: an invalid value, and a certificate that does not match its key.
            let next = match n % 2 {
                0 => with(&next, "implementation: rest", "implementation: fast"),
                _ => {
                    show(&world, &other, &current);
                    next
                }
            };
            assert_eq!(world.reload(&next).await.status, 422, "{n}");
            show(&world, &current, &current);
            assert_eq!(client.post(&spare, &json!({})).await.status, 404);
            unsound += 1;
        } else {
            show(&world, &other, &other);
            world.reload(&next).await.ok();
            // The new configuration must be active when the reload is answered.
            assert_eq!(client.post(&spare, &json!({})).await.status, 200);
            current = other;
            rotated += 1;
        }
        assert!(shows(&world, &authority, &current).await, "{n}");
        assert!(
            clients.iter().all(|client| !client.is_finished()),
            "a client gave up"
        );
    }
    stop.store(true, Ordering::Relaxed);
    let mut served = Vec::new();
    for client in clients {
        let asked = client.await.unwrap();
        assert!(asked.failed.is_none() && !asked.told, "{asked:?}");
        served.push(asked.served);
    }
    assert!(served.iter().all(|served| *served > RELOADS), "{served:?}");
    println!(
        "{RELOADS} reloads, {unsound} of them unsound, {rotated} with another certificate: {served:?} requests on four \
         connections, none failed, none closed"
    );
    let counted = |result: &str| format!("nsgate_config_reloads_total{{result=\"{result}\"}}");
    let [success, failure] = ["success", "failure"].map(counted);
    let counted = [world.metric(&success).await, world.metric(&failure).await];
    assert_eq!(
        counted.map(|count| count as usize),
        [RELOADS - unsound, unsound]
    );
}
