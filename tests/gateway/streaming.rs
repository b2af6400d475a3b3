//! Rows are streamed: the first arrive before the last are sent, and no receiver gets more than it reads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::Method;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::json;
use tokio::sync::mpsc;

use crate::catalog::faults::PATIENCE;
use crate::client::{Body, Client, full};
use crate::harness::{Setup, World};

const INSERT: &str = "/v1/table/west%24t1/insert";
const QUERY: &str = "/v1/table/west%24t1/query";
const CHUNK: usize = 64 << 10;

/// A generous estimate of the bytes that sockets and windows on the way hold; far below what is sent.
const ON_THE_WAY: usize = 24 << 20;

/// The time that a side that does not read gives the other to overrun it. More of it could only show more
/// faults; the result does not depend on it.
const QUIET: Duration = Duration::from_millis(150);

fn fed(receiver: mpsc::Receiver<Bytes>) -> Body {
    let frames = stream::unfold(receiver, async |mut receiver| {
        let chunk = receiver.recv().await?;
        Some((Ok::<_, io::Error>(Frame::data(chunk)), receiver))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Starts a world and a client for every pair of HTTP/1.1 and HTTP/2, from the client and to the catalog.
async fn ways() -> Vec<(World, Client)> {
    let bearer = format!("Bearer {}", crate::token::token(&json!({})));
    let mut ways = Vec::new();
    for http2 in [false, true] {
        for client in [Client::new, Client::h2] {
            let setup = Setup::two().backend("west", &format!("http2: {http2}"));
            let world = setup.start().await.seeded();
            let client = client(world.address()).header("authorization", &bearer);
            ways.push((world, client));
        }
    }
    ways
}

async fn next(rows: &mut mpsc::Receiver<Bytes>) -> Option<Bytes> {
    tokio::time::timeout(PATIENCE, rows.recv())
        .await
        .expect("rows come on their own")
}

#[tokio::test]
async fn the_first_rows_of_an_insert_arrive_before_the_last_are_sent() {
    for (world, client) in ways().await {
        let mut arriving = world.catalog("west").rows_in();
        let (send, receive) = mpsc::channel(1);
        let sent = tokio::spawn(async move { client.post_rows(INSERT, fed(receive)).await });
        for row in ["one", "two", "three"] {
            send.send(Bytes::from_static(row.as_bytes())).await.unwrap();
            assert_eq!(next(&mut arriving).await.unwrap(), row);
        }
        drop(send);
        // HTTP/2 may end with an empty frame.
        while let Some(rows) = next(&mut arriving).await {
            assert_eq!(rows, "");
        }
        sent.await.unwrap().ok();
    }
}

#[tokio::test]
async fn the_first_rows_of_an_answer_arrive_before_the_last_are_sent() {
    for (world, client) in ways().await {
        let rows = world.catalog("west").rows_out();
        let client = client.header("content-type", "application/json");
        let response = client.open(Method::POST, QUERY, full("{}")).await.unwrap();
        let mut body = response.into_body();
        for row in ["one", "two", "three"] {
            rows.send(Bytes::from_static(row.as_bytes())).await.unwrap();
            let frame = tokio::time::timeout(PATIENCE, body.frame()).await.unwrap();
            assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), row);
        }
        drop(rows);
        // HTTP/2 may end with an empty frame.
        while let Some(frame) = body.frame().await {
            assert!(frame.unwrap().into_data().unwrap().is_empty());
        }
    }
}

#[tokio::test]
async fn an_insert_is_sent_no_faster_than_the_catalog_reads() {
    for (world, client) in ways().await {
        let mut arriving = world.catalog("west").rows_in();
        let (send, receive) = mpsc::channel::<Bytes>(1);
        let (sent, total) = (Arc::new(AtomicUsize::new(0)), 96 << 20);
        let counter = sent.clone();
        let sending = tokio::spawn(async move {
            let chunk = Bytes::from(vec![7; CHUNK]);
            while counter.load(Ordering::SeqCst) < total {
                send.send(chunk.clone()).await.unwrap();
                counter.fetch_add(CHUNK, Ordering::SeqCst);
            }
        });
        let asked = tokio::spawn(async move { client.post_rows(INSERT, fed(receive)).await });
        let mut read = next(&mut arriving).await.unwrap().len();
        tokio::time::sleep(QUIET).await;
        let ahead = sent.load(Ordering::SeqCst) - read;
        assert!(ahead < ON_THE_WAY, "{ahead} bytes are somewhere on the way");
        while let Some(chunk) = next(&mut arriving).await {
            read += chunk.len();
            assert!(chunk.iter().all(|&byte| byte == 7));
        }
        assert_eq!(read, total);
        sending.await.unwrap();
        asked.await.unwrap().ok();
    }
}

#[tokio::test]
async fn an_answer_is_fetched_no_faster_than_the_client_reads() {
    for (world, client) in ways().await {
        let rows = world.catalog("west").rows_out();
        let (sent, total) = (Arc::new(AtomicUsize::new(0)), 96 << 20);
        let counter = sent.clone();
        let sending = tokio::spawn(async move {
            let chunk = Bytes::from(vec![7; CHUNK]);
            while counter.load(Ordering::SeqCst) < total {
                rows.send(chunk.clone()).await.unwrap();
                counter.fetch_add(CHUNK, Ordering::SeqCst);
            }
        });
        let client = client.header("content-type", "application/json");
        let response = client.open(Method::POST, QUERY, full("{}")).await.unwrap();
        let mut body = response.into_body();
        let mut read = 0;
        while let Some(frame) = tokio::time::timeout(PATIENCE, body.frame()).await.unwrap() {
            if read == 0 {
                tokio::time::sleep(QUIET).await;
                let ahead = sent.load(Ordering::SeqCst);
                assert!(ahead < ON_THE_WAY, "{ahead} bytes are somewhere on the way");
            }
            read += frame.unwrap().into_data().map_or(0, |data| data.len());
        }
        assert_eq!(read, total);
        sending.await.unwrap();
    }
}

#[tokio::test]
async fn a_client_that_leaves_is_not_worked_for() {
    let world = World::two().await;
    let rows = world.catalog("west").rows_out();
    let client = world.client().header("content-type", "application/json");
    let response = client.open(Method::POST, QUERY, full("{}")).await.unwrap();
    drop(response);
    // The gateway closes its connection to the catalog too, so that sending fails.
    let refused = async { while rows.send(Bytes::from_static(&[0; 4096])).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, refused).await.unwrap();
}
