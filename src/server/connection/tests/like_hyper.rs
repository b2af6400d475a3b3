//! Compares requests and responses that need no hyper with the same ones served by hyper.

use std::sync::Mutex;

use http_body::Frame;
use http_body_util::{Full, StreamBody};

use super::*;

/// The requests that the stack saw, and the bytes that the client received until the server closed
/// or had no more to send.
#[derive(Debug, PartialEq)]
struct Seen {
    requests: Vec<String>,
    received: String,
    over: bool,
}

/// Answers as the path says, and records the request.
async fn respond(request: Request<Body>, seen: &Mutex<Vec<String>>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = body.collect_up_to(1 << 20).await.unwrap_or_default();
    let headers = head.headers;
    let line = format!("{} {} {headers:?} {body:?}", head.method, head.uri);
    seen.lock().unwrap().push(line);
    let answer = Response::builder();
    match head.uri.path() {
        "/empty" => answer.body(Body::empty()),
        "/none" => answer.status(204).body(Body::empty()),
        "/same" => answer.status(304).body(Body::empty()),
        "/odd" => answer.status(799).body(Body::full("odd")),
        "/refused" => answer.status(409).body(Body::full("{}")),
        "/said" => answer.header("content-length", 3).body(Body::full("abc")),
        "/dated" => answer.header("date", "yesterday").body(Body::full("a")),
        "/twice" => answer
            .header("x-a", "1")
            .header("x-a", "2")
            .body(Body::full("a")),
        "/goes" => answer.header("connection", "close").body(Body::full("a")),
        "/named" => answer
            .extension(hyper::ext::ReasonPhrase::from_static(b"Fine"))
            .body(Body::full("a")),
        "/streams" => answer.body(Body::stream(Full::new(Bytes::from("piece")))),
        "/chunks" => {
            let frames = ["one", "two"].map(|part| Ok::<_, Infallible>(Frame::data(part.into())));
            let stream = StreamBody::new(futures_util::stream::iter(frames));
            answer.body(Body::stream(stream))
        }
        "/breaks" => {
            let frames = [
                Ok(Frame::data(Bytes::from("one"))),
                Err(BoxError::from("the catalog is gone")),
            ];
            let stream = StreamBody::new(futures_util::stream::iter(frames));
            answer.body(Body::stream(stream))
        }
        "/long" => answer.body(Body::full("x".repeat(16 << 10))),
        "/longer" => answer.body(Body::full("x".repeat((16 << 10) + 1))),
        path => answer.body(Body::full(path.to_owned())),
    }
    .unwrap()
}

/// Sends `pieces` one after the other, and then another request.
async fn converse(pieces: &[&[u8]]) -> Seen {
    let (mut ours, theirs) = tokio::io::duplex(256 << 10);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&seen);
    let stack = service_fn(move |request| {
        let seen = Arc::clone(&asked);
        async move { Ok(respond(request, &seen).await) }
    });
    let ended = tokio::spawn(async move {
        let limits = Limits {
            header_bytes: 4 << 10,
            ..Limits::default()
        };
        let peer = Peer::new("127.0.0.1:1".parse().unwrap(), false);
        let pulse = ConnectionState::new();
        Protocols::new(&limits)
            .serve(theirs, peer, stack, pulse)
            .await;
    });
    let mut received = Vec::new();
    for piece in pieces.iter().chain([&AFTER]) {
        let _ = ours.write_all(piece).await;
        for _ in 0..100 {
            yield_now().await;
        }
    }
    let over = ended.is_finished();
    if !over {
        ours.shutdown().await.unwrap();
    }
    timeout(FOREVER, ours.read_to_end(&mut received))
        .await
        .unwrap()
        .unwrap();
    let received = String::from_utf8_lossy(&received);
    let received = received.split_inclusive("\r\n");
    let requests = seen.lock().unwrap().clone();
    Seen {
        requests,
        received: received.filter(|line| !is_now(line)).collect(),
        over,
    }
}

const AFTER: &[u8] = b"GET /after HTTP/1.1\r\n\r\n";

fn is_now(line: &str) -> bool {
    line.starts_with("date: ") && line != "date: yesterday\r\n"
}

