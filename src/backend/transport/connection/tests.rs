#![allow(clippy::unwrap_used, reason = "a test says what it expects")]
use std::io::{Read as _, Write as _};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::*;
use crate::util::budget::BudgetedStream;

const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody";
const ASKED: &str = "GET / HTTP/1.1\r\ncontent-length: 5\r\n\r\nwhole";

async fn pair() -> (Box<Connection>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = TcpStream::connect(address).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let io = Io::Plain(TokioIo::new(BudgetedStream::new(client)));
    (Box::new(Connection::open(io)), server)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(9)
}

fn whole() -> Request<Body> {
    Request::new(Body::full("whole"))
}

fn streamed() -> Request<Body> {
    Request::new(Body::stream(http_body_util::Full::new(Bytes::from(
        "whole",
    ))))
}

/// Reads `length` bytes at `server`.
async fn read(server: &mut TcpStream, length: usize) -> String {
    let mut read = vec![0; length];
    server.read_exact(&mut read).await.unwrap();
    String::from_utf8(read).unwrap()
}

/// True if the server sees no more bytes of the client.
fn has_nothing(server: &TcpStream) -> bool {
    !matches!(server.try_read(&mut [0]), Ok(1..))
}

/// The place where a connection is put.
#[derive(Clone, Default)]
struct Shelf(std::sync::Arc<std::sync::Mutex<Option<Box<Connection>>>>);

impl PoolHandle for Shelf {
    fn give_back(&self, connection: Box<Connection>, _: Instant) {
        *self.0.lock().unwrap() = Some(connection);
    }
}

/// Returns the result of one exchange whose answer comes in these parts: status, body, and the connection if it is
/// kept.
async fn exchange(
    mut connection: Box<Connection>,
    server: &mut TcpStream,
    parts: &[&str],
) -> (u16, String, Option<Box<Connection>>) {
    let answering = async {
        assert_eq!(read(server, ASKED.len()).await, ASKED);
        for part in parts {
            server.write_all(part.as_bytes()).await.unwrap();
            sleep(Duration::from_millis(20)).await;
        }
    };
    let shelf = Shelf::default();
    let asking = async {
        let mut request = whole();
        let answer = connection
            .exchange(&mut request, InjectedHeaders::default(), true, soon())
            .await;
        let kept = request.into_body().collect_up_to(9).await.unwrap();
        assert_eq!(kept, "whole", "it can be sent again");
        let Ok(response) = answer else {
            panic!("no answer to {parts:?}");
        };
        let status = response.status().as_u16();
        let body = body(
            response.into_body(),
            connection,
            shelf.clone(),
            Instant::now(),
        );
        let body = body.collect_up_to(99).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    };
    let ((status, body), ()) = tokio::join!(asking, answering);
    assert!(has_nothing(server), "{parts:?}");
    let connection = shelf.0.lock().unwrap().take();
    (status, body, connection)
}

#[tokio::test]
async fn whatever_the_answer_is_like_it_is_understood_and_the_connection_serves_on() {
    let (mut connection, mut server) = pair().await;
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for parts in [
        &[ANSWER][..],
        &["HTTP/1.1 200", " OK\r\ncontent-length: 4\r\n\r\nbody"],
        &["HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n", "body"],
        &["HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbo", "d", "y"],
        &[ANSWER],
        &["HTTP/1.1 100 Continue\r\n\r\n", ANSWER],
        &["HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody"],
        &["HTTP/1.1 200 Fine\r\ncontent-length: 4\r\n\r\nbody"],
        &[&format!("{chunked}4\r\nbody\r\n0\r\n\r\n")],
        &[chunked, "2\r\nbo\r\n", "2\r\ndy\r\n0\r\n", "\r\n"],
        &[ANSWER],
    ] {
        let (status, body, kept) = exchange(connection, &mut server, parts).await;
        assert_eq!((status, body.as_str()), (200, "body"), "{parts:?}");
        connection = kept.unwrap_or_else(|| panic!("not kept after {parts:?}"));
    }
}

