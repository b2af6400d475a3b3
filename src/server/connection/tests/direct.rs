//! Requests that need no hyper: when they are served without it, what comes before and after them, and clients that leave.

use std::future::pending;
use std::sync::Mutex;

use http_body::Frame;
use http_body_util::StreamBody;
use tokio::sync::{Semaphore, oneshot};

use super::*;

/// Sends a request that needs no hyper. Returns the body of the response.
async fn ask(client: &mut Client, path: &str) -> String {
    let request = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n1");
    client.send(&request).await;
    client.receive().await
}

#[tokio::test]
async fn plain_requests_are_served_without_hyper() {
    let mut client = connect().await;
    client.order(Directive::ReleaseBuffers).await;
    for _ in 0..3 {
        assert_eq!(ask(&mut client, "/plain").await, "/plain 1");
        assert!(client.rests());
    }
    assert_eq!(client.ask("/other", "").await, "/other ");
    assert!(!client.rests());
    assert_eq!(ask(&mut client, "/plain").await, "/plain 1");
    assert!(!client.rests(), "until a pause");
    client.order(Directive::ReleaseBuffers).await;
    assert!(client.rests());
}

#[tokio::test]
async fn a_client_that_does_not_take_its_answer_gets_it_when_it_does() {
    let mut client = connect().await;
    client.order(Directive::ReleaseBuffers).await;
    client
        .send("GET /long HTTP/1.1\r\n\r\nGET /next HTTP/1.1\r\n\r\n")
        .await;
    client.order(Directive::ReleaseBuffers).await;
    assert_eq!(client.receive().await.len(), 8 << 10);
    assert_eq!(client.receive().await, "/next ");
}

/// Returns a connection over which a request was sent; it is answered with its path when there is a
/// permit.
async fn asked(path: &str) -> (Client, Arc<Semaphore>) {
    let (mut ours, theirs) = tokio::io::duplex(1 << 10);
    let permits = Arc::new(Semaphore::new(0));
    let permitted = Arc::clone(&permits);
    let stack = service_fn(move |request: Request<Body>| {
        let permitted = Arc::clone(&permitted);
        async move {
            permitted.acquire().await.unwrap().forget();
            let path = request.uri().path().to_owned();
            Ok::<_, Infallible>(Response::new(Body::full(path)))
        }
    });
    let pulse = ConnectionState::new();
    let serving = Arc::clone(&pulse);
    let ended = tokio::spawn(async move {
        let protocols = Protocols::new(&Limits::default());
        let peer = Peer::new("127.0.0.1:1".parse().unwrap(), false);
        protocols.serve(theirs, peer, stack, serving).await;
    });
    let request = format!("GET {path} HTTP/1.1\r\n\r\n");
    ours.write_all(request.as_bytes()).await.unwrap();
    let client = Client {
        stream: ours,
        pulse,
        holders: 0,
        ended,
    };
    client.settle().await;
    (client, permits)
}

#[tokio::test]
async fn the_last_answer_says_so_and_is_the_last() {
    for order in [Directive::CloseAfterResponse, Directive::Drain] {
        let (mut client, permits) = asked("/last").await;
        client.order(order).await;
        permits.add_permits(2);
        let mut answer = String::new();
        let read = client.stream.read_to_string(&mut answer);
        timeout(FOREVER, read).await.unwrap().unwrap();
        assert!(answer.contains("connection: close\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n/last"), "{answer}");
    }
}

#[tokio::test]
async fn what_comes_before_the_answer_is_served_after_it() {
    for next in [
        "GET /next HTTP/1.1\r\n\r\n",
        "GET /next HTTP/1.1\r\nte: trailers\r\n\r\n",
    ] {
        let (mut client, permits) = asked("/first").await;
        client.send(next).await;
        client.settle().await;
        permits.add_permits(1);
        assert_eq!(client.receive().await, "/first");
        permits.add_permits(1);
        assert_eq!(client.receive().await, "/next");
    }
}

#[tokio::test]
async fn a_client_that_goes_takes_its_request_along() {
    let (mut ours, theirs) = tokio::io::duplex(1 << 10);
    let (held, mut gone) = oneshot::channel::<()>();
    let held = Mutex::new(Some(held));
    let stack = service_fn(move |_: Request<Body>| {
        let held = held.lock().unwrap().take();
        async move {
            let _held = held;
            pending::<Result<Response<Body>, Infallible>>().await
        }
    });
    let ended = tokio::spawn(async move {
        let protocols = Protocols::new(&Limits::default());
        let peer = Peer::new("127.0.0.1:1".parse().unwrap(), false);
        protocols
            .serve(theirs, peer, stack, ConnectionState::new())
            .await;
    });
    ours.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    for _ in 0..100 {
        yield_now().await;
    }
    assert!(gone.try_recv() == Err(oneshot::error::TryRecvError::Empty));
    drop(ours);
    assert!(timeout(FOREVER, gone).await.unwrap().is_err());
    timeout(FOREVER, ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_goes_takes_the_rest_of_its_response_along() {
    let (mut ours, theirs) = tokio::io::duplex(1 << 10);
    let (held, gone) = oneshot::channel::<()>();
    let held = Mutex::new(Some(held));
    let stack = service_fn(move |_: Request<Body>| {
        let held = held.lock().unwrap().take();
        let frames = futures_util::stream::unfold((held, false), async |(held, sent)| {
            if sent {
                pending::<()>().await;
            }
            let frame = Ok::<_, Infallible>(Frame::data(Bytes::from("piece")));
            Some((frame, (held, true)))
        });
        let body = Body::stream(StreamBody::new(Box::pin(frames)));
        async move { Ok::<_, Infallible>(Response::new(body)) }
    });
    let ended = tokio::spawn(async move {
        let protocols = Protocols::new(&Limits::default());
        let peer = Peer::new("127.0.0.1:1".parse().unwrap(), false);
        protocols
            .serve(theirs, peer, stack, ConnectionState::new())
            .await;
    });
    ours.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let mut received = String::new();
    while !received.ends_with("piece\r\n") {
        let mut some = [0; 64];
        let read = timeout(FOREVER, ours.read(&mut some)).await.unwrap();
        received.push_str(str::from_utf8(&some[..read.unwrap()]).unwrap());
    }
    drop(ours);
    assert!(timeout(FOREVER, gone).await.unwrap().is_err());
    timeout(FOREVER, ended).await.unwrap().unwrap();
}
