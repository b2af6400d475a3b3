#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Method};
use http_body_util::{BodyExt as _, StreamBody};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::backend::fake_server::{Act, Catalog, ok};
use crate::backend::{Authority, InternalAnswer, InternalRequest, Kind};
use crate::metrics::Metrics;
use crate::protocol::context::Context;
use crate::protocol::data_scope::DataScope;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;
use crate::request::origin::Origin;

mod breaker;
mod connections;
mod endpoints;
mod heads;
mod http2;

/// A time that is long enough for loopback, and short enough to wait for where nothing comes.
const SOON: Duration = Duration::from_millis(300);

fn config(uri: &str) -> RestConfig {
    RestConfig::new(uri.parse().unwrap())
}

fn rest(config: &RestConfig) -> Kind {
    let metrics = Metrics::new().backend(&Arc::from("warehouse"));
    Kind::Rest(Box::new(
        Rest::new(config, ("x-ns-ctx-", &[]), &metrics).unwrap(),
    ))
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
        Err(Failure::Strange(_)) => "strange",
    }
}

/// Starts a catalog that handles every request in the same way, over any number of connections.
async fn always(act: Act) -> Catalog {
    Catalog::start(vec![act; 2_000]).await
}

fn status(status: &str) -> Act {
    Act::Answer(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n"))
}

/// Returns the configuration of a catalog at these addresses. Its breaker opens late unless a test
/// says otherwise.
fn at(addresses: &[&str]) -> RestConfig {
    let mut config = config(addresses[0]);
    let others = addresses[1..].iter();
    config.endpoints = others.map(|uri| uri.parse().unwrap()).collect();
    config.breaker.failures = 1_000;
    config
}

async fn statuses(rest: &Kind, count: usize, request: fn() -> Request<Body>) -> Vec<u16> {
    let mut all = Vec::new();
    for _ in 0..count {
        match rest.send(SOON, request()).await {
            Ok(response) => {
                all.push(response.status().as_u16());
                let _ = whole(response).await;
            }
            Err(_) => all.push(0),
        }
    }
    all
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
    let answer = rest
        .open_answer(Instant::now() + SOON, ask, &DataScope::default())
        .await?;
    answer.whole().await
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

#[tokio::test]
async fn health_is_any_answer_below_500() {
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
    assert_eq!(catalog.connections(), 2, "a lost one is opened again");
    assert!(catalog.requests()[0].contains("authorization: Bearer own\r\n"));
}
