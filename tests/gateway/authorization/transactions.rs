//! A batch's outcome is shown only to callers that may read or write all of its tables.
//!
//! The transaction does not exist for other callers.

use serde_json::{Value, json};

use super::{CALLERS, asked, fresh, setup};
use crate::client::{Client, Reply};
use crate::harness::{Setup, World};

const UNKNOWN: &str = "0193c7a0-0000-7000-8000-000000000000";

async fn ask(client: &Client, transaction: &str, verb: &str) -> Reply {
    client
        .post(&format!("/v1/transaction/{transaction}/{verb}"), &json!({}))
        .await
}

fn both(world: &World) -> Client {
    world.client_with(&json!({"scope": "catalog.read catalog.write", "team": "theirs"}))
}

async fn batch(world: &World) -> String {
    let mut entries = Vec::new();
    for (name, catalog) in &world.catalogs {
        let path = catalog.store().stage("m2", name);
        entries.push(json!({"id": [name, "t1"], "version": 2, "manifest_path": path}));
    }
    let body = json!({ "entries": entries });
    let reply = both(world)
        .post("/v1/table/version/batch-create", &body)
        .await;
    reply.ok().json()["transaction_id"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn a_batch_is_known_to_those_who_may_read_or_write_all_of_it() {
    let mut world = setup().start().await;
    fresh(&world);
    for (_, catalog) in &world.catalogs {
        for operation in ["describe_transaction", "alter_transaction"] {
            let none = br#"{"error":"none","code":10}"#;
            catalog.can(operation, 404, "application/json", none);
        }
    }
    let id = batch(&world).await;
    for round in ["running", "restarted"] {
        for (claims, known) in [
            (json!({"scope": "catalog.read", "team": "theirs"}), true),
            (json!({"scope": "catalog.write", "team": "theirs"}), true),
            (json!({"scope": "catalog.read catalog.write"}), false),
            (json!({"team": "theirs"}), false),
        ] {
            let client = world.client_with(&claims);
            let case = format!("{round} {claims}");
            let told = ask(&client, &id, "describe").await;
            let altered = ask(&client, &id, "alter").await;
            if known {
                assert_eq!(told.ok().json()["status"], "Succeeded", "{case}");
                assert_eq!(altered.outcome(), (406, Some(0)), "{case}");
                continue;
            }
            // The answer must read exactly like that for a transaction that never existed.
            for (verb, reply) in [("describe", told), ("alter", altered)] {
                let unknown = ask(&client, UNKNOWN, verb).await;
                let like = |reply: &Reply, id: &str| {
                    let body = String::from_utf8_lossy(&reply.body).replace(id, "ID");
                    (reply.status, body)
                };
                assert_eq!(like(&reply, &id), like(&unknown, UNKNOWN), "{case} {verb}");
                let expected = if reply.status == 403 {
                    Some(15)
                } else {
                    Some(10)
                };
                assert_eq!(reply.outcome().1, expected, "{case} {verb}: {reply:?}");
            }
        }
        world.restart().await;
    }
}

/// The catalog does not say which tables a transaction is about, so the caller needs permission for all of
/// it.
#[tokio::test]
async fn a_catalog_is_asked_for_those_who_have_all_of_it() {
    let world = setup().start().await;
    for caller in &CALLERS {
        for (verb, write) in [("describe", false), ("alter", true)] {
            fresh(&world);
            let reply = ask(&caller.client(&world), "theirs", verb).await;
            let case = format!("{} {verb}: {reply:?}", caller.name);
            let mut nowhere = true;
            for name in ["own", "foreign"] {
                let may = caller.may(write, name);
                let expected: &[&str] = match (may, write) {
                    (true, false) => &["describe_transaction"],
                    (true, true) => &["alter_transaction"],
                    (false, _) => &[],
                };
                assert_eq!(asked(world.catalog(name)), expected, "{case}");
                nowhere &= !(may || caller.may(true, name));
            }
            let outcome = if nowhere {
                (403, Some(15))
            } else {
                reply.outcome()
            };
            assert_eq!(reply.outcome(), outcome, "{case}");
            let denied = reply.status == 403;
            assert_eq!(denied, nowhere, "{case}");
        }
    }
}

/// An identifier that extends a table's is decided by the table's rule.
#[tokio::test]
async fn a_transaction_below_a_table_goes_by_the_tables_rule() {
    let world = setup().start().await;
    fresh(&world);
    let reader = world.client_with(&json!({"scope": "catalog.read"}));
    let told: Value = ask(&reader, "own%24t1%24tx", "describe").await.ok().json();
    assert_eq!(told["operation"], "describe_transaction");
    for (id, verb) in [
        ("own%24t1%24tx", "alter"),
        ("foreign%24t1%24tx", "describe"),
    ] {
        assert_eq!(
            ask(&reader, id, verb).await.outcome(),
            (403, Some(15)),
            "{id} {verb}"
        );
    }
}

/// A catalog with its root mounted gets only the last name, which may belong to any of its tables.
#[tokio::test]
async fn what_a_catalog_sees_as_a_name_alone_needs_leave_for_all_of_it() {
    let rules = r#"
authorization:
  - { namespace: [a, lab], read: { scope: lab }, write: { scope: lab } }
  - { namespace: [a, lab, hr], read: { scope: hr }, write: { scope: hr } }"#;
    let setup = Setup::new().rerooted("[a, lab]", "lab", "[]");
    let world = setup.section(rules).start().await;
    let some = world.client_with(&json!({"scope": "lab"}));
    let all = world.client_with(&json!({"scope": "lab hr"}));
    for (target, denied, seen) in [
        (
            "/v1/transaction/a%24lab%24tx/describe",
            (404, Some(10)),
            "/v1/transaction/tx/describe",
        ),
        (
            "/v1/transaction/a%24lab%24tx/alter",
            (404, Some(10)),
            "/v1/transaction/tx/alter",
        ),
        (
            "/v1/transaction/a%24lab%24tx/newer",
            (404, Some(10)),
            "/v1/transaction/tx/newer",
        ),
        (
            "/v1/table/a%24lab%24some/newer",
            (403, Some(15)),
            "/v1/table/some/newer",
        ),
    ] {
        let catalog = world.catalog("lab");
        catalog.forget();
        let reply = some.post(target, &json!({})).await;
        assert_eq!(reply.outcome(), denied, "{target}: {reply:?}");
        assert!(asked(catalog).is_empty(), "{target}");
        all.post(target, &json!({})).await;
        assert_eq!(catalog.only().target, seen);
    }
}
