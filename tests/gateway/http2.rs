//! HTTP/2 to catalogs: negotiated or configured, over connections that are closed again and again, for batches too.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::batches::{BATCH, pair, visible};
use crate::catalog::Catalog;
use crate::client::{Client, raw};
use crate::harness::{Setup, World};
use crate::test_ca::Authority;
use crate::token;

const EXISTS: &str = "/v1/table/west%24t1/exists";
const DELETE: &str = "/v1/table/west%24t1/delete";

/// The number of requests on a connection of [`fickle`] before the catalog closes it.
const CONNECTION_LASTS: usize = 10;

/// Returns true if the requests came over HTTP/2, which has `:authority` instead of `host`.
fn was_http2(world: &World) -> bool {
    let seen = world.catalog("west").seen_of("table_exists");
    let hosts: Vec<_> = seen
        .iter()
        .map(|seen| seen.header("host").is_some())
        .collect();
    assert!(
        !hosts.is_empty() && hosts.iter().all(|host| *host == hosts[0]),
        "{hosts:?}"
    );
    !hosts[0]
}

#[tokio::test]
async fn over_tls_the_catalog_chooses() {
    let authority = Authority::new();
    let host = authority.host("localhost");
    let cases: [(&[&[u8]], bool); 3] = [
        (&[b"h2", b"http/1.1"], true),
        (&[b"http/1.1"], false),
        (&[], false),
    ];
    for (offered, http2) in cases {
        let (west, east) = (Catalog::start().await, Catalog::start().await);
        let port = Authority::guard_of(west.address, &host, None, offered).await;
        let setup = Setup::two()
            .at("west", format!("https://localhost:{port}"))
            .backend("west", "tls: { ca: ca.pem }")
            .backend("west", "http2: true")
            .file("ca.pem", authority.pem());
        let catalogs = vec![("west", west), ("east", east)];
        let world = setup.over(catalogs).await.seeded();
        let (client, nothing) = (world.client(), json!({}));
        for _ in 0..3 {
            let asked = (0..8).map(|_| client.post(EXISTS, &nothing));
            for reply in futures_util::future::join_all(asked).await {
                reply.ok();
            }
        }
        assert_eq!(was_http2(&world), http2, "{offered:?}");
    }
}

#[tokio::test]
async fn without_tls_it_is_spoken_when_it_is_asked_for() {
    for http2 in [true, false] {
        let setup = Setup::two().backend("west", &format!("http2: {http2}"));
        let world = setup.start().await.seeded();
        world.client().post(EXISTS, &json!({})).await.ok();
        assert_eq!(was_http2(&world), http2);
    }
}

#[tokio::test]
async fn a_batch_is_committed_over_it() {
    let setup = Setup::two()
        .backend("west", "http2: true")
        .backend("east", "http2: true");
    let world = setup.start().await.seeded();
    let batch = pair(&world, 2);
    world.client().post(BATCH, &batch).await.ok();
    for name in ["west", "east"] {
        assert_eq!(visible(&world, name).await, [1, 2]);
    }
}

#[tokio::test]
async fn a_catalog_that_comes_back_is_spoken_with_again() {
    let setup = Setup::two().backend("west", "http2: true");
    let world = setup.start().await.seeded();
    let client = world.client();
    client.post(EXISTS, &json!({})).await.ok();
    world.catalog("west").stop().await;
    assert_eq!(
        client.post(EXISTS, &json!({})).await.outcome(),
        (503, Some(17))
    );
    world.catalog("west").resume();
    client.post(EXISTS, &json!({})).await.ok();
}

/// Starts a catalog that closes each connection after a few requests, as a server does that is being replaced. It
/// counts the writes that it has executed.
async fn fickle(done: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, done.clone()));
        }
    });
    address
}

async fn serve(stream: TcpStream, done: Arc<AtomicUsize>) {
    let (enough, served) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let told = enough.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (done, served, told) = (done.clone(), served.clone(), told.clone());
        async move {
            // A health check may come at any time.
            let is_write = request.uri().path() == DELETE;
            let _ = request.into_body().collect().await;
            done.fetch_add(usize::from(is_write), Ordering::Relaxed);
            if served.fetch_add(1, Ordering::Relaxed) + 1 == CONNECTION_LASTS {
                told.notify_one();
            }
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"{}"))))
        }
    });
    let server = http2::Builder::new(TokioExecutor::new());
    let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = &mut connection => return,
        () = enough.notified() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

