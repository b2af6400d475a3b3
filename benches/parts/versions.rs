//! The removal of hidden versions from a catalog's list.

use bytes::Bytes;
use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use nsgate::batch::visibility::commit_flag::CommitFlag;
use nsgate::batch::visibility::filter::Page;
use nsgate::batch::visibility::{Hidden, Visibility, json_splice};
use nsgate::batch::{TableBranch, TableKey};
use nsgate::protocol::data_scope::DataScope;
use nsgate::protocol::identifier::Identifier;
use serde_json::json;

/// The check for hidden versions, which finds none for nearly every list.
#[divan::bench]
fn nothing_is_hidden(bencher: Bencher<'_, '_>) {
    let (visibility, line) = (Visibility::default(), line());
    bencher.bench_local(|| visibility.hidden(black_box(&line)).is_empty());
}

/// One hidden version, found in the text of the list.
#[divan::bench(args = [10, 1000])]
fn one_of(bencher: Bencher<'_, '_>, versions: u64) {
    let (body, hidden) = (list(versions), hidden(versions));
    bencher
        .counter(BytesCount::new(body.len()))
        .with_inputs(|| Bytes::copy_from_slice(&body))
        .bench_local_values(|body| json_splice::without(black_box(body), &hidden).unwrap());
}

/// One hidden version in a list that has to be parsed as JSON.
#[divan::bench(args = [10, 1000])]
fn one_of_a_list_that_is_read(bencher: Bencher<'_, '_>, versions: u64) {
    let (body, hidden) = (list(versions), hidden(versions));
    bencher
        .counter(BytesCount::new(body.len()))
        .bench_local(|| {
            let page = Page::parse(black_box(&body)).unwrap();
            page.without(&hidden, None, None)
        });
}

fn line() -> TableBranch {
    let table = TableKey {
        scope: DataScope::default(),
        backend: "warehouse".into(),
        table: Identifier::from_names(["prod", "t1"]).unwrap(),
    };
    TableBranch::new(table, None)
}

/// Hides the latest of the versions.
fn hidden(versions: u64) -> Hidden {
    let visibility = Visibility::default();
    visibility.hide(line(), versions, &CommitFlag::default());
    visibility.hidden(&line())
}

/// Returns a list of versions as real catalogs write it.
fn list(versions: u64) -> Bytes {
    let versions = (1..=versions).rev().map(|number| {
        json!({
            "version": number,
            "manifest_path": format!("warehouse/events.lance/_versions/{:020}.manifest", u64::MAX - number),
            "manifest_size": 1000 + number, "e_tag": "\"5d41402abc4b2a76b9719d911017c592\"",
            "timestamp_millis": 1_763_700_000_000_u64, "metadata": {},
        })
    });
    let versions: Vec<_> = versions.collect();
    json!({ "versions": versions }).to_string().into()
}
