//! Every operation by every kind of caller, in own, foreign and unmounted namespaces; a denied caller learns nothing about
//! what exists.

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Value, json};

use super::{CALLERS, Caller, asked, fresh, setup};
use crate::catalog::operations::{OPERATIONS, Sends};
use crate::client::{Reply, empty, full};
use crate::harness::World;

const NAMESPACES: [&str; 4] = ["own", "foreign", "lost", "nowhere"];

/// The reads of the contract. All other operations count as writes, unknown ones too.
const READS: [&str; 20] = [
    "list_namespaces",
    "describe_namespace",
    "namespace_exists",
    "list_tables",
    "list_all_tables",
    "describe_table",
    "table_exists",
    "list_table_versions",
    "describe_table_version",
    "get_table_stats",
    "query_table",
    "count_table_rows",
    "explain_table_query_plan",
    "analyze_table_query_plan",
    "list_table_indices",
    "describe_table_index_stats",
    "list_table_tags",
    "get_table_tag_version",
    "list_table_branches",
    "describe_transaction",
];

/// A request of the matrix.
struct Case {
    operation: &'static str,
    method: Method,
    target: String,
    sends: Sends,
    body: Value,
}

/// Makes the requests below a namespace: all operations of the contract, and some that a newer one
/// might have.
fn cases(namespace: &str) -> Vec<Case> {
    let listed = OPERATIONS
        .iter()
        .map(|&(operation, method, path, sends, _)| {
            let id = match operation {
                "list_namespaces" | "describe_namespace" | "namespace_exists" | "list_tables" => {
                    namespace.to_owned()
                }
                "create_namespace" | "register_table" | "create_table" | "declare_table" => {
                    format!("{namespace}%24new")
                }
                "create_materialized_view" => format!("{namespace}%24new"),
                "drop_namespace" => format!("{namespace}%24n"),
                "describe_transaction" | "alter_transaction" => format!("{namespace}%24t1%24tx"),
                _ => format!("{namespace}%24t1"),
            };
            let target = path.replace("{id}", &id).replace("{index_name}", "i1");
            Case {
                operation,
                method: method.parse().unwrap(),
                target,
                sends,
                body: body(operation, namespace),
            }
        });
    let unlisted = ["table", "namespace", "materialized_view", "transaction"];
    let unlisted = unlisted.into_iter().map(|kind| Case {
        operation: "unlisted",
        method: Method::POST,
        target: format!("/v1/{kind}/{namespace}%24t1%24x/a_newer/operation"),
        sends: Sends::Json,
        body: json!({}),
    });
    listed.chain(unlisted).collect()
}

fn body(operation: &str, namespace: &str) -> Value {
    let version = json!({"id": [namespace, "t1"], "version": 2, "manifest_path": "m2"});
    match operation {
        "update_table" => json!({"updates": [["a", "1"]]}),
        "create_table_version" => json!({"version": 2, "manifest_path": "m2"}),
        "batch_delete_table_versions" => {
            json!({"ranges": [{"start_version": 1, "end_version": 1}]})
        }
        "rename_table" => json!({"new_table_name": "t2"}),
        "register_table" => json!({"location": "elsewhere"}),
        "batch_create_table_versions" => json!({"entries": [version]}),
        "batch_commit_tables" => json!({"operations": [{"create_table_version": version}]}),
        "describe_table_version" => json!({"version": 1}),
        _ => json!({}),
    }
}

async fn send(world: &World, caller: &Caller, case: &Case) -> Reply {
    let client = caller.client(world);
    let (client, body) = match case.sends {
        Sends::Nothing => (client, empty()),
        Sends::Json | Sends::Unknown => (
            client.header("content-type", "application/json"),
            full(case.body.to_string()),
        ),
        Sends::Arrow => (
            client.header("content-type", "application/vnd.apache.arrow.stream"),
            full("rows"),
        ),
    };
    client
        .send(case.method.clone(), &case.target, body)
        .await
        .unwrap()
}

#[tokio::test]
async fn every_operation_by_every_caller_everywhere() {
    let world = setup().start().await;
    let mut outcomes = BTreeMap::new();
    let mut wrong = Vec::new();
    for namespace in NAMESPACES {
        for case in cases(namespace) {
            for caller in &CALLERS {
                fresh(&world);
                for (_, catalog) in &world.catalogs {
                    catalog.store().stage("m2", "two");
                }
                let reply = send(&world, caller, &case).await;
                let what = judge(&world, caller, &case, namespace, &reply);
                match what {
                    Ok(outcome) => *outcomes.entry(outcome).or_insert(0) += 1,
                    Err(why) => wrong.push(format!(
                        "{} {} by {}: {why}",
                        case.operation, case.target, caller.name
                    )),
                }
            }
        }
    }
    let cases: usize = outcomes.values().sum();
    println!("{cases} cases: {outcomes:?}");
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases + wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(cases, (54 + 4) * CALLERS.len() * NAMESPACES.len());
}

/// Returns the outcome of a request, or says what is wrong with it.
fn judge(
    world: &World,
    caller: &Caller,
    case: &Case,
    namespace: &str,
    reply: &Reply,
) -> Result<&'static str, String> {
    let reached = |name: &str| !asked(world.catalog(name)).is_empty();
    let write = !READS.contains(&case.operation);
    let said = format!(
        "{:?} {}",
        reply.outcome(),
        String::from_utf8_lossy(&reply.body)
    );
    if case.operation == "list_all_tables" {
        return all_tables(caller, reply, reached, &said);
    }
    if !caller.may(write, namespace) {
        if reached("own") || reached("foreign") {
            return Err(format!("is denied, and reached a catalog: {said}"));
        }
        return match reply.outcome() {
            (403, Some(15)) => Ok("denied"),
            _ => Err(format!("is to be denied: {said}")),
        };
    }
    if !matches!(namespace, "own" | "foreign") {
        return match reply.outcome() {
            (404, Some(1 | 4 | 10)) if !reached("own") && !reached("foreign") => Ok("not mounted"),
            _ => Err(format!("is not mounted: {said}")),
        };
    }
    let other = if namespace == "own" { "foreign" } else { "own" };
    if !reached(namespace) || reached(other) {
        return Err(format!("did not reach its catalog alone: {said}"));
    }
    let listed = OPERATIONS.iter().find(|known| known.0 == case.operation);
    if listed.map_or(200, |known| known.4) == reply.status {
        Ok("done")
    } else {
        Err(format!("is to be done: {said}"))
    }
}

/// Checks `list_all_tables`, which no single rule decides: each caller gets exactly the tables that
/// it may read, or a denial if there are none.
fn all_tables(
    caller: &Caller,
    reply: &Reply,
    reached: impl Fn(&str) -> bool,
    said: &str,
) -> Result<&'static str, String> {
    let sees = [("own", "own$t1"), ("foreign", "foreign$t1")];
    let sees = sees.into_iter().filter(|(name, _)| caller.may(false, name));
    let tables: Vec<&str> = sees.map(|(_, table)| table).collect();
    for name in ["own", "foreign"] {
        if reached(name) != caller.may(false, name) {
            return Err(format!("{name} was asked, or not: {said}"));
        }
    }
    match tables.as_slice() {
        [] if reply.outcome() == (403, Some(15)) => Ok("denied"),
        [] => Err(format!("is to be denied: {said}")),
        tables if reply.status == 200 && reply.json()["tables"] == json!(tables) => Ok("done"),
        _ => Err(format!("is to be {tables:?}: {said}")),
    }
}
