#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use bytes::Bytes;

use super::{Changes, Identifier, Operation, ResponseRoute, response};

fn answer(operation: Operation, body: &'static str, manages_versions: bool) -> Bytes {
    let id = |names: &[&str]| Identifier::from_names(names).unwrap();
    let to_client = |there: &Identifier| there.rebase(&id(&["x", "y"]), &id(&["lab"]));
    let body = Bytes::from_static(body.as_bytes());
    let answered = ResponseRoute {
        operation,
        asked: &id(&["lab", "n", "t"]),
        there: &id(&["x", "y", "n", "t"]),
    };
    let changes = Changes {
        manages_versions,
        lacks_credentials: false,
    };
    response(answered, &body, to_client, changes).unwrap()
}

#[test]
fn identifiers_are_spelled_as_the_client_does() {
    let describe = Operation::DescribeTable;
    let drop = Operation::DropTable;
    let cases = [
        (
            describe,
            "{ \"table\":\"t\", \"namespace\" : [\"x\",\"y\",\"n\"], \"version\":2.0 }",
            "{ \"table\":\"t\", \"namespace\" : [\"lab\",\"n\"], \"version\":2.0 }",
        ),
        (
            describe,
            "{\"namespace\" : [\"x\", \"y\",\"m\"]}",
            "{\"namespace\" : [\"lab\",\"m\"]}",
        ),
        (
            describe,
            "{\"namespace\":[\"x\",\"y\", \"\\u006e\"]}",
            "{\"namespace\":[\"lab\",\"n\"]}",
        ),
        (
            describe,
            "{\"namespace\":[\"x\"]}",
            "{\"namespace\":[\"lab\",\"n\"]}",
        ),
        (
            describe,
            "{\"namespace\":[]}",
            "{\"namespace\":[\"lab\",\"n\"]}",
        ),
        (describe, "{\"namespace\":null}", "{\"namespace\":null}"),
        (describe, "{\"id\":[\"x\",\"y\"]}", "{\"id\":[\"x\",\"y\"]}"),
        (
            drop,
            "{\"id\":[\"x\",\"y\",\"n\",\"t\"]}",
            "{\"id\":[\"lab\",\"n\",\"t\"]}",
        ),
        (drop, "{\"id\":[\"t\"]}", "{\"id\":[\"lab\",\"n\",\"t\"]}"),
        (
            Operation::DeregisterTable,
            "{\"id\":[\"t\"]}",
            "{\"id\":[\"lab\",\"n\",\"t\"]}",
        ),
        (
            Operation::QueryTable,
            "{\"id\":[\"t\"]}",
            "{\"id\":[\"t\"]}",
        ),
        (drop, "", ""),
        (drop, "not json", "not json"),
        (drop, "[1]", "[1]"),
        (drop, "{\"id\":[\"t\"]", "{\"id\":[\"t\"]"),
    ];
    for (operation, body, expected) in cases {
        assert_eq!(answer(operation, body, false), expected);
    }
}

#[test]
fn managed_versioning_is_said_where_the_backend_manages_versions() {
    let cases = [
        (
            Operation::DescribeTable,
            "{}",
            "{\"managed_versioning\":true}",
        ),
        (
            Operation::DescribeTable,
            "{\"managed_versioning\": false,\"namespace\":null}",
            "{\"managed_versioning\": true,\"namespace\":null}",
        ),
        (
            Operation::DeclareTable,
            " {\"location\":\"{\"}",
            " {\"managed_versioning\":true,\"location\":\"{\"}",
        ),
        (Operation::CreateTable, "{}", "{}"),
    ];
    for (operation, body, expected) in cases {
        assert_eq!(answer(operation, body, true), expected);
        assert_eq!(answer(operation, body, false), body);
    }
}

#[test]
fn an_answer_that_is_spelled_alike_is_not_copied() {
    let body = Bytes::from_static(b"{\"id\":[\"t\"]}");
    let id = Identifier::from_names(["t"]).unwrap();
    let answered = ResponseRoute {
        operation: Operation::DropTable,
        asked: &id,
        there: &id,
    };
    let same = |there: &Identifier| Some(there.clone());
    let out = response(answered, &body, same, Changes::default()).unwrap();
    assert_eq!(out.as_ptr(), body.as_ptr());
}

#[test]
fn the_keys_of_the_storage_are_left_out() {
    let id = Identifier::from_names(["t"]).unwrap();
    let answered = ResponseRoute {
        operation: Operation::DescribeTable,
        asked: &id,
        there: &id,
    };
    let changes = Changes {
        manages_versions: false,
        lacks_credentials: true,
    };
    let same = |there: &Identifier| Some(there.clone());
    let of = |body: &'static str| response(answered, &body.into(), same, changes);
    for body in [
        r#"{"version":1,"storage_options":{"secret":"k"}}"#,
        r#"{"version":1,"storage_options" : {"secret":"k"}, "storage_options":["secret"]}"#,
        r#"{"storage_options":"secret","version":1}"#,
    ] {
        let out = of(body).unwrap();
        let text = std::str::from_utf8(&out).unwrap();
        assert!(!text.contains("secret") && text.contains("null"), "{text}");
        let read: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(read["version"], 1);
    }
    for body in ["", "secret", r#"{"storage_options":{"secret":"k"}"#, "[]"] {
        assert!(of(body).is_err(), "{body}");
    }
}
