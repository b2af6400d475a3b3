#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod bounds;
mod filtered;
mod hidden;
mod page;
mod stream;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::{
    AnswerStream, Authority, Catalogs, Context, Failure, Identifier, InternalRequest, Mount, Names,
    Operation, Query, ROUNDS, Request, Table, TableKey, answer, concerns,
};
use crate::backend::InternalAnswer;
use crate::batch::visibility::commit_flag::CommitFlag;
use crate::request::origin::Origin;
use stream::answered;

/// Catalogs that answer by backend, operation and page token, and record the requests.
#[derive(Default)]
struct Script {
    lines: Vec<(usize, Operation, Option<&'static str>, u16, Value)>,
    asked: Mutex<Vec<InternalRequest>>,
    names: Names,
    /// Called at each request to a catalog with the number of requests so far, beginning with 1.
    meanwhile: Option<Meanwhile>,
}

type Meanwhile = Box<dyn Fn(usize, &Names) + Sync>;

impl Catalogs for Script {
    async fn open_answer(
        &self,
        backend: usize,
        ask: InternalRequest,
    ) -> Result<AnswerStream<'_>, Failure> {
        let asked = {
            let mut asked = self.asked.lock().unwrap();
            asked.push(ask.clone());
            asked.len()
        };
        if let Some(meanwhile) = &self.meanwhile {
            meanwhile(asked, &self.names);
        }
        let token = ask.query.iter().find(|(name, _)| *name == "page_token");
        let token = token.map(|(_, value)| value.as_str());
        let line = self
            .lines
            .iter()
            .find(|line| (line.0, line.1, line.2) == (backend, ask.operation, token));
        let (.., status, body) = line.ok_or_else(|| Failure::NotSent("refused".into()))?;
        Ok(answered(*status, body.to_string()))
    }
}

fn id(names: &[&str]) -> Identifier {
    Identifier::from_names(names).unwrap()
}

fn routes(mounts: &[(&[&str], usize, &[&str])]) -> Table {
    let mount = |&(namespace, backend, at): &(&[&str], usize, &[&str])| Mount {
        namespace: id(namespace),
        backend,
        backend_name: format!("b{backend}").into(),
        backend_namespace: id(at),
    };
    Table::new(mounts.iter().map(mount).collect())
}

fn sample() -> Table {
    routes(&[
        (&["prod"], 0, &["p"]),
        (&["prod", "hr"], 1, &[]),
        (&["far", "away"], 1, &["x"]),
    ])
}

async fn ask(
    script: &Script,
    operation: Operation,
    level: &[&str],
    query: &str,
) -> (u16, Value, String) {
    let request = Request {
        operation,
        id: &id(level),
        query: Query::new(Some(query)),
        body: Bytes::from_static(b"{}"),
        authority: Authority::Caller(None),
        context: Context::default(),
        rights: None,
        origin: Origin::default(),
        log: None,
    };
    match answer(&sample(), script, &script.names, request).await {
        Ok(response) => {
            let status = response.status().as_u16();
            let body = response.into_body().collect_up_to(1 << 20).await.unwrap();
            let value = serde_json::from_slice(&body).unwrap_or(Value::Null);
            (status, value, String::new())
        }
        Err(error) => (
            error.status().as_u16(),
            json!(error.code().number()),
            error.message().to_owned(),
        ),
    }
}

#[test]
fn only_what_is_above_mounts_is_answered_here() {
    use Operation::*;
    let cases: [(Operation, &[&str], bool); 9] = [
        (ListNamespaces, &[], true),
        (ListTables, &["prod"], true),
        (ListTables, &["prod", "hr"], false),
        (DescribeNamespace, &["far"], true),
        (CreateNamespace, &["prod"], true),
        (DropNamespace, &["far", "away"], false),
        (DescribeNamespace, &["elsewhere"], false),
        (DescribeTable, &["prod"], false),
        (ListAllTables, &[], true),
    ];
    for (operation, level, expected) in cases {
        let concerned = concerns(&sample(), operation, &id(level), || false);
        assert_eq!(concerned, expected, "{operation:?} {level:?}");
    }
    let all = |routes: &Table| concerns(routes, ListAllTables, &Identifier::root(), || false);
    assert!(!all(&routes(&[(&[], 0, &[])])));
    assert!(all(&routes(&[(&[], 0, &["x"])])));
    assert!(all(&routes(&[(&["a"], 0, &["a"])])));
}

