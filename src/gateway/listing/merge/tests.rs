#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::BTreeSet;

use super::{Identifier, Mount, Page, Table, all_tables, namespaces, page, tables};

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

fn is(all: &BTreeSet<String>, expected: &[&str]) -> bool {
    all.iter().eq(expected)
}

#[test]
fn namespaces_are_the_owners_and_those_that_lead_to_mounts() {
    let routes = sample();
    let at = |level: &[&str], listed: &[&str]| namespaces(&routes, &id(level), owned(listed));
    assert!(is(
        &at(&[], &["zoo", "prod", "alpha", "zoo"]),
        &["alpha", "copy", "prod", "research", "zoo"]
    ));
    assert!(is(&at(&["prod"], &["eu", "hr"]), &["eu", "hr"]));
    assert!(is(&at(&["research"], &[]), &["lab"]));
}

#[test]
fn a_table_that_a_mount_shadows_is_not_listed() {
    let routes = sample();
    let at = |level: &[&str], listed: &[&str]| tables(&routes, &id(level), owned(listed));
    assert!(is(&at(&["prod"], &["t", "hr", "a"]), &["a", "t"]));
    assert!(is(&at(&[], &["prod", "research", "x"]), &["research", "x"]));
    assert!(is(&at(&["research"], &["lab", ""]), &[""]));
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
    assert_eq!(list(2, &["people.t", "t"], ".").unwrap(), ["prod.hr.t"]);
    assert_eq!(
        list(3, &["a", "x$y"], "$").unwrap(),
        ["research$lab$a", "research$lab$x$y"]
    );
    assert_eq!(list(0, &["a", "prod$t"], "$").unwrap(), ["a"]);
    // A name that cannot be spelled is an error and is not omitted.
    assert!(list(3, &["a$$b"], "$").is_err());
    assert!(list(3, &["t"], "a").is_err());
}

#[test]
fn pages_follow_one_another_without_gap_or_overlap() {
    let all: BTreeSet<String> = (0..25).map(|n| format!("t{n:02}")).collect();
    for limit in 1..30 {
        let mut seen = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let Page { names, more } = page(all.clone(), after.as_deref(), Some(limit));
            assert!(names.len() <= limit && !names.is_empty());
            seen.extend(names);
            if !more {
                break;
            }
            after = seen.last().cloned();
        }
        assert!(seen.iter().eq(&all), "limit {limit}");
    }
    let none = Page {
        names: Vec::new(),
        more: false,
    };
    assert_eq!(page(all.clone(), None, Some(0)), none);
    assert_eq!(page(all.clone(), Some("u"), None), none);
    assert_eq!(page(all.clone(), None, None).names.len(), 25);
    // The last name of the previous page may have been deleted since.
    let first = &page(all, Some("t03x"), Some(1)).names[0];
    assert_eq!(first, "t04");
}
