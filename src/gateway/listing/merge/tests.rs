#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use super::{Identifier, Mount, Table, all_tables, tables};

fn id(names: &[&str]) -> Identifier {
    Identifier::from_names(names).unwrap()
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn mount(namespace: &[&str], backend: usize, at: &[&str]) -> Mount {
    Mount {
        namespace: id(namespace),
        backend,
        backend_name: format!("b{backend}").into(),
        backend_namespace: id(at),
    }
}

fn sample() -> Table {
    Table::new(vec![
        mount(&[], 0, &[]),
        mount(&["prod"], 1, &["prod"]),
        mount(&["prod", "hr"], 2, &["people"]),
        mount(&["research", "lab"], 3, &[]),
        mount(&["copy"], 1, &["prod"]),
    ])
}

#[test]
fn a_table_that_a_mount_shadows_is_not_listed() {
    let routes = sample();
    let at = |level: &[&str], listed: &[&str]| tables(&routes, &id(level), owned(listed));
    assert_eq!(at(&["prod"], &["t", "hr", "a"]), ["t", "a"]);
    assert_eq!(at(&[], &["prod", "research", "x"]), ["research", "x"]);
    assert_eq!(at(&["research"], &["lab", ""]), [""]);
}

#[test]
fn all_tables_are_spelled_as_clients_must() {
    let routes = sample();
    let list = |backend: usize, listed: &[&str], delimiter: &str| {
        let mounts: Vec<&Mount> = routes
            .mounts()
            .iter()
            .map(|mount| &**mount)
            .filter(|mount| mount.backend == backend)
            .collect();
        all_tables(
            &routes,
            &mounts,
            &owned(listed),
            delimiter,
            |_| false,
            |_| true,
        )
    };
    // The table is seen through both of its mounts, but not at a place where another mount shadows
    // it.
    assert_eq!(
        list(1, &["prod$t", "prod$hr$t", "other$t"], "$").unwrap(),
        ["copy$t", "prod$t", "copy$hr$t"]
    );
    assert_eq!(list(2, &["people$t", "t"], ".").unwrap(), ["prod.hr.t"]);
    assert_eq!(
        list(3, &["a", "x$y"], "$").unwrap(),
        ["research$lab$a", "research$lab$x$y"]
    );
    assert_eq!(list(0, &["a", "prod$t"], "$").unwrap(), ["a"]);
    // A name that cannot be spelled is an error and is not omitted.
    assert!(list(3, &["a$$b"], "$").is_err());
    assert!(list(3, &["t"], "a").is_err());
}
