//! Messages that have no body by their method or status, and that come with one all the same: its bytes are read as the
//! next request, or as the answer to it, by whoever does not expect them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use http::Method;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::wire;
use crate::client::{Client, empty, full};
use crate::harness::{Setup, World};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
const LIST: &str = "/v1/namespace/west/table/list";
/// The type of a body that the gateway does not read before it sends it on.
const ROWS: &str = "content-type: application/vnd.apache.arrow.stream\r\n";
const SMUGGLED: &str = "POST /v1/table/t1/drop HTTP/1.1\r\nhost: c\r\ncontent-length: 0\r\n\r\n";

/// A catalog that reads no bodies, so that they are its next requests. Answers each request with its target.
#[derive(Clone, Default)]
struct Naive(Arc<Mutex<Vec<String>>>);

impl Naive {
    async fn start(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let own = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(own.clone().serve(stream));
            }
        });
        address
    }

    async fn serve(self, mut stream: TcpStream) {
        let mut buffer = BytesMut::new();
        while let Some(start) = head(&mut stream, &mut buffer).await {
            let target = start.split(' ').nth(1).unwrap_or_default().to_owned();
            let body = format!("{{\"tables\":[\"{target}\"]}}");
            self.0.lock().unwrap().push(start);
            let answer = format!("{OK}content-length: {}\r\n\r\n{body}", body.len());
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    /// The requests so far, without health checks.
    fn asked(&self) -> Vec<String> {
        let asked = self.0.lock().unwrap();
        let asked = asked.iter().filter(|start| *start != "GET / HTTP/1.1");
        asked.cloned().collect()
    }
}

/// Reads the head of a message, and returns its first line; `None` at the end.
async fn head(stream: &mut TcpStream, buffer: &mut BytesMut) -> Option<String> {
    loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = buffer.split_to(end + 4);
            let head = String::from_utf8_lossy(&head).into_owned();
            return head.lines().next().map(str::to_owned);
        }
        let read = stream.read_buf(buffer).await;
        read.ok().filter(|read| *read > 0)?;
    }
}

async fn over(address: SocketAddr) -> World {
    Setup::new()
        .mount("[west]", "west")
        .section("auth: { anonymous: true }")
        .at("west", format!("http://{address}"))
        .start()
        .await
}

/// Sends the pieces one after the other, each once the gateway can have read those before it, and returns the answers.
async fn converse(address: SocketAddr, pieces: &[&str]) -> Vec<wire::Message> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    for piece in pieces {
        let _ = stream.write_all(piece.as_bytes()).await;
        tokio::task::yield_now().await;
    }
    let mut answers = Vec::new();
    let mut buffer = BytesMut::new();
    while let Ok(Some(answer)) = wire::read(&mut stream, &mut buffer).await {
        answers.push(answer);
    }
    answers
}

#[tokio::test]
async fn a_request_that_has_no_body_is_refused_with_one() {
    let catalog = Naive::default();
    let world = over(catalog.start().await).await;
    let length = format!("content-length: {}\r\n\r\n", SMUGGLED.len());
    let chunked = format!(
        "transfer-encoding: chunked\r\n\r\n{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n",
        SMUGGLED.len()
    );
    let none = "transfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    let whole = format!("{length}{SMUGGLED}");
    for (method, target) in [
        ("GET", LIST),
        ("GET", "/v1/table"),
        ("GET", "/v1/table/west%24t1/newer"),
        ("DELETE", "/v1/table/west%24t1/newer"),
        ("OPTIONS", "/v1/table/west%24t1/newer"),
        ("BREW", "/v1/table/west%24t1/newer"),
    ] {
        let start = format!("{method} {target} HTTP/1.1\r\nhost: g\r\n{ROWS}");
        for pieces in [
            &[&*start, &*whole][..],
            &[&start, &length, SMUGGLED],
            &[&start, &chunked],
            &[&start, none],
        ] {
            let all = pieces.concat();
            let next = "GET /v1/nothing HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\r\n";
            for pieces in [[pieces, &[next]].concat(), vec![&*all, next]] {
                let answers = converse(world.address(), &pieces).await;
                let first = answers.first().unwrap_or_else(|| panic!("{pieces:?}"));
                assert_eq!(first.status(), 400, "{pieces:?} {first:?}");
                let body: serde_json::Value = serde_json::from_slice(&first.body).unwrap();
                assert_eq!(body["code"], 13, "{body}");
                // The next request is read where it begins, or not at all.
                let rest: Vec<_> = answers[1..].iter().map(wire::Message::status).collect();
                assert!(matches!(rest[..], [] | [404]), "{pieces:?} {rest:?}");
            }
        }
    }
    assert_eq!(catalog.asked(), [""; 0]);
}