#[tokio::test]
async fn no_write_is_lost_or_done_twice_while_connections_go_away() {
    const CLIENTS: usize = 16;
    const WRITES: usize = 40;
    let done = Arc::new(AtomicUsize::new(0));
    let address = fickle(done.clone()).await;
    let setup = Setup::two()
        .at("west", format!("http://{address}"))
        .backend("west", "http2: true")
        .backend("west", "health: { interval: 10ms }");
    let world = setup.start().await;
    let writing = (0..CLIENTS).map(|_| {
        let client = world.client();
        async move {
            for _ in 0..WRITES {
                let delete = json!({"predicate": "a = 1"});
                client.post(DELETE, &delete).await.ok();
            }
        }
    });
    futures_util::future::join_all(writing).await;
    assert_eq!(done.load(Ordering::Relaxed), CLIENTS * WRITES);
}

/// The body and the trailers of each request.
type Bodies = Arc<Mutex<Vec<(Bytes, Option<HeaderMap>)>>>;

/// Starts a catalog that records the bodies and trailers of its requests.
async fn attentive(seen: Bodies) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let seen = seen.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let seen = seen.clone();
                async move {
                    let whole = request.into_body().collect().await.unwrap();
                    let trailers = whole.trailers().cloned();
                    seen.lock().unwrap().push((whole.to_bytes(), trailers));
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"{}"))))
                }
            });
            let server = http2::Builder::new(TokioExecutor::new());
            tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

/// Some servers treat trailers as headers, and the gateway does not check trailers.
#[tokio::test]
async fn trailers_of_a_request_reach_no_catalog() {
    const INSERT: &str = "/v1/table/west%24t1/insert";
    const ROWS: &[u8] = b"\xff\xff\xff\xff";
    let seen = Bodies::default();
    let address = attentive(seen.clone()).await;
    let setup = Setup::two()
        .at("west", format!("http://{address}"))
        .backend("west", "http2: true");
    let world = setup.start().await;
    seen.lock().unwrap().clear();
    let forged = [
        ("x-ns-ctx-tenant", "evil"),
        ("authorization", "Bearer evil"),
        ("x-forwarded-for", "192.0.2.1"),
    ];

    let bearer = token::token(&json!({}));
    let mut sent = format!(
        "POST {INSERT} HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {bearer}\r\nconnection: close\r\n\
         content-type: application/vnd.apache.arrow.stream\r\ntransfer-encoding: chunked\r\n\
         trailer: x-ns-ctx-tenant\r\n\r\n4\r\n"
    )
    .into_bytes();
    sent.extend_from_slice(ROWS);
    sent.extend_from_slice(b"\r\n0\r\n");
    for (name, value) in forged {
        sent.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    sent.extend_from_slice(b"\r\n");
    let answer = raw(world.address(), &sent).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");

    let trailers = forged.map(|(name, value)| {
        let name = HeaderName::from_static(name);
        (name, HeaderValue::from_static(value))
    });
    let frames = [
        Frame::data(Bytes::from_static(ROWS)),
        Frame::trailers(trailers.into_iter().collect()),
    ];
    let frames = futures_util::stream::iter(frames.map(Ok));
    let client = Client::h2(world.address()).header("authorization", &format!("Bearer {bearer}"));
    let rows = StreamBody::new(frames).boxed_unsync();
    client.post_rows(INSERT, rows).await.ok();

    let seen = seen.lock().unwrap();
    assert_eq!(
        *seen,
        [
            (Bytes::from_static(ROWS), None),
            (Bytes::from_static(ROWS), None)
        ]
    );
}

/// Debian 12's curl treats RST_STREAM(NO_ERROR) after an early answer as an error (92).
#[tokio::test]
async fn a_refusal_waits_for_what_little_was_declared() {
    let world = World::two().await;
    let address = world.address();
    let asked = move || {
        // The body takes more than one frame, so that the answer could overtake the rest of it.
        let body = format!("{{\"a\":\"{}\"}}", "b".repeat(40_000));
        let target = format!("http://{address}/v1/table/west%24t1/exists");
        let mut curl = std::process::Command::new("curl");
        curl.args(["-s", "--http2-prior-knowledge", "-o", "/dev/null"])
            .args(["-w", "%{http_code}", "-d", &body, &target]);
        let output = curl.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), said)
    };
    for _ in 0..30 {
        let asked = tokio::task::spawn_blocking(asked).await.unwrap();
        assert_eq!(asked, (Some(0), "401".to_owned()));
    }
}