#[tokio::test]
async fn a_level_is_read_to_its_last_page_and_answered_in_pages() {
    let list = Operation::ListNamespaces;
    let script = Script {
        lines: vec![
            (
                0,
                list,
                None,
                200,
                json!({"namespaces": ["z", "a"], "page_token": "1"}),
            ),
            (
                0,
                list,
                Some("1"),
                200,
                json!({"namespaces": ["m", "hr"], "page_token": ""}),
            ),
        ],
        ..Script::default()
    };
    let (status, first, _) = ask(&script, list, &["prod"], "limit=3").await;
    assert_eq!(status, 200);
    // The names of mounts come first, then those of the owner in its order; a page is sorted.
    assert_eq!(first["namespaces"], json!(["a", "hr", "z"]));
    let token = first["page_token"].as_str().unwrap();
    let next = format!("limit=3&page_token={token}");
    let (_, second, _) = ask(&script, list, &["prod"], &next).await;
    assert_eq!(second, json!({"namespaces": ["m"]}));
    let asked = script.asked.lock().unwrap();
    assert_eq!(asked[0].identifier, id(&["p"]));
    assert_eq!(asked[0].query, [("limit", "2".to_owned())]);
    let next = [("limit", "3".to_owned()), ("page_token", "1".to_owned())];
    assert_eq!(asked[1].query, next);
}

