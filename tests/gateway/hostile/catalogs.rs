//! Catalogs with malformed answers: the caller gets an error, and the next caller gets its own answer.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::BytesMut;
use http::Method;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::wire;
use crate::catalog::faults::PATIENCE;
use crate::client::{empty, full};
use crate::harness::{Setup, World};

/// A case: the bytes that the catalog answers, and its behaviour after that.
struct Case {
    name: &'static str,
    writes: Vec<u8>,
    then: Then,
    /// The status that the caller gets; `None` if the answer visibly breaks off.
    status: Option<u16>,
}

#[derive(Clone, Copy, PartialEq)]
enum Then {
    /// Waits for the next request on this connection.
    Stay,
    Close,
    /// Writes an answer to no request, a moment later.
    Volunteer,
    /// Writes the same bytes again and again.
    Repeat,
}

use Then::{Close, Repeat, Stay, Volunteer};

const OK: &str = "HTTP/1.1 200 OK\r\n";
const SPLIT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison";

fn cases() -> Vec<Case> {
    let case = |name, writes: &str, then, status| Case {
        name,
        writes: writes.as_bytes().to_vec(),
        then,
        status,
    };
    let with = |name, rest: &str, then, status| case(name, &format!("{OK}{rest}"), then, status);
    let length = "content-length: 2\r\n";
    vec![
        with(
            "a fine answer",
            "content-length: 2\r\n\r\n{}",
            Stay,
            Some(200),
        ),
        with(
            "two lengths that differ",
            "content-length: 2\r\ncontent-length: 30\r\n\r\n{}",
            Stay,
            Some(503),
        ),
        with(
            "a list of lengths",
            "content-length: 2, 3\r\n\r\n{}",
            Stay,
            Some(503),
        ),
        with(
            "a negative length",
            "content-length: -2\r\n\r\n{}",
            Stay,
            Some(503),
        ),
        with(
            "a length with a plus",
            "content-length: +2\r\n\r\n{}",
            Stay,
            Some(503),
        ),
        with(
            "a length of 2^64 and two",
            "content-length: 18446744073709551618\r\n\r\n{}",
            Stay,
            Some(503),
        ),
        with(
            "a length and chunks",
            "content-length: 40\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            Stay,
            Some(200),
        ),
        with(
            "a coding that nobody knows",
            "transfer-encoding: gzip\r\n\r\n{}",
            Close,
            Some(200),
        ),
        with(
            "a chunk size that is no number",
            "transfer-encoding: chunked\r\n\r\nxx\r\n{}\r\n0\r\n\r\n",
            Stay,
            None,
        ),
        with(
            "a chunk size of 2^64 and two",
            "transfer-encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n",
            Stay,
            None,
        ),
        with(
            "a negative chunk size",
            "transfer-encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
            Stay,
            None,
        ),
        with(
            "more in a chunk than it says",
            "transfer-encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
            Stay,
            None,
        ),
        with(
            "chunks that do not end",
            "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n",
            Stay,
            None,
        ),
        with(
            "an end within a chunk",
            "transfer-encoding: chunked\r\n\r\nff\r\n{}",
            Close,
            None,
        ),
        with(
            "an end between chunks",
            "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n",
            Close,
            None,
        ),
        with(
            "extensions of 64 KiB",
            &format!(
                "transfer-encoding: chunked\r\n\r\n2;{}\r\n{{}}\r\n0\r\n\r\n",
                "a".repeat(64 << 10)
            ),
            Stay,
            None,
        ),
        with(
            "a trailer of 64 KiB",
            &format!(
                "transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\nx-a: {}\r\n\r\n",
                "b".repeat(64 << 10)
            ),
            Stay,
            None,
        ),
        with(
            "a length as a trailer",
            "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\ncontent-length: 9\r\n\r\n",
            Stay,
            Some(200),
        ),
        with(
            "an end within the body",
            "content-length: 100\r\n\r\n{}",
            Close,
            None,
        ),
        with(
            "a body that stops",
            "content-length: 100\r\n\r\n{}",
            Stay,
            None,
        ),
        with("an end within the headers", "content-le", Close, Some(503)),
        with("headers that stop", "content-le", Stay, Some(503)),
        case("no answer and an end", "", Close, Some(503)),
        case("no answer", "", Stay, Some(503)),
        case("half a status line", "HTTP/1.1 2", Close, Some(503)),
        case(
            "another protocol",
            "SSH-2.0-OpenSSH_9.9\r\n",
            Stay,
            Some(503),
        ),
        case("frames of HTTP/2", "\0\0\0\x04\0\0\0\0\0", Stay, Some(503)),
        case(
            "HTTP/1.0 without a length",
            "HTTP/1.0 200 OK\r\n\r\n{}",
            Close,
            Some(200),
        ),
        case(
            "HTTP/3.0",
            "HTTP/3.0 200 OK\r\ncontent-length: 2\r\n\r\n{}",
            Stay,
            Some(503),
        ),
        case(
            "a status of two digits",
            "HTTP/1.1 99 X\r\ncontent-length: 2\r\n\r\n{}",
            Stay,
            Some(503),
        ),
        case(
            "a status of four digits",
            "HTTP/1.1 2000 X\r\ncontent-length: 2\r\n\r\n{}",
            Stay,
            Some(503),
        ),
        case(
            "an upgrade that nobody asked for",
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
            Stay,
            Some(503),
        ),
        case(
            "a hundred informal answers",
            &format!(
                "{}{SPLIT}",
                "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(100)
            ),
            Close,
            Some(200),
        ),
        case(
            "informal answers without end",
            &"HTTP/1.1 100 Continue\r\n\r\n".repeat(100),
            Repeat,
            Some(503),
        ),
        with(
            "a header of 1 MiB",
            &format!("x-a: {}\r\n{length}\r\n{{}}", "b".repeat(1 << 20)),
            Stay,
            Some(503),
        ),
        with("headers without end", "x-a: b\r\n", Repeat, Some(503)),
        with(
            "200 headers",
            &format!("{}{length}\r\n{{}}", "x-a: b\r\n".repeat(200)),
            Stay,
            Some(503),
        ),
        with(
            "a header without a colon",
            &format!("x-a\r\n{length}\r\n{{}}"),
            Stay,
            Some(503),
        ),
        with(
            "a header with a zero",
            &format!("x-a: \0\r\n{length}\r\n{{}}"),
            Stay,
            Some(503),
        ),
        with(
            "a header on two lines",
            &format!("x-a: b\r\n c\r\n{length}\r\n{{}}"),
            Stay,
            Some(503),
        ),
        with(
            "a space before a colon",
            &format!("x-a : b\r\n{length}\r\n{{}}"),
            Stay,
            Some(503),
        ),
        with(
            "a bare CR in a header",
            &format!("x-a: b\rc\r\n{length}\r\n{{}}"),
            Stay,
            Some(503),
        ),
        with(
            "a second answer behind the first",
            &format!("{length}\r\n{{}}{SPLIT}"),
            Stay,
            Some(200),
        ),
        with(
            "a body longer than its length",
            &format!("{length}\r\n{{}}{}", "x".repeat(100_000)),
            Stay,
            Some(200),
        ),
        with(
            "an answer that nobody asked for",
            &format!("{length}\r\n{{}}"),
            Volunteer,
            Some(200),
        ),
        case(
            "204 with a body",
            "HTTP/1.1 204 No Content\r\ncontent-length: 6\r\n\r\npoison",
            Stay,
            Some(204),
        ),
        case(
            "304 with a body",
            "HTTP/1.1 304 Not Modified\r\ncontent-length: 6\r\n\r\npoison",
            Stay,
            Some(304),
        ),
    ]
}

