//! Catalogs with malformed answers: the caller gets an error, and the next caller gets its own answer.

mod answers;

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
            cases: answers::cases(),
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
