//! An answer of a catalog that would lead its reader elsewhere, or have a browser or proxy act upon it, goes no further
//! than the gateway.

use http::Method;
use serde_json::json;

use crate::catalog::faults::Fault;
use crate::client::{empty, raw};
use crate::harness::{Setup, World};
use crate::token;

/// The status codes that the contract gives to no answer: redirects, and what is not HTTP.
const STRANGE: [u16; 10] = [300, 301, 302, 303, 305, 307, 308, 399, 600, 999];

/// A request of each way through the gateway, with the operation that a catalog sees.
const WAYS: [(&str, &str, &str); 10] = [
    ("POST", "/v1/table/west%24t1/drop", "drop_table"),
    ("POST", "/v1/table/west%24t1/exists", "table_exists"),
    ("POST", "/v1/table/west%24t1/describe", "describe_table"),
    (
        "POST",
        "/v1/table/west%24t1/version/list",
        "list_table_versions",
    ),
    (
        "POST",
        "/v1/table/west%24t1/version/describe",
        "describe_table_version",
    ),
    ("POST", "/v1/table/west%24t1/count_rows", "count_table_rows"),
    ("POST", "/v1/table/west%24t1/rename", "rename_table"),
    ("GET", "/v1/namespace/west/table/list", "list_tables"),
    ("GET", "/v1/table", "list_all_tables"),
    ("GET", "/v1/namespace/west/list", "list_namespaces"),
];

async fn world() -> World {
    let setup = Setup::new()
        .mount("[west]", "west")
        .mount("[east]", "east")
        .section("telemetry: { level: warn }");
    setup.start().await.seeded()
}

/// Answers strangely to every operation of [`WAYS`].
fn lead_away(world: &World, status: u16) {
    let west = world.catalog("west");
    west.behave();
    west.add_header("location", "http://elsewhere.test/v1/table/t1/drop");
    for (_, _, operation) in WAYS {
        west.fail_always(
            operation,
            Fault::Instead(status, "{\"tables\":[\"secret\"]}"),
        );
    }
}

#[tokio::test]
async fn a_redirect_of_a_catalog_is_a_failure_of_the_catalog() {
    let world = world().await;
    let client = world.client().header("content-type", "application/json");
    for status in STRANGE {
        lead_away(&world, status);
        for (method, target, _) in WAYS {
            let body = match target.rsplit('/').next() {
                Some("rename") => r#"{"new_table_name":"t9"}"#,
                _ if method == "GET" => "",
                _ => "{}",
            };
            let method = method.parse::<Method>().unwrap();
            let body = crate::client::full(body);
            let reply = client.send(method, target, body).await.unwrap();
            let place = format!("{status} {target}: {reply:?}");
            assert_eq!(reply.outcome(), (502, Some(17)), "{place}");
            assert_eq!(reply.header("location"), None, "{place}");
            assert!(!reply.words().contains("secret"), "{place}");
            assert!(!reply.words().contains("elsewhere"), "{place}");
        }
    }
    let log = world.log();
    assert!(log.contains("answered 307"), "{log}");
}

/// A catalog that answers its own refusal, and one that says that nothing has changed, are understood.
#[tokio::test]
async fn other_answers_of_a_catalog_are_passed_on() {
    let world = world().await;
    let client = world.client();
    for status in [200, 201, 202, 204, 304, 400, 404, 409, 429, 499, 500, 599] {
        let west = world.catalog("west");
        west.behave();
        west.fail_always("table_exists", Fault::Instead(status, ""));
        let reply = client.post("/v1/table/west%24t1/exists", &json!({})).await;
        assert_eq!(reply.status, status, "{reply:?}");
    }
}

