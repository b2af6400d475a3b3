#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod hidden;
mod long_snapshot;

use http::{Method, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tempfile::TempDir;
use tower::{Layer as _, ServiceExt as _};

use super::*;
use crate::backend::fake_server::{Act, Catalog, ok};
use crate::batch::log::disk::DiskLog;
use crate::config::{BackendConfig, BatchConfig, ManagedVersioning};
use crate::error::code::Code;
use crate::layer::recognize::RecognizeLayer;
use crate::metrics::Metrics;

/// A gateway over scripted catalogs: `a` keeps its path at `[a]`; `b` mounts the root of its catalog at
/// `[b]`.
struct Setup {
    gateway: Gateway,
    a: Catalog,
    b: Catalog,
    _log: TempDir,
}

async fn setup(a: Vec<Act>, b: Vec<Act>) -> Setup {
    setup_with(a, b, |_| {}).await
}

async fn setup_with(a: Vec<Act>, b: Vec<Act>, change: impl Fn(&mut BackendConfig)) -> Setup {
    let (a, b) = (Catalog::start(a).await, Catalog::start(b).await);
    let (limits, metrics) = (Limits::default(), Metrics::new());
    let mut backends = Vec::new();
    for (name, catalog) in [("a", &a), ("b", &b)] {
        let mut config = BackendConfig::rest(name, catalog.uri().parse().unwrap());
        change(&mut config);
        let backend = Backend::open(&config, &limits, &metrics).await.unwrap();
        backends.push(Arc::new(backend));
    }
    let mount = |at: &str, backend: usize, there: &[&str]| route::Mount {
        namespace: Identifier::from_names([at]).unwrap(),
        backend,
        backend_name: backends[backend].name().clone(),
        backend_namespace: Identifier::from_names(there).unwrap(),
    };
    let routes = route::Table::new(vec![mount("a", 0, &["a"]), mount("b", 1, &[])]);
    let world = RoutingSnapshot { routes, backends };
    let folder = tempfile::tempdir().unwrap();
    let log = DiskLog::open(&folder.path().join("log"), |_| {}).unwrap();
    let batches = Batches::new(
        Arc::new(log),
        BatchConfig::default(),
        metrics.batch().clone(),
    );
    let world = Arc::new(world);
    Setup {
        gateway: Gateway::new(world, Arc::new(batches), &limits),
        a,
        b,
        _log: folder,
    }
}

impl Setup {
    async fn post(&self, target: &str, body: &'static str) -> Result<Response<Body>, Error> {
        let mut request = Request::new(Body::full(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = target.parse().unwrap();
        let stack = RecognizeLayer::default().layer(self.gateway.clone());
        stack.oneshot(request).await
    }

    async fn refused(&self, target: &str, body: &'static str) -> Error {
        let outcome = self.post(target, body).await;
        outcome.map(|response| response.status()).unwrap_err()
    }
}

async fn text(response: Response<Body>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.into()).unwrap()
}

fn status(status: &str) -> Act {
    Act::Answer(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n"))
}

/// The future is allocated, filled and copied for every request: rare cases must be boxed on their own.
#[tokio::test]
async fn the_future_of_a_request_is_small() {
    let mut setup = setup(Vec::new(), Vec::new()).await;
    let future = setup.gateway.call(Request::default());
    let size = size_of_val(&*future);
    assert!(size <= 2048, "{size} bytes");
}

#[tokio::test]
async fn a_transaction_is_asked_of_every_catalog_until_one_knows_it() {
    let missing = || status("404 Not Found");
    let cases = [
        (ok("mine"), missing(), Ok("mine")),
        (missing(), ok("mine"), Ok("mine")),
        (missing(), missing(), Err(Code::TransactionNotFound)),
    ];
    for (a, b, expected) in cases {
        for tail in ["describe", "alter"] {
            let setup = setup(vec![a.clone()], vec![b.clone()]).await;
            let target = format!("/v1/transaction/t1/{tail}");
            let outcome = setup.post(&target, r#"{"id":["t1"]}"#).await;
            match expected {
                Ok(body) => assert_eq!(text(outcome.unwrap()).await, body),
                Err(code) => assert_eq!(outcome.map(drop).unwrap_err().code(), code),
            }
            for request in setup.a.requests().iter().chain(&setup.b.requests()) {
                assert!(request.starts_with(&format!("POST {target} ")), "{request}");
                assert!(request.ends_with(r#"{"id":["t1"]}"#), "{request}");
            }
        }
    }
}

#[tokio::test]
async fn a_commit_that_is_refused_goes_to_no_catalog() {
    let target = "/v1/table/batch-commit";
    let setup = setup(vec![ok("a")], vec![ok("b")]).await;
    let refusals = [
        (
            r#"{"operations":[{"x":{"id":["a","t"]}}]}"#,
            400,
            Code::InvalidInput,
        ),
        (
            r#"{"operations":[{"deregister_table":{"id":["c","t"]}}]}"#,
            404,
            Code::TableNotFound,
        ),
        (r#"{"operations":[]}"#, 400, Code::InvalidInput),
        ("{}", 400, Code::InvalidInput),
    ];
    for (body, status, code) in refusals {
        let error = setup.refused(target, body).await;
        assert_eq!(
            (error.status().as_u16(), error.code()),
            (status, code),
            "{body}"
        );
    }
    assert_eq!((setup.a.requests().len(), setup.b.requests().len()), (0, 0));
}

#[tokio::test]
async fn managed_versioning_is_said_where_it_is_set() {
    let targets = [
        ("/v1/table/a%24t/describe", true),
        ("/v1/table/a%24t/declare", true),
        ("/v1/table/a%24t/register", false),
    ];
    for (target, set) in targets {
        let answer = r#"{"managed_versioning":false,"big":9007199254740993}"#;
        let setup = setup_with(vec![ok(answer)], Vec::new(), |config| {
            config.managed_versioning = ManagedVersioning::Set;
        })
        .await;
        let response = setup.post(target, "{}").await.unwrap();
        let length = response.body().size_hint().exact();
        assert_eq!(response.headers().contains_key("content-length"), !set);
        let text = text(response).await;
        assert_eq!(
            text,
            answer.replace("false", if set { "true" } else { "false" })
        );
        assert_eq!(length, Some(text.len() as u64));
        let identity = setup.a.requests()[0].contains("accept-encoding: identity\r\n");
        assert_eq!(identity, set);
    }
}

#[tokio::test]
async fn an_answer_that_must_be_changed_and_cannot_be_read_is_refused() {
    let encoded = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}";
    let short = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{}";
    let script = vec![
        Act::Answer(encoded.to_owned()),
        Act::AnswerAndClose(short.to_owned()),
    ];
    let setup = setup(Vec::new(), script).await;
    for _ in 0..2 {
        let error = setup.refused("/v1/table/b%24t/describe", "{}").await;
        assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(error.message().contains("`b`"), "{error}");
    }
}

#[tokio::test]
async fn a_create_of_a_version_must_say_which_one_if_any() {
    let setup = setup(vec![ok("1"), ok("2")], Vec::new()).await;
    let target = "/v1/table/a%24t/version/create";
    for body in [r#"{"version":2}"#, "{}"] {
        assert!(setup.post(target, body).await.is_ok());
    }
    for body in [
        r#"{"version":2,"version":3}"#,
        r#"{"version":"2"}"#,
        r#"{"version":2.5}"#,
        r#"{"version":-1}"#,
        r#"{"version":2,"branch":1}"#,
    ] {
        assert_eq!(setup.refused(target, body).await.status(), 400, "{body}");
    }
    assert_eq!(setup.a.requests().len(), 2);
}
