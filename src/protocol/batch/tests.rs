#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use super::{BatchEntry, Identifier, parse};

fn one(entry: &str) -> Result<BatchEntry, String> {
    let body = format!("{{\"entries\":[{entry}]}}");
    match parse(body.as_bytes(), 10) {
        Ok(batch) => Ok(batch.entries.into_iter().next().unwrap()),
        Err(error) => {
            assert_eq!((error.code().number(), error.status().as_u16()), (13, 400));
            Err(error.message().to_owned())
        }
    }
}

#[test]
fn an_entry_is_read_whole_and_forwarded_in_its_own_bytes() {
    let entry = one(
        "{ \"identity\":{\"auth_token\":\"t\"}, \"id\" : [\"prod\",\"t\"], \"version\":9007199254740993, \"manifest_path\":\"m\\u0021\", \
         \"manifest_size\": 12, \"e_tag\":\"e\", \"naming_scheme\":\"V2\", \"branch\":null, \"metadata\":{\"a\":\"b\"}, \"context\":{}}",
    )
    .unwrap();
    assert_eq!(entry.id.to_string(), "prod$t");
    assert_eq!(entry.version, 9_007_199_254_740_993);
    assert_eq!(entry.manifest_path, "m!");
    assert_eq!(entry.manifest_size, Some(12));
    assert_eq!(entry.e_tag.as_deref(), Some("e"));
    assert_eq!(entry.naming_scheme.as_deref(), Some("V2"));
    assert_eq!(entry.branch, None);
    let body = entry.body_for(&Identifier::from_names(["x"]).unwrap());
    assert_eq!(
        body,
        "{ \"id\" : [\"x\"], \"version\":9007199254740993, \"manifest_path\":\"m\\u0021\", \
         \"manifest_size\": 12, \"e_tag\":\"e\", \"naming_scheme\":\"V2\", \"branch\":null, \"metadata\":{\"a\":\"b\"}}"
    );
}

#[test]
fn a_version_is_an_exact_integer() {
    let with = |version: &str| {
        one(&format!(
            "{{\"id\":[\"t\"],\"version\":{version},\"manifest_path\":\"m\"}}"
        ))
    };
    for (raw, version) in [("0", 0), ("9223372036854775807", i64::MAX as u64)] {
        assert_eq!(with(raw).unwrap().version, version);
    }
    for raw in [
        "-1",
        "-0",
        "1.0",
        "1e3",
        "1E0",
        "\"1\"",
        "null",
        "true",
        "[1]",
        "9223372036854775808",
        "18446744073709551616",
    ] {
        let words = "`entries[0].version` must be an integer from 0 to 9223372036854775807";
        assert_eq!(with(raw).unwrap_err(), words, "{raw}");
    }
}

#[test]
fn a_refusal_names_the_entry_and_the_field() {
    let rest = "\"version\":1,\"manifest_path\":\"m\"";
    let cases = [
        ("{}".to_owned(), "`entries[0].id` is required"),
        (
            "{\"id\":[\"t\"]}".to_owned(),
            "`entries[0].version` is required",
        ),
        (
            "{\"id\":[\"t\"],\"version\":1}".to_owned(),
            "`entries[0].manifest_path` is required",
        ),
        (
            format!("{{\"id\":[],{rest}}}"),
            "`entries[0].id` must be an array of at least one name",
        ),
        (
            format!("{{\"id\":null,{rest}}}"),
            "`entries[0].id` must be an array of at least one name",
        ),
        (
            format!("{{\"id\":\"t\",{rest}}}"),
            "`entries[0].id` must be an array of strings",
        ),
        (
            format!("{{\"id\":[\"\"],{rest}}}"),
            "`entries[0].id`: an identifier has an empty name",
        ),
        (
            format!("{{\"id\":[\"t\"],\"version\":2,{rest}}}"),
            "`entries[0].version` is given more than once",
        ),
        (
            format!("{{\"\\u0069d\":[\"t\"],{rest}}}"),
            "`entries[0].id` is spelled with escapes",
        ),
        (
            "{\"id\":[\"t\"],\"version\":1,\"manifest_path\":\"\"}".to_owned(),
            "`entries[0].manifest_path` must be a string that is not empty",
        ),
        (
            format!("{{\"id\":[\"t\"],\"manifest_size\":\"1\",{rest}}}"),
            "`entries[0].manifest_size` must be an integer",
        ),
        (
            format!("{{\"id\":[\"t\"],\"branch\":1,{rest}}}"),
            "`entries[0].branch` must be a string",
        ),
        (
            format!(
                "{{\"id\":[\"t\"],\"e_tag\":\"{}\",{rest}}}",
                "e".repeat(9_000)
            ),
            "`entries[0].e_tag` has 9002 bytes; at most 8192 are allowed",
        ),
        (
            format!(
                "{{\"id\":[\"t\"],\"branch\":\"{}\",{rest}}}",
                "b".repeat(9_000)
            ),
            "`entries[0].branch` has 9002 bytes; at most 8192 are allowed",
        ),
        (
            format!(
                "{{\"id\":[\"t\"],\"version\":1,\"manifest_path\":\"{}\"}}",
                "m".repeat(9_000)
            ),
            "`entries[0].manifest_path` has 9002 bytes; at most 8192 are allowed",
        ),
        ("[]".to_owned(), "`entries[0]` must be an object"),
        (
            format!("{{\"id\":[{}\"t\"],{rest}}}", "\"\",".repeat(30_000)),
            "`entries[0].id` is too long",
        ),
    ];
    for (entry, words) in cases {
        assert_eq!(one(&entry).unwrap_err(), words, "{entry}");
    }
}

#[test]
fn a_batch_has_entries_but_not_too_many() {
    let entry = "{\"id\":[\"t\"],\"version\":1,\"manifest_path\":\"m\"}";
    let many = format!("{{\"entries\":[{entry},{entry},{entry}]}}");
    assert_eq!(parse(many.as_bytes(), 3).unwrap().entries.len(), 3);
    let cases = [
        (many.as_str(), "`entries[2]`: a batch has at most 2 entries"),
        ("", "`entries` is required"),
        ("null", "`entries` is required"),
        ("{}", "`entries` is required"),
        (
            "{\"entries\":[]}",
            "`entries` must be a list with at least one entry",
        ),
        ("{\"entries\":null}", "`entries` must be an array"),
        (
            "{\"entries\":[],\"entries\":[]}",
            "`entries` is given more than once",
        ),
        ("[]", "the body must be an object"),
    ];
    for (body, words) in cases {
        assert_eq!(parse(body.as_bytes(), 2).unwrap_err().message(), words);
    }
}
