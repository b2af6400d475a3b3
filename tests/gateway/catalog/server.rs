//! The sockets of a catalog: accepts connections, records requests, applies faults and answers.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, StreamExt};
use http::{Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::answers::{self, Answer, Query};
use super::faults::Fault;
use super::operations::{self, Found, Sends};
use super::store::Store;
use super::{Running, Seen, Shared};

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Serves until the sender is dropped, then cuts every connection.
pub(super) fn start(listener: TcpListener, shared: Arc<Shared>) -> Running {
    let (stop, stopped) = oneshot::channel::<()>();
    let accepting = async move {
        let mut connections = JoinSet::new();
        let accept = async {
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(connection(stream, shared.clone()));
            }
        };
        tokio::select! {
            () = accept => {}
            _ = stopped => {}
        }
        connections.shutdown().await;
    };
    (stop, tokio::spawn(accepting))
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let Ok(stream) = stream.into_std() else {
        return;
    };
    // The second handle on the socket sets a linger time of zero, which makes its close a reset.
    let second = stream.try_clone().and_then(TcpStream::from_std);
    let (Ok(second), Ok(stream)) = (second, TcpStream::from_std(stream)) else {
        return;
    };
    let second = Arc::new(second);
    let service = service_fn(move |request| {
        let (shared, socket) = (shared.clone(), second.clone());
        async move {
            let answered = serve(&shared, request).await;
            if answered.is_err() {
                let _ = socket.set_zero_linger();
            }
            answered
        }
    });
    let server = auto::Builder::new(TokioExecutor::new());
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

impl Shared {
    /// The data that the value of a request header selects.
    pub(super) fn part(&self, value: &str) -> Arc<Mutex<Store>> {
        let mut parts = self.parts.lock().expect("not poisoned");
        Arc::clone(parts.entry(value.to_owned()).or_default())
    }

    /// The part that these headers select; `None` if they select none.
    fn selected(&self, headers: &http::HeaderMap) -> Option<Arc<Mutex<Store>>> {
        let selects = self.selects.lock().expect("not poisoned").clone();
        let mut values = selects.iter().filter_map(|name| headers.get(*name));
        let value = values.next()?.to_str().expect("visible ASCII");
        Some(self.part(value))
    }

    /// Returns true if every answer has this entity tag.
    fn has_etag(&self, tag: &http::HeaderValue) -> bool {
        let headers = self.extra_headers.lock().expect("not poisoned");
        headers.get(header::ETAG) == Some(tag)
    }
}

/// Serves one request; an error resets the connection.
async fn serve(shared: &Shared, request: Request<Incoming>) -> io::Result<Response<Body>> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let path = path.strip_prefix(shared.base.as_str()).unwrap_or(path);
    let found = operations::find(parts.method.as_str(), path);
    let query = Query::parse(parts.uri.query());
    let selected = shared.selected(&parts.headers);
    let id = query.names(found.id.as_deref());

    let orders = || shared.orders.lock().expect("not poisoned");
    let streams = found.sends == Sends::Arrow;
    let mut whole = Bytes::new();
    let mut incoming = Some(body);
    if !streams {
        whole = incoming.take().map(read).expect("not taken").await?;
    }
    let faults = orders().take(found.name, &id);
    let serial = record(shared, &parts, found.name, &id, &whole);
    for fault in &faults {
        match fault {
            Fault::HoldBefore(gate) => gate.pass().await,
            Fault::Late(time) => tokio::time::sleep(*time).await,
            Fault::ResetBefore => return Err(io::Error::other("ordered to reset")),
            Fault::Instead(status, body) => return Ok(plain(shared, *status, body)),
            _ => {}
        }
    }
    if let Some(body) = incoming {
        whole = rows(shared, body).await?;
        let kept = whole.clone();
        shared.seen.send_modify(|all| {
            let seen = all.iter_mut().find(|seen| seen.serial == serial);
            seen.into_iter().for_each(|seen| seen.body = kept.clone());
        });
    }
    if parts
        .headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|tag| shared.has_etag(tag))
    {
        return Ok(plain(shared, 304, ""));
    }
    let answer = act(shared, &found, &query, &whole, selected.as_deref());
    finish(shared, &faults, &found, answer).await
}

