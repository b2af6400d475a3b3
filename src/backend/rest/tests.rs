#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Method};
use http_body_util::{BodyExt as _, StreamBody};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::backend::fake_server::{Act, Catalog, ok};
use crate::backend::{Authority, InternalAnswer, InternalRequest, Kind};
use crate::metrics::Metrics;
use crate::protocol::context::Context;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;
use crate::request::origin::Origin;
use crate::request::peer::Peer;

/// A time that is long enough for loopback, and short enough to wait for where nothing comes.
const SOON: Duration = Duration::from_millis(300);

fn config(uri: &str) -> RestConfig {
    RestConfig::new(uri.parse().unwrap())
}

fn rest(config: &RestConfig) -> Kind {
    let metrics = Metrics::new().backend(&Arc::from("warehouse"));
    Kind::Rest(Box::new(Rest::new(config, "x-ns-ctx-", &metrics).unwrap()))
}

async fn check(kind: &Kind) -> Result<(), String> {
    match kind {
        Kind::Rest(rest) => {
            rest.check().await;
            rest.standing()[0].error.clone().map_or(Ok(()), Err)
        }
        _ => unreachable!("made by `rest`"),
    }
}

fn to(catalog: &Catalog) -> Kind {
    rest(&config(&catalog.uri()))
}

impl Kind {
    async fn send(
        &self,
        limit: Duration,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        self.pass(Instant::now() + limit, &mut request).await
    }
}

fn request(operation: Operation, body: Body) -> Request<Body> {
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    *request.uri_mut() = "/v1/table/t/describe?delimiter=%24".parse().unwrap();
    RequestContext::more(request.extensions_mut()).operation = Some(operation);
    request
}

fn read() -> Request<Body> {
    request(Operation::DescribeTable, Body::full("{}"))
}

fn write() -> Request<Body> {
    request(Operation::UpdateTable, Body::full("{}"))
}

fn streamed(operation: Operation) -> Request<Body> {
    let frame = Ok::<_, BoxError>(http_body::Frame::data(Bytes::from_static(b"{}")));
    let body = Body::stream(StreamBody::new(stream::iter([frame])));
    request(operation, body)
}

async fn whole(response: Response<Body>) -> Result<Bytes, BoxError> {
    Ok(response.into_body().collect().await?.to_bytes())
}

/// Sends one request whose answer is read to its end, so that its connection is pooled.
async fn warm(rest: &Kind) {
    let response = rest.send(SOON, read()).await.unwrap();
    assert_eq!(whole(response).await.unwrap(), "warm");
}

fn kind(outcome: &Result<Response<Body>, Failure>) -> &'static str {
    match outcome {
        Ok(_) => "ok",
        Err(Failure::NotSent(_)) => "not sent",
        Err(Failure::NoToken(_)) => "no token",
        Err(Failure::Lost(_)) => "lost",
        Err(Failure::TimedOut) => "timed out",
        Err(Failure::TooLarge) => "too large",
    }
}

/// Returns an address that refuses connections.
async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// Returns an address that neither accepts nor refuses, because its queue is full.
async fn deaf() -> String {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = tokio::time::timeout(SOON, TcpStream::connect(address)).await {
        queued.push(stream.unwrap());
    }
    std::mem::forget((listener, queued));
    format!("http://{address}")
}

/// Lets the runtime process all events of the sockets: an exchange over a new socket comes after all of
/// them.
async fn settle() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    for _ in 0..3 {
        client.write_all(b"x").await.unwrap();
        tokio::io::AsyncReadExt::read_u8(&mut server).await.unwrap();
    }
}