#[tokio::test]
async fn a_request_is_written_once_however_long_its_head_is() {
    let (mut connection, mut server) = pair().await;
    let mut request = whole();
    let long = http::HeaderValue::try_from("x".repeat(READ_AHEAD)).unwrap();
    request.headers_mut().insert("x-long", long);
    let length = ASKED.len() + "x-long: \r\n".len() + READ_AHEAD;
    let answering = async {
        assert!(read(&mut server, length).await.ends_with("\r\n\r\nwhole"));
        for part in ANSWER.split_inclusive("\r\n\r\n") {
            server.write_all(part.as_bytes()).await.unwrap();
            sleep(Duration::from_millis(20)).await;
        }
    };
    let asking = async {
        let answer = connection
            .exchange(&mut request, InjectedHeaders::default(), false, soon())
            .await;
        let Ok(response) = answer else {
            panic!("no answer");
        };
        let body = body(
            response.into_body(),
            connection,
            Shelf::default(),
            Instant::now(),
        );
        assert_eq!(body.collect_up_to(9).await.unwrap(), "body");
    };
    tokio::join!(asking, answering);
    assert!(has_nothing(&server));
}

#[tokio::test]
async fn hyper_is_not_called_in_for_one_answer_after_the_other() {
    let (mut connection, mut server) = pair().await;
    let other = "HTTP/1.1 200 Fine\r\ncontent-length: 4\r\n\r\nbody";
    for (answer, own) in [
        (other, true),
        (other, true),
        (ANSWER, true),
        (other, true),
        (other, true),
        (other, false),
        (ANSWER, false),
    ] {
        let (_, _, kept) = exchange(connection, &mut server, &[answer]).await;
        connection = kept.unwrap();
        assert_eq!(matches!(connection.speaker, Http1Driver::Own(_)), own);
    }
}

