//! The admin pages: all of them are there, and none shows a secret.

use std::io::Read as _;

use flate2::read::GzDecoder;
use http::Method;
use serde_json::json;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::catalog::faults::PATIENCE;
use crate::client::full;
use crate::harness::{Setup, World};
use crate::hostile::frame_bytes::{END_HEADERS, END_STREAM, HEADERS, block, frame, greeting};

#[tokio::test]
async fn every_page_is_there_and_none_is_on_the_other_address() {
    let world = World::two().await;
    for (page, has) in [
        ("/live", ""),
        ("/ready", ""),
        ("/metrics", "nsgate_build_info{features="),
        // Each worker looks at its timers from the start.
        ("/metrics", "nsgate_worker_stall_seconds_bucket{le="),
        ("/config", "west"),
        ("/backends", "east"),
        ("/batches", ""),
    ] {
        let reply = world.admin().get(page).await.ok();
        let text = String::from_utf8(reply.body.to_vec()).unwrap();
        assert!(text.contains(has), "{page}: {text}");
        assert!(!text.contains("service-of-west"), "{page} shows a secret");
        assert_eq!(world.client().get(page).await.status, 404, "{page}");
    }
    assert_eq!(world.admin().get("/unheard").await.status, 404);
    let posted = world
        .admin()
        .send(Method::POST, "/metrics", full(""))
        .await
        .unwrap();
    assert_eq!(posted.status, 405);
    let kind = world.admin().get("/metrics").await;
    assert!(
        kind.header("content-type")
            .unwrap()
            .starts_with("text/plain")
    );
}

#[tokio::test]
async fn nobody_who_holds_connections_keeps_probes_out() {
    // A slow head has its time, and so has a slow reader.
    let setup = Setup::two().section("limits: { header_timeout: 1h }");
    let world = setup.start().await;
    let mut unread = greeting(&[(4, 0)]);
    let page = [
        (":method", &b"GET"[..]),
        (":scheme", b"http"),
        (":authority", b"127.0.0.1"),
        (":path", b"/metrics"),
    ];
    unread.extend(frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        1,
        &block(0, &page),
    ));
    let idle = b"GET /live HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".to_vec();
    for (bytes, answered) in [
        (b"GET /live HTTP/1.1\r\nhost: ".to_vec(), false),
        (idle, true),
        (unread, true),
    ] {
        let mut held = Vec::new();
        for _ in 0..64 {
            let mut stream = TcpStream::connect(world.admin_address()).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
            if answered {
                stream.readable().await.unwrap();
            }
            held.push(stream);
        }
        let live = async { world.admin().get("/live").await.ok() };
        let live = tokio::time::timeout(PATIENCE, live).await;
        live.expect("a probe gets a connection");
        drop(held);
    }
}

#[tokio::test]
async fn a_scraper_that_accepts_it_gets_openmetrics_with_exemplars_and_compressed() {
    let world = World::two().await.seeded();
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let sampled = format!("00-{trace}-00f067aa0ba902b7-01");
    let client = world.client().header("traceparent", &sampled);
    let exists = "/v1/table/west%24t1/exists";
    client.post(exists, &json!({})).await.ok();
    let open = world.admin().header(
        "accept",
        "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
    );
    let page = open.get("/metrics").await.ok();
    let kind = page.header("content-type").unwrap();
    assert!(
        kind.starts_with("application/openmetrics-text; version=1.0.0"),
        "{kind}"
    );
    let text = String::from_utf8(page.body.to_vec()).unwrap();
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    let with = format!("# {{trace_id=\"{trace}\"}}");
    let line = text.lines().find(|line| line.contains(&with)).unwrap();
    let bucket = "nsgate_request_duration_seconds_bucket{operation=\"table_exists\",le=";
    assert!(line.starts_with(bucket), "{line}");

    let small = open.header("accept-encoding", "gzip");
    let small = small.get("/metrics").await.ok();
    assert_eq!(small.header("content-encoding"), Some("gzip"));
    assert!(small.body.len() * 4 < page.body.len());
    let mut whole = String::new();
    let mut reader = GzDecoder::new(&*small.body);
    reader.read_to_string(&mut whole).unwrap();
    assert!(whole.contains(&with) && whole.ends_with("# EOF\n"));
}

