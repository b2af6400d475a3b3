#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;
use tower::service_fn;

use super::*;
use crate::body::KeepAliveBody;

mod direct;
mod like_hyper;

/// A header that makes hyper serve a request, and those that follow.
const OTHER: &str = "te: trailers\r\n";
/// A timeout that no test reaches unless it fails.
const FOREVER: Duration = Duration::from_secs(20);

/// A client, and the server's side of its connection, whose state has `holders` references while hyper serves it.
struct Client {
    stream: DuplexStream,
    pulse: Arc<ConnectionState>,
    holders: usize,
    ended: JoinHandle<()>,
}

/// Connects to a stack that answers with the request's path and body. `/long` gets more than the connection takes at
/// once, and `/ignore` gets an answer at once, even if more of its body is to come. `/refuse` gets one without any of
/// its body being read.
async fn connect() -> Client {
    let (ours, theirs) = tokio::io::duplex(1 << 10);
    let pulse = ConnectionState::new();
    let stack = service_fn(async |request: Request<Body>| {
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        Ok::<_, Infallible>(Response::new(match path.as_str() {
            "/long" => Body::full("x".repeat(8 << 10)),
            "/refuse" => Body::full("no"),
            "/ignore" => {
                // A catalog may have answered and go on reading.
                tokio::spawn(body.collect_up_to(1 << 20));
                Body::full("no")
            }
            _ => {
                let body = body.collect_up_to(1 << 20).await.unwrap_or_default();
                let body = String::from_utf8(body.to_vec()).unwrap();
                Body::full(format!("{path} {body}"))
            }
        }))
    });
    let serving = Arc::clone(&pulse);
    let ended = tokio::spawn(async move {
        let protocols = Protocols::new(&Limits::default());
        let peer = Peer::new("127.0.0.1:1".parse().unwrap(), false);
        protocols.serve(theirs, peer, stack, serving).await;
    });
    let mut client = Client {
        stream: ours,
        pulse,
        holders: 0,
        ended,
    };
    assert_eq!(client.ask("/first", "").await, "/first ");
    client.holders = Arc::strong_count(&client.pulse);
    client
}

impl Client {
    async fn send(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).await.unwrap();
    }

    /// Reads the body of the next response.
    async fn receive(&mut self) -> String {
        self.receive_all().await.1
    }

    /// Reads the head of the next response, in lower case, and its body.
    async fn receive_all(&mut self) -> (String, String) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let next = timeout(FOREVER, self.stream.read_u8()).await.unwrap();
            head.push(next.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let (_, length) = head.split_once("content-length: ").unwrap();
        let length = length.lines().next().unwrap().parse().unwrap();
        let mut body = vec![0; length];
        let read = self.stream.read_exact(&mut body);
        timeout(FOREVER, read).await.unwrap().unwrap();
        let body = String::from_utf8(body).unwrap();
        (head, body)
    }

    async fn ask(&mut self, path: &str, body: &str) -> String {
        let length = body.len();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\n{OTHER}content-length: {length}\r\n\r\n{body}"
        ))
        .await;
        self.receive().await
    }

    /// Lets the server do all that it can.
    async fn settle(&self) {
        for _ in 0..100 {
            yield_now().await;
        }
    }

    async fn order(&self, order: Directive) {
        self.settle().await;
        self.pulse.order(order);
        self.settle().await;
    }

    /// True if hyper's connection, which holds one reference to the state, is gone.
    fn rests(&self) -> bool {
        assert!(!self.ended.is_finished(), "the connection has ended");
        Arc::strong_count(&self.pulse) < self.holders
    }
}

#[tokio::test]
async fn a_connection_that_rests_serves_on() {
    let mut client = connect().await;
    for pause in ["1", "2"] {
        assert!(!client.rests());
        client.order(Directive::ReleaseBuffers).await;
        assert!(client.rests());
        let answer = client.ask("/again", pause).await;
        assert_eq!(answer, format!("/again {pause}"));
    }
    client.order(Directive::ReleaseBuffers).await;
    client.send("POST /slow HTT").await;
    client.settle().await;
    assert!(!client.rests(), "a request begins");
    client.order(Directive::ReleaseBuffers).await;
    assert!(!client.rests(), "it has begun");
    client
        .send("P/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\na")
        .await;
    assert_eq!(client.receive().await, "/slow a");
}

