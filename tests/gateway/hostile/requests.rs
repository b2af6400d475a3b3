//! Requests as bytes, each sent over a connection of its own: the answers, and what reached the catalog.
//!
//! Anonymous callers are allowed, so that only the HTTP parser stands between the bytes and the catalog.

use std::collections::HashSet;

use bytes::BytesMut;
use futures_util::StreamExt as _;
use futures_util::stream;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::recorder::Recorder;
use super::{chunks, framing, headers, lines, wire};
use crate::catalog::faults::PATIENCE;
use crate::harness::{Setup, World};

/// A case. `ID` in its bytes is replaced by a word that is unique to the case.
pub struct Case {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    /// The statuses that come back before the connection ends, including informational ones (1xx).
    pub answers: &'static [u16],
    /// The requests that reach the catalog: operation and body.
    pub reached: &'static [&'static str],
}

/// The request that an attacker tries to smuggle; it is well-formed if the request before it ended properly.
pub const SECOND: &str = "POST /v1/table/west%24ID/drop HTTP/1.1\r\nhost: g\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// The beginning of a request whose JSON body is read whole before it is forwarded.
pub const EXISTS: &str =
    "POST /v1/table/west%24ID/exists HTTP/1.1\r\nhost: g\r\ncontent-type: application/json\r\n";

/// The beginning of a request whose rows are forwarded as they arrive.
pub const INSERT: &str = "POST /v1/table/west%24ID/insert HTTP/1.1\r\nhost: g\r\ncontent-type: application/vnd.apache.arrow.stream\r\n";

/// Makes a case of exactly these bytes.
pub fn bytes(
    name: &'static str,
    bytes: impl AsRef<[u8]>,
    answers: &'static [u16],
    reached: &'static [&'static str],
) -> Case {
    Case {
        name,
        bytes: bytes.as_ref().to_vec(),
        answers,
        reached,
    }
}

/// Makes a case of a JSON request with these header lines and this body, followed directly by [`SECOND`].
pub fn json(
    name: &'static str,
    headers: &str,
    body: &str,
    answers: &'static [u16],
    reached: &'static [&'static str],
) -> Case {
    let text = format!("{EXISTS}{headers}\r\n\r\n{body}{SECOND}");
    bytes(name, text, answers, reached)
}

/// Makes a case of a request with rows, these header lines and this body, followed directly by [`SECOND`].
pub fn rows(
    name: &'static str,
    headers: &str,
    body: &str,
    answers: &'static [u16],
    reached: &'static [&'static str],
) -> Case {
    let text = format!("{INSERT}{headers}\r\n\r\n{body}{SECOND}");
    bytes(name, text, answers, reached)
}

/// Starts a world with short timeouts, so that a case in which the gateway waits ends soon.
async fn start(recorder: &Recorder) -> World {
    Setup::new()
        .mount("[west]", "west")
        .section("auth: { anonymous: true }")
        .section("telemetry: { level: error, access_log: false }")
        .section("limits: { header_timeout: 300ms, response_timeout: 300ms, data_timeout: 300ms }")
        .at("west", format!("http://{}", recorder.address))
        .start()
        .await
}

/// Sends the bytes and returns the statuses of all answers until the gateway closes the connection.
async fn exchange(world: &World, sent: &[u8]) -> Result<Vec<u16>, String> {
    let talk = async {
        let mut stream = TcpStream::connect(world.address()).await.unwrap();
        let (mut reader, mut writer) = stream.split();
        let write = async {
            let _ = writer.write_all(sent).await;
        };
        let read = async {
            let (mut buffer, mut answers) = (BytesMut::new(), Vec::new());
            while let Some(answer) = wire::read(&mut reader, &mut buffer).await? {
                answers.push(answer.status());
            }
            Ok(answers)
        };
        let (_, answers): (_, Result<_, String>) = tokio::join!(write, read);
        answers
    };
    let talked = tokio::time::timeout(PATIENCE, talk).await;
    talked.unwrap_or_else(|_| Err("the gateway neither answers nor closes".to_owned()))
}

/// Runs one case, then a request on a fresh connection, which must be served; returns what is wrong, if
/// anything is.
async fn run(world: &World, recorder: &Recorder, number: usize, case: &Case) -> Option<String> {
    let id = format!("c{number:03}");
    let mut sent = Vec::with_capacity(case.bytes.len());
    let mut rest = case.bytes.as_slice();
    while let Some(at) = rest.windows(2).position(|two| two == b"ID") {
        sent.extend_from_slice(&rest[..at]);
        sent.extend_from_slice(id.as_bytes());
        rest = &rest[at + 2..];
    }
    sent.extend_from_slice(rest);
    let answers = exchange(world, &sent).await;
    let reached = recorder.reached(&id);
    let target = format!("/v1/table/west%24after{number:03}/exists");
    let after = world.anonymous().post(&target, &json!({})).await;
    let fine =
        answers.as_deref() == Ok(case.answers) && reached == case.reached && after.status == 200;
    let name = case.name;
    (!fine).then(|| {
        format!("{name}:\n  answers {answers:?}, expected {:?}\n  reached {reached:?}, expected {:?}\n  after it {}", case.answers, case.reached, after.status)
    })
}

#[tokio::test]
async fn malformed_and_ambiguous_requests_are_refused_or_harmless() {
    let cases: Vec<Case> = [
        framing::cases(),
        chunks::cases(),
        lines::cases(),
        headers::cases(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let names: HashSet<_> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len(), "every case has a name of its own");
    let recorder = Recorder::start().await;
    let world = start(&recorder).await;
    let run = |(number, case)| run(&world, &recorder, number, case);
    let wrong: Vec<_> = stream::iter(cases.iter().enumerate())
        .map(run)
        .buffer_unordered(8)
        .filter_map(async |wrong| wrong)
        .collect()
        .await;
    let (requests, violations) = recorder.totals();
    assert!(
        wrong.is_empty(),
        "{} cases:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(violations.is_empty(), "{violations:#?}");
    let expected: usize = cases.iter().map(|case| case.reached.len() + 1).sum();
    assert_eq!(requests, expected, "nothing else reached the catalog");
    let page = world.admin().get("/metrics").await.ok();
    let page = String::from_utf8(page.body.to_vec()).unwrap();
    let counted = page
        .lines()
        .filter(|line| line.starts_with("nsgate_requests_total{backend=\"west\""));
    let counted: usize = counted
        .filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok())
        .sum();
    // Requests that broke off on their way were counted, too.
    assert!(counted >= requests, "{counted} were counted of {requests}");
    println!(
        "{} hostile requests; {requests} reached the catalog, as they should",
        cases.len()
    );
}
