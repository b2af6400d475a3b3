//! The check of a body against its route if no part of it has to change.

use bytes::Bytes;
use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use nsgate::protocol::batch;
use nsgate::protocol::identifier::Identifier;
use nsgate::protocol::operation::Operation;
use nsgate::protocol::rewrite::{self, CheckedBody, RequestRoute};
use serde_json::json;

#[divan::bench]
fn of_describe(bencher: Bencher<'_, '_>) {
    let body = r#"{"id":["prod","t1"],"check_declared":false}"#;
    checked(bencher, Operation::DescribeTable, &body.into());
}

#[divan::bench]
fn of_one_mebibyte(bencher: Bencher<'_, '_>) {
    let predicate = "x".repeat((1 << 20) - 100);
    let body = json!({"id": ["prod", "t1"], "predicate": predicate, "updates": [["a", "1"]]});
    checked(bencher, Operation::UpdateTable, &body.to_string().into());
}

#[divan::bench]
fn of_one_mebibyte_of_numbers(bencher: Bencher<'_, '_>) {
    let vector: Vec<f64> = (0..60_000).map(|number| f64::from(number) / 7.0).collect();
    let body = json!({"id": ["prod", "t1"], "k": 10, "vector": {"single_vector": vector}});
    checked(bencher, Operation::QueryTable, &body.to_string().into());
}

/// The check reads every entry.
#[divan::bench(args = [2, 100])]
fn of_a_batch(bencher: Bencher<'_, '_>, entries: usize) {
    let entries: Vec<_> = (0..entries)
        .map(|number| {
            json!({
                "id": ["prod", format!("table-{number}")], "version": 7, "manifest_path": "staged/7.manifest",
                "manifest_size": 1000, "e_tag": "\"5d41402abc4b2a76b9719d911017c592\"", "naming_scheme": "V2",
            })
        })
        .collect();
    let body = json!({ "entries": entries }).to_string();
    bencher
        .counter(BytesCount::of_str(&body))
        .bench_local(|| batch::parse(black_box(body.as_bytes()), 1000).unwrap());
}

fn checked(bencher: Bencher<'_, '_>, operation: Operation, body: &Bytes) {
    let id = Identifier::from_names(["prod", "t1"]).unwrap();
    let asked = RequestRoute {
        operation,
        id: Some(&id),
        index_name: None,
    };
    bencher
        .counter(BytesCount::new(body.len()))
        .bench_local(|| -> CheckedBody {
            let keep = |_: &Identifier| Ok(None);
            rewrite::request(black_box(asked), black_box(body.clone()), keep, |_, _| {
                Ok(true)
            })
            .unwrap()
        });
}
