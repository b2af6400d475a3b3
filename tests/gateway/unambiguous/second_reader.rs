//! A second reader: everything that a lenient catalog would act on must have been authorized.
//!
//! The requests are generated over all operations of the contract and some outside of it, from spellings that servers
//! are known to read in different ways. Each request that reaches a catalog is read as each lenient catalog would.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::lenient::judge;
use super::spellings::request;
use crate::harness::{Setup, World};
use crate::hostile::wire;
use crate::random::Random;
use crate::token;

/// The number of requests, unless `NSGATE_SECOND_READER` sets another one.
const REQUESTS: usize = 100_000;
const CLIENTS: usize = 16;
/// The version that the entries of batches create.
pub(super) const VERSION: u64 = 7;

/// The rules: only `pub` may be touched, under either mount.
const RULES: &str = "authorization:
  - { namespace: [kept, pub], read: { scope: rw }, write: { scope: rw }, unlisted: name }
  - { namespace: [moved, pub], read: { scope: rw }, write: { scope: rw }, unlisted: name }
  - { namespace: [kept, hr], read: { deny: true }, write: { deny: true } }";

#[derive(Clone, Default)]
struct Reader {
    reached: Arc<AtomicUsize>,
    /// The number of creates that reached a catalog from batches: only their bodies name a manifest.
    created: Arc<AtomicUsize>,
    wrong: Arc<Mutex<Vec<String>>>,
}

impl Reader {
    /// Starts a catalog that answers `{}` to nearly everything, and returns its URI. Batches find what they need to reach
    /// their commit.
    async fn start(&self, permitted: &'static [&'static str]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap());
        let reader = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(reader.clone().serve(stream, permitted));
            }
        });
        uri
    }

    async fn serve(self, mut stream: TcpStream, permitted: &'static [&'static str]) {
        let mut buffer = BytesMut::new();
        while let Ok(Some(request)) = wire::read(&mut stream, &mut buffer).await {
            self.reached.fetch_add(1, Ordering::Relaxed);
            if let Some(wrong) = judge(&request, permitted) {
                let body = String::from_utf8_lossy(&request.body).into_owned();
                let line = format!("{wrong}: {} {body}", request.start);
                self.wrong.lock().unwrap().push(line);
            }
            let is_batch = String::from_utf8_lossy(&request.body).contains("manifest_path");
            self.created
                .fetch_add(usize::from(is_batch), Ordering::Relaxed);
            if stream.write_all(&answer(&request)).await.is_err() {
                return;
            }
        }
    }
}

/// Answers as a catalog whose tables all have the version before [`VERSION`], whatever was created.
fn answer(request: &wire::Message) -> Vec<u8> {
    let version = |version: u64| json!({"version": version, "manifest_path": "m"});
    let body = String::from_utf8_lossy(&request.body);
    let is = |operation: &str| request.start.contains(operation);
    let answer = if is("/version/list") {
        json!({"versions": [version(VERSION - 1)]})
    } else if is("/version/batch-create") {
        let entries = body.matches("manifest_path").count();
        json!({"versions": vec![version(VERSION); entries]})
    } else if is("/version/create") {
        json!({"version": version(VERSION)})
    } else {
        json!({})
    };
    // A batch that deregisters a table would wait for the table to be gone.
    let is_absent = is("t3/describe");
    let status = if is_absent { "404 Not Found" } else { "200 OK" };
    let answer = if is_absent {
        json!({"error": "no such table", "code": 4}).to_string()
    } else {
        answer.to_string()
    };
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json");
    let length = answer.len();
    format!("{head}\r\ncontent-length: {length}\r\n\r\n{answer}").into_bytes()
}

/// Sends `count` requests, one after the other, and returns the number of those that were answered with 2xx.
async fn ask(world: &World, seed: u64, count: usize, bearer: &str) -> usize {
    let mut random = Random::new(seed, 16);
    let mut stream = None;
    let mut served = 0;
    let mut buffer = BytesMut::new();
    for _ in 0..count {
        let request = request(&mut random, bearer);
        let connection = match &mut stream {
            Some(stream) => stream,
            None => {
                buffer.clear();
                stream.insert(TcpStream::connect(world.address()).await.unwrap())
            }
        };
        let sent = connection.write_all(&request).await;
        match wire::read(connection, &mut buffer).await {
            Ok(Some(answer)) if sent.is_ok() => {
                served += usize::from((200..300).contains(&answer.status()));
                if answer.header("connection") == Some("close") {
                    stream = None;
                }
            }
            // A request that is refused while it is sent may end the connection.
            _ => stream = None,
        }
    }
    served
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_lenient_catalog_acts_on_is_what_was_authorized() {
    let said = std::env::var("NSGATE_SECOND_READER").ok();
    let requests = said.map_or(REQUESTS, |count| count.parse().unwrap());
    let reader = Reader::default();
    let kept = reader.start(&["kept", "pub"]).await;
    let moved = reader.start(&["pub"]).await;
    let world = Setup::new()
        .mount("[kept]", "kept")
        .rerooted("[moved]", "moved", "[]")
        .at("kept", kept)
        .at("moved", moved)
        .section(RULES)
        .section("telemetry: { level: error, access_log: false }")
        .section("limits: { json_body: 64KiB }")
        .start()
        .await;
    let claims = json!({"scope": "rw", "tenant": "acme"});
    let bearer = format!("Bearer {}", token::token(&claims));
    let asked = (0..CLIENTS).map(|client| ask(&world, client as u64, requests / CLIENTS, &bearer));
    let served: usize = futures_util::future::join_all(asked)
        .await
        .into_iter()
        .sum();
    let reached = reader.reached.load(Ordering::Relaxed);
    let created = reader.created.load(Ordering::Relaxed);
    let wrong = reader.wrong.lock().unwrap();
    println!(
        "{requests} requests, {served} served, {reached} reached a catalog, {created} of them creates of batches, {} differences",
        wrong.len()
    );
    let shown = wrong
        .iter()
        .take(20)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(wrong.is_empty(), "{} differences:\n{shown}", wrong.len());
    assert!(
        reached > requests / 20,
        "only {reached} of {requests} reached a catalog"
    );
    assert!(
        created > requests / 1000,
        "only {created} creates of batches reached a catalog"
    );
}
