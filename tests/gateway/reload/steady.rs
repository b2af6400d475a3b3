//! Reloads under load: no request fails, no connection is closed.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::{status, with};
use crate::world::{Setup, World};

const RELOADS: usize = 50;
/// Every fifth is of a file that is not sound.
const UNSOUND: usize = 5;

enum Sender {
    One(hyper::client::conn::http1::SendRequest<Full<Bytes>>),
    Two(hyper::client::conn::http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::One(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Two(sender) => sender.send_request(request).await,
        }
    }
}

/// One connection that asks again and again until told to stop; answers how often it was served, all of it on the
/// connection that it began with.
async fn client(
    world: &World,
    http2: bool,
    table: &str,
    stop: &Arc<AtomicBool>,
) -> JoinHandle<usize> {
    let stream = TcpStream::connect(world.address()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let io = TokioIo::new(stream);
    let (mut sender, connection) = if http2 {
        let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
            .await
            .unwrap();
        (Sender::Two(sender), tokio::spawn(connection))
    } else {
        let (sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        (Sender::One(sender), tokio::spawn(connection))
    };
    let target = format!("http://{}/v1/table/{table}/count_rows", world.address());
    let bearer = format!("Bearer {}", crate::token::token(&json!({})));
    let host = world.address().to_string();
    let stop = Arc::clone(stop);
    tokio::spawn(async move {
        let mut served = 0;
        while !stop.load(Ordering::Relaxed) {
            let request = Request::post(&target)
                .header("host", &host)
                .header("authorization", &bearer)
                .header("content-type", "application/json")
                .body(Full::from("{}"))
                .unwrap();
            let response = sender.send(request).await.expect("an answer");
            let (head, body) = response.into_parts();
            let body = body.collect().await.expect("a whole answer").to_bytes();
            assert_eq!(
                (head.status.as_u16(), &body[..]),
                (200, &b"1"[..]),
                "{body:?}"
            );
            assert!(!head.headers.contains_key("connection"), "{head:?}");
            served += 1;
        }
        assert!(!connection.is_finished(), "the connection was closed");
        served
    })
}

/// The configuration of the `n`th reload: other routes, backends, credentials, bounds and policies each time.
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

#[tokio::test]
async fn fifty_reloads_fail_no_request_and_close_no_connection() {
    let world = Setup::two().start().await.seeded();
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = Vec::new();
    for (http2, table) in [
        (false, "west%24t1"),
        (false, "east%24t1"),
        (true, "west%24t1"),
        (true, "east%24t1"),
    ] {
        clients.push(client(&world, http2, table, &stop).await);
    }
    let yaml = world.configuration();
    let mut unsound = 0;
    for n in 1..=RELOADS {
        let next = nth(&yaml, n);
        let spare = format!("/v1/table/spare{n}%24t1/count_rows");
        if n % UNSOUND == 0 {
            let reply = world
                .reload(&with(&next, "implementation: rest", "implementation: fast"))
                .await;
            assert_eq!(reply.status, 422);
            assert_eq!(status(&world, &spare).await, 404);
            unsound += 1;
        } else {
            world.reload(&next).await.ok();
            assert_eq!(
                status(&world, &spare).await,
                200,
                "in use when the answer is there"
            );
        }
        assert!(
            clients.iter().all(|client| !client.is_finished()),
            "a client gave up"
        );
    }
    stop.store(true, Ordering::Relaxed);
    let mut served = Vec::new();
    for client in clients {
        served.push(client.await.unwrap());
    }
    assert!(served.iter().all(|served| *served > RELOADS), "{served:?}");
    println!(
        "{RELOADS} reloads, {unsound} of them unsound: {served:?} requests on four connections, none failed, none closed"
    );
    let counted = |result: &str| format!("nsgate_config_reloads_total{{result=\"{result}\"}}");
    let [success, failure] = ["success", "failure"].map(counted);
    let counted = [world.metric(&success).await, world.metric(&failure).await];
    assert_eq!(
        counted.map(|count| count as usize),
        [RELOADS - unsound, unsound]
    );
}
