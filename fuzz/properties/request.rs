//! The requests of an HTTP/1.1 connection. Most requests are read without hyper; hyper reads the others, and all that
//! follow them on the connection. Both readers must see the same requests and give the same answers.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use nsgate::backend::Peer;
use nsgate::body::Body;
use nsgate::config::Limits;
use nsgate::error::BoxError;
use nsgate::server::connection::{ConnectionState, Protocols};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;
use tokio::task::yield_now;

/// A next request that is read without hyper, if it is simple.
const PLAIN: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
/// A next request that hyper reads.
const OTHER: &str = "GET / HTTP/1.1\r\nte: trailers\r\n\r\n";

pub fn check(data: &[u8]) {
    let named = String::from_utf8_lossy(data);
    assert_eq!(converse(PLAIN, data), converse(OTHER, data), "{named:?}");
}

/// The requests that were understood in `data`, the lines of all answers without their date, and true if the server
/// closed the connection before the client did.
type Seen = (Vec<String>, Vec<String>, bool);

fn converse(first: &str, data: &[u8]) -> Seen {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let (mut ours, theirs) = tokio::io::duplex(1 << 20);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let asked = Arc::clone(&requests);
        let stack = tower::service_fn(move |request| answer(request, Arc::clone(&asked)));
        let serving = tokio::spawn(async move {
            let limits = Limits {
                header_bytes: 512,
                ..Limits::default()
            };
            let peer = Peer::new(([127, 0, 0, 1], 1).into(), false);
            let protocols = Protocols::new(&limits);
            protocols
                .serve(theirs, peer, stack, ConnectionState::new())
                .await;
        });
        for piece in [first.as_bytes(), data] {
            // The server may have closed the connection.
            let _ = ours.write_all(piece).await;
            for _ in 0..50 {
                yield_now().await;
            }
        }
        let over = serving.is_finished();
        let _ = ours.shutdown().await;
        let mut answers = Vec::new();
        ours.read_to_end(&mut answers).await.expect("answers");
        serving.await.expect("no panic");
        let answers = String::from_utf8_lossy(&answers);
        let answers = answers.lines().filter(|line| !line.starts_with("date: "));
        let mut answers: Vec<_> = answers.map(str::to_owned).collect();
        answers.sort_unstable();
        let requests = requests.lock().expect("no panic").split_off(1);
        (requests, answers, over)
    })
}

async fn answer(
    request: Request<Body>,
    requests: Arc<Mutex<Vec<String>>>,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect_up_to(1 << 20).await;
    let (method, uri, version, headers) = (head.method, head.uri, head.version, head.headers);
    let body = body.map_err(|_| "none");
    let seen = format!("{method} {uri} {version:?} {headers:?} {body:?}");
    requests.lock().expect("no panic").push(seen);
    let frames = |last| {
        let first = Ok(Frame::data(Bytes::from("first")));
        Body::stream(StreamBody::new(futures_util::stream::iter([first, last])))
    };
    let mut response = Response::new(match uri.path() {
        "/streams" => frames(Ok(Frame::data(Bytes::from("second")))),
        "/breaks" => frames(Err(BoxError::from("the catalog is gone"))),
        "/long" => Body::full("x".repeat(20 << 10)),
        "/none" | "/same" => Body::empty(),
        _ => Body::full("seen"),
    });
    match uri.path() {
        "/none" => *response.status_mut() = StatusCode::NO_CONTENT,
        "/same" => *response.status_mut() = StatusCode::NOT_MODIFIED,
        "/closes" => {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        _ => {}
    }
    Ok(response)
}
