//! A catalog on a socket that can go away and come back at the same address.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use nsgate::backend::Catalog as _;
use nsgate::body::Body;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use crate::catalog::Catalog;

/// The time after a catalog's return in which an error may still be its doing: a breaker waits, an undone batch rests.
const GRACE: Duration = Duration::from_secs(6);
/// The tables in a listing.
const LISTED: usize = 200;

pub struct Site {
    pub name: String,
    pub catalog: Catalog,
    pub address: SocketAddr,
    serving: Mutex<JoinHandle<()>>,
    began: Instant,
    /// The time since `began` until which errors are the catalog's doing, in milliseconds.
    troubled: AtomicU64,
}

impl Site {
    pub async fn start(name: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let catalog = Catalog::default();
        Self {
            name,
            address: listener.local_addr().unwrap(),
            serving: Mutex::new(tokio::spawn(serve(listener, catalog.clone()))),
            catalog,
            began: Instant::now(),
            troubled: AtomicU64::new(0),
        }
    }

    /// Closes the port and every connection for a while.
    pub async fn restart(&self, away: Duration) {
        self.troubled.store(u64::MAX, Relaxed);
        self.serving.lock().unwrap().abort();
        tokio::time::sleep(away).await;
        let listener = loop {
            match TcpListener::bind(self.address).await {
                Ok(listener) => break listener,
                // The port is taken until the last task has ended.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        *self.serving.lock().unwrap() = tokio::spawn(serve(listener, self.catalog.clone()));
        let until = self.began.elapsed() + GRACE;
        self.troubled.store(until.as_millis() as u64, Relaxed);
    }

    /// True if an error of a request that began at this time may be due to a restart.
    pub fn is_troubled(&self, since: Instant) -> bool {
        let since = since.saturating_duration_since(self.began).as_millis() as u64;
        since < self.troubled.load(Relaxed)
    }
}

async fn serve(listener: TcpListener, catalog: Catalog) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { return };
                let _ = stream.set_nodelay(true);
                let catalog = catalog.clone();
                let service = service_fn(move |request| answer(catalog.clone(), request));
                let server = hyper::server::conn::http1::Builder::new();
                connections.spawn(server.serve_connection(TokioIo::new(stream), service));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn answer(catalog: Catalog, request: Request<Incoming>) -> hyper::Result<Response<Body>> {
    let path = request.uri().path();
    if path == "/" {
        return Ok(json("{}"));
    }
    if path.ends_with("/insert") {
        let mut body = request.into_body();
        while let Some(frame) = body.frame().await {
            frame?;
        }
        return Ok(json("{\"transaction_id\":null}"));
    }
    if path == "/v1/table" || path.ends_with("/table/list") {
        let names: Vec<_> = (0..LISTED).map(|at| format!("\"t{at:03}\"")).collect();
        return Ok(json(format!("{{\"tables\":[{}]}}", names.join(","))));
    }
    if path.ends_with("/list") && path.starts_with("/v1/namespace/") {
        return Ok(json("{\"namespaces\":[\"n1\",\"n2\"]}"));
    }
    let answered = catalog.call(request.map(Body::incoming)).await;
    Ok(answered.unwrap_or_else(|_| json("{}")))
}

fn json(body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