#[tokio::test]
async fn a_failure_says_whether_the_catalog_can_have_acted() {
    let half = "HTTP/1.1 200 OK\r\ncontent-le".to_owned();
    let garbage = "SSH-2.0-OpenSSH\r\n\r\n".to_owned();
    let cases = [
        (Act::Close, "lost"),
        (Act::Reset, "lost"),
        (Act::AnswerAndClose(half), "lost"),
        (Act::AnswerAndClose(garbage), "lost"),
        (Act::Silence, "timed out"),
        (ok("fine"), "ok"),
    ];
    for (act, expected) in cases {
        for request in [read(), write(), streamed(Operation::InsertIntoTable)] {
            let catalog = Catalog::start(vec![act.clone()]).await;
            let mut config = config(&catalog.uri());
            config.retry.attempts = 1;
            let outcome = rest(&config).send(SOON, request).await;
            assert_eq!(kind(&outcome), expected, "{act:?}");
            assert_eq!(catalog.requests().len(), 1, "{act:?}: sent once");
        }
    }
    let nobody = rest(&config(&nobody().await));
    assert_eq!(kind(&nobody.send(SOON, write()).await), "not sent");
    let deaf = rest(&config(&deaf().await));
    assert_eq!(kind(&deaf.send(SOON, write()).await), "not sent");
}

