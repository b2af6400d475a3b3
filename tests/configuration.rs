//! The configuration as an operator sees it: what `check` says about broken files, and that the shipped files load.
//!
//! `configuration/broken/NAME.yaml` is a broken file, and `NAME.expected` contains exactly what is said about it,
//! with FOLDER for the folder. The latter are rewritten if `NSGATE_WRITE_EXPECTED` is set: read every line as the
//! operator would before you keep it.
#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

#[path = "configuration/explain.rs"]
mod explain;
#[path = "configuration/files.rs"]
mod files;
#[path = "configuration/output.rs"]
mod output;
#[path = "configuration/schema.rs"]
mod schema;
#[path = "configuration/shipped.rs"]
mod shipped;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nsgate::config::load::{self, Loaded, Problems};
use nsgate::config::{Config, Implementation, Limits, Listen};

/// The environment of the broken files: one variable with a value that must never be shown, and an empty one.
const ENVIRONMENT: [(&str, &str); 2] = [("SECRET", "hunter2"), ("EMPTY", "")];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configuration/broken")
}

fn environment(name: &str) -> Option<String> {
    let found = ENVIRONMENT.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| (*value).to_owned())
}

/// Returns the names of the broken files; those about a missing feature only if the build does not have the feature.
fn broken() -> Vec<String> {
    let files = std::fs::read_dir(folder())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap());
    let names = files.filter_map(|name| name.strip_suffix(".yaml").map(str::to_owned));
    let mut names: Vec<String> = names
        .filter(|name| !(cfg!(feature = "dir") && name.contains("dir")))
        .filter(|name| !(cfg!(feature = "otlp") && name.contains("feature-otlp")))
        .collect();
    names.sort();
    names
}

fn load_broken(name: &str) -> Result<Loaded, Problems> {
    let path = folder().join(format!("{name}.yaml"));
    match String::from_utf8(std::fs::read(&path).unwrap()) {
        Ok(text) => load::from_str(&text, &format!("{name}.yaml"), &folder(), &environment),
        Err(_) => load::from_path(&path).map_err(|mut problems| {
            problems.errors[0].file = format!("{name}.yaml");
            problems
        }),
    }
}

fn plain(said: &str) -> String {
    said.trim_end()
        .replace(folder().to_str().unwrap(), "FOLDER")
}

