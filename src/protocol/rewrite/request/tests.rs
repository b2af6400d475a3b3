#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use bytes::Bytes;

use super::{CheckedBody, Error, Identifier, RequestRoute, request};
use crate::error::code::Code;
use crate::protocol::operation::{Kind, Operation};

fn id(names: &[&str]) -> Identifier {
    Identifier::from_names(names).unwrap()
}

/// Translates like a mount of `[lab]` at `[x]`.
fn reroot(id: &Identifier) -> Result<Option<Identifier>, Error> {
    let (here, there) = (self::id(&["lab"]), self::id(&["x"]));
    id.rebase(&here, &there)
        .map(Some)
        .ok_or_else(|| Error::new(Code::Unsupported, format!("{id} is elsewhere")))
}

fn ask(operation: Operation, names: &[&str], body: &str) -> Result<CheckedBody, Error> {
    let route = id(names);
    let asked = RequestRoute {
        operation,
        id: Some(&route),
        index_name: Some("by day"),
    };
    let body = Bytes::copy_from_slice(body.as_bytes());
    request(asked, body, reroot, |key, _| Ok(!key.starts_with("tenant")))
}

fn kept(operation: Operation, body: &str) -> Result<CheckedBody, Error> {
    let route = id(&["prod", "t"]);
    let asked = RequestRoute {
        operation,
        id: Some(&route),
        index_name: None,
    };
    let bytes = Bytes::copy_from_slice(body.as_bytes());
    let checked = request(asked, bytes.clone(), |_| Ok(None), |_, _| Ok(true))?;
    assert_eq!(checked.body.as_ptr(), bytes.as_ptr(), "{body} was copied");
    Ok(checked)
}

