//! A catalog on a socket that counts connections, requests and bytes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Request, Response};
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use nsgate::backend::Catalog as _;
use nsgate::body::Body;
use tokio::net::TcpListener;

use crate::catalog::Catalog;

/// The answer to a describe.
pub const DESCRIBED: &str = "{\"location\":\"s3://warehouse/t.lance\",\"managed_versioning\":true}";

type Answer = dyn Fn(Request<Incoming>) -> BoxFuture<'static, Response<Body>> + Send + Sync;

/// A running catalog. It serves for as long as the process lives.
pub struct Server {
    pub address: SocketAddr,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    connections: AtomicU64,
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Server {
    /// Serves what a function answers to a request's path and query.
    pub async fn start(answer: impl Fn(&str) -> Bytes + Send + Sync + 'static) -> Self {
        let answer = Arc::new(answer);
        Self::with(Arc::new(move |request| {
            let answer = Arc::clone(&answer);
            Box::pin(async move {
                let target = request.uri().to_string();
                // A request is read to its end, so that the connection can be used again.
                let body = Body::incoming(request.into_body());
                let _ = body.collect_up_to(1 << 20).await;
                json(answer(&target))
            })
        }))
        .await
    }

    /// Serves a describe of any table.
    pub async fn plain() -> Self {
        Self::start(|_| Bytes::from_static(DESCRIBED.as_bytes())).await
    }

    /// Serves a catalog in memory.
    pub async fn over(catalog: &Catalog) -> Self {
        let catalog = catalog.clone();
        Self::with(Arc::new(move |request| {
            let catalog = catalog.clone();
            Box::pin(async move {
                let answered = catalog.call(request.map(Body::incoming)).await;
                answered.unwrap_or_else(|_| json(Bytes::new()))
            })
        }))
        .await
    }

    async fn with(answer: Arc<Answer>) -> Self {
        // Every address of the loopback network reaches it.
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let counts = Arc::new(Counts::default());
        let counted = Arc::clone(&counts);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                counted.connections.fetch_add(1, Relaxed);
                let (counts, answer) = (Arc::clone(&counted), Arc::clone(&answer));
                let service = service_fn(move |request| {
                    counts.requests.fetch_add(1, Relaxed);
                    let (counts, answered) = (Arc::clone(&counts), answer(request));
                    async move {
                        let response = answered.await;
                        let length = response.body().size_hint().exact().unwrap_or(0);
                        counts.bytes.fetch_add(length, Relaxed);
                        Ok::<_, Infallible>(response)
                    }
                });
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            counts,
        }
    }

    /// Returns the connections that were opened since the start.
    pub fn connections(&self) -> u64 {
        self.counts.connections.load(Relaxed)
    }

    /// Returns the requests since the start.
    pub fn requests(&self) -> u64 {
        self.counts.requests.load(Relaxed)
    }

    /// Returns the bytes of answers since the start.
    pub fn bytes(&self) -> u64 {
        self.counts.bytes.load(Relaxed)
    }
}

fn json(body: Bytes) -> Response<Body> {
    let length = HeaderValue::from(body.len());
    let mut response = Response::new(Body::full(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_LENGTH, length);
    response
}
