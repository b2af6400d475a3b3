//! Tells the crate what it is built from: commit, features and compiler, for `src/build.rs`. No time and no path of this
//! machine: the same commit makes the same program.

use std::env;
use std::path::Path;
use std::process::Command;

/// The digits of a commit that are shown.
const DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=NSGATE_REVISION");
    let revision = given().or_else(checked_out);
    let revision = revision.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=NSGATE_REVISION={revision}");
    println!("cargo::rustc-env=NSGATE_FEATURES={}", features());
    println!("cargo::rustc-env=NSGATE_RUSTC={}", compiler());
}

/// Returns the commit that the caller of cargo names, where there is no checkout: in an image, from an sdist.
fn given() -> Option<String> {
    let given = env::var("NSGATE_REVISION").ok()?;
    let given = given.trim();
    let is_commit = given.len() == 40 && given.bytes().all(|byte| byte.is_ascii_hexdigit());
    let given = if is_commit { &given[..DIGITS] } else { given };
    // A line break would end the instruction to cargo.
    let is_plain = given.bytes().all(|byte| byte.is_ascii_graphic());
    (!given.is_empty() && is_plain).then(|| given.to_owned())
}

/// Returns the commit that is checked out, with `-dirty` if the source is not the commit's.
///
/// A build for debugging does not ask: each commit would compile the crate and all of its tests again.
fn checked_out() -> Option<String> {
    if env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        return None;
    }
    // This folder may lie inside the checkout of something else.
    let top = env::var("CARGO_MANIFEST_DIR").ok()?;
    let found = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&found).canonicalize().ok()? != Path::new(&top).canonicalize().ok()? {
        return None;
    }
    let mut watched = vec![
        "src".to_owned(),
        "Cargo.toml".to_owned(),
        "Cargo.lock".to_owned(),
    ];
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    let names = ["HEAD".to_owned(), "packed-refs".to_owned()]
        .into_iter()
        .chain(branch);
    watched.extend(names.filter_map(|name| git(&["rev-parse", "--git-path", &name])));
    for path in watched.iter().filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
    let commit = git(&["rev-parse", &format!("--short={DIGITS}"), "HEAD"])?;
    let source = [
        "diff",
        "--quiet",
        "HEAD",
        "--",
        "src",
        "build.rs",
        "Cargo.toml",
        "Cargo.lock",
    ];
    let dirty = if git(&source).is_none() { "-dirty" } else { "" };
    Some(format!("{commit}{dirty}"))
}

/// Returns what git prints, or nothing if it fails or is not there.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Returns the cargo features of this build, separated by commas, or `none`.
fn features() -> String {
    let all = env::var("CARGO_CFG_FEATURE").unwrap_or_default();
    let mut named: Vec<&str> = all
        .split(',')
        .filter(|name| !["", "default"].contains(name))
        .collect();
    if named.is_empty() {
        return "none".to_owned();
    }
    named.sort_unstable();
    named.join(",")
}

/// Returns the compiler's version, such as `1.95.0`.
fn compiler() -> String {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = text
        .ok()
        .and_then(|text| text.split(' ').nth(1).map(|word| word.trim().to_owned()));
    version.unwrap_or_else(|| "unknown".to_owned())
}
