//! The access log: one line for each request that says what happened, and never a secret.

mod words;

use std::collections::HashMap;
use std::io::Read;
use std::process::Command;

use http::Method;
use serde_json::{Value, json};

use crate::batches::{BATCH, pair, until};
use crate::catalog::faults::{Fault, PATIENCE};
use crate::client::{Client, full};
use crate::harness::{Setup, World};
use crate::running_gateway::{self, RunningGateway};
use crate::token;

const EXISTS: &str = "/v1/table/west%24t1/exists";
const RESTORE: &str = "/v1/table/west%24t1/restore";
const INSERT: &str = "/v1/table/west%24t1/insert";

/// A subject that tries to break out of its field: quotes, a line break and terminal escapes.
const SUBJECT: &str = "eve\"\n{\"id\":\"forged\"}\u{1b}[2J\u{9b}31m";

/// The strings that no line may contain.
const SECRETS: [&str; 4] = ["secret-body", "secret-context", "service-of-", "Bearer"];

fn setup() -> Setup {
    Setup::two().section("telemetry: { level: debug, access_log_context: [team] }")
}

/// Parses the program's log records: every line is one.
fn records(log: &str) -> Vec<Value> {
    log.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn is_access(record: &Value) -> bool {
    record["message"] == "request" && record.get("duration_ms").is_some()
}

/// Returns the access log's lines by request id, once each of `ids` has one.
async fn lines(world: &World, ids: &[&str]) -> HashMap<String, Value> {
    until("every request has its line", || {
        let log = world.log();
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        let all = records(whole);
        let has = |id: &&str| all.iter().any(|line| is_access(line) && line["id"] == **id);
        ids.iter().all(has)
    })
    .await;
    let mut found = HashMap::new();
    for line in records(&world.log()).into_iter().filter(is_access) {
        let id = line["id"].as_str().unwrap().to_owned();
        assert!(
            found.insert(id, line).is_none(),
            "two lines for one request"
        );
    }
    found
}

/// Sends a mixed load and returns the ids of its requests.
async fn load(world: &World, bearer: &str) -> Vec<&'static str> {
    let anonymous = world.anonymous();
    let client = anonymous.header("authorization", bearer);
    let with = |id: &str| client.header("x-request-id", id);
    let west = world.catalog("west");
    let body = json!({"note": "secret-body"});

    // The batch is first: it needs to be the first to make a version.
    with("batch").post(BATCH, &pair(world, 2)).await.ok();
    let labelled = with("plain").header("x-ns-ctx-team", "blue");
    let labelled = labelled.header("x-ns-ctx-other", "secret-context");
    labelled.post(EXISTS, &json!({})).await.ok();
    with("long")
        .header("x-ns-ctx-team", &"x".repeat(5000))
        .post(EXISTS, &json!({}))
        .await
        .ok();
    let h2 = Client::h2(world.address()).header("authorization", bearer);
    let rows = h2.header("x-request-id", "rows");
    rows.post_rows(INSERT, full("secret-body")).await.ok();
    assert_eq!(
        with("unrouted")
            .post("/v1/table/north%24t/exists", &body)
            .await
            .status,
        404
    );
    let nobody = anonymous.header("x-request-id", "nobody");
    assert_eq!(nobody.post(EXISTS, &body).await.status, 401);
    assert_eq!(with("nothing").get("/nothing").await.status, 404);
    west.fail(
        "restore_table",
        Fault::Instead(404, r#"{"error":"no secret-body","code":11}"#),
    );
    assert_eq!(with("theirs").post(RESTORE, &body).await.status, 404);
    west.fail("restore_table", Fault::ResetBefore);
    assert_eq!(with("lost").post(RESTORE, &body).await.status, 503);
    with("listing").get("/v1/namespace/%24/list").await.ok();

    west.fail("restore_table", Fault::HalfAnswer);
    let half = with("half").send(Method::POST, RESTORE, full("{}")).await;
    assert!(half.is_err(), "{half:?}");
    // This is a read, which the gateway aborts with its client. A write would continue, and have its
    // line at its end.
    let gate = west.hold("table_exists");
    let left = with("left");
    let leaving = tokio::spawn(async move { left.post(EXISTS, &json!({})).await });
    gate.reached(1).await;
    leaving.abort();
    let _ = leaving.await;
    let ids = vec![
        "plain", "long", "rows", "unrouted", "nobody", "nothing", "theirs", "lost", "listing",
        "batch", "half", "left",
    ];
    lines(world, &ids).await;
    gate.open();
    ids
}

#[tokio::test]
async fn every_request_has_one_line_that_says_what_happened_and_nothing_secret() {
    let world = setup().start().await.seeded();
    let bearer = format!("Bearer {}", token::token(&json!({"sub": SUBJECT})));
    let ids = load(&world, &bearer).await;
    let lines = lines(&world, &ids).await;
    // The columns are: id, operation, mount, backend, status, code, aborted by.
    let cases = [
        ("plain", "table_exists", "west", "west", 200, None, None),
        ("long", "table_exists", "west", "west", 200, None, None),
        ("rows", "insert_into_table", "west", "west", 200, None, None),
        ("unrouted", "table_exists", "", "none", 404, Some(4), None),
        ("nobody", "table_exists", "", "none", 401, Some(16), None),
        ("nothing", "unrecognized", "", "none", 404, Some(0), None),
        ("theirs", "restore_table", "west", "west", 404, None, None),
        ("lost", "restore_table", "west", "west", 503, Some(17), None),
        ("listing", "list_namespaces", "", "none", 200, None, None),
        (
            "batch",
            "batch_create_table_versions",
            "",
            "none",
            200,
            None,
            None,
        ),
        (
            "half",
            "restore_table",
            "west",
            "west",
            200,
            None,
            Some("catalog"),
        ),
        (
            "left",
            "table_exists",
            "west",
            "west",
            499,
            None,
            Some("connection"),
        ),
    ];
    assert_eq!(cases.map(|case| case.0), *ids);
    for (id, operation, mount, backend, status, code, aborted) in cases {
        let line = &lines[id];
        let said = |key: &str| line.get(key).cloned();
        assert_eq!(said("operation"), Some(operation.into()), "{line}");
        assert_eq!(said("mount"), Some(mount.into()), "{line}");
        assert_eq!(said("backend"), Some(backend.into()), "{line}");
        assert_eq!(said("status"), Some(status.into()), "{line}");
        assert_eq!(said("code"), code.map(Value::from), "{line}");
        assert_eq!(said("aborted_by"), aborted.map(Value::from), "{line}");
        assert_eq!(said("complete"), Some(aborted.is_none().into()), "{line}");
        assert_eq!(said("client"), Some("127.0.0.1".into()), "{line}");
        let protocol = if id == "rows" { "HTTP/2" } else { "HTTP/1.1" };
        assert_eq!(said("protocol"), Some(protocol.into()), "{line}");
        let known = !["nobody", "nothing"].contains(&id);
        let shown = SUBJECT.replace('\u{9b}', "\u{fffd}");
        assert_eq!(said("subject"), known.then(|| shown.into()), "{line}");
        assert_eq!(
            said("issuer"),
            known.then(|| token::ISSUER.into()),
            "{line}"
        );
        let team = match id {
            "plain" => Some(json!({"team": "blue"})),
            "long" => Some(json!({"team": "x".repeat(256)})),
            _ => None,
        };
        assert_eq!(said("context"), team, "{line}");
        assert_times(line);
    }
    assert_eq!(lines["plain"]["table"], "west$t1");
    assert_eq!(lines["unrouted"]["table"], "north$t");
    assert_eq!(lines["listing"]["namespace"], "$");
    assert_eq!(lines["nothing"].get("table"), None);
    let batch = &lines["batch"];
    assert_eq!(batch["tables"], json!(["west$t1", "east$t1"]), "{batch}");
    assert_eq!(batch["entries"], 2);
    assert_eq!(batch["transaction"].as_str().unwrap().len(), 36, "{batch}");
    assert_eq!(lines["rows"]["request_bytes"], 11);
    assert!(lines["batch"]["response_bytes"].as_u64().unwrap() > 0);

    let log = world.log();
    let token = bearer.trim_start_matches("Bearer ");
    for secret in SECRETS
        .iter()
        .chain(&[token, token.rsplit_once('.').unwrap().1])
    {
        assert!(!log.contains(secret), "`{secret}` is in\n{log}");
    }
    assert!(!log.contains(['\u{1b}', '\u{9b}']), "{log}");
}

/// Checks that the timestamp sorts, and that the parts of the duration add up to the whole.
fn assert_times(line: &Value) {
    let time = line["timestamp"].as_str().unwrap();
    assert!(
        time.len() == 24 && time.starts_with("20") && time.ends_with('Z'),
        "{line}"
    );
    let millis = |key: &str| line[key].as_f64().unwrap();
    let parts = millis("gateway_ms") + millis("catalog_ms") + millis("transfer_ms");
    assert!((parts - millis("duration_ms")).abs() < 0.01, "{line}");
}

#[tokio::test]
async fn the_line_names_the_span_that_the_catalog_was_given() {
    let world = World::two().await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let client = world.client().header("x-request-id", "traced");
    let client = client.header("traceparent", &parent);
    client
        .header("tracestate", "a=1,b=2")
        .post(EXISTS, &json!({}))
        .await
        .ok();
    let line = &lines(&world, &["traced"]).await["traced"];
    let seen = world.catalog("west").only();
    let span = line["span"].as_str().unwrap();
    assert_eq!(line["trace"], trace);
    assert_eq!(
        seen.header("traceparent").unwrap(),
        format!("00-{trace}-{span}-01")
    );
    assert_eq!(seen.header("tracestate"), Some("a=1,b=2"));
    assert_eq!(seen.header("x-request-id"), Some("traced"));
}

#[tokio::test]
async fn a_failure_of_the_gateway_has_one_record_with_its_cause_and_a_refusal_none() {
    let world = World::two().await;
    world
        .catalog("west")
        .fail("restore_table", Fault::ResetBefore);
    let client = world.client();
    let lost = client.header("x-request-id", "lost");
    assert_eq!(lost.post(RESTORE, &json!({})).await.status, 503);
    let unrouted = client.header("x-request-id", "unrouted");
    assert_eq!(
        unrouted
            .post("/v1/table/north%24t/exists", &json!({}))
            .await
            .status,
        404
    );
    lines(&world, &["lost", "unrouted"]).await;
    let records = records(&world.log());
    let of = |id: &'static str| {
        let all = records.iter().filter(move |record| record["id"] == id);
        all.filter(|record| !is_access(record)).collect::<Vec<_>>()
    };
    let [record] = of("lost")[..] else {
        panic!("{:?}", of("lost"));
    };
    assert_eq!(record["level"], "WARN");
    assert_eq!(record["operation"], "restore_table");
    assert!(
        record["cause"].as_str().unwrap().starts_with("lost: "),
        "{record}"
    );
    assert!(of("unrouted").is_empty(), "{:?}", of("unrouted"));
}

