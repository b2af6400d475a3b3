#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http::{Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tower::service_fn;

use crate::backend::Peer;
use crate::body::{Body, CollectError, End, Observer};
use crate::config::Limits;
use crate::server::connection::{ConnectionState, Directive, IdleTracker, Protocols, Timeouts};

use super::*;

/// A timeout that no test reaches unless it fails.
const FOREVER: Duration = Duration::from_secs(20);
const STALLED: Duration = Duration::from_millis(400);

/// Reports how a body ended.
struct Told(mpsc::UnboundedSender<End>);

impl Observer for Told {
    fn end(&mut self, how: End) {
        let _ = self.0.send(how);
    }
}

/// Opens an HTTP/2 connection to a server that reads requests to `/read` whole, answers `/flood` without end, and
/// reports how its bodies end.
async fn connect() -> (SendRequest<Body>, mpsc::UnboundedReceiver<End>) {
    connect_with(STALLED).await
}

/// Opens a connection as [`connect`] does, with another timeout for stalled requests.
async fn connect_with(stalled: Duration) -> (SendRequest<Body>, mpsc::UnboundedReceiver<End>) {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (sender, ends) = mpsc::unbounded_channel();
    let state = ConnectionState::new();
    let stack = service_fn(move |request: Request<Body>| {
        let sender = sender.clone();
        async move {
            let (head, body) = request.into_parts();
            let observer = Box::new(Told(sender));
            Ok::<_, Infallible>(Response::new(match head.uri.path() {
                "/read" => match body.observe(observer).collect_up_to(1 << 20).await {
                    Ok(all) => Body::full(all.len().to_string()),
                    Err(CollectError::Broken(_) | CollectError::TooLarge) => Body::empty(),
                },
                "/flood" => flood().observe(observer),
                "/ignore" => {
                    let _unread = body;
                    std::future::pending().await
                }
                _ => Body::full("hello"),
            }))
        }
    });
    let serving = Arc::clone(&state);
    tokio::spawn(async move {
        let protocols = Protocols::new(&Limits::default());
        let peer = Peer::new("127.0.0.1:1".parse().unwrap(), false);
        protocols.serve(theirs, peer, stack, serving).await;
    });
    tokio::spawn(async move {
        let patience = Timeouts {
            headers: FOREVER,
            buffer_retention: FOREVER,
            idle: FOREVER,
            stalled,
        };
        let mut watch = IdleTracker::new(Instant::now());
        loop {
            let order = watch.look(&state, patience, Instant::now());
            assert_eq!(order, Directive::Continue, "the connection itself goes on");
            sleep(Duration::from_millis(20)).await;
        }
    });
    let io = TokioIo::new(ours);
    let executor = TokioExecutor::new();
    let (sender, connection) = hyper::client::conn::http2::handshake(executor, io)
        .await
        .unwrap();
    tokio::spawn(connection);
    (sender, ends)
}

fn flood() -> Body {
    let piece = || Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[7; 1 << 10])));
    Body::stream(StreamBody::new(stream::repeat_with(piece)))
}

/// Returns a body of `pieces` pieces with a pause before each. After them it ends if `ends`, and stalls otherwise.
fn dribble(pieces: usize, pause: Duration, ends: bool) -> Body {
    let piece = move |_| async move {
        sleep(pause).await;
        Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"piece")))
    };
    let pieces = stream::iter(0..pieces).then(piece);
    if ends {
        Body::stream(StreamBody::new(Box::pin(pieces)))
    } else {
        Body::stream(StreamBody::new(Box::pin(pieces.chain(stream::pending()))))
    }
}

async fn send(
    sender: &SendRequest<Body>,
    path: &str,
    body: Body,
) -> hyper::Result<Response<Incoming>> {
    let uri = format!("http://x{path}");
    let request = Request::post(uri).body(body).unwrap();
    let mut sender = sender.clone();
    timeout(FOREVER, sender.send_request(request))
        .await
        .expect("an answer or none")
}

/// Keeps the connection busy, and checks that it answers.
async fn lively(sender: SendRequest<Body>) {
    loop {
        let answer = send(&sender, "/", Body::empty()).await.unwrap();
        assert_eq!(
            answer.into_body().collect().await.unwrap().to_bytes(),
            "hello"
        );
        sleep(Duration::from_millis(20)).await;
    }
}

async fn beside<T>(sender: &SendRequest<Body>, doing: impl Future<Output = T>) -> T {
    tokio::select! {
        () = lively(sender.clone()) => unreachable!("it goes on"),
        done = doing => done,
    }
}

#[tokio::test]
async fn a_body_that_stalls_in_a_lively_connection_is_given_up_alone() {
    let (sender, mut ends) = connect().await;
    let stalled = send(&sender, "/read", dribble(1, Duration::ZERO, false));
    let slow = send(&sender, "/read", dribble(12, STALLED / 4, true));
    let (stalled, slow) = beside(&sender, async { tokio::join!(stalled, slow) }).await;
    assert!(stalled.is_err(), "{stalled:?}");
    let whole = slow.unwrap().into_body().collect().await.unwrap();
    assert_eq!(
        whole.to_bytes(),
        "60",
        "what moves has all the time it needs"
    );
    assert_eq!(ends.recv().await, Some(End::Aborted));
    assert_eq!(ends.recv().await, Some(End::Complete));
}

#[tokio::test]
async fn an_answer_that_is_not_read_is_given_up_alone() {
    let (sender, mut ends) = connect().await;
    let answer = send(&sender, "/flood", Body::empty()).await.unwrap();
    let end = beside(&sender, timeout(FOREVER, ends.recv())).await;
    assert_eq!(end.expect("it is let go"), Some(End::Aborted));
    assert!(answer.into_body().collect().await.is_err());
    send(&sender, "/", Body::empty()).await.unwrap();
}

#[tokio::test]
async fn a_body_that_nobody_reads_leaves_room_for_others() {
    let (sender, _ends) = connect_with(FOREVER * 2).await;
    let ignored = send(&sender, "/ignore", Body::full(vec![7; 3 << 20]));
    let read = async {
        // By then the other request has sent as much as its window allows.
        sleep(STALLED / 4).await;
        send(&sender, "/read", Body::full(vec![7; 1 << 20])).await
    };
    tokio::select! {
        answer = read => {
            let whole = answer.unwrap().into_body().collect().await.unwrap();
            assert_eq!(whole.to_bytes(), (1 << 20).to_string());
        }
        _ = ignored => unreachable!("nobody answers"),
    }
}