#[test]
fn each_broken_file_gets_exactly_its_messages() {
    let names = broken();
    assert!(names.len() >= 30, "{} broken files", names.len());
    let mut wrong = Vec::new();
    for name in names {
        let said = match load_broken(&name) {
            Ok(_) => "nothing is wrong".to_owned(),
            Err(problems) => plain(&problems.to_string()),
        };
        let file = folder().join(format!("{name}.expected"));
        if std::env::var_os("NSGATE_WRITE_EXPECTED").is_some() {
            std::fs::write(&file, format!("{said}\n")).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        if said != expected.trim_end() {
            wrong.push(format!("{name}:\n  expected\n{expected}\n  said\n{said}\n"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn check_prints_the_same_and_exits_with_1() {
    for name in broken() {
        let output = Command::new(env!("CARGO_BIN_EXE_nsgate"))
            .args(["check", "--config", &format!("{name}.yaml")])
            .env_clear()
            .envs(ENVIRONMENT)
            .current_dir(folder())
            .output()
            .unwrap();
        let said = plain(&String::from_utf8(output.stderr).unwrap());
        let expected = std::fs::read_to_string(folder().join(format!("{name}.expected"))).unwrap();
        assert_eq!(said, expected.trim_end(), "{name}");
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(output.stdout.is_empty(), "{name}");
    }
}

#[test]
fn each_message_names_the_place_and_the_cure_and_no_secret() {
    for name in broken() {
        let problems = load_broken(&name).unwrap_err();
        for problem in problems.errors.iter().chain(&problems.warnings) {
            let line = problem.to_string();
            assert!(problem.place.is_some(), "{line}");
            let cure = problem.message.split_once("; ").map(|(_, cure)| cure);
            assert!(cure.is_some_and(|cure| cure.len() >= 9), "{line}");
            assert!(!line.contains("hunter"), "{line}");
        }
        let places: Vec<_> = problems
            .errors
            .iter()
            .map(|problem| problem.place)
            .collect();
        assert!(places.is_sorted(), "{name}");
    }
}

#[test]
fn a_file_that_cannot_be_a_configuration_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let huge = folder.path().join("huge.yaml");
    let file = std::fs::File::create(&huge).unwrap();
    file.set_len((32 << 20) + 1).unwrap();
    for (path, expected) in [
        (huge.as_path(), "larger than 32MiB"),
        (&folder.path().join("none.yaml"), "cannot be read"),
        (folder.path(), "cannot be read"),
    ] {
        let said = load::from_path(path).unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_file_may_have_thousands_of_mounts_and_rules() {
    let mut text = String::from(
        "auth: { anonymous: true }\nbackends: { lake: { implementation: rest, properties: { uri: http://127.0.0.1:1 }, authorization: none } }\nmounts:\n",
    );
    for n in 0..13_000 {
        text += &format!("  - {{ namespace: [tenants, {n:064}], backend: lake }}\n");
    }
    text += "authorization:\n  - { namespace: [], read: { deny: true }, write: { deny: true } }\n";
    for n in 0..500 {
        text += &format!(
            "  - {{ namespace: [tenants, {n:064}, x], read: {{ deny: true }}, write: {{ deny: true }} }}\n"
        );
    }
    text += "  - { namespace: [elsewhere], read: { deny: true }, write: { deny: true } }\n";
    let loaded = load::from_str(&text, "long.yaml", &folder(), &|_| None).unwrap();
    assert_eq!(loaded.config.mounts.len(), 13_000);
    let warnings: Vec<_> = loaded.warnings.iter().map(|one| &*one.key).collect();
    assert_eq!(warnings, ["authorization[501].namespace"]);
}

#[test]
fn whatever_is_left_of_a_file_is_answered() {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("config/gateway.yaml"))
            .unwrap();
    let load = |text: &str| load::from_str(text, "cut.yaml", &folder(), &|_| Some("x".to_owned()));
    for at in (0..text.len()).step_by(11) {
        let (start, end) = (
            text.get(..at).unwrap_or_default(),
            text.get(at + 5..).unwrap_or_default(),
        );
        assert!(load(start).is_err(), "cut off at {at}");
        for glue in ["", "{", "\"", "\t", ": ", "- "] {
            // Without the removed bytes the file may be valid or broken; it must only not panic.
            let _ = load(&format!("{start}{glue}{end}"));
        }
    }
}

/// The keys that every configuration has.
const SMALLEST: &str = "auth: { anonymous: true }
backends: { a: { implementation: rest, properties: { uri: \"http://127.0.0.1:1\" } } }
mounts: [{ namespace: [], backend: a }]
batch: { log: batches.redb }
";

#[test]
fn a_rate_without_a_burst_allows_at_once_what_it_allows_in_its_time() {
    for (rate, burst) in [("500/s", 500), ("100/m", 100), ("20/h", 20)] {
        let yaml = format!("{SMALLEST}limits: {{ rate: {{ per_subject: {rate} }} }}\n");
        let loaded = load::from_str(&yaml, "gateway.yaml", Path::new("."), &|_: &str| None);
        let limits = loaded
            .unwrap_or_else(|problems| panic!("{problems}"))
            .config
            .limits;
        assert_eq!(limits.rate.unwrap().burst, burst, "{rate}");
    }
}

#[test]
fn a_certificate_that_is_soon_over_is_warned_about() {
    let folder = tempfile::tempdir().unwrap();
    let text = "
listen: { tls: { certificate: a.crt, private_key: a.key } }
auth: { anonymous: true }
backends: { lab: { implementation: rest, properties: { uri: http://127.0.0.1:1 }, authorization: none } }
mounts: [{ namespace: [lab], backend: lab }]";
    let now = std::time::SystemTime::now();
    let hours = |hours: u64| now + Duration::from_secs(hours * 3600);
    for (from, until, said) in [
        (now, hours(15 * 24), None),
        (now, hours(9 * 24 + 12), Some("expires in 9 days, at 2")),
        (hours(1), hours(900), Some("is not valid before 2")),
    ] {
        let mut params = rcgen::CertificateParams::new(["a.test".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (from.into(), until.into());
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("a.crt"), certificate.pem()).unwrap();
        std::fs::write(folder.path().join("a.key"), key.serialize_pem()).unwrap();
        let loaded = load::from_str(text, "soon.yaml", folder.path(), &|_| None);
        let found = match (loaded, from > now) {
            (Ok(loaded), false) => loaded.warnings,
            (Err(problems), true) => problems.errors,
            (other, _) => panic!("{other:?}"),
        };
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        match said {
            None => assert_eq!(found, Vec::<String>::new()),
            Some(said) => assert!(found.len() == 1 && found[0].contains(said), "{found:?}"),
        }
    }
}

#[test]
fn check_looks_into_key_sets_in_files_as_a_reload_does() {
    let folder = tempfile::tempdir().unwrap();
    let text = "
auth: { issuers: [{ issuer: i, audiences: [a], keys: { file: keys.json } }] }
backends: { lab: { implementation: rest, properties: { uri: http://127.0.0.1:1 }, authorization: none } }
mounts: [{ namespace: [lab], backend: lab }]";
    std::fs::write(folder.path().join("gateway.yaml"), text).unwrap();
    for (keys, said) in [
        ("-----BEGIN PUBLIC KEY-----", "is no key set"),
        (r#"{"keys":[]}"#, "has no key that fits"),
    ] {
        std::fs::write(folder.path().join("keys.json"), keys).unwrap();
        let mut check = Command::new(env!("CARGO_BIN_EXE_nsgate"));
        check.args(["check", "--config", "gateway.yaml"]);
        let output = check.current_dir(folder.path()).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        let place = format!("gateway.yaml:2:62: auth.issuers[0].keys.file: {said}");
        assert!(told.starts_with(&place), "{told}");
        assert_eq!(output.status.code(), Some(1), "{told}");
    }
}

#[test]
fn the_least_configuration_is_the_defaults() {
    let text = "
auth: { anonymous: true }
backends: { lab: { implementation: rest, properties: { uri: http://127.0.0.1:2333 } } }
mounts: [{ namespace: [no, 2024], backend: lab }]";
    let loaded = load::from_str(text, "least.yaml", Path::new("/etc/nsgate"), &|_| None).unwrap();
    assert_eq!(loaded.warnings.len(), 1, "no credentials of its own");
    assert_eq!(
        loaded.config.mounts[0].namespace,
        ["no", "2024"],
        "names are text, whatever they look like"
    );
    let Config {
        listen,
        limits,
        batch,
        ..
    } = loaded.config;
    assert_eq!((listen, limits), (Listen::default(), Limits::default()));
    assert_eq!(
        batch.log.file(),
        Some(Path::new("/etc/nsgate/data/batches.redb"))
    );
}

#[test]
fn anchors_and_merges_spare_repetition() {
    let text = "
auth: { anonymous: true }
backends:
  a: &a { implementation: rest, properties: { uri: http://127.0.0.1:1 }, authorization: none, pool: { max_idle: 7 } }
  b: { <<: *a, properties: { uri: http://127.0.0.1:2 } }
mounts: [{ namespace: [a], backend: a }, { namespace: [b], backend: b }]";
    let config = load::from_str(text, "merge.yaml", Path::new("/"), &|_| None)
        .unwrap()
        .config;
    let Implementation::Rest(rest) = &config.backends["b"].implementation else {
        panic!("rest")
    };
    assert_eq!((rest.pool.max_idle, rest.uri.port_u16()), (7, Some(2)));
    assert_eq!(config.backends["b"].name, "b");
}