#[tokio::test]
async fn a_connection_that_cannot_serve_on_is_not_kept() {
    for parts in [
        &["HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\nbody"][..],
        &["HTTP/1.0 200 OK\r\ncontent-length: 4\r\n\r\nbody"],
        &[
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbodyHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil",
        ],
        &[
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n",
        ],
    ] {
        let (connection, mut server) = pair().await;
        let (status, body, kept) = exchange(connection, &mut server, parts).await;
        assert_eq!((status, body.as_str()), (200, "body"), "{parts:?}");
        assert!(kept.is_none(), "{parts:?}");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_none_and_may_have_been_acted_on() {
    for (answer, request) in [
        ("", whole()),
        ("", streamed()),
        ("SSH-2.0-x\r\n", whole()),
        ("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n", whole()),
        ("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\nbody", whole()),
        ("HTTP/1.1 100 Continue\r\n\r\n", whole()),
    ] {
        let (mut connection, mut server) = pair().await;
        let mut request = request;
        let answering = async {
            read(&mut server, 20).await;
            server.write_all(answer.as_bytes()).await.unwrap();
            // The server reads to the end, because unread bytes would reset the connection.
            server.shutdown().await.unwrap();
            let _ = server.read_to_end(&mut Vec::new()).await;
        };
        let asking = async {
            let outcome = connection
                .exchange(&mut request, InjectedHeaders::default(), true, soon())
                .await;
            drop(connection);
            outcome
        };
        let (outcome, ()) = tokio::join!(asking, answering);
        assert!(matches!(outcome, Err(ExchangeError::Lost(_))), "{answer}");
    }
}

#[tokio::test]
async fn a_request_that_was_never_written_is_where_it_was() {
    for mut request in [whole(), streamed()] {
        let (mut connection, server) = pair().await;
        server.set_zero_linger().unwrap();
        drop(server);
        // The connection is closed between the check and the use.
        sleep(Duration::from_millis(50)).await;
        let outcome = connection
            .exchange(&mut request, InjectedHeaders::default(), false, soon())
            .await;
        assert!(matches!(outcome, Err(ExchangeError::Unsent(_))));
        let body = request.into_body();
        assert_eq!(body.collect_up_to(9).await.unwrap(), "whole");
    }
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_not_waited_for() {
    for (mut request, began) in [
        (whole(), ""),
        (streamed(), ""),
        (whole(), "HTTP/1.1 200 OK\r\n"),
    ] {
        let (mut connection, mut server) = pair().await;
        server.write_all(began.as_bytes()).await.unwrap();
        let deadline = Instant::now() + Duration::from_millis(50);
        let outcome = connection
            .exchange(&mut request, InjectedHeaders::default(), false, deadline)
            .await;
        assert!(matches!(outcome, Err(ExchangeError::Late)));
    }
}

#[tokio::test]
async fn a_connection_over_which_anything_came_that_was_not_asked_for_is_not_used() {
    for said in [ANSWER, "x", ""] {
        let (connection, mut server) = pair().await;
        let (_, _, kept) = exchange(connection, &mut server, &[ANSWER]).await;
        let mut connection = kept.unwrap();
        assert!(connection.is_usable());
        // No request waits for these bytes.
        server.write_all(said.as_bytes()).await.unwrap();
        if said.is_empty() {
            server.shutdown().await.unwrap();
        }
        sleep(Duration::from_millis(50)).await;
        assert!(!connection.is_usable(), "{said}");
    }
}

#[tokio::test]
async fn an_answer_that_came_before_a_write_failed_is_the_answer() {
    let refusal = "HTTP/1.1 413 Too Large\r\ncontent-length: 4\r\n\r\nbody";
    let (mut connection, server) = pair().await;
    let server = server.into_std().unwrap();
    server.set_nonblocking(false).unwrap();
    let mut server = Some(server);
    let mut polls = 0;
    // hyper checks for an answer, polls for more of the body, and writes that before it checks again.
    let rows = futures_util::stream::poll_fn(move |cx| {
        polls += 1;
        if polls == 2 {
            // hyper now writes what it was given.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if polls == 3
            && let Some(mut server) = server.take()
        {
            server.read_exact(&mut [0]).unwrap();
            server.write_all(refusal.as_bytes()).unwrap();
            // The socket is dropped with unread bytes, so the system resets the connection.
        }
        let rows = Frame::data(Bytes::from_static(b"some rows"));
        Poll::Ready(Some(Ok::<_, BoxError>(rows)))
    });
    let mut request = Request::new(Body::stream(http_body_util::StreamBody::new(rows)));
    *request.method_mut() = http::Method::POST;
    let answer = connection
        .exchange(&mut request, InjectedHeaders::default(), false, soon())
        .await;
    let response = answer.map_err(ExchangeError::into_cause).unwrap();
    assert_eq!(response.status().as_u16(), 413);
    let shelf = Shelf::default();
    let body = body(
        response.into_body(),
        connection,
        shelf.clone(),
        Instant::now(),
    );
    assert_eq!(body.collect_up_to(9).await.unwrap(), "body");
    assert!(shelf.0.lock().unwrap().is_none(), "it serves no other");
}

/// hyper promises no order of its writes. Bytes that it wrote after its first flush would be another request to the
/// catalog.
#[tokio::test]
async fn what_is_written_late_of_a_request_that_was_sent_goes_nowhere_and_ends_the_connection() {
    let (mut connection, server) = pair().await;
    let mut polls = 0;
    let rows = futures_util::stream::poll_fn(move |cx| {
        polls += 1;
        if polls == 2 {
            // hyper now writes and flushes what it was given.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let rows = Frame::data(Bytes::from_static(b"some rows"));
        Poll::Ready((polls < 4).then_some(Ok::<_, BoxError>(rows)))
    });
    let mut request = Request::new(Body::stream(http_body_util::StreamBody::new(rows)));
    *request.method_mut() = http::Method::POST;
    let began = Bytes::from_static(b"HTTP/1.1 200 OK\r\n");
    let outcome = connection
        .exchange_by_hyper(&mut request, false, Some(began), soon())
        .await;
    assert!(
        matches!(outcome, Err(ExchangeError::Lost(_))),
        "not in time"
    );
    assert!(has_nothing(&server));
    assert!(!connection.is_usable());
}
