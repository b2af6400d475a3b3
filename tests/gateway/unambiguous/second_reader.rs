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

use super::lenient::{FORGED, judge};
use crate::catalog::operations::{OPERATIONS, Sends};
use crate::harness::{Setup, World};
use crate::hostile::wire;
use crate::random::Random;
use crate::token;

/// The number of requests, unless `NSGATE_SECOND_READER` sets another one.
const REQUESTS: usize = 100_000;
const CLIENTS: usize = 16;
/// The version that the entries of batches create.
const VERSION: u64 = 7;

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

/// Makes the `{id}` of a path, mostly one that the gateway reads as permitted and that others may read differently.
fn segment(random: &mut Random, root: &str) -> String {
    if random.chance(40) {
        return format!("{root}%24pub%24t{}", random.below(4));
    }
    let d = *random.pick(&["%24", "%24", "%24", "%24", "$", ".", "%2E", "::", "%2F"]);
    let end = *random.pick(&[
        "t1",
        "t1",
        "t1",
        "%74%31",
        "x%2F..%2F..%2Fhr%24secret",
        "x%2f..%2fkept%24hr%24secret",
        "x%5C..%5Chr",
        "hr%2Ftable",
        "t%2Fversion",
        "t%252Fdrop",
        "x%252F..%252F..%252Fhr",
        "t%3Bx",
        "t%3Fx",
        "t%23x",
        "a%2524b",
        "%2570",
        "a+b",
        "a%2Bb",
        "%2E",
        "%2E%2E",
        "..",
        "a$b",
        "a%24b",
        "ü%20%25",
        "100%25",
    ]);
    match random.below(12) {
        0 => format!("{root}{d}hr{d}{end}"),
        1 => format!("{root}{d}{end}"),
        2 => format!("{root}{d}pub"),
        3 => format!("{root}.pub{d}hr%24t"),
        4 => format!("{root}{d}pub.x%24y"),
        5 => "%24".to_owned(),
        _ => format!("{root}{d}pub{d}{end}"),
    }
}

fn query(random: &mut Random) -> String {
    let parts = [
        "delimiter=%24",
        "delimiter=.",
        "delimiter=::",
        "delimiter=/",
        "delimiter=%7C",
        "Delimiter=.",
        "delimiter[]=.",
        "delimiter%5B%5D=.",
        "x=1;delimiter=.",
        "%64elimiter=.",
        "%2564elimiter=.",
        "delimiter%00=.",
        "delimiter=%2524",
        "branch=dev",
        "mode=overwrite",
        "limit=3",
        "x=%2F",
    ];
    match random.below(8) {
        0..3 => String::new(),
        3..6 => "?delimiter=%24".to_owned(),
        6 => format!("?{}", random.pick(&parts)),
        _ => format!("?{}&{}", random.pick(&parts), random.pick(&parts)),
    }
}

