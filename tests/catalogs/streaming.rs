//! Rows pass through the gateway in constant memory, however many there are.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

use crate::client::{Body, Client, full};
use crate::harness::{Behind, Gateway};

const TWO_GIB: u64 = 2 << 30;
const CHUNK: usize = 256 << 10;
/// The most memory that the gateway may use, in kB as `/proc` counts.
const MOST_MEMORY: u64 = 96 << 10;
/// The limit for a test that hangs. It decides nothing else.
const MOST_TIME: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_two_gib_insert_passes_in_constant_memory() {
    let (gateway, client) = before_a_catalog_of_bytes().await;
    let request = client.open(Method::POST, "/v1/table/prod%24t/insert", two_gib());
    let answer = tokio::time::timeout(MOST_TIME, request).await.unwrap();
    let answer = answer.unwrap().into_body().collect().await.unwrap();
    assert_eq!(answer.to_bytes(), TWO_GIB.to_string());
    stays_small(&gateway);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_two_gib_query_answer_passes_in_constant_memory() {
    let (gateway, client) = before_a_catalog_of_bytes().await;
    let client = client.header("content-type", "application/json");
    let query = full(r#"{"k":1,"vector":{}}"#);
    let answer = client
        .open(Method::POST, "/v1/table/prod%24t/query", query)
        .await;
    let read = tokio::time::timeout(MOST_TIME, length(answer.unwrap().into_body())).await;
    assert_eq!(read.unwrap(), TWO_GIB);
    stays_small(&gateway);
}

fn stays_small(gateway: &Gateway) {
    let most = gateway.memory("VmHWM");
    println!(
        "the gateway's resident memory was {} MiB at most",
        most >> 10
    );
    assert!(most < MOST_MEMORY, "{most} kB");
}

async fn before_a_catalog_of_bytes() -> (Gateway, Client) {
    let address = serve().await;
    let catalog = Behind::kept("bytes", format!("http://{address}"), &["prod"]);
    let gateway = tokio::task::spawn_blocking(move || Gateway::before(&[catalog]));
    let gateway = gateway.await.unwrap();
    let bearer = format!("Bearer {}", gateway.token());
    let client = Client::new(gateway.address().parse().unwrap()).header("authorization", &bearer);
    (gateway, client)
}

/// Starts a catalog that counts what is inserted and answers a query with 2 GiB.
async fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let server = auto::Builder::new(TokioExecutor::new());
                let _ = server
                    .serve_connection(TokioIo::new(stream), service_fn(answer))
                    .await;
            });
        }
    });
    address
}

async fn answer(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let inserts = request.uri().path().ends_with("/insert");
    let length = length(request.into_body()).await;
    let (kind, body) = if inserts {
        ("application/json", full(length.to_string()))
    } else {
        ("application/vnd.apache.arrow.file", two_gib())
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert("content-type", kind.parse().unwrap());
    Ok(response)
}

/// Returns the length of a body, and keeps none of it.
async fn length(mut body: Incoming) -> u64 {
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let data = frame.unwrap().into_data().unwrap_or_default();
        length += data.len() as u64;
    }
    length
}

fn two_gib() -> Body {
    let chunk = Bytes::from(vec![7; CHUNK]);
    let chunks = (0..TWO_GIB / CHUNK as u64).map(move |_| Ok(Frame::data(chunk.clone())));
    StreamBody::new(stream::iter(chunks)).boxed_unsync()
}
