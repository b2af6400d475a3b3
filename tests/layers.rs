//! The map in `src/lib.rs` holds: a module imports only modules that are below it in the map.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test says what it expects"
)]

use std::fs;
use std::path::{Path, PathBuf};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

/// Returns the modules in the order of the map.
fn map() -> Vec<String> {
    let text = fs::read_to_string(Path::new(SOURCE).join("lib.rs")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | "));
    let names = rows.filter_map(|row| row.split('`').nth(1));
    names.map(str::to_owned).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            // The program and the tests may import everything.
            if !["bin", "tests"].contains(&name) {
                sources(&path, found);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" && name != "lib.rs" {
            found.push(path);
        }
    }
}

/// Returns the modules that a file imports with `crate::`, apart from comments and its tests.
fn imports(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap();
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let paths = lines.flat_map(|line| line.split("crate::").skip(1));
    paths.filter_map(|path| {
        let end = path.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
        path.get(..end.unwrap_or(path.len()))
    })
}

#[test]
fn modules_import_only_what_stands_below_them_in_the_map() {
    let map = map();
    let place = |name: &str| map.iter().position(|known| known == name);
    let mut files = Vec::new();
    sources(Path::new(SOURCE), &mut files);
    assert!(files.len() > 200, "{} files", files.len());
    let mut upward = Vec::new();
    for file in &files {
        let inside = file.strip_prefix(SOURCE).unwrap().to_str().unwrap();
        let own = inside.split(['/', '.']).next().unwrap();
        let here = place(own).unwrap_or_else(|| panic!("`{own}` is not in the map of src/lib.rs"));
        let text = fs::read_to_string(file).unwrap();
        for name in imports(&text).filter(|name| *name != own) {
            if place(name).is_some_and(|there| there < here) {
                upward.push(format!("{inside} imports `{name}`"));
            }
        }
    }
    assert!(upward.is_empty(), "upward imports: {upward:#?}");
}
