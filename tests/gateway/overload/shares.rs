//! One caller takes all the resources that it can, and others are served all the same.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Setup, World};
use crate::token;

const EXISTS: &str = "/v1/table/west%24t1/exists";
const VICTIMS: usize = 400;

/// Starts a catalog that answers a query without end, and everything else with `{}`; returns its URI.
async fn catalog() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    uri
}

async fn serve(mut stream: TcpStream) -> Option<()> {
    let mut request = Vec::new();
    loop {
        if stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
        if request
            .windows(7)
            .any(|seven| seven == b"/query?" || seven == b"/query ")
        {
            let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.apache.arrow.file\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(head).await.ok()?;
            let chunk = [b"8000\r\n".as_slice(), &[7; 0x8000], b"\r\n"].concat();
            loop {
                stream.write_all(&chunk).await.ok()?;
            }
        }
        if request.ends_with(b"{}") || request.starts_with(b"GET ") {
            request.clear();
            let answer =
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
            stream.write_all(answer).await.ok()?;
        }
    }
}

/// Sends 150 requests of one caller; each begins with `begun` and continues with `more` again and again.
async fn hostile(
    world: &World,
    begun: &str,
    more: &'static [u8],
) -> Vec<tokio::task::JoinHandle<()>> {
    let bearer = token::token(&json!({"sub": "hostile"}));
    let begun = begun.replace("TOKEN", &bearer);
    let mut all = Vec::new();
    for _ in 0..150 {
        let mut stream = TcpStream::connect(world.address()).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        all.push(tokio::spawn(async move {
            let mut pause = tokio::time::interval(Duration::from_millis(50));
            loop {
                pause.tick().await;
                if stream.write_all(more).await.is_err() {
                    return;
                }
            }
        }));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_hostile_caller_leaves_places_to_others() {
    let head = |target: &str, more: &str| {
        format!("POST {target} HTTP/1.1\r\nhost: g\r\nauthorization: Bearer TOKEN\r\n{more}\r\n")
    };
    let arrow = "content-type: application/vnd.apache.arrow.stream\r\ncontent-length: 1000000\r\n";
    let json = "content-type: application/json\r\n";
    let shapes = [
        (
            "chunked one-byte bodies",
            head(EXISTS, &format!("{json}transfer-encoding: chunked\r\n")),
            &b"1\r\n \r\n"[..],
        ),
        (
            "Arrow uploads that stall",
            head("/v1/table/west%24t1/insert", arrow) + "\u{7f}\u{7f}\u{7f}\u{7f}",
            b"",
        ),
        (
            "slow readers",
            head(
                "/v1/table/west%24t1/query",
                &format!("{json}content-length: 2\r\n"),
            ) + "{}",
            b"",
        ),
    ];
    for (shape, begun, more) in shapes {
        let world = Setup::new()
            .mount("[west]", "west")
            .at("west", catalog().await)
            .section("limits: { in_flight: 100 }")
            .start()
            .await;
        let attack = hostile(&world, &begun, more).await;
        // The test waits until the attack has taken all that it can get.
        let full = async {
            let refused = r#"nsgate_limited_requests_total{reason="share"}"#;
            while world.metric("nsgate_requests_in_flight").await < 70.0
                || world.metric(refused).await < 1.0
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(crate::PATIENCE, full)
            .await
            .expect(shape);
        let victim = world.client_with(&json!({"sub": "victim"}));
        let mut took = Vec::with_capacity(VICTIMS);
        let mut served = 0;
        for _ in 0..VICTIMS {
            let began = Instant::now();
            served += usize::from(victim.post(EXISTS, &json!({})).await.status == 200);
            took.push(began.elapsed());
        }
        took.sort();
        let p99 = took[VICTIMS * 99 / 100];
        println!("{shape}: {served} of {VICTIMS} served, p99 {p99:?}");
        assert!(
            served * 100 >= VICTIMS * 95,
            "{shape}: {served} of {VICTIMS}"
        );
        attack.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
