#![allow(clippy::unwrap_used, reason = "a test says what it expects")]
use futures_util::FutureExt as _;
use serde_json::from_slice;

use super::*;
use crate::auth::keys::{Clock, SystemClock};
use crate::backend::Backend;
use crate::batch::log::disk::DiskLog;
use crate::config::{Auth, BackendConfig, BatchConfig, Issuer, Limits};
use crate::protocol::identifier::Identifier;
use crate::route::{Mount, Table};

/// Creates the admin pages over a catalog that has had no request, mounted at `[prod]`, and over issuers whose
/// keys have not come.
async fn admin(token: Option<&str>, issuers: &[&str]) -> Admin {
    let metrics = Arc::new(Metrics::new());
    let lake = BackendConfig::rest(
        "lake",
        "http://me:secret@127.0.0.1:1/base/".parse().unwrap(),
    );
    let limits = Limits::default();
    let lake = Backend::open(&lake, &limits, &metrics).await.unwrap();
    let prod = Identifier::from_names(["prod"]).unwrap();
    let world = RoutingSnapshot {
        routes: Table::new(vec![Mount {
            namespace: prod,
            backend: 0,
            backend_name: "lake".into(),
            backend_namespace: Identifier::root(),
        }]),
        backends: vec![Arc::new(lake)],
    };
    let folder = tempfile::tempdir().unwrap();
    let log = DiskLog::open(&folder.path().join("log"), |_| {}).unwrap();
    let batches = Batches::new(
        Arc::new(log),
        BatchConfig::default(),
        metrics.batch().clone(),
    );
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let issuers = issuers.iter().map(|name| Issuer::new(name, "catalog"));
    let auth = Auth {
        issuers: issuers.collect(),
        anonymous: false,
    };
    let keys = Keys::new(&auth, &clock, metrics.auth()).unwrap();
    Admin::new(AdminState {
        metrics,
        readiness: Arc::default(),
        batches: Arc::new(batches),
        current: Arc::new(ArcSwap::from_pointee(CurrentConfig {
            config: Arc::default(),
            world: Arc::new(world),
            keys: Arc::new(keys),
            peers: None,
            token: token.map(Secret::new),
            read_token: token.map(|token| Secret::new(format!("read-{token}"))),
        })),
        reloads: Reloads::new().0,
        history: History::default(),
        config_file: "/etc/nsgate/gateway.yaml".into(),
        audit: None,
    })
}

async fn ask(
    admin: &Admin,
    method: &str,
    path: &str,
    token: Option<&str>,
) -> (u16, Response<Body>) {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, token);
    }
    let response = admin.answer(request.body(Body::empty()).unwrap());
    let response = response.await;
    (response.status().as_u16(), response)
}

async fn page(admin: &Admin, path: &str) -> (u16, Value) {
    let (status, response) = ask(admin, "GET", path, None).await;
    let body = response.into_body().collect_up_to(1 << 20).await.unwrap();
    (status, from_slice(&body).unwrap())
}

#[tokio::test]
async fn every_page_answers_and_only_to_reading() {
    let admin = admin(None, &[]).await;
    for path in [
        "/",
        "/metrics",
        "/live",
        "/ready",
        "/config",
        "/backends",
        "/batches",
        "/status",
        "/alerts/NsgateBatchHazard",
    ] {
        assert_eq!(ask(&admin, "GET", path, None).await.0, 200, "{path}");
        assert_eq!(ask(&admin, "HEAD", path, None).await.0, 200, "{path}");
        let (status, response) = ask(&admin, "POST", path, None).await;
        assert_eq!(
            (status, &response.headers()[ALLOW]),
            (405, &HeaderValue::from_static("GET, HEAD"))
        );
    }
    for path in ["//", "/metrics/", "/v1/table", "/nothing", "/alerts/"] {
        assert_eq!(ask(&admin, "GET", path, None).await.0, 404, "{path}");
    }
    let (_, response) = ask(&admin, "GET", "/metrics", None).await;
    assert_eq!(
        response.headers()[CONTENT_TYPE],
        "text/plain; version=0.0.4; charset=utf-8"
    );
}

/// The only thread for them is taken, so that a page which is made elsewhere waits.
#[test]
fn pages_that_grow_with_mounts_catalogs_or_batches_are_made_off_the_workers() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        let admin = admin(None, &[]).await;
        let (free, taken) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || taken.recv());
        for path in ["/metrics", "/config", "/backends", "/batches", "/status"] {
            let mut answer = Box::pin(ask(&admin, "GET", path, None));
            assert!((&mut answer).now_or_never().is_none(), "{path}");
        }
        drop(free);
    });
}

