//! The minimum cost of forwarding on hyper: a server, a pool of kept connections, and no inspection of requests.
//!
//! usage: bare shared|cores LISTEN CATALOG WORKERS
//!
//! `shared` is one runtime and one pool for all workers. `cores` is a runtime, a listener and a pool for each core.
//! The cost of a gateway above the nearer of the two is its own work.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The kept connections to the catalog. The lock of a pool that only one core uses is never contended.
struct Pool {
    catalog: SocketAddr,
    kept: Mutex<Vec<SendRequest<Incoming>>>,
}

/// A response's body, which returns its connection to the pool at its end.
struct Lent {
    body: Incoming,
    connection: Option<SendRequest<Incoming>>,
    pool: Arc<Pool>,
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [mode, listen, catalog, workers] = words.as_slice() else {
        return Err("usage: bare shared|cores LISTEN CATALOG WORKERS".into());
    };
    let (listen, catalog, workers) = (listen.parse()?, catalog.parse()?, workers.parse()?);
    match mode.as_str() {
        "shared" => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(workers)
                .enable_io()
                .build()?;
            runtime.block_on(async { runtime.spawn(serve(listen, catalog)).await? })
        }
        "cores" => {
            let cores: Vec<_> = (0..workers)
                .map(|_| std::thread::spawn(move || core(listen, catalog)))
                .collect();
            for core in cores {
                core.join().map_err(|_| "a core panicked")??;
            }
            Ok(())
        }
        _ => Err("the first word is `shared` or `cores`".into()),
    }
}

fn core(listen: SocketAddr, catalog: SocketAddr) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    runtime.block_on(serve(listen, catalog))
}

async fn serve(listen: SocketAddr, catalog: SocketAddr) -> Result<(), Failure> {
    let socket = Socket::new(Domain::for_address(listen), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    // The system distributes new connections over the listeners of all cores.
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&listen.into())?;
    socket.listen(1024)?;
    let listener = TcpListener::from_std(socket.into())?;
    let pool = Arc::new(Pool {
        catalog,
        kept: Mutex::default(),
    });
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let pool = Arc::clone(&pool);
        tokio::spawn(async move {
            let service = service_fn(move |request| forward(Arc::clone(&pool), request));
            let connection = hyper::server::conn::http1::Builder::new();
            // A client that disconnects is not a failure of the proxy.
            let _ = connection
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn forward(
    pool: Arc<Pool>,
    request: Request<Incoming>,
) -> Result<Response<Either>, Infallible> {
    Ok(match sent(pool, request).await {
        Ok(response) => response,
        Err(_) => {
            let mut response = Response::new(Either(None));
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        }
    })
}

async fn sent(pool: Arc<Pool>, request: Request<Incoming>) -> Result<Response<Either>, Failure> {
    let mut connection = pool.take().await?;
    let response = connection.send_request(request).await?;
    let connection = Some(connection);
    Ok(response.map(|body| {
        Either(Some(Lent {
            body,
            connection,
            pool,
        }))
    }))
}

impl Pool {
    async fn take(&self) -> Result<SendRequest<Incoming>, Failure> {
        while let Some(mut connection) = self.last() {
            if connection.is_ready() || connection.ready().await.is_ok() {
                return Ok(connection);
            }
        }
        let stream = TcpStream::connect(self.catalog).await?;
        stream.set_nodelay(true)?;
        let (connection, task) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(task);
        Ok(connection)
    }

    fn last(&self) -> Option<SendRequest<Incoming>> {
        self.kept.lock().ok()?.pop()
    }
}

/// The catalog's body, or an empty one.
struct Either(Option<Lent>);

impl Body for Either {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.0 {
            Some(lent) => Pin::new(&mut lent.body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|lent| lent.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let none = || SizeHint::with_exact(0);
        self.0
            .as_ref()
            .map_or_else(none, |lent| lent.body.size_hint())
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let (Some(connection), Ok(mut kept)) = (self.connection.take(), self.pool.kept.lock()) {
            kept.push(connection);
        }
    }
}