#[tokio::test]
async fn a_log_that_nobody_reads_holds_up_neither_requests_nor_the_end() {
    let mut world = World::two().await;
    world.kill();
    let mut command = running_gateway::command(world.folder());
    let (mut gateway, mut log) = RunningGateway::start_unread(command.env_clear());
    let client = Client::new(gateway.address);
    let client = client.header(
        "authorization",
        &format!("Bearer {}", token::token(&json!({}))),
    );
    // A pipe holds 64 KiB, and a line is several hundred bytes long.
    const REQUESTS: usize = 600;
    for _ in 0..REQUESTS {
        client.post(EXISTS, &json!({})).await.ok();
    }
    let stop = format!("kill -TERM {}", gateway.id());
    assert!(
        Command::new("sh")
            .args(["-c", &stop])
            .status()
            .unwrap()
            .success()
    );
    let ended = async {
        loop {
            if let Some(status) = gateway.ended() {
                return status;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let status = tokio::time::timeout(PATIENCE, ended)
        .await
        .expect("it ends");
    assert!(status.success(), "{status}");
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    assert!(
        rest.len() < REQUESTS * 300,
        "the pipe took everything: {}",
        rest.len()
    );
    let whole = rest.rfind('\n').map_or("", |end| &rest[..end]);
    assert!(records(whole).iter().filter(|line| is_access(line)).count() > 50);
}

#[tokio::test]
async fn a_refused_token_is_logged_with_what_it_states() {
    let world = Setup::two().start().await;
    let token = token::token(&json!({"aud": "billing", "sub": "ada"}));
    let client = Client::new(world.address()).header("x-request-id", "refused");
    let bearer = format!("Bearer {token}");
    let reply = client
        .clone()
        .header("authorization", &bearer)
        .post(EXISTS, &json!({}))
        .await;
    assert_eq!(reply.status, 401);
    let none = Client::new(world.address()).header("x-request-id", "none");
    assert_eq!(none.post(EXISTS, &json!({})).await.status, 401);
    let lines = lines(&world, &["refused", "none"]).await;
    let expected = format!(
        r#"the token is for another audience; unverified, the token states iss "{}", aud "billing", sub "ada""#,
        token::ISSUER
    );
    assert_eq!(lines["refused"]["cause"], expected);
    assert_eq!(lines["refused"].get("subject"), None);
    assert!(!world.log().contains(token.rsplit('.').next().unwrap()));
    assert_eq!(lines["none"]["cause"], "a bearer token is needed");
}
