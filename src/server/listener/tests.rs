#![allow(clippy::unwrap_used, reason = "a test says what it expects")]
use std::sync::Mutex;

use http::StatusCode;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tower::service_fn;

use super::*;
use crate::config::Limits;

/// A timeout that no test reaches unless it fails.
const PATIENCE: Duration = Duration::from_secs(20);
const GET: &str = "GET /x HTTP/1.1\r\nhost: x\r\n\r\n";

/// A listener that answers requests to `/wait` when released, and all others at once.
struct Server {
    address: SocketAddr,
    release: Arc<Notify>,
    waiting: Arc<Notify>,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    done: JoinHandle<usize>,
}

impl Server {
    async fn start(limits: Limits, drain_timeout: Duration) -> Self {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap())
            .await
            .unwrap();
        let (release, waiting) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (hold, tell) = (Arc::clone(&release), Arc::clone(&waiting));
        let stack = service_fn(move |request: Request<Body>| {
            let (hold, tell) = (Arc::clone(&hold), Arc::clone(&tell));
            async move {
                if request.uri().path() == "/wait" {
                    tell.notify_one();
                    hold.notified().await;
                }
                Ok(Response::new(Body::full("hello")))
            }
        });
        let serving = Serving {
            connections: limits.connections,
            makes_room: false,
            header_timeout: limits.header_timeout,
            stall_timeout: PATIENCE,
            drain_timeout,
            tls: None,
            protocols: Protocols::new(&limits),
            gauge: None,
            tls_failures: None,
            refused_peers: None,
        };
        let serving = Arc::new(ArcSwap::from_pointee(serving));
        let address = listener.address();
        let (stop, stopped) = oneshot::channel();
        let done = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            listener.serve(serving, stack, stopped).await
        });
        Self {
            address,
            release,
            waiting,
            stop: Mutex::new(Some(stop)),
            done,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    fn stop(&self) {
        let stop = self.stop.lock().unwrap().take();
        stop.unwrap().send(()).unwrap();
    }

    /// Waits for the end. Returns the number of connections that were aborted.
    async fn ended(self) -> usize {
        timeout(PATIENCE, self.done).await.unwrap().unwrap()
    }
}

fn quick() -> Limits {
    Limits {
        header_timeout: Duration::from_millis(400),
        ..Limits::default()
    }
}