/// DuckDB's extension sends the route's text as the only name.
#[test]
fn an_id_that_is_the_routes_own_text_is_taken_apart() {
    let route = id(&["prod", "s", "t"]);
    let sent = |route: &Identifier, body: &'static str| {
        let asked = RequestRoute {
            operation: Operation::DescribeTable,
            id: Some(route),
            index_name: None,
        };
        let checked = request(asked, body.into(), |_| Ok(None), |_, _| Ok(true))?;
        Ok::<_, Error>(String::from_utf8(checked.body.to_vec()).unwrap())
    };
    let body = r#"{"id":["prod$s$t"],"version":1}"#;
    let apart = r#"{"id":["prod","s","t"],"version":1}"#;
    assert_eq!(sent(&route, body).unwrap(), apart);
    let there = ask(
        Operation::DescribeTable,
        &["lab", "t"],
        r#"{"id":["lab$t"]}"#,
    )
    .unwrap();
    assert_eq!(&*there.body, br#"{"id":["x","t"]}"#);
    for other in [
        r#"{"id":["prod$s"]}"#,
        r#"{"id":["prod$s$t$"]}"#,
        r#"{"id":["prod.s.t"]}"#,
        r#"{"id":["prod$s","t"]}"#,
        r#"{"id":["prod$s$t","prod$s$t"]}"#,
    ] {
        let refused = sent(&route, other).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidInput, "{other}");
    }
    assert!(sent(&Identifier::root(), r#"{"id":["$"]}"#).is_err());
}

#[test]
fn a_body_that_agrees_and_keeps_its_path_is_not_touched() {
    let operation = Operation::DescribeTable;
    for body in [
        "",
        " ",
        "null",
        " null\n",
        "{}",
        "{ \"id\" : [ \"prod\" , \"\\u0074\" ], \"version\": 9007199254740993.000, \"x\": null }",
        "{\"id\":null,\"context\":null}",
        "{\"context\":{\"tenant\":\"a\"}}",
        "{\"entries\":3,\"operations\":\"x\",\"new_namespace_id\":{}}",
        "{\"\\ud800\":1}",
    ] {
        assert!(!kept(operation, body).unwrap().with_details);
    }
    for (value, details) in [
        ("true", true),
        ("\"true\"", true),
        ("1", true),
        ("false", false),
        ("null", false),
    ] {
        let body = format!("{{\"load_detailed_metadata\": {value}}}");
        assert_eq!(kept(operation, &body).unwrap().with_details, details);
    }
}

#[test]
fn schema_metadata_may_use_any_key() {
    let operation = Operation::UpdateTableSchemaMetadata;
    kept(
        operation,
        "{\"id\":\"a\",\"identity\":\"b\",\"context\":\"c\"}",
    )
    .unwrap();
    // Metadata consists of strings; any other value might be taken for an identifier.
    for body in [
        "{\"id\":[\"prod\",\"u\"]}",
        "{\"id\":\"a\",\"id\":\"b\"}",
        "{\"id\":{}}",
        "[null,null,[\"prod\",\"u\"]]",
    ] {
        assert!(kept(operation, body).is_err(), "{body}");
    }
}

#[test]
fn a_body_that_disagrees_with_its_route_is_refused_for_every_operation() {
    let bodies = [
        "{\"id\":[\"lab\",\"u\"]}",
        "{\"id\":[\"lab\"]}",
        "{\"id\":[\"lab\",\"t\",\"u\"]}",
        "{\"id\":[]}",
        "{\"id\":[\"lab$u\"]}",
        "{\"id\":\"lab$t\"}",
        "{\"id\":{}}",
        "{\"id\":[\"lab\",1]}",
        "{\"id\":[\"lab\",\"t\"],\"id\":[\"lab\",\"t\"]}",
        "{\"id\":null,\"id\":null}",
        "{\"id\":[\"lab\",\"t\"],\"i\\u0064\":[\"lab\",\"u\"]}",
        "{\"\\u0069d\":[\"lab\",\"t\"]}",
        "{\"index_name\":\"other\"}",
        "{\"index_name\":[\"by day\"]}",
        "{\"index_name\":\"by day\",\"index_name\":\"by day\"}",
        "{\"identity\":{},\"identity\":{}}",
        "{\"identit\\u0079\":{}}",
        "{\"context\":[]}",
        "{\"context\":{\"a\":1}}",
        "{\"context\":{\"a\":\"1\",\"a\":\"2\"}}",
        "{\"context\":{\"a\":\"1\"},\"context\":{}}",
        "[null,null,[\"lab\",\"u\"]]",
        "\"x\"",
        "{\"id\":[\"lab\",\"t\"]",
        "{}{}",
    ];
    let unlisted = [Kind::Table, Kind::Namespace].map(Operation::Unlisted);
    // `UpdateTableSchemaMetadata` is left out: `schema_metadata_may_use_any_key` covers it.
    let listed = Operation::LISTED.into_iter();
    let listed = listed.filter(|&it| it != Operation::UpdateTableSchemaMetadata);
    for operation in listed.chain(unlisted) {
        for body in bodies {
            let code = ask(operation, &["lab", "t"], body).map_err(|error| error.code());
            assert_eq!(code.err(), Some(Code::InvalidInput), "{operation:?} {body}");
        }
    }
    let body = Bytes::from_static(b"{\"id\":\"\xff\"}");
    let asked = RequestRoute {
        operation: Operation::DropTable,
        id: None,
        index_name: None,
    };
    assert!(request(asked, body, reroot, |_, _| Ok(true)).is_err());
}

#[test]
fn only_what_must_change_changes() {
    let cases = [
        (
            "{ \"id\" : [\"lab\",\"t\"] , \"k\" : 1.50 , \"big\":18446744073709551616}",
            "{ \"id\" : [\"x\",\"t\"] , \"k\" : 1.50 , \"big\":18446744073709551616}",
        ),
        (
            "{\"identity\":{\"auth_token\":\"t\"},\"id\":[\"lab\",\"t\"],\"index_name\":\"by\\u0020day\"}",
            "{\"id\":[\"x\",\"t\"],\"index_name\":\"by\\u0020day\"}",
        ),
        (
            "{\"context\":{\"tenant\":\"a\",\"team\":\"b\"},\"identity\":null}",
            "{\"context\":{\"team\":\"b\"}}",
        ),
        (
            "{\"context\":{\"team\":\"b\",\"tenant\":\"a\"},\"identity\":null,\"z\":{\"id\":[\"u\"],\"identity\":1}}",
            "{\"context\":{\"team\":\"b\"},\"z\":{\"id\":[\"u\"],\"identity\":1}}",
        ),
        ("{\"context\":{\"tenant\":\"a\"}}", "{\"context\":{}}"),
        (
            "{\"context\":{\"tenant\":\"a\",\"tenant2\":\"b\",\"team\":\"c\"}}",
            "{\"context\":{\"team\":\"c\"}}",
        ),
        ("{\"identity\":{}}", "{}"),
    ];
    for (body, expected) in cases {
        let checked = ask(Operation::CreateTableIndex, &["lab", "t"], body).unwrap();
        assert_eq!(checked.body, expected);
    }
    let unlisted = Operation::Unlisted(Kind::Table);
    let checked = ask(unlisted, &["lab"], "{\"id\":[\"lab\"]}").unwrap();
    assert_eq!(checked.body, "{\"id\":[\"x\"]}");
}

#[test]
fn the_context_is_shown_decoded_and_may_refuse() {
    let asked = RequestRoute {
        operation: Operation::QueryTable,
        id: None,
        index_name: None,
    };
    let body = Bytes::from_static(b"{\"context\":{\"a\\u0062\":\"c\\n\",\"d\":\"\"}}");
    let mut seen = Vec::new();
    let keep = |key: &str, value: &str| {
        seen.push((key.to_owned(), value.to_owned()));
        Ok(true)
    };
    request(asked, body.clone(), |_| Ok(None), keep).unwrap();
    let expected = [("ab", "c\n"), ("d", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(seen, expected);
    let refuse = |_: &str, _: &str| Err(Error::invalid("too many"));
    let error = request(asked, body, |_| Ok(None), refuse).unwrap_err();
    assert_eq!(error.message(), "too many");
}

#[test]
fn a_rename_stays_in_its_mount() {
    let rename = |body| ask(Operation::RenameTable, &["lab", "t"], body);
    let body = "{\"new_namespace_id\":[\"lab\",\"n\"],\"new_table_name\":\"u\"}";
    let checked = rename(body).unwrap();
    assert_eq!(
        checked.body,
        "{\"new_namespace_id\":[\"x\",\"n\"],\"new_table_name\":\"u\"}"
    );
    for (body, code) in [
        (
            "{\"new_namespace_id\":[\"prod\"],\"new_table_name\":\"u\"}",
            0,
        ),
        ("{\"new_table_name\":\"u\",\"new_namespace_id\":[]}", 0),
        ("{\"new_table_name\":3}", 13),
        ("{\"new_table_name\":\"\"}", 13),
        (
            "{\"new_namespace_id\":\"lab\",\"new_table_name\":\"u\"}",
            13,
        ),
        ("{\"new_table_name\":\"u\",\"new_table_name\":\"v\"}", 13),
    ] {
        assert_eq!(rename(body).unwrap_err().code().number(), code, "{body}");
    }
}

#[test]
fn a_new_name_that_another_mount_owns_is_refused() {
    let asked = RequestRoute {
        operation: Operation::RenameTable,
        id: Some(&id(&["prod", "t"])),
        index_name: None,
    };
    let elsewhere = id(&["prod", "hr"]);
    let locate = |id: &Identifier| {
        if *id == elsewhere {
            Err(Error::new(Code::Unsupported, "elsewhere"))
        } else {
            Ok(None)
        }
    };
    for (name, refused) in [("hr", true), ("u", false)] {
        let body = Bytes::from(format!("{{\"new_table_name\":\"{name}\"}}"));
        let outcome = request(asked, body.clone(), locate, |_, _| Ok(true));
        assert_eq!(outcome.is_err(), refused, "{name}");
    }
}

#[test]
fn every_table_that_a_batch_names_is_found_and_translated() {
    let entries = "{\"entries\":[{\"id\":[\"lab\",\"t\"],\"version\":2,\"identity\":{}},{\"version\":3,\"id\":[\"lab\",\"u\"]}],\"id\":7}";
    let operations = "{\"operations\":[{\"declare_table\":{\"identity\":{},\"id\":[\"lab\",\"t\"],\"context\":{\"tenant\":\"a\"}},\"x\":null},{\"create_table_version\":{\"id\":[\"lab\",\"u\"],\"version\":3}}]}";
    let cases = [
        (
            Operation::BatchCreateTableVersions,
            entries,
            "{\"entries\":[{\"id\":[\"x\",\"t\"],\"version\":2},{\"version\":3,\"id\":[\"x\",\"u\"]}],\"id\":7}",
        ),
        (
            Operation::BatchCommitTables,
            operations,
            "{\"operations\":[{\"declare_table\":{\"id\":[\"x\",\"t\"],\"context\":{}},\"x\":null},{\"create_table_version\":{\"id\":[\"x\",\"u\"],\"version\":3}}]}",
        ),
    ];
    for (operation, body, expected) in cases {
        let asked = RequestRoute {
            operation,
            id: None,
            index_name: None,
        };
        let bytes = Bytes::copy_from_slice(body.as_bytes());
        let checked = request(asked, bytes.clone(), reroot, |key, _| Ok(key != "tenant")).unwrap();
        assert_eq!(checked.body, expected);
    }
}

#[test]
fn a_batch_that_hides_a_table_is_refused_with_the_place() {
    let cases = [
        (
            "{\"operations\":[{\"declare_table\":{}}]}",
            "`operations[0].declare_table.id` is required",
        ),
        (
            "{\"operations\":[{\"declare_table\":{\"id\":null}}]}",
            "`operations[0].declare_table.id` is required",
        ),
        (
            "{\"operations\":[{\"a\":null},{\"b\":{\"id\":[1]}}]}",
            "`operations[1].b.id` must be an array of strings",
        ),
        (
            "{\"operations\":[{\"b\":{\"id\":[\"a\"],\"id\":[\"a\"]}}]}",
            "`operations[0].b.id` is given more than once",
        ),
        (
            "{\"operations\":[{\"b\":{\"\\u0069d\":[\"a\"]}}]}",
            "`operations[0].b.id` is spelled with escapes",
        ),
        (
            "{\"operations\":[{\"b\":[[\"a\"]]}]}",
            "`operations[0].b` must be an object",
        ),
        ("{\"operations\":[[]]}", "`operations[0]` must be an object"),
        ("{\"operations\":{}}", "`operations` must be an array"),
        (
            "{\"operations\":[],\"operations\":[]}",
            "`operations` is given more than once",
        ),
    ];
    for (body, words) in cases {
        let asked = RequestRoute {
            operation: Operation::BatchCommitTables,
            id: None,
            index_name: None,
        };
        let body = Bytes::from_static(body.as_bytes());
        let error = request(asked, body.clone(), |_| Ok(None), |_, _| Ok(true)).unwrap_err();
        assert_eq!(error.message(), words);
    }
}

#[test]
fn a_list_is_read_no_further_than_a_batch_may_be_long() {
    let asked = |operation| RequestRoute {
        operation,
        id: None,
        index_name: None,
    };
    let read = |operation, list: &str, element: &str, count: usize| {
        let body = format!("{{\"{list}\":[{}]}}", vec![element; count].join(","));
        request(asked(operation), body.into(), |_| Ok(None), |_, _| Ok(true))
    };
    for (operation, list, element) in [
        (
            Operation::BatchCreateTableVersions,
            "entries",
            r#"{"id":["t"]}"#,
        ),
        (Operation::BatchCommitTables, "operations", "{}"),
        (
            Operation::BatchCommitTables,
            "operations",
            r#"{"declare_table":{"id":["t"]}}"#,
        ),
    ] {
        assert!(read(operation, list, element, 100_000).is_ok());
        let refused = read(operation, list, element, 100_001).unwrap_err();
        let words = format!("`{list}[100000]`: a batch has at most 100000 {list}");
        assert_eq!(refused.message(), words);
    }
}
