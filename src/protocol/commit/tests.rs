#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use super::{CommitOperation, Identifier, Kinds, VersionRange};
use crate::error::Error;

fn parse(body: &[u8], max_operations: usize) -> Result<super::CommitRequest, Error> {
    super::parse(body, Kinds::Contract, max_operations)
}

fn one(operation: &str) -> Result<CommitOperation, String> {
    let body = format!("{{\"operations\":[{operation}]}}");
    match parse(body.as_bytes(), 3) {
        Ok(commit) => Ok(commit.operations.into_iter().next().unwrap()),
        Err(error) => {
            assert_eq!((error.code().number(), error.status().as_u16()), (13, 400));
            Err(error.message().to_owned())
        }
    }
}

fn elsewhere(operation: &CommitOperation) -> String {
    let body = operation.body_for(&Identifier::from_names(["x"]).unwrap());
    String::from_utf8(body.to_vec()).unwrap()
}

#[test]
fn operations_are_read_in_order_and_forwarded_in_their_own_bytes() {
    let body = r#"{"context":{"a":"b"},"operations":[
        {"declare_table":{"identity":{"auth_token":"t"}, "id":["prod","new"], "location":"s3:\/\/b", "vend_credentials":true, "properties":{"a":"b"}}},
        {"create_table_version":{"id":["prod","new"],"version":1,"manifest_path":"m","context":{}},"declare_table":null},
        {"delete_table_versions":{"id" : ["prod","old"],"branch":"b","ranges":[{"start_version":0,"end_version":2},{"end_version":-1,"start_version":7,"z":1}],"more":1.50}},
        {"deregister_table":{"id":["prod","gone"],"context":null}}
    ]}"#;
    let commit = parse(body.as_bytes(), 4).unwrap();
    let said: Vec<_> = commit
        .operations
        .iter()
        .map(|operation| {
            let id = operation.id().to_string();
            (operation.kind(), id, elsewhere(operation))
        })
        .collect();
    let expected = [
        (
            "declare_table",
            "prod$new",
            r#"{"id":["x"], "location":"s3:\/\/b", "vend_credentials":true, "properties":{"a":"b"}}"#,
        ),
        (
            "create_table_version",
            "prod$new",
            r#"{"id":["x"],"version":1,"manifest_path":"m"}"#,
        ),
        (
            "delete_table_versions",
            "prod$old",
            r#"{"id" : ["x"],"branch":"b","ranges":[{"start_version":0,"end_version":2},{"end_version":-1,"start_version":7,"z":1}],"more":1.50}"#,
        ),
        ("deregister_table", "prod$gone", r#"{"id":["x"]}"#),
    ];
    for (said, (kind, id, body)) in said.iter().zip(expected) {
        assert_eq!((said.0, &*said.1, &*said.2), (kind, id, body));
    }
    let [
        CommitOperation::DeclareTable(declare),
        CommitOperation::CreateTableVersion(create),
        CommitOperation::DeleteTableVersions(delete),
        _,
    ] = &commit.operations[..]
    else {
        panic!("{commit:?}");
    };
    assert_eq!(declare.location.as_deref(), Some("s3://b"));
    assert_eq!((create.version, &*create.manifest_path), (1, "m"));
    assert_eq!(delete.branch.as_deref(), Some("b"));
    let to = |start, end| VersionRange { start, end };
    assert_eq!(delete.ranges, [to(0, Some(2)), to(7, None)]);
}