#[tokio::test]
async fn the_process_its_workers_and_the_gateways_own_time_show() {
    let world = World::two().await.seeded();
    let exists = "/v1/table/west%24t1/exists";
    world.client().post(exists, &json!({})).await.ok();
    // The gateway answers alone: there is nothing to add to.
    world.anonymous().post(exists, &json!({})).await;
    let added = "nsgate_added_duration_seconds_count";
    assert_eq!(world.metric(added).await, 1.0);
    for (sample, least) in [
        ("process_resident_memory_bytes", 1e6),
        ("process_cpu_seconds_total", 0.001),
        ("process_open_fds", 5.0),
        ("process_max_fds", 5.0),
        ("process_threads", 2.0),
        ("process_start_time_seconds", 1.6e9),
        ("nsgate_worker_parks_total{worker=\"0\"}", 1.0),
        ("nsgate_worker_busy_seconds_total{worker=\"0\"}", 1e-6),
        ("nsgate_worker_tasks{worker=\"0\"}", 1.0),
    ] {
        let found = world.metric(sample).await;
        assert!(found >= least, "{sample}: {found}");
    }
}

#[tokio::test]
async fn a_token_guards_what_is_not_for_everybody() {
    let setup = Setup::two().section("admin: { address: 127.0.0.1:0, token: open-sesame }");
    let world = setup.start().await;
    let with = world.admin().header("authorization", "Bearer open-sesame");
    let wrong = world.admin().header("authorization", "Bearer open-sesamE");
    for (page, open) in [
        ("/live", true),
        ("/ready", true),
        ("/metrics", true),
        ("/config", false),
        ("/backends", false),
        ("/batches", false),
    ] {
        for client in [world.admin(), wrong.clone()] {
            let status = client.get(page).await.status;
            assert_eq!(status, if open { 200 } else { 401 }, "{page}");
        }
        let reply = with.get(page).await.ok();
        assert!(
            !String::from_utf8_lossy(&reply.body).contains("open-sesame"),
            "{page}"
        );
    }
}

#[tokio::test]
async fn every_answer_is_counted_whoever_gave_it() {
    let world = World::two().await;
    let exists = "/v1/table/west%24t1/exists";
    world.client().post(exists, &json!({})).await.ok();
    world.client().post(exists, &json!({})).await.ok();
    world.anonymous().post(exists, &json!({})).await;
    world
        .client()
        .post("/v1/table/west%24t2/exists", &json!({}))
        .await;
    world.catalog("west").stop().await;
    world
        .client()
        .post("/v1/table/west%24t1/restore", &json!({}))
        .await;
    let page = world.admin().get("/metrics").await.ok();
    let page = String::from_utf8(page.body.to_vec()).unwrap();
    let count = |operation: &str, code: &str| -> f64 {
        let of = |line: &&str| {
            line.starts_with("nsgate_requests_total{")
                && line.contains(&format!("operation=\"{operation}\""))
                && line.contains(&format!("code=\"{code}\""))
        };
        let lines = page
            .lines()
            .filter(of)
            .filter_map(|line| line.rsplit_once(' '));
        lines.map(|(_, value)| value.parse::<f64>().unwrap()).sum()
    };
    for (operation, code, expected) in [
        ("table_exists", "200", 2.0),
        ("table_exists", "401", 1.0),
        ("table_exists", "404", 1.0),
        ("restore_table", "503", 1.0),
    ] {
        assert!(
            (count(operation, code) - expected).abs() < 0.5,
            "{operation} {code}:\n{page}"
        );
    }
    assert!(
        !page.contains("t1") && !page.contains("tester"),
        "a label names a table or a subject"
    );
}

#[tokio::test]
async fn a_gateway_is_ready_though_a_catalog_is_not() {
    let world = World::two().await;
    world.catalog("east").stop().await;
    for page in ["/live", "/ready"] {
        assert_eq!(world.admin().get(page).await.status, 200, "{page}");
    }
    world
        .client()
        .post("/v1/table/west%24t1/exists", &json!({}))
        .await
        .ok();
}

#[tokio::test]
async fn the_query_of_an_issuers_address_is_shown_nowhere() {
    let world = World::two().await;
    let yaml = world.configuration();
    let address = "keys: { url: 'http://127.0.0.1:1/keys?code=hunter2' }";
    let changed = yaml.replace("keys: { file: keys.json }", address);
    assert_ne!(changed, yaml);
    world.reload(&changed).await.ok();
    for page in ["/status", "/config", "/ready"] {
        let reply = world.admin().get(page).await;
        let said = String::from_utf8_lossy(&reply.body);
        assert!(!said.contains("hunter2"), "{page}: {said}");
    }
    assert!(!world.log().contains("hunter2"));
}