/// A catalog that answers a request for `case N` as that case says, and any other request with its
/// target.
struct Villain {
    cases: Vec<Case>,
    volunteered: Notify,
    asked: Mutex<Vec<String>>,
}

impl Villain {
    async fn start() -> (Arc<Self>, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let villain = Arc::new(Self {
            cases: cases(),
            volunteered: Notify::new(),
            asked: Mutex::default(),
        });
        let own = villain.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(own.clone().serve(stream));
            }
        });
        (villain, address)
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        // Each write must go out at once, whatever the gateway sends next.
        stream.set_nodelay(true).unwrap();
        let mut buffer = BytesMut::new();
        while let Ok(Some(request)) = wire::read(&mut stream, &mut buffer).await {
            let target = request.start.split(' ').nth(1).unwrap().to_owned();
            self.asked.lock().unwrap().push(target.clone());
            let number = target.split("case").nth(1).and_then(|rest| rest.get(..3));
            let case = number.map(|number| &self.cases[number.parse::<usize>().unwrap()]);
            let Some(case) = case else {
                let answer = format!("{OK}content-length: {}\r\n\r\n{target}", target.len());
                let _ = stream.write_all(answer.as_bytes()).await;
                continue;
            };
            let _ = stream.write_all(&case.writes).await;
            match case.then {
                Stay => {}
                Close => return,
                Volunteer => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    let _ = stream.write_all(SPLIT.as_bytes()).await;
                    self.volunteered.notify_one();
                }
                Repeat => while stream.write_all(b"x-a: b\r\n").await.is_ok() {},
            }
        }
    }
}