#[tokio::test]
async fn a_head_request_is_refused_with_a_body() {
    let catalog = Naive::default();
    let world = over(catalog.start().await).await;
    let head = format!(
        "HEAD /v1/table/west%24t1/newer HTTP/1.1\r\nhost: g\r\n{ROWS}content-length: {}\r\n\r\n",
        SMUGGLED.len()
    );
    let mut stream = TcpStream::connect(world.address()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(SMUGGLED.as_bytes()).await.unwrap();
    let mut buffer = BytesMut::new();
    let start = self::head(&mut stream, &mut buffer).await;
    assert_eq!(start.as_deref(), Some("HTTP/1.1 400 Bad Request"));
    assert_eq!(catalog.asked(), [""; 0]);
}

#[tokio::test]
async fn what_may_still_come_over_http2_is_a_body() {
    let catalog = Naive::default();
    let world = over(catalog.start().await).await;
    let client = Client::h2(world.address());
    let rows = client.header("content-type", "application/vnd.apache.arrow.stream");
    for (method, target) in [
        (Method::GET, LIST),
        (Method::HEAD, "/v1/table/west%24t1/newer"),
        (Method::DELETE, "/v1/table/west%24t1/newer"),
    ] {
        for pieces in [&[SMUGGLED][..], &["", SMUGGLED], &[""]] {
            let frames = pieces.iter().map(|piece| {
                let data = Bytes::copy_from_slice(piece.as_bytes());
                Ok::<_, std::io::Error>(Frame::data(data))
            });
            let frames: Vec<_> = frames.collect();
            let body = StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync();
            // The stream of a request that is refused before its end is reset, maybe before the answer's body is read.
            let reply = rows.open(method.clone(), target, body).await.unwrap();
            assert_eq!(reply.status(), 400, "{method} {pieces:?}");
        }
        let reply = rows.open(method.clone(), target, full(SMUGGLED)).await;
        assert_eq!(reply.unwrap().status(), 400, "{method}");
    }
    assert_eq!(catalog.asked(), [""; 0]);
    for (method, target) in [
        (Method::GET, LIST),
        (Method::DELETE, "/v1/table/west%24t1/newer"),
    ] {
        let reply = client.send(method, target, empty()).await.unwrap();
        assert_eq!(reply.status, 200, "{reply:?}");
    }
}

/// The answer to CONNECT is a tunnel, and that to TRACE the request, with what the gateway has added to it.
#[tokio::test]
async fn methods_that_change_what_an_answer_is_are_refused() {
    let catalog = Naive::default();
    let world = over(catalog.start().await).await;
    for method in ["CONNECT", "TRACE"] {
        let asked = format!(
            "{method} /v1/table/west%24t1/newer HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\r\n"
        );
        let answers = converse(world.address(), &[&asked]).await;
        let answers: Vec<_> = answers.iter().map(wire::Message::status).collect();
        assert!(matches!(answers[..], [400 | 405]), "{method} {answers:?}");
    }
    assert_eq!(catalog.asked(), [""; 0]);
}

/// Many clients say that their body is empty.
#[tokio::test]
async fn a_body_of_no_bytes_is_none() {
    let catalog = Naive::default();
    let world = over(catalog.start().await).await;
    let newer = "/v1/table/west%24t1/newer";
    for (method, target) in [("GET", LIST), ("DELETE", newer)] {
        let one = format!("{method} {target} HTTP/1.1\r\nhost: g\r\ncontent-length: 0\r\n");
        let two = format!("{one}\r\n{one}connection: close\r\n\r\n");
        let answers = converse(world.address(), &[&two]).await;
        let answers: Vec<_> = answers.iter().map(wire::Message::status).collect();
        assert_eq!(answers, [200, 200], "{method}");
    }
}

/// A catalog may send the body of an answer that has none, and may do so when the next request is there.
#[tokio::test]
async fn an_answer_without_its_body_is_the_last_of_its_connection() {
    for (method, status) in [
        ("HEAD", "200 OK"),
        ("HEAD", "404 Not Found"),
        ("POST", "204 No Content"),
        ("POST", "304 Not Modified"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let poison = format!("{OK}content-length: 6\r\n\r\npoison");
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n",
            poison.len()
        );
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (answer, poison) = (answer.clone(), poison.clone());
                tokio::spawn(async move {
                    let mut buffer = BytesMut::new();
                    while let Some(start) = head(&mut stream, &mut buffer).await {
                        let fine = format!("{OK}content-length: 2\r\n\r\n{{}}");
                        if !start.contains("first") {
                            let _ = stream.write_all(fine.as_bytes()).await;
                            continue;
                        }
                        let _ = stream.write_all(answer.as_bytes()).await;
                        if head(&mut stream, &mut buffer).await.is_some() {
                            let late = format!("{poison}{fine}");
                            let _ = stream.write_all(late.as_bytes()).await;
                        }
                    }
                });
            }
        });
        let world = over(address).await;
        let client = world.anonymous();
        let method: Method = method.parse().unwrap();
        let target = "/v1/table/west%24first/newer";
        let first = client.send(method.clone(), target, empty()).await;
        let place = format!("{method} {status}");
        let expected: u16 = status[..3].parse().unwrap();
        assert_eq!(first.unwrap().status, expected, "{place}");
        let other = "/v1/table/west%24t2/exists";
        let next = client.send(Method::POST, other, empty()).await.unwrap();
        assert_eq!((next.status, &*next.body), (200, &b"{}"[..]), "{place}");
    }
}
