//! The words of the lines: who, what, through which mount, with which outcome.

use serde_json::{Value, json};

use super::{INSERT, line_of, lines, matching, path, setup, world};
use crate::batches::{BATCH, leave_hazard, pair, settled, stage, start};
use crate::catalog::faults::Fault;
use crate::client::full;
use crate::harness::{Setup, World};
use crate::token;

const REFUSED: Fault = Fault::Instead(400, r#"{"error":"no","code":13}"#);
const CREATE: &str = "create_table_version";

/// Removes what differs from run to run, after a check that it is there.
fn stable(mut line: Value) -> Value {
    let all = line.as_object_mut().unwrap();
    let time = all.remove("time").unwrap();
    let time = time.as_str().unwrap();
    assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
    assert_eq!(all.remove("schema"), Some(json!(1)));
    if let Some(took) = all.remove("duration_ms") {
        assert!(took.as_f64().unwrap() > 0.0);
    }
    if let Some(client) = all.remove("client") {
        assert!(client.as_str().unwrap().starts_with("127.0.0.1:"));
    }
    all.remove("transaction");
    line
}

#[tokio::test]
async fn a_change_is_written_with_its_caller_its_table_its_version_and_its_outcome() {
    let world = world("").await;
    let client = world
        .client_with(&json!({"sub": "ann\u{9b}31m"}))
        .header("x-forwarded-for", "203.0.113.7, 10.0.0.9")
        .header("x-request-id", "create");
    let body = json!({"version": 2, "manifest_path": "m-2", "manifest_size": 3});
    world.catalog("west").store().stage("m-2", "new");
    let create = "/v1/table/west%24t1/version/create";
    client.post(create, &body).await.ok();
    let who = json!({
        "issuer": token::ISSUER, "subject": "ann\u{9b}31m", "forwarded_for": "203.0.113.7, 10.0.0.9",
    });
    let mut expected = json!({
        "event": "change", "outcome": "done", "operation": "create_table_version",
        "tables": [{"table": "west$t1", "version": 2}], "mount": "west", "backend": "west",
        "status": 200, "request": "create",
    });
    let of = expected.as_object_mut().unwrap();
    of.extend(who.as_object().unwrap().clone());
    assert_eq!(stable(line_of(&world, "create").await), expected);
    let text = std::fs::read_to_string(path(&world)).unwrap();
    assert!(text.contains("\\u009b"), "a terminal would obey it: {text}");

    let delete = json!({"ranges": [{"start_version": 1, "end_version": 2}]});
    let deleting = client
        .without("x-request-id")
        .header("x-request-id", "delete");
    let reply = deleting
        .post("/v1/table/west%24t1/version/delete", &delete)
        .await;
    let line = stable(line_of(&world, "delete").await);
    let deleted =
        json!([{"table": "west$t1", "deleted": [{"start_version": 1, "end_version": 2}]}]);
    assert_eq!(
        (&line["tables"], &line["status"]),
        (&deleted, &json!(reply.status))
    );

    let namespace = client
        .without("x-request-id")
        .header("x-request-id", "space");
    namespace
        .post("/v1/namespace/west%24n/create", &json!({}))
        .await
        .ok();
    let line = line_of(&world, "space").await;
    assert_eq!(
        (&line["namespace"], &line["outcome"]),
        (&json!("west$n"), &json!("done"))
    );
    // A read has no line, and no line has a secret.
    let reading = client
        .without("x-request-id")
        .header("x-request-id", "read");
    reading
        .post("/v1/table/west%24t1/exists", &json!({}))
        .await
        .ok();
    let failing = client
        .without("x-request-id")
        .header("x-request-id", "last");
    world.catalog("west").fail(
        "insert_into_table",
        Fault::Instead(500, r#"{"error":"no","code":18}"#),
    );
    assert_eq!(failing.post_rows(INSERT, full("rows")).await.status, 500);
    let line = line_of(&world, "last").await;
    assert_eq!(
        (&line["outcome"], &line["status"]),
        (&json!("failed"), &json!(500))
    );
    assert!(lines(&world).iter().all(|line| line["request"] != "read"));
    let text = std::fs::read_to_string(path(&world)).unwrap();
    assert!(!text.contains("Bearer") && !text.contains("eyJ"), "{text}");
}

#[tokio::test]
async fn a_refusal_names_the_rule_or_the_reason_and_no_more() {
    const RULES: &str = "authorization:
  - { namespace: [west], read: { scope: read }, write: { scope: write } }
  - { namespace: [east], read: { scope: read }, write: { deny: true } }
  - { namespace: [west, hidden], read: { claim: team, any_of: [hr] }, write: { claim: team, any_of: [hr, boss] } }";
    let world = setup("").section(RULES).start().await.seeded();
    let reader = world.client_with(&json!({"scope": "read"}));
    let writer = world.client_with(&json!({"scope": "read write"}));
    let cases = [
        (
            "write",
            &reader,
            INSERT,
            json!({"namespace": "[west]", "access": "write", "needs": "scope write"}),
        ),
        (
            "nobody",
            &writer,
            "/v1/table/east%24t1/insert",
            json!({"namespace": "[east]", "access": "write", "needs": "nobody is allowed"}),
        ),
        (
            "uncovered",
            &writer,
            "/v1/table/north%24t1/insert",
            json!({"access": "write", "needs": "a rule that covers the name"}),
        ),
        (
            "read",
            &writer,
            "/v1/table/west%24hidden%24t/exists",
            json!({"namespace": "[west, hidden]", "access": "read", "needs": "claim team: hr"}),
        ),
        // The caller is not told of the rule below, the auditor is.
        (
            "below",
            &writer,
            "/v1/namespace/west/drop",
            json!({"namespace": "[west, hidden]", "access": "write", "needs": "claim team: hr, boss"}),
        ),
    ];
    for (id, client, target, rule) in cases {
        let reply = client
            .header("x-request-id", id)
            .post(target, &json!({}))
            .await;
        assert_eq!(reply.outcome(), (403, Some(15)), "{id}");
        let line = line_of(&world, id).await;
        assert_eq!(
            (&line["event"], &line["outcome"]),
            (&json!("refusal"), &json!("denied"))
        );
        assert_eq!(
            (&line["rule"], &line["subject"]),
            (&rule, &json!("tester")),
            "{line}"
        );
    }
    let nobody = world.anonymous().header("x-request-id", "nobody at all");
    let nobody = nobody
        .without("x-request-id")
        .header("x-request-id", "none");
    assert_eq!(nobody.post(INSERT, &json!({})).await.status, 401);
    let line = stable(line_of(&world, "none").await);
    let expected = json!({
        "event": "refusal", "outcome": "denied", "operation": "insert_into_table", "request": "none",
        "tables": [{"table": "west$t1"}], "status": 401, "code": 16, "reason": "missing",
    });
    assert_eq!(line, expected);
}

#[tokio::test]
async fn a_batch_has_a_line_for_each_request_and_one_for_its_decision_with_every_table() {
    let world = world("").await;
    let keyed = world.client().header("idempotency-key", "k");
    let body = pair(&world, 2);
    for id in ["first", "again"] {
        keyed
            .header("x-request-id", id)
            .post(BATCH, &body)
            .await
            .ok();
    }
    let entry = |name: &str| json!({"table": format!("{name}$t1"), "change": "create_table_version", "version": 2, "mount": name, "backend": name});
    let tables = json!([entry("west"), entry("east")]);
    let (first, again) = (
        line_of(&world, "first").await,
        line_of(&world, "again").await,
    );
    for line in [&first, &again] {
        assert_eq!(
            (&line["tables"], &line["outcome"]),
            (&tables, &json!("done"))
        );
    }
    assert_eq!(first["transaction"], again["transaction"]);
    assert_eq!(
        (&first["repeated"], &again["repeated"]),
        (&Value::Null, &json!(true))
    );
    let [batch] = &matching(&world, "event", "batch", 1).await[..] else {
        panic!("one decision has one line");
    };
    assert_eq!(batch["transaction"], first["transaction"]);
    assert_eq!(
        stable(batch.clone()),
        json!({
            "event": "batch", "outcome": "committed", "operation": "batch_create_table_versions",
            "tables": tables, "issuer": token::ISSUER, "subject": "tester", "request": "first",
        })
    );
}

#[tokio::test]
async fn an_aborted_batch_is_written_as_aborted_and_as_rolled_back() {
    let world = world("").await;
    let gate = world.catalog("east").hold(CREATE);
    world.catalog("east").fail(CREATE, REFUSED);
    let batch = json!({"entries": [stage(&world, "west", 2), stage(&world, "east", 2)]});
    let batch = start(world.client().header("x-request-id", "aborted"), batch);
    gate.reached(1).await;
    gate.open();
    assert_eq!(batch.await.unwrap().status, 400);
    let line = line_of(&world, "aborted").await;
    assert_eq!(
        (&line["outcome"], &line["status"]),
        (&json!("refused"), &json!(400))
    );
    let batch = matching(&world, "event", "batch", 2).await;
    let outcomes: Vec<_> = batch.iter().map(|line| line["outcome"].clone()).collect();
    assert_eq!(outcomes, ["aborted", "rolled_back"]);
    for line in batch {
        assert_eq!(
            (&line["subject"], &line["tables"][1]["table"]),
            (&json!("tester"), &json!("east$t1"))
        );
    }
}

#[tokio::test]
async fn a_change_whose_client_leaves_has_its_line_with_what_the_catalog_did() {
    let world = world("").await;
    let gate = world.catalog("west").hold("restore_table");
    let client = world.client().header("x-request-id", "left");
    let asking = tokio::spawn(async move {
        client
            .post("/v1/table/west%24t1/restore", &json!({"version": 1}))
            .await
    });
    gate.reached(1).await;
    asking.abort();
    let _ = asking.await;
    gone(&world).await;
    gate.open();
    let line = line_of(&world, "left").await;
    assert_eq!(
        (&line["outcome"], &line["catalog_status"]),
        (&json!("unanswered"), &json!(200))
    );
    assert_eq!(line["tables"], json!([{"table": "west$t1", "version": 1}]));

    // The batch goes on without its client: its own line says how it ended.
    let gate = world.catalog("east").hold(CREATE);
    let batch = start(
        world.client().header("x-request-id", "gone"),
        pair(&world, 2),
    );
    gate.reached(1).await;
    batch.abort();
    let _ = batch.await;
    let request = line_of(&world, "gone").await;
    assert_eq!(request["outcome"], "unanswered");
    gate.open();
    let decided = matching(&world, "event", "batch", 1).await.remove(0);
    assert_eq!(
        (&decided["outcome"], &decided["request"]),
        (&json!("committed"), &json!("gone"))
    );
    assert_eq!(decided["transaction"], request["transaction"]);
}

#[tokio::test]
async fn a_batch_that_is_recovered_after_a_crash_has_its_line() {
    let mut world = world("").await;
    let gate = world.catalog("east").hold_answer(CREATE);
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    world.kill();
    gate.open();
    drop(batch);
    world.restart().await;
    settled(&world).await;
    let decided = matching(&world, "event", "batch", 1).await.remove(0);
    assert_eq!(decided["recovered"], true, "{decided}");
    assert_eq!(decided["subject"], Value::Null);
    assert!(decided["transaction"].as_str().unwrap().len() == 36);
    assert_eq!(decided["tables"][0]["version"], 2);
}

/// Waits until the gateway has noticed that its clients are gone.
async fn gone(world: &World) {
    let closed = async {
        while world.metric("nsgate_connections").await > 0.0 {
            tokio::task::yield_now().await;
        }
    };
    let closed = tokio::time::timeout(crate::PATIENCE, closed).await;
    assert!(closed.is_ok(), "the gateway does not see its clients leave");
}

/// Leaves a batch with a hazard, and returns its id.
pub(super) async fn hazard(world: &World) -> String {
    leave_hazard(world).await;
    let found = async {
        loop {
            let open = world.admin().get("/batches").await.ok().json();
            let first = &open["batches"][0];
            if first["state"] == "hazard" {
                return first["id"].as_str().unwrap().to_owned();
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(crate::PATIENCE, found).await.unwrap()
}

#[tokio::test]
async fn decisions_of_operators_are_written_with_their_reason_and_reloads_with_their_keys() {
    let world = world("").await;
    let id = hazard(&world).await;
    let decision = json!({"decision": "commit", "who": "night shift", "why": "ticket 7"});
    let resolve = format!("/batches/{id}/resolve");
    world.admin().post(&resolve, &decision).await.ok();
    let line = matching(&world, "event", "decision", 1).await.remove(0);
    assert_eq!(line["transaction"], id);
    assert_eq!(
        stable(line),
        json!({
            "event": "decision", "outcome": "done", "decision": "commit", "operator": "night shift", "why": "ticket 7",
        })
    );
    let yaml = world.configuration();
    world
        .reload(&yaml.replace("audit: audit.log,", "audit: audit.log, level: warn,"))
        .await
        .ok();
    world.reload("listen: nonsense").await;
    let [done, refused] = &matching(&world, "event", "reload", 2).await[..] else {
        panic!("two reloads");
    };
    assert_eq!(
        stable(done.clone()),
        json!({
            "event": "reload", "outcome": "done", "trigger": "POST /reload", "changed": ["telemetry.level"],
        })
    );
    assert_eq!(refused["outcome"], "refused");
    assert!(
        refused["reason"]
            .as_str()
            .unwrap()
            .contains("auth: is missing"),
        "{refused}"
    );
}

#[tokio::test]
async fn an_audit_log_that_cannot_be_opened_keeps_the_gateway_from_starting() {
    let mut world = Setup::two().start().await;
    world.kill();
    let yaml = world.configuration() + "telemetry: { audit: nowhere/audit.log }\n";
    world.configure(&yaml);
    assert_eq!(world.try_start().await, Some(1));
}