/// Runs one case and returns a description of what is wrong, if anything is.
async fn run(world: &World, villain: &Villain, number: usize, case: &Case) -> Option<String> {
    let client = world.anonymous();
    // This is a write, so it is not sent again, whatever happens to it.
    let target = format!("/v1/table/west%24case{number:03}/drop");
    let answer = client.send(Method::POST, &target, empty()).await;
    let status = answer.as_ref().ok().map(|reply| reply.status);
    if case.then == Volunteer {
        villain.volunteered.notified().await;
    }
    let asked = villain
        .asked
        .lock()
        .unwrap()
        .iter()
        .filter(|asked| **asked == target)
        .count();
    let mut wrong = Vec::new();
    if status != case.status || asked != 1 {
        wrong.push(format!(
            "{answer:?}, expected {:?}; asked {asked} times",
            case.status
        ));
    }
    if let Ok(reply) = &answer
        && reply.status == 503
        && reply.outcome() != (503, Some(17))
    {
        wrong.push(format!("no error of the contract: {reply:?}"));
    }
    for turn in 0..3 {
        let target = format!("/v1/table/west%24after{number:03}-{turn}/exists");
        let own = client.post(&target, &serde_json::json!({})).await;
        if own.status != 200 || own.body != target {
            wrong.push(format!("after it {own:?}"));
        }
    }
    (!wrong.is_empty()).then(|| format!("{}: {}", case.name, wrong.join("\n  ")))
}

async fn over(address: SocketAddr) -> World {
    Setup::new()
        .mount("[west]", "west")
        .section("auth: { anonymous: true }")
        .section("telemetry: { level: error, access_log: false }")
        .section("limits: { response_timeout: 300ms, data_timeout: 300ms }")
        .at("west", format!("http://{address}"))
        .start()
        .await
}

#[tokio::test]
async fn malformed_answers_harm_nobody_but_who_asked() {
    let (villain, address) = Villain::start().await;
    let world = over(address).await;
    let mut wrong = Vec::new();
    for (number, case) in villain.cases.iter().enumerate() {
        wrong.extend(run(&world, &villain, number, case).await);
    }
    assert!(
        wrong.is_empty(),
        "{} cases:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    println!(
        "{} hostile answers; every caller after them got its own",
        villain.cases.len()
    );
}

#[tokio::test]
async fn an_answer_before_the_request_has_ended_reaches_the_caller_and_its_connection_is_not_used_again()
 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let world = over(listener.local_addr().unwrap()).await;
    let catalog = tokio::spawn(async move {
        let mut connections = 0;
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = BytesMut::new();
            let mut first = [0; 9];
            if tokio::io::AsyncReadExt::read_exact(&mut stream, &mut first)
                .await
                .is_err()
            {
                continue;
            }
            if first.starts_with(b"GET / ") {
                continue;
            }
            connections += 1;
            if connections == 1 {
                let early = "HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\n{}";
                stream.write_all(early.as_bytes()).await.unwrap();
                // The connection is read until the gateway closes it. Only the rest of the rows may come
                // over it.
                let mut rest = Vec::new();
                let _ = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest).await;
                let rest = String::from_utf8_lossy(&rest).into_owned();
                assert!(!rest.contains("exists"), "{rest}");
                continue;
            }
            buffer.extend_from_slice(&first);
            wire::read(&mut stream, &mut buffer).await.unwrap().unwrap();
            let late = format!("{OK}content-length: 2\r\n\r\n{{}}");
            stream.write_all(late.as_bytes()).await.unwrap();
            return;
        }
    });
    let mut stream = TcpStream::connect(world.address()).await.unwrap();
    let begun = "POST /v1/table/west%24t/insert HTTP/1.1\r\nhost: g\r\n\
        content-type: application/vnd.apache.arrow.stream\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n";
    stream.write_all(begun.as_bytes()).await.unwrap();
    let mut buffer = BytesMut::new();
    let early = tokio::time::timeout(PATIENCE, wire::read(&mut stream, &mut buffer)).await;
    assert_eq!(early.unwrap().unwrap().unwrap().status(), 403);
    drop(stream);
    let client = world.anonymous().header("content-type", "application/json");
    let after = client
        .send(Method::POST, "/v1/table/west%24t/exists", full("{}"))
        .await;
    assert_eq!(after.unwrap().status, 200);
    tokio::time::timeout(PATIENCE, catalog)
        .await
        .unwrap()
        .unwrap();
}