#[tokio::test]
async fn an_answer_that_is_not_taken_is_not_lost_by_a_rest() {
    let mut client = connect().await;
    client.send("GET /long HTTP/1.1\r\nhost: x\r\n\r\n").await;
    client.order(Directive::ReleaseBuffers).await;
    assert!(!client.rests());
    assert_eq!(client.receive().await.len(), 8 << 10);
    client.order(Directive::ReleaseBuffers).await;
    assert!(client.rests());
    assert_eq!(client.ask("/next", "").await, "/next ");
}

#[tokio::test]
async fn what_is_left_of_a_body_never_becomes_a_request() {
    let mut client = connect().await;
    let request = "POST /ignore HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n";
    client.send(request).await;
    assert_eq!(client.receive().await, "no");
    client.order(Directive::ReleaseBuffers).await;
    assert!(!client.rests());
    client
        .send("GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    client.settle().await;
    client.send(&" ".repeat(100)).await;
    let mut rest = String::new();
    let read = client.stream.read_to_string(&mut rest);
    timeout(FOREVER, read).await.unwrap().unwrap();
    assert_eq!(rest, "");
}

#[tokio::test]
async fn a_response_before_the_end_of_a_small_upload_keeps_the_connection() {
    let mut client = connect().await;
    let head = "POST /refuse HTTP/1.1\r\nhost: x\r\ncontent-length: 51200\r\n\r\n";
    client.send(head).await;
    client.send(&"x".repeat(51_200)).await;
    let (head, body) = client.receive_all().await;
    assert_eq!(body, "no");
    assert!(!head.contains("connection:"), "{head}");
    assert_eq!(client.ask("/next", "").await, "/next ");
}

#[tokio::test]
async fn a_response_before_the_end_of_a_few_chunks_that_have_come_keeps_the_connection() {
    let mut client = connect().await;
    let head = "POST /refuse HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    client
        .send(&format!("{head}3\r\nabc\r\n2\r\nde\r\n0\r\nx-t: 1\r\n\r\n"))
        .await;
    let (head, body) = client.receive_all().await;
    assert_eq!(body, "no");
    assert!(!head.contains("connection:"), "{head}");
    assert_eq!(client.ask("/next", "").await, "/next ");
}

#[tokio::test]
async fn a_response_before_the_end_of_another_upload_says_that_the_connection_closes() {
    let large = 1 << 20;
    for (headers, sent) in [
        (format!("content-length: {large}"), "x".repeat(large)),
        // This client sends its body only after 100.
        (
            "expect: 100-continue\r\ncontent-length: 5".to_owned(),
            String::new(),
        ),
        ("content-length: 100".to_owned(), "cut".to_owned()),
        (
            "transfer-encoding: chunked".to_owned(),
            format!("{:x}\r\n{}\r\n0\r\n\r\n", large, "x".repeat(large)),
        ),
        // The client has sent all of it but the end.
        (
            "transfer-encoding: chunked".to_owned(),
            "3\r\nabc\r\n".to_owned(),
        ),
    ] {
        let mut client = connect().await;
        client
            .send(&format!(
                "POST /refuse HTTP/1.1\r\nhost: x\r\n{headers}\r\n\r\n"
            ))
            .await;
        // The client sends all of its request before it reads: that must not fail, nor wait.
        let sends = client.stream.write_all(sent.as_bytes());
        timeout(FOREVER, sends).await.unwrap().unwrap();
        if sent == "cut" {
            client.stream.shutdown().await.unwrap();
        }
        let (head, body) = client.receive_all().await;
        assert_eq!(body, "no", "{headers}");
        assert!(head.contains("connection: close\r\n"), "{headers}: {head}");
        let mut rest = String::new();
        let read = client.stream.read_to_string(&mut rest);
        timeout(FOREVER, read).await.unwrap().unwrap();
        assert_eq!(rest, "");
    }
}

#[tokio::test]
async fn the_beginning_of_a_request_that_came_with_another_is_kept() {
    let mut client = connect().await;
    client
        .send("GET /one HTTP/1.1\r\nhost: x\r\n\r\nGET /two HT")
        .await;
    assert_eq!(client.receive().await, "/one ");
    client.order(Directive::ReleaseBuffers).await;
    client.send("TP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(client.receive().await, "/two ");
}

#[tokio::test]
async fn a_connection_that_rests_is_still_told_to_go() {
    for order in [Directive::Drain, Directive::Abort] {
        let mut client = connect().await;
        client.order(Directive::ReleaseBuffers).await;
        assert!(client.rests());
        client.pulse.order(order);
        timeout(FOREVER, &mut client.ended).await.unwrap().unwrap();
    }
    let mut client = connect().await;
    client.order(Directive::ReleaseBuffers).await;
    drop(client.stream);
    timeout(FOREVER, &mut client.ended).await.unwrap().unwrap();
}

/// Returns a client of a connection that gets `order` while each of its requests is answered. In production the
/// orders come from another thread, that of the listener.
fn kept(order: Directive, streams: bool) -> Client {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let pulse = ConnectionState::new();
    let keeper = Arc::clone(&pulse);
    let stack = service_fn(move |request: Request<Body>| {
        let keeper = Arc::clone(&keeper);
        async move {
            keeper.order(order);
            let path = Body::full(request.uri().path().to_owned());
            let body = if streams {
                // A stack that answers early may keep the request until the response ends.
                Body::stream(KeepAliveBody::new(path, request.into_body()))
            } else {
                path
            };
            Ok::<_, Infallible>(Response::new(body))
        }
    });
    let serving = Arc::clone(&pulse);
    let ended = tokio::spawn(async move {
        let protocols = Protocols::new(&Limits::default());
        let peer = Peer::new("127.0.0.1:1".parse().unwrap(), false);
        protocols.serve(theirs, peer, stack, serving).await;
    });
    Client {
        stream: ours,
        pulse,
        holders: 0,
        ended,
    }
}

#[tokio::test]
async fn an_answer_is_not_lost_to_an_order_that_comes_with_it() {
    for (order, streams) in [
        (Directive::Drain, false),
        (Directive::Drain, true),
        (Directive::ReleaseBuffers, true),
    ] {
        let mut client = kept(order, streams);
        client.send("GET /done HTTP/1.1\r\n\r\n").await;
        assert_eq!(client.receive().await, "/done");
    }
}

#[tokio::test]
async fn what_is_left_of_a_body_never_becomes_a_request_after_a_rest() {
    let mut client = kept(Directive::ReleaseBuffers, true);
    let request = "POST /early HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n";
    client.send(request).await;
    assert_eq!(client.receive().await, "/early");
    client.settle().await;
    // The server may have closed the connection already.
    let rest = "GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
    let _ = client.stream.write_all(rest.as_bytes()).await;
    client.settle().await;
    let mut more = [0; 100];
    let read = client.stream.read(&mut more);
    let read = timeout(FOREVER, read).await.unwrap().unwrap();
    assert_eq!(String::from_utf8_lossy(&more[..read]), "");
}

#[tokio::test]
async fn requests_that_came_together_are_not_lost_by_a_rest() {
    let mut client = kept(Directive::ReleaseBuffers, false);
    let long = "x".repeat(400);
    let request = |n| format!("GET /{n} HTTP/1.1\r\n{OTHER}x-long: {long}\r\n\r\n");
    // These are more bytes than hyper reads at once, and more requests than it serves at once.
    let requests: String = (0..34).map(request).collect();
    client.send(&requests).await;
    for n in 0..34 {
        assert_eq!(client.receive().await, format!("/{n}"));
    }
}
