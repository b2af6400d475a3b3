//! The map in `src/lib.rs` holds: a module imports only modules that are below it in the map. The lists of files,
//! `src/FILES.md` and `tests/FILES.md`, have every file with its first sentence; `NSGATE_WRITE_EXPECTED=1` writes them.
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

/// Returns every file in Rust, SQL, Python or JavaScript below a folder, a file before the folder of its name.
fn listed_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if comment_mark(&path).is_some() {
                found.push(path);
            }
        }
    }
    found.sort_by_cached_key(|path| (path.with_extension(""), path.clone()));
    found
}

/// Returns the mark before each line of the comment that a file begins with; `None` for files that are not listed.
fn comment_mark(path: &Path) -> Option<&'static str> {
    match path.extension()?.to_str()? {
        "rs" => Some("//!"),
        "sql" => Some("--"),
        "js" => Some("//"),
        "py" => Some(""),
        _ => None,
    }
}

/// Returns the first sentence of a file's documentation, in one line and without the targets of links.
fn first_sentence(text: &str, mark: &str) -> String {
    let text = text.trim_start_matches("\"\"\"").replace("\"\"\"", "\n");
    let lines = text.lines().map_while(|line| line.strip_prefix(mark));
    let paragraph: Vec<&str> = lines
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let paragraph = paragraph.join(" ");
    let end = paragraph.find(". ").map_or(paragraph.len(), |dot| dot + 1);
    let mut sentence = String::new();
    let mut rest = &paragraph[..end];
    while let Some((name, after)) = rest.split_once("`](") {
        sentence.push_str(&name.replacen("[`", "`", 1));
        sentence.push('`');
        rest = after.split_once(')').expect("the target of a link ends").1;
    }
    sentence + &rest.replace("[`", "`").replace("`]", "`")
}

/// Returns true for a file without a test beside a folder of its name with tests.
fn has_only_tests_of_others(file: &Path) -> bool {
    let is_test = |text: &str| text.contains("#[test]") || text.contains("#[tokio::test]");
    let folder = file.with_extension("");
    let is_rust = file.extension().is_some_and(|extension| extension == "rs");
    if !is_rust
        || !folder.is_dir()
        || folder.join("main.rs").exists()
        || is_test(&fs::read_to_string(file).unwrap())
    {
        return false;
    }
    let inside = listed_files(&folder).into_iter();
    let tests = inside.filter(|file| is_test(&fs::read_to_string(file).unwrap()));
    // Sources have their tests in files of this name.
    tests
        .filter(|file| !file.ends_with("tests.rs") && !file.starts_with(SOURCE))
        .count()
        > 0
}

/// Checks the list of a folder's files, or writes it.
fn check_list(folder: &str, about: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut list = format!("# The files of `{folder}`\n\n{about}\n");
    let mut silent = Vec::new();
    let mut promising = Vec::new();
    let mut heading = String::new();
    for file in listed_files(&root) {
        let inside = file
            .strip_prefix(&root)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let sentence = first_sentence(
            &fs::read_to_string(&file).unwrap(),
            comment_mark(&file).unwrap(),
        );
        // Tests of one module stand beside it, in a file that needs no words.
        if sentence.is_empty() && inside.ends_with("tests.rs") {
            continue;
        }
        if sentence.is_empty() {
            silent.push(inside.clone());
        }
        // Someone who looks for a test would stop at a file whose sentence is a promise and that has none.
        if has_only_tests_of_others(&file)
            && !sentence.contains("share")
            && !sentence.contains("folder")
        {
            promising.push(inside.clone());
        }
        let top = inside.split(['/', '.']).next().unwrap();
        if top != heading {
            heading = top.to_owned();
            list.push_str(&format!("\n## {top}\n\n"));
        }
        list.push_str(&format!("- `{inside}`: {sentence}\n"));
    }
    assert!(
        silent.is_empty(),
        "files without a first sentence: {silent:#?}"
    );
    assert!(
        promising.is_empty(),
        "these have no test of their own: say what the tests share that are in the files of their folder: {promising:#?}"
    );
    let path = root.join("FILES.md");
    if std::env::var_os("NSGATE_WRITE_EXPECTED").is_some() {
        fs::write(path, list).unwrap();
        return;
    }
    let written = fs::read_to_string(path).unwrap();
    assert!(
        written == list,
        "{folder}/FILES.md is not the list of the files any more. Write it with \
         `NSGATE_WRITE_EXPECTED=1 cargo test --test layers`, and read the difference."
    );
}

#[test]
fn the_list_of_source_files_is_current() {
    check_list(
        "src",
        "Every file with the first sentence of its documentation. The modules and their order are in `lib.rs`. Unit tests \
         are in `MODULE/tests.rs`, which is listed only if it says more than that.",
    );
}

#[test]
fn the_list_of_test_files_is_current() {
    check_list(
        "tests",
        "Every file with the first sentence of its documentation. Where a new test goes: [README.md](README.md).",
    );
}