#[test]
fn a_refusal_names_the_operation_and_the_field() {
    let one_of = "`operations[0]` must have exactly one of declare_table, create_table_version, delete_table_versions, deregister_table";
    let id = r#""id":["t"]"#;
    let deletes =
        |ranges: &str| format!(r#"{{"delete_table_versions":{{{id},"ranges":{ranges}}}}}"#);
    let range = |start: &str, end: &str| {
        deletes(&format!(
            r#"[{{"start_version":{start},"end_version":{end}}}]"#
        ))
    };
    let cases = [
        ("{}".to_owned(), one_of),
        (r#"{"declare_table":null}"#.to_owned(), one_of),
        (
            format!(
                r#"{{"declare_table":{{{id},"location":"{}"}}}}"#,
                "l".repeat(9_000)
            ),
            "`operations[0].declare_table.location` has 9002 bytes; at most 8192 are allowed",
        ),
        (
            format!(
                r#"{{"delete_table_versions":{{{id},"branch":"{}","ranges":[]}}}}"#,
                "b".repeat(9_000)
            ),
            "`operations[0].delete_table_versions.branch` has 9002 bytes; at most 8192 are allowed",
        ),
        (
            format!(r#"{{"declare_table":{{{id}}},"deregister_table":{{{id}}}}}"#),
            one_of,
        ),
        (
            format!(r#"{{"rename_table":{{{id}}}}}"#),
            "`operations[0].rename_table` is not an operation of the contract's commit: send the batch to /nsgate/v1/batch-commit",
        ),
        (
            format!(r#"{{"restore_table":{{{id}}}}}"#),
            "`operations[0].restore_table` is no operation of a commit; they are declare_table, create_table_version, delete_table_versions, deregister_table",
        ),
        (
            format!(r#"{{"deregister_table":{{{id}}},"deregister_table":{{{id}}}}}"#),
            "`operations[0].deregister_table` is given more than once",
        ),
        (
            format!(r#"{{"\u0064eregister_table":{{{id}}}}}"#),
            "`operations[0].deregister_table` is spelled with escapes",
        ),
        ("[]".to_owned(), "`operations[0]` must be an object"),
        (
            r#"{"declare_table":{}}"#.to_owned(),
            "`operations[0].declare_table.id` is required",
        ),
        (
            r#"{"declare_table":["t"]}"#.to_owned(),
            "`operations[0].declare_table` must be an object",
        ),
        (
            r#"{"declare_table":{"id":[]}}"#.to_owned(),
            "`operations[0].declare_table.id` must be an array of at least one name",
        ),
        (
            format!(r#"{{"declare_table":{{{id},{id}}}}}"#),
            "`operations[0].declare_table.id` is given more than once",
        ),
        (
            format!(r#"{{"declare_table":{{{id},"location":1}}}}"#),
            "`operations[0].declare_table.location` must be a string",
        ),
        (
            format!(r#"{{"declare_table":{{{id},"properties":{{"a":1}}}}}}"#),
            "`operations[0].declare_table.properties.a` must be a string",
        ),
        (
            format!(r#"{{"declare_table":{{{id},"properties":[]}}}}"#),
            "`operations[0].declare_table.properties` must be an object",
        ),
        (
            format!(r#"{{"create_table_version":{{{id},"manifest_path":"m"}}}}"#),
            "`operations[0].create_table_version.version` is required",
        ),
        (
            format!(r#"{{"delete_table_versions":{{{id}}}}}"#),
            "`operations[0].delete_table_versions.ranges` is required",
        ),
        (
            deletes("[]"),
            "`operations[0].delete_table_versions.ranges` must be a list with at least one range",
        ),
        (
            deletes("null"),
            "`operations[0].delete_table_versions.ranges` must be an array",
        ),
        (
            deletes("[{}]"),
            "`operations[0].delete_table_versions.ranges[0].start_version` is required",
        ),
        (
            range("-1", "3"),
            "`operations[0].delete_table_versions.ranges[0].start_version` must be an integer from 0",
        ),
        (
            range("1", "-2"),
            "`operations[0].delete_table_versions.ranges[0].end_version` must be an integer from 0, or -1",
        ),
        (
            range("1", "2.0"),
            "`operations[0].delete_table_versions.ranges[0].end_version` must be an integer from 0, or -1",
        ),
        (
            range("3", "3"),
            "`operations[0].delete_table_versions.ranges[0].end_version` must be above `start_version`: it is the version after the last one to delete",
        ),
        (
            deletes(&format!(
                "[{}]",
                [r#"{"start_version":1,"end_version":2}"#; 4].join(",")
            )),
            "`operations[0].delete_table_versions.ranges[3]`: an operation has at most 3 ranges",
        ),
        (
            format!(r#"{{"delete_table_versions":{{{id},"branch":1,"ranges":[]}}}}"#),
            "`operations[0].delete_table_versions.branch` must be a string",
        ),
        (
            r#"{"deregister_table":{"id":null}}"#.to_owned(),
            "`operations[0].deregister_table.id` must be an array of at least one name",
        ),
    ];
    for (operation, words) in cases {
        assert_eq!(one(&operation).unwrap_err(), words, "{operation}");
    }
}

#[test]
fn a_commit_has_operations_but_not_too_many() {
    let operation = r#"{"deregister_table":{"id":["t"]}}"#;
    let many = format!("{{\"operations\":[{operation},{operation},{operation}]}}");
    assert_eq!(parse(many.as_bytes(), 3).unwrap().operations.len(), 3);
    let cases = [
        (
            many.as_str(),
            "`operations[2]`: a batch has at most 2 operations",
        ),
        ("", "`operations` is required"),
        ("{}", "`operations` is required"),
        (
            "{\"operations\":[]}",
            "`operations` must be a list with at least one operation",
        ),
        ("{\"operations\":null}", "`operations` must be an array"),
        (
            "{\"operations\":[],\"operations\":[]}",
            "`operations` is given more than once",
        ),
        ("[]", "the body must be an object"),
    ];
    for (body, words) in cases {
        assert_eq!(parse(body.as_bytes(), 2).unwrap_err().message(), words);
    }
}

#[test]
fn a_rename_is_an_operation_of_the_extension_and_counts_as_two() {
    let extended = |operations: &str, most| {
        let body = format!("{{\"operations\":[{operations}]}}");
        let read = super::parse(body.as_bytes(), Kinds::Extended, most);
        read.map_err(|error| error.message().to_owned())
    };
    let rename = |members: &str| format!(r#"{{"rename_table":{{"id":["a","t"]{members}}}}}"#);
    let body = r#"{"id":["a","t"],"new_namespace_id":["a"],"new_table_name":"u"}"#;
    for members in [
        r#","new_table_name":"u""#,
        r#","new_namespace_id":null,"new_table_name":"u","identity":{},"more":1"#,
        r#","new_table_name":"\u0075","new_namespace_id":["a"]"#,
    ] {
        let read = extended(&rename(members), 2).unwrap().operations;
        let [operation @ CommitOperation::RenameTable(renamed)] = &read[..] else {
            panic!("{read:?}");
        };
        assert_eq!(renamed.new, Identifier::from_names(["a", "u"]).unwrap());
        // Equal renames are equal requests, however they are spelled.
        assert_eq!(operation.body_for(&renamed.id), body);
    }
    let one = rename(r#","new_table_name":"u""#);
    let other = r#"{"deregister_table":{"id":["b"]}}"#;
    assert_eq!(
        extended(&format!("{other},{one}"), 3)
            .unwrap()
            .operations
            .len(),
        2
    );
    let cases = [
        (
            rename(""),
            "`operations[0].rename_table.new_table_name` is required",
        ),
        (
            rename(r#","new_table_name":"""#),
            "`operations[0].rename_table.new_table_name`: ",
        ),
        (
            rename(r#","new_table_name":1"#),
            "`operations[0].rename_table.new_table_name` must be a string",
        ),
        (
            rename(r#","new_table_name":"u","new_namespace_id":"a""#),
            "`operations[0].rename_table.new_namespace_id` must be an array",
        ),
        (
            format!("{one},{other},{one}"),
            "`operations[2]`: a batch has at most 3 operations",
        ),
        (
            format!("{one},{one}"),
            "`operations[1]`: a batch has at most 3 operations, and a rename counts as two",
        ),
        (
            "{}".to_owned(),
            "`operations[0]` must have exactly one of declare_table, create_table_version, delete_table_versions, deregister_table, rename_table",
        ),
    ];
    for (operations, words) in cases {
        let found = extended(&operations, 3).unwrap_err();
        assert!(found.starts_with(words), "{operations}: {found}");
    }
}