/// Sends `request` in one piece, and in two of which neither is complete. Checks that both give the
/// same.
async fn compare(request: &[u8]) -> Seen {
    let whole = converse(&[request]).await;
    let cut = converse(&[&request[..2], &request[2..]]).await;
    let named = String::from_utf8_lossy(request);
    assert_eq!(whole.requests, cut.requests, "{named}");
    assert_eq!(whole.over, cut.over, "{named}");
    assert_eq!(sorted(&whole.received), sorted(&cut.received), "{named}");
    whole
}

/// Sorts the lines, because the order of headers has no meaning.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[tokio::test]
async fn every_answer_is_the_same() {
    for path in [
        "/", "/empty", "/none", "/same", "/odd", "/refused", "/said", "/dated", "/twice", "/goes",
        "/named", "/streams", "/chunks", "/breaks", "/long", "/longer",
    ] {
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"] {
            let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\n\r\n");
            let seen = compare(request.as_bytes()).await;
            let ends = path == "/goes" || path == "/breaks" && method != "HEAD";
            let served = if ends { 1 } else { 2 };
            assert_eq!(seen.requests.len(), served, "{request}");
        }
    }
}

#[tokio::test]
async fn every_request_is_understood_in_the_same_way() {
    let long = |length| format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(length));
    let many = |count| format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(count));
    let posted = |headers: &str, body: &str| format!("POST /a HTTP/1.1\r\n{headers}\r\n{body}");
    let (first, last) = (4, 4 << 10);
    for request in [
        "GET /a?b=c#d HTTP/1.1\r\nHost: x\r\nAccept:*/*\r\nX-Empty:\r\n\r\n".to_owned(),
        "GET //a//b HTTP/1.1\r\nhost:x\r\nhost:  y \t\r\n\r\n".into(),
        "GET /a%2fb%zz HTTP/1.1\r\n\r\n".into(),
        "GET /a\"b|{} HTTP/1.1\r\n\r\n".into(),
        "GET /ä HTTP/1.1\r\n\r\n".into(),
        "GET /a HTTP/1.1\r\nx: ä\r\n\r\n".into(),
        "GET /a HTTP/1.1\nx: y\n\n".into(),
        "\r\nGET /a HTTP/1.1\r\n\r\n".into(),
        "GET http://h/a HTTP/1.1\r\n\r\n".into(),
        "OPTIONS * HTTP/1.1\r\n\r\n".into(),
        "CONNECT h:1 HTTP/1.1\r\n\r\n".into(),
        "GET a HTTP/1.1\r\n\r\n".into(),
        "GET  /a HTTP/1.1\r\n\r\n".into(),
        "GET /a HTTP/1.0\r\n\r\n".into(),
        "GET /a HTTP/1.0\r\nconnection: keep-alive\r\n\r\n".into(),
        "GET /a HTTP/1.2\r\n\r\n".into(),
        "GET /a HTTP/2.0\r\n\r\n".into(),
        "get /a HTTP/1.1\r\n\r\n".into(),
        "BREW /a HTTP/1.1\r\n\r\n".into(),
        "GET /a\r\n\r\n".into(),
        "nonsense\r\n\r\n".into(),
        "GET /a HTTP/1.1\r\nx : y\r\n\r\n".into(),
        "GET /a HTTP/1.1\r\n x: y\r\n\r\n".into(),
        "GET /a HTTP/1.1\r\nx: y\r\n z\r\n\r\n".into(),
        "GET /a HTTP/1.1\r\nx\0: y\r\n\r\n".into(),
        "GET /a HTTP/1.1\r\nx: y\0\r\n\r\n".into(),
        "GET /a HTTP/1.1\r\nx\r\n\r\n".into(),
        "GET /a HTTP/1.1\r\nx: a\rb\r\n\r\n".into(),
        posted("content-length: 2\r\n", "{}"),
        posted("content-length: 2\r\n", "{}GET /b HTTP/1.1\r\n\r\n"),
        posted("content-length: 2\r\n", "{}GET /b HTT"),
        posted("content-length: 100\r\n", "{}"),
        posted("content-length: 0\r\n", ""),
        posted("content-length: 02\r\n", "{}"),
        posted("content-length: +2\r\n", "{}"),
        posted("content-length: -2\r\n", "{}"),
        posted("content-length: 0x2\r\n", "{}"),
        posted("content-length: 2,2\r\n", "{}"),
        posted("content-length: 2 2\r\n", "{}"),
        posted("content-length:\r\n", "{}"),
        posted("content-length: 2\r\ncontent-length: 2\r\n", "{}"),
        posted("content-length: 2\r\nContent-Length: 0\r\n", "{}"),
        posted("content-length: 18446744073709551616\r\n", "{}"),
        posted("content-length: 18446744073709551615\r\n", "{}"),
        posted("content-length: 18446744073709551600\r\n", "{}"),
        posted("transfer-encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"),
        posted(
            "Transfer-Encoding: chunked\r\ncontent-length: 5\r\n",
            "2\r\n{}\r\n0\r\n\r\n",
        ),
        posted(
            "content-length: 5\r\ntransfer-encoding: chunked\r\n",
            "2\r\n{}\r\n0\r\n\r\n",
        ),
        posted("content-length: 2\r\ntransfer-encoding: identity\r\n", "{}"),
        posted("content-length: 2\r\ntransfer_encoding: chunked\r\n", "{}"),
        posted("expect: 100-continue\r\ncontent-length: 2\r\n", "{}"),
        posted("te: trailers\r\ncontent-length: 2\r\n", "{}"),
        posted("trailer: x\r\ncontent-length: 2\r\n", "{}"),
        posted("connection: close\r\ncontent-length: 2\r\n", "{}"),
        posted("connection: keep-alive\r\ncontent-length: 2\r\n", "{}"),
        posted(
            "connection: keep-alive\r\nconnection: close\r\ncontent-length: 2\r\n",
            "{}",
        ),
        posted("connection: content-length\r\ncontent-length: 2\r\n", "{}"),
        posted(
            "connection: upgrade\r\nupgrade: h2c\r\ncontent-length: 2\r\n",
            "{}",
        ),
        posted("upgrade: websocket\r\ncontent-length: 2\r\n", "{}"),
        long(first),
        long(last - 23),
        long(last - 22),
        long(last - 21),
        long(20 << 10),
        many(63),
        many(64),
        many(65),
        many(100),
        many(101),
    ] {
        compare(request.as_bytes()).await;
    }
}

