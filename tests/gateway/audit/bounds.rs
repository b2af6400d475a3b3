//! The bounds: a refused caller costs a small line, an audit log that nobody reads is reported, and no line is repeated.

use serde_json::{Value, json};

use super::lines::hazard;
use super::{INSERT, line_of, lines, matching, path, setup, world};
use crate::batches::{BATCH, pair};
use crate::catalog::faults::Fault;
use crate::client::{Client, full};
use crate::harness::Setup;
use crate::running_gateway::{self, RunningGateway};
use crate::token;

const RULES: &str =
    "authorization: [{ namespace: [west], read: { scope: read }, write: { scope: write } }]";
const DENIED: Fault = Fault::Instead(403, r#"{"error":"no boom403SECRETNAME","code":15}"#);
/// A definite refusal with a status that is logged.
const UNSUPPORTED: Fault = Fault::Instead(501, r#"{"error":"boom501SECRETNAME","code":0}"#);
const BROKEN: Fault = Fault::Instead(500, r#"{"error":"boom500SECRETNAME","code":18}"#);

#[tokio::test]
async fn a_refused_batch_of_a_thousand_long_names_has_a_small_line_that_says_what_is_left_out() {
    let world = setup("").section(RULES).start().await.seeded();
    let reader = world.client_with(&json!({"scope": "read"}));
    let name = "\u{9b}".repeat(300);
    let entry = |at: usize| json!({"id": ["west", format!("{name}{at}")], "version": 2, "manifest_path": "m", "manifest_size": 3});
    let body = json!({"entries": (0..1000).map(entry).collect::<Vec<_>>()});
    let reader = reader.header("x-request-id", "big");
    let reply = reader.post(BATCH, &body).await;
    assert_eq!(reply.outcome(), (403, Some(15)));
    let line = line_of(&world, "big").await;
    let named = line["tables"].as_array().unwrap().len();
    assert!((1..=16).contains(&named), "{line}");
    assert_eq!(line["omitted_tables"], json!(1000 - named));
    let text = std::fs::read_to_string(path(&world)).unwrap();
    let longest = text.lines().map(str::len).max().unwrap();
    assert!(longest < 16 << 10, "{longest} bytes");
}

/// The lines with this value at `key`, and the number that the lines about those left out say.
fn counted(all: &[Value], key: &str, value: &Value) -> (usize, u64) {
    let written = all.iter().filter(|line| line[key] == *value).count();
    let omitted = all.iter().filter(|line| line["event"] == "omitted");
    (
        written,
        omitted.map(|line| line["lines"].as_u64().unwrap()).sum(),
    )
}

#[tokio::test]
async fn requests_that_change_nothing_do_not_fill_the_disk() {
    const SENT: u64 = 250;
    for is_repeated in [false, true] {
        let mut world = world("audit_required: true").await;
        let batch = pair(&world, 2);
        let client = if is_repeated {
            world.client().header("idempotency-key", "again")
        } else {
            world.anonymous()
        };
        for _ in 0..SENT {
            let reply = client.post(BATCH, &batch).await;
            assert_eq!(reply.status, if is_repeated { 200 } else { 401 });
        }
        world.terminate();
        assert_eq!(world.ended().await, Some(0));
        let all = lines(&world);
        let omitted = all.iter().find(|line| line["event"] == "omitted").unwrap();
        if is_repeated {
            assert_eq!(counted(&all, "repeated", &json!(true)), (100, SENT - 101));
            assert_eq!(omitted["subject"], all[0]["subject"]);
            let done = |line: &&Value| line["event"] == "change" && line["repeated"].is_null();
            assert_eq!(
                all.iter().filter(done).count(),
                1,
                "what was done has its line"
            );
        } else {
            assert_eq!(counted(&all, "event", &json!("refusal")), (100, SENT - 100));
            assert!(omitted["client"].is_string(), "{omitted}");
        }
    }
}

#[tokio::test]
async fn a_catalogs_403_to_a_batch_is_not_the_gateways_own() {
    let world = world("").await;
    world.catalog("west").fail("create_table_version", DENIED);
    let client = world.client().header("x-request-id", "theirs");
    let reply = client.post(BATCH, &pair(&world, 2)).await;
    assert_eq!(reply.status, 403);
    let line = line_of(&world, "theirs").await;
    let outcome = (&line["event"], &line["outcome"]);
    assert_eq!(outcome, (&json!("change"), &json!("refused")), "{line}");
}

#[tokio::test]
async fn a_catalogs_text_is_not_logged_without_names() {
    for has_names in [true, false] {
        let world = world(&format!("log_names: {has_names}")).await;
        world
            .catalog("west")
            .fail("create_table_version", UNSUPPORTED);
        world.catalog("west").fail("list_table_versions", BROKEN);
        let reply = world.client().post(BATCH, &pair(&world, 2)).await;
        assert!(reply.status >= 500, "{}", reply.status);
        let tables = json!({"tables": [{"id": ["west", "t1"]}]});
        world.client().post("/nsgate/v1/snapshot", &tables).await;
        let told = if has_names {
            "SECRETNAME"
        } else {
            "the catalog's text is not logged"
        };
        crate::batches::until("it is logged", || world.log().contains(told)).await;
        assert_eq!(world.log().contains("SECRETNAME"), has_names);
    }
}

#[tokio::test]
async fn a_reader_that_is_stuck_is_reported_while_changes_are_refused() {
    const TELEMETRY: &str = "telemetry: { audit: stderr, audit_required: true }";
    let mut world = Setup::two().section(TELEMETRY).start().await.seeded();
    world.kill();
    let mut command = running_gateway::command(world.folder());
    // Nobody reads its log from now on.
    let (gateway, _log) = RunningGateway::start_unread(command.env_clear());
    let (client, admin) = (Client::new(gateway.address), Client::new(gateway.admin));
    let bearer = format!("Bearer {}", token::token(&json!({})));
    let client = client.header("authorization", &bearer);
    // Until the pipe is full.
    while client.post_rows(INSERT, full("rows")).await.status == 200 {}
    let refused = client.post_rows(INSERT, full("rows")).await;
    assert_eq!(refused.outcome(), (503, Some(17)));
    let page = admin.get("/metrics").await.ok();
    let page = String::from_utf8(page.body.to_vec()).unwrap();
    assert!(page.contains("nsgate_audit_writable 0\n"), "{page}");
    let status = admin.get("/status").await.ok();
    let status: Value = serde_json::from_slice(&status.body).unwrap();
    let headline = status["headline"].as_str().unwrap();
    let expected = "changes are refused: the audit log cannot be written: ";
    assert!(headline.starts_with(expected), "{headline}");
    assert_eq!(status["findings"][0]["alert"], "NsgateAuditUnwritable");
}

#[tokio::test]
async fn a_decision_that_has_its_line_is_not_written_again_at_each_restart_nor_after_a_rotation() {
    let mut world = world("").await;
    let id = hazard(&world).await;
    matching(&world, "outcome", "aborted", 1).await;
    let decided = |lines: Vec<Value>| {
        let is_one = |line: &&Value| line["event"] == "batch" && line["transaction"] == *id;
        lines.iter().filter(is_one).count()
    };
    for restart in ["first", "second"] {
        world.kill();
        world.restart().await;
        // A later line shows that all before it are written.
        let client = world.client().header("x-request-id", restart);
        client
            .post_rows("/v1/table/east%24t1/insert", full("rows"))
            .await;
        line_of(&world, restart).await;
        let expected = if restart == "first" { 1 } else { 0 };
        assert_eq!(decided(lines(&world)), expected, "{restart}");
        std::fs::rename(path(&world), world.folder().join("audit.log.1")).unwrap();
    }
}
