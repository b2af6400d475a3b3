#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use http::Method;

use super::{Kind, Operation, Target, Unrecognized, doubt, is_plain, recognize};
use crate::protocol::operation::{Access, Payload};

const CONTRACT: &str = include_str!("../operations.tsv");

fn fields(column: &str) -> Vec<&str> {
    column.split(',').filter(|field| *field != "-").collect()
}

fn payload(column: &str) -> Payload {
    match column {
        "-" => Payload::None,
        "json" => Payload::Json,
        "arrow-stream" => Payload::ArrowStream,
        "arrow-file" => Payload::ArrowFile,
        other => panic!("unknown payload {other}"),
    }
}

#[test]
fn the_table_says_what_the_contract_says() {
    let rows: Vec<Vec<&str>> = CONTRACT
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(rows.len(), Operation::LISTED.len());
    for (row, operation) in rows.iter().zip(Operation::LISTED) {
        assert_eq!(operation.name(), row[0]);
        assert_eq!(operation.method().unwrap().as_str(), row[1], "{row:?}");
        let access = match row[3] {
            "read" => Access::Read,
            "write" => Access::Write,
            other => panic!("unknown access {other}"),
        };
        assert_eq!(operation.access(), access, "{row:?}");
        assert_eq!(operation.request_body(), payload(row[4]), "{row:?}");
        assert_eq!(operation.response_body(), payload(row[5]), "{row:?}");
        assert_eq!(operation.success().as_str(), row[6], "{row:?}");
        assert_eq!(operation.response_id_fields(), fields(row[9]), "{row:?}");
    }
}

#[test]
fn every_operation_is_recognized_by_its_own_method_and_path_only() {
    for (line, operation) in CONTRACT.lines().skip(1).zip(Operation::LISTED) {
        let template = line.split('\t').nth(2).unwrap();
        let path = template
            .replace("{id}", "prod%24t1")
            .replace("{index_name}", "by%20day");
        let expected = Target {
            operation,
            id: template.contains("{id}").then_some("prod%24t1"),
            index_name: template.contains("{index_name}").then_some("by%20day"),
        };
        let method = operation.method().unwrap();
        assert_eq!(recognize(method, &path), Ok(expected));
        assert_eq!(recognize(method, &format!("{path}/")), Ok(expected));
        let allow = method.as_str();
        assert_eq!(
            recognize(&Method::DELETE, &path),
            Err(Unrecognized::WrongMethod { allow })
        );
    }
}

#[test]
fn an_operation_this_version_does_not_know_is_a_write_on_what_its_path_names() {
    let cases = [
        ("/v1/table/a/vacuum", Kind::Table),
        ("/v1/table/a/refresh", Kind::Table),
        ("/v1/table/version/vacuum", Kind::Table),
        ("/v1/table/a/index/i/rebuild", Kind::Table),
        ("/v1/namespace/a/alter/deeply/so", Kind::Namespace),
        ("/v1/materialized_view/a/drop", Kind::MaterializedView),
        ("/v1/transaction/a/cancel", Kind::Transaction),
    ];
    for (path, kind) in cases {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let target = recognize(&method, path).unwrap();
            assert_eq!(target.operation, Operation::Unlisted(kind), "{path}");
            assert_eq!(target.id, path.split('/').nth(3));
            let index_name = path.contains("/index/").then_some("i");
            assert_eq!(target.index_name, index_name);
            assert_eq!(target.operation.access(), Access::Write);
        }
    }
}

#[test]
fn a_snapshot_has_one_path_and_one_method() {
    let path = "/nsgate/v1/snapshot";
    let target = recognize(&Method::POST, path).unwrap();
    assert_eq!((target.operation, target.id), (Operation::Snapshot, None));
    assert_eq!(target.operation.access(), Access::Read);
    let allow = "POST";
    assert_eq!(
        recognize(&Method::GET, path),
        Err(Unrecognized::WrongMethod { allow })
    );
    for path in [
        "/nsgate",
        "/nsgate/v1",
        "/nsgate/v1/Snapshot",
        "/nsgate/v1/snapshot/x",
        "/nsgate/v1/../v1/snapshot",
        "/nsgate/v1/batch-commi%74",
        "/nsgate/v1/table/batch-commit",
        "/nsgate/batch-commit",
    ] {
        let outcome = recognize(&Method::POST, path);
        assert_eq!(outcome, Err(Unrecognized::NoSuchExtension), "{path}");
    }
    assert_eq!(
        recognize(&Method::POST, "/nsgates"),
        Err(Unrecognized::NoSuchRoute)
    );
}