/// A batch whose catalog answers each create with a redirect has made nothing that can be seen.
#[tokio::test]
async fn a_redirect_is_no_success_of_the_gateways_own_requests() {
    for status in [302, 307] {
        let setup = Setup::two().section("batch: { log: batches.redb, prepare_timeout: 2s }");
        let world = setup.start().await.seeded();
        let staged = world.catalog("west").store().stage("m", "m");
        let other = world.catalog("east").store().stage("m", "m");
        let west = world.catalog("west");
        west.fail_always("create_table_version", Fault::Instead(status, "{}"));
        let body = json!({"entries": [
            {"id": ["west", "t1"], "version": 2, "manifest_path": staged},
            {"id": ["east", "t1"], "version": 2, "manifest_path": other},
        ]});
        let reply = world
            .client()
            .post("/v1/table/version/batch-create", &body)
            .await;
        assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
        let named = format!("answered {status}, which the contract does not have");
        assert!(reply.words().contains(&named), "{reply:?}");
        for name in ["west", "east"] {
            let list = format!("/v1/table/{name}%24t1/version/list");
            let listed = world.client().post(&list, &json!({})).await.ok().json();
            let versions = listed["versions"].as_array().unwrap();
            assert_eq!(versions.len(), 1, "{status} {name}: {listed}");
        }
    }
}

/// The headers of a catalog that reach a client are those of a list.
#[tokio::test]
async fn of_a_catalogs_headers_clients_get_what_they_need() {
    const INSIDE: [&str; 22] = [
        "location",
        "content-location",
        "link",
        "via",
        "refresh",
        "alt-svc",
        "x-accel-redirect",
        "x-accel-buffering",
        "x-sendfile",
        "x-lighttpd-send-file",
        "set-cookie",
        "set-cookie2",
        "clear-site-data",
        "access-control-allow-origin",
        "access-control-allow-credentials",
        "strict-transport-security",
        "service-worker-allowed",
        "server",
        "x-powered-by",
        "x-anything",
        "sourcemap",
        "nel",
    ];
    const OUTSIDE: [&str; 12] = [
        "etag",
        "last-modified",
        "cache-control",
        "vary",
        "retry-after",
        "www-authenticate",
        "warning",
        "deprecation",
        "server-timing",
        "x-ratelimit-remaining",
        "x-lancedb-version",
        "phalanx-version",
    ];
    // Without HTTP/2, most answers are read without hyper, and those that stream with it.
    for http2 in ["http2: false", "http2: true"] {
        let world = Setup::two().backend("west", http2).start().await.seeded();
        let west = world.catalog("west");
        for name in INSIDE.into_iter().chain(OUTSIDE) {
            west.add_header(name, "elsewhere");
        }
        let client = world.client();
        let whole = client.post("/v1/table/west%24t1/exists", &json!({})).await;
        let rows = west.rows_out();
        let streams = async {
            rows.send("row".into()).await.unwrap();
            drop(rows);
        };
        let nothing = json!({});
        let (streamed, ()) =
            tokio::join!(client.post("/v1/table/west%24t1/query", &nothing), streams);
        for (kind, reply) in [("whole", whole.ok()), ("streamed", streamed.ok())] {
            for name in INSIDE {
                assert_eq!(reply.header(name), None, "{http2} {kind}");
            }
            for name in OUTSIDE {
                let passed = reply.header(name).is_some();
                assert!(passed, "{http2} {kind} {name}");
            }
        }
    }
}

/// Trailers: a header to some readers.
#[tokio::test]
async fn trailers_of_a_catalog_reach_no_client() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut room = [0; 4096];
                while stream.read(&mut room).await.is_ok_and(|read| read > 0) {
                    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: location\r\n\r\n\
                        2\r\n{}\r\n0\r\nlocation: /elsewhere\r\n\r\n";
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            });
        }
    });
    let setup = Setup::two().at("west", format!("http://{address}"));
    let world = setup.start().await;
    let bearer = format!("Bearer {}", token::token(&json!({})));
    let client = crate::client::Client::h2(world.address()).header("authorization", &bearer);
    let target = "/v1/table/west%24t1/exists";
    let answer = client.open(Method::POST, target, empty()).await.unwrap();
    let whole = http_body_util::BodyExt::collect(answer.into_body()).await;
    let whole = whole.unwrap();
    assert_eq!(whole.trailers(), None);
    assert_eq!(whole.to_bytes(), "{}");
    let asked = format!(
        "POST {target} HTTP/1.1\r\nhost: g\r\nauthorization: {bearer}\r\nte: trailers\r\n\
         connection: te, close\r\ncontent-length: 0\r\n\r\n"
    );
    let answer = raw(world.address(), asked.as_bytes()).await;
    assert!(!answer.contains("elsewhere"), "{answer}");
}