#[tokio::test]
async fn requests_that_repeat_each_other_are_read_one_by_one() {
    let requests = [
        "host: x\r\nx-a: 1\r\nauthorization: Bearer a\r\n",
        "host: x\r\nx-a: 1\r\nauthorization: Bearer a\r\n",
        "host: x\r\nx-a: 2\r\nauthorization: Bearer b\r\n",
        "Host: x\r\nX-a: 1\r\nauthorization: Bearer a\r\n",
        "x-a: 1\r\nhost: x\r\n",
        "host: x\r\nx-a: 1\r\nauthorization: Bearer a\r\nx-b: 1\r\n",
        "host: x\r\nx-b: 1\r\nauthorization: Bearer a\r\nx-b: 1\r\n",
        "host: x\r\nx-a: \r\n",
        "",
        "host: x\r\nx-a: 1\r\nauthorization: Bearer a\r\n",
    ]
    .map(|headers| format!("GET /a HTTP/1.1\r\n{headers}\r\n"));
    let pieces: Vec<_> = requests.iter().map(|request| request.as_bytes()).collect();
    let plain = converse(&pieces).await;
    let (first, rest) = pieces[0].split_at(2);
    let others = converse(&[&[first, rest], &pieces[1..]].concat()).await;
    assert_eq!(plain.requests, others.requests);
    assert_eq!(plain.requests.len(), requests.len() + 1);
    assert_eq!(sorted(&plain.received), sorted(&others.received));
}

#[tokio::test]
async fn a_request_may_come_in_any_two_pieces() {
    let request = b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";
    let whole = converse(&[request]).await;
    assert_eq!(whole.requests.len(), 2);
    for cut in 1..request.len() {
        let seen = converse(&[&request[..cut], &request[cut..]]).await;
        assert_eq!(seen.requests, whole.requests, "{cut}");
        assert_eq!(sorted(&seen.received), sorted(&whole.received), "{cut}");
    }
}