#[test]
fn a_static_segment_wins_over_an_identifier() {
    let target = |path| recognize(&Method::POST, path).unwrap();
    assert_eq!(
        target("/v1/table/version/batch-create").operation,
        Operation::BatchCreateTableVersions
    );
    assert_eq!(target("/v1/table/version/describe").id, Some("version"));
    assert_eq!(
        target("/v1/table/a/index/list").operation,
        Operation::ListTableIndices
    );
    assert_eq!(
        target("/v1/table/a/index/list/stats").index_name,
        Some("list")
    );
}

#[test]
fn the_extended_commit_has_a_path_of_its_own() {
    let at = |method, path| recognize(&method, path).map(|target| target.operation);
    for path in ["/nsgate/v1/batch-commit", "/nsgate/v1/batch-commit/"] {
        assert_eq!(at(Method::POST, path), Ok(Operation::BatchCommitTables));
        let allow = "POST";
        assert_eq!(
            at(Method::GET, path),
            Err(Unrecognized::WrongMethod { allow })
        );
    }
}

#[test]
fn other_paths_are_no_route() {
    for path in [
        "",
        "/",
        "/v1",
        "/v1/",
        "/v2/table/a/describe",
        "v1/table/a/describe",
        "/v1/tables",
        "/v1/table/a",
        "/v1/namespace",
        "/v1/namespace/a",
        "/V1/table/a/describe",
        "*",
        "/v1/%74able/a/describe",
        "/metrics",
    ] {
        assert_eq!(
            recognize(&Method::POST, path),
            Err(Unrecognized::NoSuchRoute),
            "{path}"
        );
    }
}

#[test]
fn an_address_that_ends_wrongly_is_told() {
    for path in ["//v1/table/a/describe", "/v1/v1/table/a/describe"] {
        let refused = recognize(&Method::POST, path);
        assert!(matches!(refused, Err(Unrecognized::WrongBase(_))), "{path}");
    }
}

#[test]
fn a_path_that_servers_read_differently_is_refused() {
    for path in [
        "/v1//table/a/describe",
        "/v1/table//describe",
        "/v1/table/a//describe",
        "/v1/table/./a/describe",
        "/v1/table/../table/a/describe",
        "/v1/table/%2e%2E/describe",
        "/v1/table/.%2e/x",
        "/v1/namespace/a/%2E./table/b/drop",
        "/v1/namespace/a/..",
        "/v1/table/a;v=1/describe",
        "/v1/table/a/describe;v=1",
        "/v1/table/a\\b/describe",
        "/v1/table/a/new%2F..%2fthing",
        "/v1/table/a/new%5cthing",
        // Servers that decode before they route take these for listed operations.
        "/v1/table/a/%72ename",
        "/v1/table/a/version/%6Cist",
        "/v1/table/a/inde%78/i/stats",
        "/v1/table/a/index/i/stat%73",
        "/v1/table/%76ersion/batch-create",
        "/v1/table/version/batch%2Dcreate",
        "/v1/namespace/a/table/lis%74",
        "/v1/transaction/a/%61lter",
    ] {
        assert!(
            matches!(
                recognize(&Method::POST, path),
                Err(Unrecognized::Ambiguous(_))
            ),
            "{path}"
        );
    }
    let names_with_dots_and_slashes = [
        "/v1/table/.../describe",
        "/v1/table/a.b/describe",
        "/v1/table/..a/describe",
        "/v1/table/a%2Fb/describe",
        "/v1/table/a%3Bb/describe",
        "/v1/table/a/label/%6Cist",
        "/v1/table/%76ersion/describe",
    ];
    for path in names_with_dots_and_slashes {
        assert!(recognize(&Method::POST, path).is_ok(), "{path}");
    }
}

#[test]
fn no_path_with_which_something_is_wrong_looks_plain() {
    const BYTES: &[u8] = b"a/.%2e;\\";
    const LONGEST: u32 = 5;
    let mut plain = 0;
    for length in 0..=LONGEST {
        for number in 0..BYTES.len().pow(length) {
            let digit = |place| number / BYTES.len().pow(place) % BYTES.len();
            let path: Vec<_> = (0..length).map(|place| BYTES[digit(place)]).collect();
            if is_plain(&path) {
                assert_eq!(doubt(&path), None, "{}", path.escape_ascii());
                plain += 1;
            }
        }
    }
    assert!(plain > 1000, "{plain}");
}