/// Reads from the server until `end`, or until the server closes.
async fn read(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    let reading = async {
        while !text.ends_with(end.as_bytes()) || end.is_empty() {
            match stream.read_buf(&mut text).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
    };
    timeout(PATIENCE, reading).await.unwrap();
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn both_versions_of_http_are_spoken_and_connections_kept() {
    let server = Server::start(Limits::default(), PATIENCE).await;
    let mut stream = server.connect().await;
    for _ in 0..3 {
        stream.write_all(GET.as_bytes()).await.unwrap();
        let answer = read(&mut stream, "hello").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }

    let io = TokioIo::new(server.connect().await);
    let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .handshake(io)
        .await
        .unwrap();
    tokio::spawn(connection);
    for _ in 0..3 {
        let request = Request::builder().uri("http://x/x").body(Body::empty());
        let response = sender.send_request(request.unwrap()).await.unwrap();
        assert_eq!(response.version(), http::Version::HTTP_2);
        let body = Body::incoming(response.into_body())
            .collect_up_to(9)
            .await
            .unwrap();
        assert_eq!(body, "hello");
    }
    drop((stream, sender));
    server.stop();
    assert_eq!(server.ended().await, 0);
}

#[tokio::test]
async fn a_client_that_dribbles_its_headers_is_cut_off() {
    let server = Server::start(quick(), PATIENCE).await;
    for first in ["", "P", "GET /x HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n\r\nSM"] {
        let mut stream = server.connect().await;
        stream.write_all(first.as_bytes()).await.unwrap();
        // One more byte now and then does not extend the timeout.
        let dribble = async {
            loop {
                sleep(Duration::from_millis(50)).await;
                if stream.write_all(b"a").await.is_err() {
                    break;
                }
            }
        };
        timeout(PATIENCE, dribble).await.unwrap();
    }
    // The second request of a connection has the same timeout.
    let mut stream = server.connect().await;
    stream.write_all(GET.as_bytes()).await.unwrap();
    read(&mut stream, "hello").await;
    stream.write_all(b"GET /").await.unwrap();
    assert_eq!(read(&mut stream, "").await, "");
}

#[tokio::test]
async fn an_answer_and_a_pause_may_take_longer_than_headers() {
    let server = Server::start(quick(), PATIENCE).await;
    let mut stream = server.connect().await;
    let wait = GET.replace("/x", "/wait");
    stream.write_all(wait.as_bytes()).await.unwrap();
    sleep(Duration::from_millis(1200)).await;
    server.release.notify_one();
    read(&mut stream, "hello").await;
    sleep(Duration::from_millis(1200)).await;
    stream.write_all(GET.as_bytes()).await.unwrap();
    assert!(read(&mut stream, "hello").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn headers_beyond_the_bound_are_answered_with_431() {
    let limits = Limits {
        header_bytes: 4 << 10,
        ..Limits::default()
    };
    let server = Server::start(limits, PATIENCE).await;
    for (length, status) in [
        (3 << 10, StatusCode::OK),
        (5 << 10, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
    ] {
        let mut stream = server.connect().await;
        let long = format!("x-long: {}\r\n\r\n", "x".repeat(length));
        let request = GET.replace("\r\n\r\n", &format!("\r\n{long}"));
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read(&mut stream, "hello").await;
        assert!(
            answer.contains(&format!("HTTP/1.1 {} ", status.as_u16())),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_until_one_ends() {
    let limits = Limits {
        connections: 1,
        ..Limits::default()
    };
    let server = Server::start(limits, PATIENCE).await;
    let mut first = server.connect().await;
    first.write_all(GET.as_bytes()).await.unwrap();
    read(&mut first, "hello").await;

    let mut second = server.connect().await;
    second.write_all(GET.as_bytes()).await.unwrap();
    let early = timeout(Duration::from_millis(200), read(&mut second, "hello")).await;
    assert!(early.is_err(), "it is not served yet");
    drop(first);
    assert!(read(&mut second, "hello").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_stop_lets_what_runs_end_and_closes_what_is_idle() {
    let server = Server::start(Limits::default(), PATIENCE).await;
    let mut silent = server.connect().await;
    let mut idle = server.connect().await;
    idle.write_all(GET.as_bytes()).await.unwrap();
    read(&mut idle, "hello").await;
    let mut busy = server.connect().await;
    let wait = GET.replace("/x", "/wait");
    busy.write_all(wait.as_bytes()).await.unwrap();
    server.waiting.notified().await;

    server.stop();
    assert_eq!(read(&mut idle, "").await, "");
    assert_eq!(read(&mut silent, "").await, "");
    assert!(TcpStream::connect(server.address).await.is_err());
    server.release.notify_one();
    let answer = read(&mut busy, "").await;
    assert!(answer.ends_with("hello"), "{answer}");
    assert_eq!(server.ended().await, 0);
}

#[tokio::test]
async fn what_runs_longer_than_the_drain_is_ended() {
    let server = Server::start(Limits::default(), Duration::from_millis(100)).await;
    let mut busy = server.connect().await;
    let wait = GET.replace("/x", "/wait");
    busy.write_all(wait.as_bytes()).await.unwrap();
    server.waiting.notified().await;
    server.stop();
    assert_eq!(read(&mut busy, "").await, "");
    assert_eq!(server.ended().await, 1);
}

#[tokio::test]
async fn what_the_system_has_accepted_at_the_stop_is_served() {
    let server = Server::start(Limits::default(), PATIENCE).await;
    drop(server.connect().await);
    // The listener does not run between these lines: only the system has seen the connections.
    let mut waiting: Vec<_> = (0..3)
        .map(|_| std::net::TcpStream::connect(server.address).unwrap())
        .collect();
    server.stop();
    for stream in &mut waiting {
        std::io::Write::write_all(stream, GET.as_bytes()).unwrap();
    }
    for stream in waiting {
        stream.set_nonblocking(true).unwrap();
        let mut stream = TcpStream::from_std(stream).unwrap();
        let answer = read(&mut stream, "hello").await;
        assert!(answer.contains("connection: close"), "{answer}");
    }
    assert_eq!(server.ended().await, 0);
}