#[tokio::test]
async fn a_level_without_an_owner_is_made_of_mounts() {
    let script = Script::default();
    let (_, root, _) = ask(&script, Operation::ListNamespaces, &[], "").await;
    assert_eq!(root, json!({"namespaces": ["far", "prod"]}));
    let (_, tables, _) = ask(&script, Operation::ListTables, &["far"], "").await;
    assert_eq!(tables, json!({"tables": []}));
    assert!(script.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_owner_without_the_namespace_lists_nothing_but_any_other_refusal_passes() {
    let list = Operation::ListNamespaces;
    let cases = [
        (
            404,
            json!({"error": "x", "code": 1}),
            200,
            json!({"namespaces": ["hr"]}),
        ),
        (
            404,
            json!({"error": "x", "code": 4}),
            404,
            json!({"error": "x", "code": 4}),
        ),
        (404, json!("no such page"), 404, json!("no such page")),
        (403, json!({"code": 15}), 403, json!({"code": 15})),
        (500, json!({"code": 18}), 500, json!({"code": 18})),
        (200, json!({"tables": []}), 503, json!(17)),
        (200, json!({"namespaces": "x"}), 503, json!(17)),
    ];
    for (status, body, expected_status, expected) in cases {
        let script = Script {
            lines: vec![(0, list, None, status, body)],
            ..Script::default()
        };
        let (status, body, _) = ask(&script, list, &["prod"], "").await;
        assert_eq!((status, body), (expected_status, expected));
    }
}

#[tokio::test]
async fn all_tables_come_from_each_backend_once() {
    let all = Operation::ListAllTables;
    let script = Script {
        lines: vec![
            (0, all, None, 200, json!({"tables": ["p$t", "p$hr", "q$t"]})),
            (
                1,
                all,
                None,
                200,
                json!({"tables": ["u", "x$v"], "page_token": null}),
            ),
        ],
        ..Script::default()
    };
    let query = "delimiter=.&include_declared=false";
    let (status, body, _) = ask(&script, all, &[], query).await;
    assert_eq!(status, 200);
    let tables = json!(["far.away.v", "prod.hr.u", "prod.hr.x.v", "prod.t"]);
    assert_eq!(body, json!({ "tables": tables }));
    let asked = script.asked.lock().unwrap();
    assert_eq!(asked.len(), 2);
    for ask in asked.iter() {
        let expected = [("include_declared", "false"), ("delimiter", "$")];
        assert!(ask.identifier.is_root());
        assert!(ask.query.iter().map(|(k, v)| (*k, v.as_str())).eq(expected));
    }
}

#[tokio::test]
async fn a_backend_that_does_not_answer_fails_the_listing_by_name() {
    let all = Operation::ListAllTables;
    let script = Script {
        lines: vec![(0, all, None, 200, json!({"tables": ["p$t"]}))],
        ..Script::default()
    };
    let (status, code, words) = ask(&script, all, &[], "").await;
    assert_eq!((status, code), (503, json!(17)));
    assert!(words.contains("`b1`"), "{words}");
}

#[tokio::test]
async fn a_catalog_that_never_ends_its_listing_is_stopped() {
    let list = Operation::ListTables;
    let page = json!({"tables": ["t"], "page_token": "same"});
    let script = Script {
        lines: vec![
            (0, list, None, 200, page.clone()),
            (0, list, Some("same"), 200, page),
        ],
        ..Script::default()
    };
    let (status, code, words) = ask(&script, list, &["prod"], "").await;
    assert_eq!((status, code), (503, json!(17)));
    assert!(words.contains("`b0`"), "{words}");
    let two = Script {
        lines: vec![
            (
                0,
                list,
                None,
                200,
                json!({"tables": ["t"], "page_token": "1"}),
            ),
            (
                0,
                list,
                Some("1"),
                200,
                json!({"tables": ["t"], "page_token": "2"}),
            ),
            (
                0,
                list,
                Some("2"),
                200,
                json!({"tables": ["t"], "page_token": "1"}),
            ),
        ],
        ..Script::default()
    };
    let (status, ..) = ask(&two, list, &["prod"], "").await;
    assert_eq!(status, 503);
    assert_eq!(two.asked.lock().unwrap().len(), 1000);
    assert_eq!(script.asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_namespace_that_mounts_are_below_exists_and_stays() {
    use Operation::*;
    let script = Script {
        lines: vec![
            (
                0,
                DescribeNamespace,
                None,
                200,
                json!({"properties": {"k": "v"}}),
            ),
            (0, NamespaceExists, None, 404, json!({"code": 1})),
        ],
        ..Script::default()
    };
    let cases: [(Operation, &[&str], u16, Value); 7] = [
        (
            DescribeNamespace,
            &["prod"],
            200,
            json!({"properties": {"k": "v"}}),
        ),
        (NamespaceExists, &["prod"], 200, Value::Null),
        (DescribeNamespace, &["far"], 200, json!({"properties": {}})),
        (NamespaceExists, &[], 200, Value::Null),
        (CreateNamespace, &["far"], 409, json!(2)),
        (DropNamespace, &["far"], 409, json!(3)),
        (DropNamespace, &["prod"], 409, json!(3)),
    ];
    for (operation, level, status, body) in cases {
        let (seen, value, _) = ask(&script, operation, level, "").await;
        assert_eq!((seen, value), (status, body), "{operation:?} {level:?}");
    }
    let down = Script::default();
    let (status, code, _) = ask(&down, DescribeNamespace, &["prod"], "").await;
    assert_eq!((status, code), (503, json!(17)));
}

#[tokio::test]
async fn a_listing_that_cannot_be_cut_is_refused() {
    let list = Operation::ListNamespaces;
    let cases = [
        ("limit=x", 400),
        ("limit=1.5", 400),
        ("limit=99999999999", 400),
        ("limit=1&limit=2", 400),
        ("page_token=garbled", 400),
        ("delimiter=", 400),
        ("limit=-1", 200),
        ("page_token=", 200),
    ];
    for (query, expected) in cases {
        let (status, ..) = ask(&Script::default(), list, &[], query).await;
        assert_eq!(status, expected, "{query}");
    }
    let (_, none, _) = ask(&Script::default(), list, &[], "limit=0").await;
    assert_eq!(none, json!({"namespaces": []}));
    let (_, page, _) = ask(&Script::default(), list, &[], "limit=1").await;
    let token = page["page_token"].as_str().unwrap();
    let elsewhere = format!("page_token={token}");
    let (status, code, _) = ask(&Script::default(), Operation::ListTables, &[], &elsewhere).await;
    assert_eq!((status, code), (400, json!(13)));
}

#[test]
fn an_answer_that_is_passed_on_says_how_it_is_coded() {
    let mut headers = HeaderMap::new();
    headers.insert("content-encoding", "gzip".parse().unwrap());
    headers.insert("connection", "close".parse().unwrap());
    let passed = super::pass(InternalAnswer {
        status: StatusCode::OK,
        headers,
        body: Bytes::from_static(b"\x1f\x8b"),
    });
    assert_eq!(passed.headers().len(), 1);
    assert_eq!(passed.headers()["content-encoding"], "gzip");
}