fn body(random: &mut Random, root: &str, name: &str) -> String {
    let secret = format!("[\"{root}\",\"hr\",\"secret\"]");
    let own = format!("[\"{root}\",\"pub\",\"t1\"]");
    let entry = |random: &mut Random| {
        let more = random.pick(&[
            "",
            ",\"ID\":SECRET",
            ",\"table_id\":SECRET",
            ",\"new_id\":SECRET",
            ",\"Version\":9",
            ",\"metadata\":{\"a\":\"b\"}",
        ]);
        let end = *random.pick(&[
            "t1", "t2", "t4", "t5", "t6", "t7", "x/../hr", "a$b", "%41", "x;y",
        ]);
        format!(
            "{{\"id\":[\"{root}\",\"pub\",\"{end}\"],\"version\":{VERSION},\"manifest_path\":\"m\"{more}}}"
        )
    };
    let mut parts = Vec::new();
    if name == "rename_table" {
        parts.push(
            random
                .pick(&["\"new_table_name\":\"t9\"", "\"new_table_name\":\"x/../y\""])
                .to_string(),
        );
        if random.chance(50) {
            parts.push(format!("\"new_namespace_id\":[\"{root}\",\"pub\"]"));
        }
    }
    if name == "batch_create_table_versions" {
        let (one, two) = (entry(random), entry(random));
        parts.push(format!("\"entries\":[{one},{two}]"));
    }
    if name == "batch_commit_tables" {
        let one = entry(random);
        let more = random.pick(&["", ",\"Id\":SECRET", ",\"new_id\":SECRET"]);
        let other = if random.chance(50) {
            format!("{{\"create_table_version\":{}}}", entry(random))
        } else {
            format!("{{\"deregister_table\":{{\"id\":[\"{root}\",\"pub\",\"t3\"]{more}}}}}")
        };
        parts.push(format!(
            "\"operations\":[{{\"create_table_version\":{one}}},{other}]"
        ));
    }
    if name == "snapshot" {
        let (one, two) = (entry(random), entry(random));
        parts.push(format!("\"tables\":[{one},{two}]"));
    }
    for _ in 0..random.below(5).saturating_sub(2) {
        let part = random.pick(&[
            "\"id\":OWN",
            "\"ID\":SECRET",
            "\"Id\":SECRET",
            "\"\\u0069d\":SECRET",
            "\"\\u0131d\":SECRET",
            "\"id\":SECRET",
            "\"new_id\":SECRET",
            "\"New_Namespace_Id\":SECRET",
            "\"newNamespaceId\":SECRET",
            "\"new_name\\u017fpace_id\":SECRET",
            "\"Identity\":{\"auth_token\":\"evil\"}",
            "\"identity\":{\"auth_token\":\"evil\"}",
            "\"Context\":{\"tenant\":\"evil\"}",
            "\"context\":{\"tenant\":\"evil\"}",
            "\"Entries\":[{\"id\":SECRET}]",
            "\"version\":3",
            "\"unknown\":[1,{\"id\":SECRET}]",
        ]);
        parts.push((*part).to_owned());
    }
    let text = format!("{{{}}}", parts.join(","));
    text.replace("SECRET", &secret).replace("OWN", &own)
}

fn request(random: &mut Random, bearer: &str) -> Vec<u8> {
    let root = *random.pick(&["kept", "kept", "moved"]);
    let outside = [
        ("newer", "POST", "/v1/table/{id}/newer", Sends::Unknown, 200),
        ("newer", "POST", "/v1/table/{id}/DROP", Sends::Unknown, 200),
        (
            "newer",
            "POST",
            "/v1/table/{id}/version%2Fcreate",
            Sends::Unknown,
            200,
        ),
        (
            "newer",
            "POST",
            "/v1/table/{id}/%64rop",
            Sends::Unknown,
            200,
        ),
        (
            "newer",
            "POST",
            "/v1/table/{id}/x%252Fy",
            Sends::Unknown,
            200,
        ),
        (
            "newer",
            "POST",
            "/v1/namespace/{id}/newer/%3Fx",
            Sends::Unknown,
            200,
        ),
        ("snapshot", "POST", "/nsgate/v1/snapshot", Sends::Json, 200),
    ];
    let number = random.below(61) as usize;
    let (name, method, template, sends, _) = match OPERATIONS.get(number) {
        Some(listed) => *listed,
        None => outside[number - OPERATIONS.len()],
    };
    let index = *random.pick(&["i", "i%2Fj", "%252e%252e", "i%3Bx"]);
    let target = template
        .replace("{id}", &segment(random, root))
        .replace("{index_name}", index);
    let (query, body) = (query(random), body(random, root, name));
    let kind = match (sends, random.below(8)) {
        (_, 0) => "text/plain",
        (Sends::Arrow, 1) | (Sends::Json, 2) => "application/json; charset=utf-8",
        (Sends::Arrow, _) | (_, 3) => "application/vnd.apache.arrow.stream",
        _ => "application/json",
    };
    let header = *random.pick(&[
        "accept: */*",
        "x-ns-ctx-tenant: evil",
        "x.ns.ctx.tenant: evil",
        "x_ns_ctx_tenant: evil",
        "x-lance-ctx-tenant: evil",
        "remote-user: evil",
        "x-auth-request-user: evil",
        "true-client-ip: evil",
        "x-original-uri: evil",
        "x_forwarded_for: evil",
    ]);
    debug_assert!(header.starts_with("accept") || header.contains(FORGED));
    let head = format!(
        "{method} {target}{query} HTTP/1.1\r\nhost: g\r\nauthorization: {bearer}\r\ncontent-type: {kind}\r\n{header}\r\n"
    );
    if random.chance(90) {
        return format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes();
    }
    let chunked = format!(
        "{:x}\r\n{body}\r\n0\r\nx-ns-ctx-tenant: evil\r\n\r\n",
        body.len()
    );
    format!("{head}transfer-encoding: chunked\r\n\r\n{chunked}").into_bytes()
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
