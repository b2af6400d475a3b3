//! Slow clients: each holds no more than its limit allows, and other clients are served meanwhile.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::frame_bytes::{END_HEADERS, END_STREAM, HEADERS, Said, block, frame, greeting, outcome};
use crate::catalog::faults::PATIENCE;
use crate::client;
use crate::harness::{Setup, World};

const EXISTS: &str = "/v1/table/west%24t1/exists";
const BEGUN: &str =
    "POST /v1/table/west%24t1/exists HTTP/1.1\r\nhost: g\r\ncontent-type: application/json\r\n";
const QUERY: &str = "/v1/table/west%24t1/query";

async fn start(limits: &str) -> World {
    let setup = Setup::two()
        .section("auth: { anonymous: true }")
        .section(limits);
    let setup = setup.section("telemetry: { level: error, access_log: false }");
    setup.start().await.seeded()
}

/// Sends `start`, then `rest` one byte at a time, until the gateway closes the connection; returns its answer.
async fn dribble(world: &World, start: &str, rest: &[u8]) -> String {
    let (mut reader, mut writer) = TcpStream::connect(world.address())
        .await
        .unwrap()
        .into_split();
    let mut answer = Vec::new();
    let write = async {
        writer.write_all(start.as_bytes()).await?;
        for byte in rest.iter().cycle() {
            writer.write_all(&[*byte]).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        std::io::Result::Ok(())
    };
    tokio::select! {
        _ = reader.read_to_end(&mut answer) => {}
        // A close with unread bytes resets the connection, so the write may fail first.
        _ = write => {}
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// Its place among the requests that are served would be taken meanwhile, by somebody who has shown no token.
#[tokio::test]
async fn a_refusal_does_not_wait_for_a_body_that_never_comes() {
    let world = start("limits: {}").await;
    let head = "POST /v1/nothing HTTP/1.1\r\nhost: g\r\ncontent-length: 1\r\n\r\n";
    let refused = client::raw(world.address(), head.as_bytes()).await;
    let refused = refused.to_ascii_lowercase();
    assert!(refused.starts_with("http/1.1 404 "), "{refused}");
    assert!(refused.contains("connection: close"), "{refused}");
}

/// The bytes of a hundred HTTP/2 requests without a token.
fn hundred(path: &str, settings: &[(u16, u32)], flags: u8, more: &[(&str, &[u8])]) -> Vec<u8> {
    let mut headers: Vec<(&str, &[u8])> = vec![
        (":method", b"POST"),
        (":scheme", b"http"),
        (":authority", b"g"),
        (":path", path.as_bytes()),
    ];
    headers.extend(more);
    let mut bytes = greeting(settings);
    for stream in (1..200).step_by(2) {
        bytes.extend(frame(HEADERS, flags, stream, &block(0, &headers)));
    }
    bytes
}

/// The number of requests that were answered with this status and are over.
async fn answered(world: &World, status: &str) -> f64 {
    let page = world.admin().get("/metrics").await.ok();
    let page = String::from_utf8(page.body.to_vec()).unwrap();
    let label = format!("code=\"{status}\"");
    let lines = page
        .lines()
        .filter(|line| line.starts_with("nsgate_requests_total{") && line.contains(label.as_str()));
    let counts = lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
    counts.sum()
}

#[tokio::test]
async fn those_who_show_no_token_take_no_place_of_those_who_do() {
    let setup = Setup::two().section("limits: { in_flight: 20 }");
    let world = setup.start().await.seeded();
    // These wait for their bodies, which never come.
    let bodies = [("content-length", &b"9"[..])];
    let mut open = Vec::new();
    for path in ["/v1/nothing", EXISTS] {
        let mut stream = TcpStream::connect(world.address()).await.unwrap();
        let bytes = hundred(path, &[], END_HEADERS, &bodies);
        stream.write_all(&bytes).await.unwrap();
        open.push(stream);
    }
    let all = async {
        while answered(&world, "404").await < 100.0 || answered(&world, "401").await < 100.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all).await.unwrap();
    world.client().post(EXISTS, &json!({})).await.ok();
    // Those of a known caller have their answers without their bodies, too, and keep no place until they come.
    let bearer = format!("Bearer {}", crate::token::token(&json!({})));
    let known = [bodies[0], ("authorization", bearer.as_bytes())];
    let mut stream = TcpStream::connect(world.address()).await.unwrap();
    let bytes = hundred("/v1/table/nowhere%24t/exists", &[], END_HEADERS, &known);
    stream.write_all(&bytes).await.unwrap();
    open.push(stream);
    let all = async {
        while answered(&world, "404").await + answered(&world, "503").await < 200.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all).await.unwrap();
    world.client().post(EXISTS, &json!({})).await.ok();
    // These do not read their answers.
    let stream = TcpStream::connect(world.address()).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let unread = hundred(EXISTS, &[(4, 0)], END_HEADERS | END_STREAM, &[]);
    writer.write_all(&unread).await.unwrap();
    let last = tokio::time::timeout(PATIENCE, outcome(&mut reader, 199)).await;
    assert_eq!(last.unwrap(), Said::Answer(None), "401");
    world.client().post(EXISTS, &json!({})).await.ok();
    drop(open);
}

#[tokio::test]
async fn a_hundred_clients_that_dribble_headers_are_cut_off_while_others_are_served() {
    let world = start("limits: { header_timeout: 500ms, connections: 200 }").await;
    let began = Instant::now();
    let slow = join_all((0..100).map(|_| dribble(&world, BEGUN, b"x-a: b\r\n")));
    let others = async {
        for _ in 0..50 {
            world.anonymous().post(EXISTS, &json!({})).await.ok();
        }
    };
    let all = async { tokio::join!(slow, others) };
    let (answers, ()) = tokio::time::timeout(PATIENCE, all)
        .await
        .expect("they are cut off");
    assert!(
        began.elapsed() >= Duration::from_millis(500),
        "they had their time"
    );
    for answer in answers {
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 408"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn bodies_that_stop_are_given_up() {
    let world = start("limits: { response_timeout: 200ms, data_timeout: 200ms }").await;
    let rows = "POST /v1/table/west%24t1/insert HTTP/1.1\r\nhost: g\r\ncontent-type: application/vnd.apache.arrow.stream\r\n";
    for (begun, what) in [(BEGUN, "json"), (rows, "rows")] {
        for body in [
            "content-length: 100\r\n\r\n{",
            "transfer-encoding: chunked\r\n\r\n9\r\n{",
            "content-length: 100\r\n\r\n",
        ] {
            let answer =
                crate::client::raw(world.address(), format!("{begun}{body}").as_bytes()).await;
            assert!(
                answer.is_empty() || answer.starts_with("HTTP/1.1 503"),
                "{what}: {answer}"
            );
        }
    }
    assert_eq!(world.metric("nsgate_requests_in_flight").await, 0.0);
    assert!(world.catalog("west").seen_of("table_exists").is_empty());
}

#[tokio::test]
async fn rows_that_dribble_end_with_the_time_of_a_data_operation() {
    let world = start("limits: { response_timeout: 10s, data_timeout: 500ms }").await;
    let rows = "POST /v1/table/west%24t1/insert HTTP/1.1\r\nhost: g\r\nconnection: close\r\ncontent-type: application/vnd.apache.arrow.stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let dribbled = dribble(&world, rows, b"1\r\nx\r\n");
    let answer = tokio::time::timeout(PATIENCE, dribbled)
        .await
        .expect("an end");
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 503"),
        "{answer}"
    );
    let none = async {
        while world.metric("nsgate_requests_in_flight").await > 0.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, none)
        .await
        .expect("its place is free again");
}

/// The catalog sends rows as fast as they are accepted, and the client never reads.
#[tokio::test]
async fn a_client_that_does_not_read_costs_no_memory_and_is_given_up() {
    let world = start("limits: { response_timeout: 300ms, data_timeout: 700ms }").await;
    world.anonymous().post(EXISTS, &json!({})).await.ok();
    let before = world.resident();
    let rows = world.catalog("west").rows_out();
    let mut stream = TcpStream::connect(world.address()).await.unwrap();
    let query = format!(
        "POST {QUERY} HTTP/1.1\r\nhost: g\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    stream.write_all(query.as_bytes()).await.unwrap();
    let mut sent = 0_usize;
    let chunk = bytes::Bytes::from(vec![7; 1 << 20]);
    // This ends when the gateway has closed its connection to the catalog.
    let pour = async {
        while rows.send(chunk.clone()).await.is_ok() {
            sent += 1;
        }
    };
    tokio::time::timeout(PATIENCE, pour)
        .await
        .expect("the catalog's connection is given up");
    let grown = world.resident().saturating_sub(before);
    println!(
        "{sent} MiB were taken from the catalog for a client that does not read; {grown} KiB more"
    );
    assert!(grown < 16 << 10, "{grown} KiB more");
    let none = async {
        while world.metric("nsgate_requests_in_flight").await > 0.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, none)
        .await
        .expect("its place is free again");
    drop(stream);
}

/// `NSGATE_IDLE_CONNECTIONS=9000` opens more connections; each takes a file of this process and one of the
/// gateway's.
#[tokio::test]
async fn idle_connections_cost_little_and_others_are_served_beside_them() {
    let asked = std::env::var("NSGATE_IDLE_CONNECTIONS").ok();
    let many: usize = asked.map_or(500, |many| many.parse().unwrap());
    let world = start("limits: { connections: 20000 }").await;
    world.anonymous().post(EXISTS, &json!({})).await.ok();
    let before = world.resident();
    let mut idle = Vec::with_capacity(many);
    let mut answer = vec![0; 4096];
    for _ in 0..many {
        let mut stream = TcpStream::connect(world.address()).await.unwrap();
        // Each connection has carried a request, as those of a client's pool have.
        stream
            .write_all(b"GET /v1/nothing HTTP/1.1\r\nhost: g\r\n\r\n")
            .await
            .unwrap();
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut answer))
            .await
            .unwrap();
        assert!(answer[..read.unwrap()].starts_with(b"HTTP/1.1 404"));
        idle.push(stream);
    }
    let grown = world.resident().saturating_sub(before);
    let each = grown as f64 / many as f64;
    println!("{many} idle connections: {before} KiB before, {grown} KiB more, {each:.1} KiB each");
    assert!(world.metric("nsgate_connections").await >= many as f64);
    assert!(each < 12.0, "{each} KiB each");
    world.anonymous().post(EXISTS, &json!({})).await.ok();
}
