//! The look-up of an identifier's mount, by number of mounts.

use divan::{Bencher, black_box};
use nsgate::protocol::identifier::Identifier;
use nsgate::route::{Mount, Table};

const MOUNTS: [usize; 3] = [10, 1_000, 100_000];

#[divan::bench(args = MOUNTS)]
fn found(bencher: Bencher<'_, '_>, mounts: usize) {
    let table = table(mounts);
    let id = Identifier::from_names([&name(mounts / 2), "t1"]).unwrap();
    bencher.bench_local(|| table.find(black_box(&id)).is_some());
}

/// The identifier is ten names below its mount.
#[divan::bench(args = MOUNTS)]
fn found_for_a_deep_one(bencher: Bencher<'_, '_>, mounts: usize) {
    let table = table(mounts);
    let own = name(mounts / 2);
    let names = std::iter::once(own.as_str()).chain(["name"; 10]);
    let id = Identifier::from_names(names).unwrap();
    bencher.bench_local(|| table.find(black_box(&id)).is_some());
}

#[divan::bench(args = MOUNTS)]
fn not_found(bencher: Bencher<'_, '_>, mounts: usize) {
    let table = table(mounts);
    let id = Identifier::from_names(["nobody", "t1"]).unwrap();
    bencher.bench_local(|| table.find(black_box(&id)).is_none());
}

fn table(mounts: usize) -> Table {
    let mounts = (0..mounts).map(|number| {
        let namespace = Identifier::from_names([name(number)]).unwrap();
        Mount {
            backend_namespace: namespace.clone(),
            namespace,
            backend: 0,
            backend_name: "warehouse".into(),
        }
    });
    Table::new(mounts.collect())
}

fn name(number: usize) -> String {
    format!("mount-{number:06}")
}