#[tokio::test]
async fn a_failure_never_shows_the_address_to_the_caller() {
    let address = nobody().await;
    let failure = rest(&config(&address))
        .send(SOON, write())
        .await
        .unwrap_err();
    let error = failure.into_error("warehouse");
    assert_eq!(error.status(), 503);
    assert!(error.message().contains("warehouse"), "{error}");
    assert!(!error.message().contains("127.0.0.1"), "{error}");
    assert!(
        std::error::Error::source(&error).is_some(),
        "the log knows the cause"
    );
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error_of_its_body() {
    let short = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_owned();
    let catalog = Catalog::start(vec![Act::AnswerAndClose(short.clone())]).await;
    let response = to(&catalog).send(SOON, read()).await.unwrap();
    assert!(whole(response).await.is_err());

    let catalog = Catalog::start(vec![Act::AnswerAndClose(short)]).await;
    assert!(matches!(asked(&to(&catalog)).await, Err(Failure::Lost(_))));
}

async fn asked(rest: &Kind) -> Result<InternalAnswer, Failure> {
    let ask = InternalRequest {
        operation: Operation::DescribeTable,
        identifier: Identifier::from_names(["prod", "t"]).unwrap(),
        query: Vec::new(),
        body: Some(Bytes::from_static(b"{}")),
        authority: Authority::Service,
        context: Context::default(),
        origin: Origin::default(),
        timeout: None,
    };
    rest.ask(Instant::now() + SOON, ask).await
}

#[tokio::test]
async fn a_question_is_answered_whole_and_within_bounds() {
    let endless = "HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\nx".to_owned();
    let slow = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx".to_owned();
    let catalog = Catalog::start(vec![ok("all"), Act::Answer(endless), Act::Answer(slow)]).await;
    let rest = to(&catalog);
    let answer = asked(&rest).await.unwrap();
    assert_eq!(
        (answer.status.as_u16(), &answer.body[..]),
        (200, &b"all"[..])
    );
    let head = &catalog.requests()[0];
    assert!(
        head.starts_with("POST /v1/table/prod%24t/describe?delimiter=%24 HTTP/1.1\r\n"),
        "{head}"
    );
    assert!(matches!(asked(&rest).await, Err(Failure::TooLarge)));
    assert!(matches!(asked(&rest).await, Err(Failure::TimedOut)));
}

#[tokio::test]
async fn a_connection_is_used_again_once_its_answer_was_read() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nwarm\r\n0\r\n\r\n";
    let catalog = Catalog::start(vec![
        ok("warm"),
        Act::Answer(chunked.to_owned()),
        ok(""),
        ok("warm"),
        ok("frame"),
        ok("left"),
        Act::Answer("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_owned()),
        ok("warm"),
    ])
    .await;
    let rest = to(&catalog);
    warm(&rest).await;
    warm(&rest).await;
    drop(rest.send(SOON, write()).await.unwrap());
    warm(&rest).await;
    // The reader knows the length, and does not poll for more.
    let mut response = rest.send(SOON, read()).await.unwrap();
    response.body_mut().frame().await.unwrap().unwrap();
    drop(response);
    // An answer that came whole with its headers need not be read.
    drop(rest.send(SOON, read()).await.unwrap());
    drop(rest.send(SOON, read()).await.unwrap());
    assert_eq!(catalog.connections(), 1);
    // That answer was not read to its end, so its connection was closed.
    warm(&rest).await;
    assert_eq!(catalog.connections(), 2);
}

#[tokio::test]
async fn a_connection_that_the_catalog_closed_while_idle_is_not_used() {
    for request in [read(), write(), streamed(Operation::InsertIntoTable)] {
        let closing = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nwarm".to_owned();
        let catalog = Catalog::start(vec![Act::AnswerAndClose(closing), ok("fresh")]).await;
        let rest = to(&catalog);
        warm(&rest).await;
        settle().await;
        let response = rest.send(SOON, request).await.unwrap();
        assert_eq!(whole(response).await.unwrap(), "fresh");
        assert_eq!(catalog.connections(), 2);
    }
}

#[tokio::test]
async fn only_a_read_whose_body_is_at_hand_is_sent_again_when_a_used_connection_breaks() {
    let cases = [
        (read(), "ok", 3),
        (write(), "lost", 2),
        (streamed(Operation::QueryTable), "lost", 2),
        (streamed(Operation::InsertIntoTable), "lost", 2),
    ];
    for (request, expected, sent) in cases {
        let catalog = Catalog::start(vec![ok("warm"), Act::Close, ok("fresh")]).await;
        let rest = to(&catalog);
        warm(&rest).await;
        let outcome = rest.send(SOON, request).await;
        assert_eq!(kind(&outcome), expected);
        assert_eq!(catalog.requests().len(), sent);
    }
}

#[tokio::test]
async fn a_request_is_sent_again_once_at_most() {
    let catalog = Catalog::start(vec![ok("warm"), Act::Close, Act::Close, ok("never")]).await;
    let rest = to(&catalog);
    warm(&rest).await;
    assert_eq!(kind(&rest.send(SOON, read()).await), "lost");
    assert_eq!(catalog.requests().len(), 3);
}

#[tokio::test]
async fn a_request_that_an_endpoint_took_goes_to_no_other() {
    for request in [write(), streamed(Operation::InsertIntoTable)] {
        let first = Catalog::start(vec![Act::Close]).await;
        let second = Catalog::start(vec![Act::Close]).await;
        let mut config = config(&first.uri());
        config.endpoints = vec![second.uri().parse().unwrap()];
        assert_eq!(kind(&rest(&config).send(SOON, request).await), "lost");
        assert_eq!(first.requests().len() + second.requests().len(), 1);
    }
}

mod endpoints;
mod http2;

#[tokio::test]
async fn a_base_path_stays_before_every_path() {
    let cases = [
        ("", "/v1/table/t/describe?delimiter=%24", "/up?x=1"),
        ("/", "/v1/table/t/describe?delimiter=%24", "/up?x=1"),
        (
            "/lance",
            "/lance/v1/table/t/describe?delimiter=%24",
            "/lance/up?x=1",
        ),
        (
            "/a%20b/c/",
            "/a%20b/c/v1/table/t/describe?delimiter=%24",
            "/a%20b/c/up?x=1",
        ),
    ];
    for (base, expected, health) in cases {
        let catalog = Catalog::start(vec![ok("warm"), ok("")]).await;
        let mut config = config(&format!("{}{base}", catalog.uri()));
        config.health.path = "/up?x=1".to_owned();
        let rest = rest(&config);
        warm(&rest).await;
        check(&rest).await.unwrap();
        let requests = catalog.requests();
        assert!(
            requests[0].starts_with(&format!("POST {expected} HTTP/1.1\r\n")),
            "{}",
            requests[0]
        );
        assert!(
            requests[1].starts_with(&format!("GET {health} HTTP/1.1\r\n")),
            "{}",
            requests[1]
        );
    }
}

#[tokio::test]
async fn the_catalog_sees_its_own_host_the_peer_and_what_is_end_to_end() {
    let catalog = Catalog::start(vec![ok("warm")]).await;
    let mut config = config(&catalog.uri());
    config.headers = vec![("x-api-key".parse().unwrap(), HeaderValue::from_static("k"))];
    let mut request = read();
    for (name, value) in [
        ("host", "gateway.example"),
        ("connection", "keep-alive, x-hop"),
        ("x-hop", "1"),
        ("x-forwarded-for", "203.0.113.9"),
        ("authorization", "Bearer t"),
        ("x-request-id", "r1"),
        ("expect", "100-continue"),
    ] {
        let name: http::HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let peer = Peer::new("192.0.2.7:1".parse().unwrap(), false);
    RequestContext::more(request.extensions_mut()).peer = Some(peer);
    rest(&config).send(SOON, request).await.unwrap();
    let (head, body) = catalog.requests()[0]
        .split_once("\r\n\r\n")
        .map(|(h, b)| (h.to_owned(), b.to_owned()))
        .unwrap();
    let mut lines = head.split("\r\n").skip(1).collect::<Vec<_>>();
    lines.sort_unstable();
    let host = format!("host: {}", catalog.address);
    let expected = [
        "authorization: Bearer t",
        "content-length: 2",
        "forwarded: for=192.0.2.7;proto=http",
        &host,
        "x-api-key: k",
        "x-forwarded-for: 192.0.2.7",
        "x-request-id: r1",
    ];
    assert_eq!(lines, expected);
    assert_eq!(body, "{}");
}

#[tokio::test]
async fn an_answer_brings_no_header_of_its_own_hop() {
    let answer = "HTTP/1.1 200 OK\r\nserver: catalog\r\nkeep-alive: timeout=5\r\nconnection: keep-alive, x-hop\r\nx-hop: 1\r\nx-nsgate-a: 1\r\ncontent-length: 0\r\n\r\n";
    let catalog = Catalog::start(vec![Act::Answer(answer.to_owned())]).await;
    let response = to(&catalog).send(SOON, read()).await.unwrap();
    let mut names = response
        .headers()
        .keys()
        .map(http::HeaderName::as_str)
        .collect::<Vec<_>>();
    names.sort_unstable();
    assert_eq!(names, ["content-length", "server"]);
}

#[tokio::test]
async fn health_is_any_answer_below_500() {
    let status =
        |status: &str| Act::Answer(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n"));
    let catalog = Catalog::start(vec![
        status("200 OK"),
        status("404 N"),
        status("503 U"),
        Act::Close,
    ])
    .await;
    let mut config = config(&catalog.uri());
    config.service_authorization = Some(HeaderValue::from_static("Bearer own"));
    let rest = rest(&config);
    let mut found = Vec::new();
    for _ in 0..4 {
        found.push(check(&rest).await.is_ok());
    }
    assert_eq!(found, [true, true, false, false]);
    assert!(catalog.requests()[0].contains("authorization: Bearer own\r\n"));
}

#[tokio::test]
async fn idle_connections_are_bounded_in_number_and_age() {
    let catalog = Catalog::start(vec![ok("a"), ok("b"), ok("c"), ok("d")]).await;
    let mut config = config(&catalog.uri());
    config.pool.max_idle = 1;
    let bounded = rest(&config);
    let (a, b) = tokio::join!(bounded.send(SOON, read()), bounded.send(SOON, read()));
    let (a, b) = (whole(a.unwrap()).await, whole(b.unwrap()).await);
    assert!(a.is_ok() && b.is_ok());
    assert_eq!(catalog.connections(), 2);
    let (c, d) = tokio::join!(bounded.send(SOON, read()), bounded.send(SOON, read()));
    drop((c.unwrap(), d.unwrap()));
    assert_eq!(catalog.connections(), 3, "one of two was kept");

    let catalog = Catalog::start(vec![ok("warm"), ok("warm")]).await;
    let mut config = self::config(&catalog.uri());
    config.pool.idle_timeout = Duration::ZERO;
    let rest = rest(&config);
    warm(&rest).await;
    warm(&rest).await;
    assert_eq!(catalog.connections(), 2);
}
