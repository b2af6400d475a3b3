#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use super::{Operation, check};

fn refusal(operation: Operation, body: &str) -> String {
    let error = check(operation, body.as_bytes()).unwrap_err();
    assert_eq!((error.code().number(), error.status().as_u16()), (13, 400));
    error.message().to_owned()
}

#[test]
fn a_declaration_has_the_shape_of_the_contract() {
    let declare = Operation::DeclareTable;
    for body in [
        "",
        "null",
        "{}",
        "{\"location\":null,\"vend_credentials\":null,\"properties\":null}",
        "{\"location\":\"s3://b\",\"vend_credentials\":true,\"properties\":{\"a\":\"b\"},\"new\":[1]}",
    ] {
        assert!(check(declare, body.as_bytes()).is_ok(), "{body}");
    }
    for (body, words) in [
        ("{\"location\":5}", "`location` must be a string"),
        (
            "{\"vend_credentials\":\"yes\"}",
            "`vend_credentials` must be true or false",
        ),
        ("{\"properties\":[]}", "`properties` must be an object"),
        (
            "{\"properties\":{\"a\":1}}",
            "`properties.a` must be a string",
        ),
        (
            "{\"properties\":{\"a\":null}}",
            "`properties.a` must be a string",
        ),
        (
            "{\"location\":\"a\",\"location\":\"b\"}",
            "`location` is given more than once",
        ),
        (
            "{\"loc\\u0061tion\":\"a\"}",
            "`location` is spelled with escapes",
        ),
        ("[]", "the body must be an object"),
    ] {
        assert_eq!(refusal(declare, body), words);
    }
}

#[test]
fn updates_are_pairs_of_strings() {
    let update = Operation::UpdateTable;
    let good = "{\"updates\":[[\"a\",\"1\"],[\"b\",\"a+1\"]],\"predicate\":\"a>1\"}";
    assert!(check(update, good.as_bytes()).is_ok());
    for (body, words) in [
        ("", "`updates` is required"),
        ("null", "`updates` is required"),
        ("{}", "`updates` is required"),
        ("{\"updates\":null}", "`updates` must be an array"),
        (
            "{\"updates\":[]}",
            "`updates` must be a list with at least one pair",
        ),
        (
            "{\"updates\":[[\"a\",\"1\"],[\"a\"]]}",
            "`updates[1]` must be exactly two strings: a column and an expression",
        ),
        (
            "{\"updates\":[[\"a\",\"b\",\"c\"]]}",
            "`updates[0]` must be exactly two strings: a column and an expression",
        ),
        (
            "{\"updates\":[[\"a\",1]]}",
            "`updates[0][1]` must be a string",
        ),
        (
            "{\"updates\":[{\"a\":\"b\"}]}",
            "`updates[0]` must be an array",
        ),
        (
            "{\"updates\":[],\"updates\":[]}",
            "`updates` is given more than once",
        ),
    ] {
        assert_eq!(refusal(update, body), words);
    }
}

#[test]
fn updates_have_a_bound() {
    let body = |count: usize| {
        format!(
            "{{\"updates\":[{}]}}",
            vec![r#"["a","1"]"#; count].join(",")
        )
    };
    assert!(check(Operation::UpdateTable, body(10_000).as_bytes()).is_ok());
    let refused = refusal(Operation::UpdateTable, &body(10_001));
    assert_eq!(
        refused,
        "`updates[10000]`: an update has at most 10000 pairs"
    );
}

#[test]
fn other_operations_have_no_checked_shape() {
    assert!(check(Operation::QueryTable, b"{\"location\":5,\"updates\":1}").is_ok());
}
