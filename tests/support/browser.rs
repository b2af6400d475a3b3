//! The browser of the tests of the status page, and axe-core, which looks for what shuts people out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns an installed Chromium or Chrome, or the Debian package with its dependencies, unpacked below the tests'
/// folder.
pub fn browser() -> PathBuf {
    let named = std::env::var_os("NSGATE_BROWSER").map(PathBuf::from);
    let usual = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let found = named.into_iter().chain(usual.map(PathBuf::from));
    let mut found = found.filter(|name| Command::new(name).arg("--version").output().is_ok());
    // Tests of one process wait for each other: they would unpack into the same folder.
    static UNPACKED: OnceLock<PathBuf> = OnceLock::new();
    let unpacked = || UNPACKED.get_or_init(unpacked).clone();
    found.next().unwrap_or_else(unpacked)
}

fn unpacked() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chromium");
    let start = folder.join("start");
    if start.exists() {
        return start;
    }
    fs::create_dir_all(&folder).unwrap();
    let steps = r#"
        list() { apt-get install -s --no-install-recommends chromium fonts-dejavu-core | sed -n 's/^Inst \([^ ]*\).*/\1/p'; }
        { list | xargs apt-get download -qq; } || { apt-get update -qq; list | xargs apt-get download -qq; }
        for package in *.deb; do dpkg-deb -x "$package" .; rm "$package"; done
        libraries=$(find "$PWD" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
        printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$libraries" "$PWD/usr/lib/chromium/chromium" > new
        chmod +x new; ./new --version; mv new start"#;
    let mut shell = Command::new("sh");
    let shell = shell.args(["-ec", steps]).current_dir(&folder).output();
    let said = shell.map_or_else(
        |error| error.to_string(),
        |output| String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(
        start.exists(),
        "a browser is missing and the Debian package cannot be had: install Chromium or Chrome, name one in \
         NSGATE_BROWSER, or set NSGATE_SKIP_REAL=1\n{said}"
    );
    start
}

/// Returns the script of axe-core, in the version that `axe/package-lock.json` pins, installed below the tests' folder.
pub fn axe() -> PathBuf {
    // Tests of one process wait for each other.
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(install_axe).clone()
}

fn install_axe() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("axe-{}", std::process::id()));
    let script = Path::new(env!("CARGO_TARGET_TMPDIR")).join("axe-4.14.1.js");
    if script.exists() {
        return script;
    }
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in [
        ("package.json", include_str!("axe/package.json")),
        ("package-lock.json", include_str!("axe/package-lock.json")),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
    let said = match npm.current_dir(&folder).output() {
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => format!("npm cannot be run: {error}"),
    };
    let installed = folder.join("node_modules/axe-core/axe.min.js");
    assert!(
        installed.exists(),
        "axe-core cannot be installed: install Node.js with npm, and let it reach a package registry, or set \
         NSGATE_SKIP_REAL=1\n{said}"
    );
    // Another test process may do the same; a rename replaces its file with an equal one.
    fs::rename(installed, &script).unwrap();
    let _ = fs::remove_dir_all(folder);
    script
}