#[tokio::test]
async fn what_stands_in_the_way_of_serving_is_said() {
    let admin = admin(None, &["https://idp.example"]).await;
    admin.0.readiness.hold("recovery");
    let (status, said) = page(&admin, "/ready").await;
    let missing = json!([
        "recovery",
        "the keys of https://idp.example have not been fetched yet"
    ]);
    assert_eq!((status, &said["missing"]), (503, &missing));
    admin.0.readiness.lift("recovery");
    assert_eq!(
        page(&admin, "/ready").await.1["missing"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

/// Checks that the policy permits nothing besides the page's own script. A browser refuses a script whose
/// digest is another.
#[tokio::test]
async fn the_status_page_is_one_file_that_lets_nothing_else_in() {
    let admin = admin(Some("sesame"), &[]).await;
    let (_, response) = ask(&admin, "GET", "/", None).await;
    let header = |name| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header(CONTENT_TYPE), "text/html; charset=utf-8");
    assert_eq!(header(CACHE_CONTROL), "no-store");
    let policy = header(http::header::CONTENT_SECURITY_POLICY);
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    for word in ["unsafe", "*", "http:", "https:"] {
        assert!(!policy.contains(word), "{word}: {policy}");
    }
    let body = response.into_body().collect_up_to(1 << 20).await.unwrap();
    let page = String::from_utf8(body.to_vec()).unwrap();
    assert!(!page.contains("/*STYLE*/") && !page.contains("/*SCRIPT*/"));
    for outside in ["src=", "//cdn", "@import", "url(", "innerHTML", " onclick"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for (tag, other) in [("style", "</style>"), ("script", "</script>")] {
        assert_eq!(page.matches(&format!("<{tag}>")).count(), 1, "{tag}");
        assert_eq!(page.matches(other).count(), 1, "{tag}");
    }
}

#[tokio::test]
async fn backends_are_shown_with_their_mounts() {
    let admin = admin(None, &[]).await;
    let expected = json!({ "backends": [{
        "name": "lake", "implementation": "rest", "up": true, "error": null,
        "managed_versioning": "not seen yet", "managed_versioning_setting": "keep",
        "endpoints": [{
            "address": "http://127.0.0.1:1/base", "up": true, "error": null,
            "breaker": "closed", "in_flight": 0,
        }],
        "mounts": [{ "namespace": ["prod"], "backend_namespace": [] }],
    }]});
    assert_eq!(page(&admin, "/backends").await, (200, expected));
}

#[tokio::test]
async fn the_token_guards_all_but_what_scrapers_need() {
    let admin = admin(Some("sesame"), &[]).await;
    let given = [
        (None, 401),
        (Some("Bearer sesamE"), 401),
        (Some("Bearer sesame2"), 401),
        (Some("Bearer "), 401),
        (Some("sesame"), 401),
        (Some("Basic sesame"), 401),
        (Some("Bearer sesame"), 200),
        (Some("bearer sesame"), 200),
    ];
    for (token, status) in given {
        for path in ["/config", "/backends", "/batches", "/status"] {
            assert_eq!(
                ask(&admin, "GET", path, token).await.0,
                status,
                "{path} {token:?}"
            );
        }
        for path in ["/", "/metrics", "/live", "/ready", "/alerts/NsgateDown"] {
            assert_eq!(
                ask(&admin, "GET", path, token).await.0,
                200,
                "{path} {token:?}"
            );
        }
    }
    assert_eq!(
        ask(&admin, "GET", "/nothing", None).await.0,
        401,
        "nor which pages there are"
    );
}

#[tokio::test]
async fn a_site_that_calls_itself_this_machine_is_told_apart() {
    let asked = |admin: Admin| async move {
        let request = Request::get("/config").header(http::header::HOST, "evil.example:9090");
        let response = admin.answer(request.body(Body::empty()).unwrap()).await;
        response.status().as_u16()
    };
    assert_eq!(asked(admin(None, &[]).await).await, 403);
    assert_eq!(asked(admin(Some("sesame"), &[]).await).await, 401);
}

async fn decide(admin: &Admin, kind: &str, body: &str) -> (u16, Value) {
    let request = Request::post("/batches/0190b0a0-0000-7000-8000-000000000000/resolve");
    let request = request.header(CONTENT_TYPE, kind);
    let request = request.body(Body::full(body.to_owned())).unwrap();
    let response = admin.answer(request).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect_up_to(1 << 20).await.unwrap();
    (status, from_slice(&body).unwrap())
}

#[tokio::test]
async fn what_is_no_decision_is_refused_with_what_one_is() {
    let admin = admin(None, &[]).await;
    let long = format!(r#"{{"decision": "abort", "why": "{}"}}"#, "x".repeat(3000));
    let huge = format!(
        r#"{{"decision": "abort", "why": "{}"}}"#,
        "x".repeat(1 << 20)
    );
    for (body, why) in [
        ("", "EOF"),
        ("[]", "length"),
        ("{}", "missing field `decision`"),
        (r#"{"decision": "keep"}"#, "unknown variant `keep`"),
        (
            r#"{"decision": "abort", "force": true}"#,
            "unknown field `force`",
        ),
        (r#"{"decision": "abort", "who": 7}"#, "expected a string"),
        (
            r#"{"decision": "abort", "who": "a\nb"}"#,
            "characters in it that are not seen",
        ),
        (&long, "longer than 2048 bytes"),
        (&huge, "too large"),
    ] {
        let (status, said) = decide(&admin, "application/json", body).await;
        let words = said["error"].as_str().unwrap();
        assert_eq!((status, &said["code"]), (400, &json!(13)), "{words}");
        assert!(words.contains(why), "{why}: {words}");
        let detail = said["detail"].as_str().unwrap();
        assert!(detail.contains("\"commit\" or \"abort\""), "{detail}");
    }
    let good = r#"{"decision": "abort", "who": "ada", "why": "it is ours"}"#;
    for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
        assert_eq!(decide(&admin, kind, good).await.0, 400, "{kind}");
    }
    for body in [good, r#"{"decision": "commit"}"#] {
        for kind in ["application/json", "Application/JSON; charset=utf-8"] {
            let (status, said) = decide(&admin, kind, body).await;
            assert_eq!((status, &said["code"]), (404, &json!(10)), "{said}");
        }
    }
}

#[tokio::test]
async fn a_decision_is_posted_and_guarded_by_the_token() {
    let admin = admin(Some("sesame"), &[]).await;
    let path = "/batches/x/resolve";
    assert_eq!(ask(&admin, "POST", path, None).await.0, 401);
    let token = Some("Bearer sesame");
    assert_eq!(ask(&admin, "POST", path, token).await.0, 400);
    for method in ["GET", "HEAD", "PUT", "DELETE"] {
        let (status, response) = ask(&admin, method, path, token).await;
        assert_eq!(
            (status, &response.headers()[ALLOW]),
            (405, &HeaderValue::from_static("POST"))
        );
    }
    for path in [
        "/batches/",
        "/batches//resolve",
        "/batches/x/y/resolve",
        "/batches/x/resolve/",
    ] {
        assert_eq!(ask(&admin, "POST", path, token).await.0, 404, "{path}");
    }
}

#[tokio::test]
async fn an_error_has_the_contracts_shape() {
    let admin = admin(None, &[]).await;
    for (path, code) in [("/nothing", 0), ("/batches/x", 10), ("/batches/x/y", 0)] {
        let (status, said) = page(&admin, path).await;
        assert_eq!(status, 404, "{path}");
        assert!(
            said["error"].is_string() && said["detail"].is_string(),
            "{said}"
        );
        assert_eq!(
            (&said["code"], &said["instance"]),
            (&json!(code), &json!(path))
        );
    }
}

/// Checks the origin of requests: without that, a form on any site could make one that changes something.
#[tokio::test]
async fn another_sites_page_changes_nothing() {
    let admin = admin(None, &[]).await;
    for path in ["/reload", "/batches/1/resolve"] {
        for (name, value) in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
        ] {
            let request = Request::builder().method("POST").uri(path);
            let request = request.header("host", "127.0.0.1:9090").header(name, value);
            let response = admin.answer(request.body(Body::empty()).unwrap()).await;
            assert_eq!(response.status(), 403, "{path} {name}: {value}");
        }
    }
}

#[tokio::test]
async fn a_token_that_only_reads_changes_nothing_and_is_told_so() {
    let admin = admin(Some("secret"), &[]).await;
    let reads = Some("Bearer read-secret");
    for path in ["/config", "/backends", "/batches"] {
        assert_eq!(ask(&admin, "GET", path, reads).await.0, 200, "{path}");
        assert_eq!(ask(&admin, "POST", path, reads).await.0, 403, "{path}");
    }
    for path in ["/reload", "/batches/1/resolve"] {
        let (status, response) = ask(&admin, "POST", path, reads).await;
        let body = response.into_body().collect_up_to(1 << 20).await.unwrap();
        let said: Value = from_slice(&body).unwrap();
        let words = [&said["error"], &said["detail"]].map(|words| words.as_str().unwrap());
        assert_eq!(status, 403, "{path}");
        assert!(words[0].contains("may only read"), "{said}");
        assert!(words[1].contains("`admin.token`"), "{said}");
        assert_eq!(ask(&admin, "POST", path, None).await.0, 401, "{path}");
    }
    let other = Some("Bearer read-secre");
    assert_eq!(ask(&admin, "GET", "/config", other).await.0, 401);
}

#[tokio::test]
async fn the_status_begins_with_what_is_most_urgent() {
    let admin = admin(None, &["https://idp.example"]).await;
    admin.0.readiness.hold("recovery");
    let (status, said) = page(&admin, "/status").await;
    assert_eq!((status, &said["urgency"]), (200, &json!("critical")));
    assert_eq!(said["needs_person"], true);
    let headline = said["headline"].as_str().unwrap();
    assert!(
        headline.starts_with("not ready: recovery; the keys of"),
        "{headline}"
    );
    assert_eq!(said["catalogs"][0]["name"], "lake");
    assert_eq!(said["configuration"]["file"], "/etc/nsgate/gateway.yaml");
    assert!(said["process"]["resident_bytes"].as_u64().unwrap() > 1 << 20);
}