async fn finish(
    shared: &Shared,
    faults: &[Fault],
    found: &Found,
    answer: Answer,
) -> io::Result<Response<Body>> {
    for fault in faults {
        match fault {
            Fault::HoldAfter(gate) => gate.pass().await,
            Fault::ResetAfter => return Err(io::Error::other("ordered to reset")),
            Fault::DoneBut(status, body) => return Ok(plain(shared, *status, body)),
            Fault::HalfAnswer => return Ok(half(&answer.2)),
            _ => {}
        }
    }
    let rows = match found.name {
        "query_table" => shared.rows_out.lock().expect("not poisoned").take(),
        name => {
            let mut lists = shared.lists_out.lock().expect("not poisoned");
            let next = lists.iter().position(|(operation, _)| *operation == name);
            next.and_then(|next| lists.remove(next))
                .map(|(_, text)| text)
        }
    };
    let (status, kind, body) = answer;
    let mut response = match rows {
        None => Response::new(Full::new(body).map_err(io::Error::other).boxed_unsync()),
        Some(rows) => Response::new(
            StreamBody::new(stream::unfold(rows, async |mut rows| {
                let chunk = rows.recv().await?;
                Some((Ok(Frame::data(chunk)), rows))
            }))
            .boxed_unsync(),
        ),
    };
    *response.status_mut() = http::StatusCode::from_u16(status).expect("a status");
    if let Some(kind) = kind {
        let kind = http::HeaderValue::from_static(kind);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    let extra = shared.extra_headers.lock().expect("not poisoned").clone();
    response.headers_mut().extend(extra);
    Ok(response)
}

/// Returns the fixed answer of the operation, or else the store's.
fn act(
    shared: &Shared,
    found: &Found,
    query: &Query,
    body: &Bytes,
    part: Option<&Mutex<Store>>,
) -> Answer {
    let canned = shared.canned.lock().expect("not poisoned");
    if let Some(answer) = canned.get(found.name) {
        return answer.clone();
    }
    let ways = *shared.ways.lock().expect("not poisoned");
    let store = part.unwrap_or(&shared.store);
    let mut store = store.lock().expect("not poisoned");
    answers::answer(&mut store, ways, found, query, body)
}

fn record(
    shared: &Shared,
    parts: &http::request::Parts,
    operation: &'static str,
    id: &[String],
    body: &Bytes,
) -> usize {
    let serial = shared.serials.fetch_add(1, Ordering::Relaxed);
    let target = parts
        .uri
        .path_and_query()
        .map_or("", |target| target.as_str());
    let seen = Seen {
        serial,
        operation,
        id: id.to_vec(),
        method: parts.method.to_string(),
        target: target.to_owned(),
        headers: parts.headers.clone(),
        body: body.clone(),
    };
    shared.seen.send_modify(|all| all.push(seen));
    serial
}

async fn read(body: Incoming) -> io::Result<Bytes> {
    let collected = body.collect().await.map_err(io::Error::other)?;
    Ok(collected.to_bytes())
}

/// Reads rows: hands them to the test as fast as it takes them, or keeps them if the test does not.
async fn rows(shared: &Shared, mut body: Incoming) -> io::Result<Bytes> {
    let sink = shared.rows_in.lock().expect("not poisoned").take();
    let mut kept = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(io::Error::other)?.into_data() else {
            continue;
        };
        match &sink {
            Some(sink) => drop(sink.send(data).await),
            None => kept.extend_from_slice(&data),
        }
    }
    Ok(kept.freeze())
}

fn plain(shared: &Shared, status: u16, body: &'static str) -> Response<Body> {
    let body = Full::new(Bytes::from_static(body.as_bytes()));
    let mut response = Response::new(body.map_err(io::Error::other).boxed_unsync());
    *response.status_mut() = http::StatusCode::from_u16(status).expect("a status");
    let kind = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    let extra = shared.extra_headers.lock().expect("not poisoned").clone();
    response.headers_mut().extend(extra);
    response
}

/// Promises the whole body, sends the first half and then breaks the connection.
fn half(body: &Bytes) -> Response<Body> {
    let first = Ok(Frame::data(body.slice(..body.len() / 2)));
    let broken = async {
        // Yields once, so that the first half is written before the error.
        tokio::task::yield_now().await;
        Err(io::Error::other("ordered to break"))
    };
    let frames = stream::iter([first]).chain(stream::once(broken));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, body.len().into());
    let kind = http::HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, kind);
    response
}
