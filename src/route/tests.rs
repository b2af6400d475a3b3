#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use super::{Identifier, Kind, Mount, Table};
use crate::protocol::identifier::MAX_BYTES;

fn id(names: &[&str]) -> Identifier {
    Identifier::from_names(names).unwrap()
}

fn table(mounts: &[(&[&str], &str, &[&str])]) -> Table {
    let mount = |&(namespace, backend, at): &(&[&str], &str, &[&str])| Mount {
        namespace: id(namespace),
        backend: 0,
        backend_name: backend.into(),
        backend_namespace: id(at),
    };
    Table::new(mounts.iter().map(mount).collect())
}

fn sample() -> Table {
    table(&[
        (&["research", "lab"], "lab", &[]),
        (&["prod"], "warehouse", &["prod"]),
        (&["prod", "eu", "hr"], "hr", &["people"]),
        (&[], "rest", &[]),
        (&["prod!"], "odd", &["x"]),
    ])
}

#[test]
fn the_longest_prefix_of_names_owns_an_identifier() {
    let table = sample();
    let cases: [(&[&str], &str); 11] = [
        (&[], "rest"),
        (&["x"], "rest"),
        (&["pro"], "rest"),
        (&["product", "t"], "rest"),
        (&["prod"], "warehouse"),
        (&["prod", "eu"], "warehouse"),
        (&["prod", "eu", "hr"], "hr"),
        (&["prod", "eu", "hr", "a", "b"], "hr"),
        (&["prod", "eu", "hr2"], "warehouse"),
        (&["research"], "rest"),
        (&["research", "lab", "x"], "lab"),
    ];
    for (names, backend) in cases {
        assert_eq!(
            &*table.find(&id(names)).unwrap().backend_name,
            backend,
            "{names:?}"
        );
    }
}

#[test]
fn what_no_mount_covers_is_not_found_with_the_code_of_its_kind() {
    let table = table(&[(&["prod"], "w", &["prod"])]);
    for (kind, code) in [
        (Kind::Namespace, 1),
        (Kind::Table, 4),
        (Kind::MaterializedView, 4),
        (Kind::Transaction, 10),
    ] {
        let error = table.owner(&id(&["x", "y"]), kind).unwrap_err();
        assert_eq!(
            (error.code().number(), error.status().as_u16()),
            (code, 404)
        );
    }
    assert!(table.owner(&id(&["prod"]), Kind::Table).is_ok());
    assert!(Table::default().find(&id(&[])).is_none());
}

#[test]
fn names_below_lead_to_mounts_strictly_below() {
    let table = sample();
    let cases: [(&[&str], &[&str]); 6] = [
        (&[], &["prod", "prod!", "research"]),
        (&["prod"], &["eu"]),
        (&["prod", "eu"], &["hr"]),
        (&["prod", "eu", "hr"], &[]),
        (&["research"], &["lab"]),
        (&["pro"], &[]),
    ];
    for (names, expected) in cases {
        let below = table.next_names_below(&id(names));
        assert!(below.iter().eq(expected), "{names:?}: {below:?}");
    }
    assert_eq!(table.below(&id(&[])).count(), 4);
    assert_eq!(table.mounts().len(), 5);
}

/// Found by fuzzing: the batch log could not be read again, because it had an identifier that the gateway
/// itself had made too long.
#[test]
fn what_is_too_long_at_the_catalog_is_served_by_nobody() {
    let mount = Mount {
        namespace: id(&["lab"]),
        backend: 0,
        backend_name: "lab".into(),
        backend_namespace: id(&["aa", "b"]),
    };
    let table = Table::new(vec![mount]);
    let deep = |names: usize| Identifier::from_names([&["lab"][..], &vec!["n"; names]].concat());
    assert!(table.find(&deep(62).unwrap()).is_some());
    assert!(table.find(&deep(63).unwrap()).is_none(), "65 names there");
    let long = |bytes: usize| id(&["lab", &"x".repeat(bytes)]);
    assert!(table.find(&long(MAX_BYTES - 4)).is_some());
    assert!(
        table.find(&long(MAX_BYTES - 3)).is_none(),
        "a byte too much"
    );
}

#[test]
fn a_mount_translates_both_ways() {
    let table = sample();
    let cases: [(&[&str], &[&str]); 5] = [
        (&["research", "lab"], &[]),
        (&["research", "lab", "x"], &["x"]),
        (&["prod", "eu", "hr", "t"], &["people", "t"]),
        (&["prod", "t"], &["prod", "t"]),
        (&["t"], &["t"]),
    ];
    for (client, catalog) in cases {
        let mount = table.find(&id(client)).unwrap();
        assert_eq!(mount.to_catalog(&id(client)), id(catalog));
        assert_eq!(mount.to_client(&id(catalog)), Some(id(client)));
        assert_eq!(mount.keeps_path(), client == catalog);
    }
    let hr = table.find(&id(&["prod", "eu", "hr"])).unwrap();
    assert_eq!(hr.to_client(&id(&["other", "t"])), None);
}
